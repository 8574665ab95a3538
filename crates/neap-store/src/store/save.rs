//! Storing: one page, or a folio whole or not at all.

use std::sync::Arc;

use neap_policy::Visit;
use neap_units::{EntryId, PAGE_SIZE, SpaceId};

use super::Store;
use super::config::Incompressible;
use super::error::Refused;
use super::inner::Body;
use crate::compress::{Codec, Dictionary, Packed, Page, same_filled};
use crate::stats::ORDERS;

/// Most pages of a folio: 2 MiB.
const MAX_FOLIO: usize = 1 << (ORDERS - 1);

impl Store {
    /// Compresses a page and keeps it for `owner`. The entry starts with one reference.
    ///
    /// A page of one word over and over is taken even when the pool is full: it takes no room there.
    pub fn store(
        &self,
        owner: SpaceId,
        page: &Page,
        codec: &mut Codec,
    ) -> Result<EntryId, Refused> {
        self.store_page(owner, page, codec, false)
    }

    /// Keeps a page as it is, and whatever the limits of pool and owner say: for a fork, which
    /// cannot wait. Fails only when the arena or the entries are exhausted.
    pub fn store_raw(&self, owner: SpaceId, page: &Page) -> Result<EntryId, Refused> {
        let body = match same_filled(page) {
            Some(word) => Body::Same(word),
            None => Body::Bytes {
                data: page,
                dict: 0,
            },
        };
        self.lock().insert(owner, body, false)
    }

    /// Keeps a folio (`pages` holds its 2^order pages, order 0 to 9) for `owner`: all its pages,
    /// whose entries are appended to `out` in order, or none of them (SPEC 1.5).
    ///
    /// # Panics
    /// When the length is not that of a folio.
    pub fn store_folio(
        &self,
        owner: SpaceId,
        pages: &[u8],
        codec: &mut Codec,
        out: &mut Vec<EntryId>,
    ) -> Result<(), Refused> {
        let count = pages.len() / PAGE_SIZE;
        assert!(
            pages.len().is_multiple_of(PAGE_SIZE) && count.is_power_of_two() && count <= MAX_FOLIO,
            "{} bytes are no folio",
            pages.len()
        );
        let large = count > 1;
        if large && !self.lock().config.store_large_folios {
            return Err(Refused::LargeFolio);
        }
        let start = out.len();
        for page in pages.chunks_exact(PAGE_SIZE) {
            let page = <&Page>::try_from(page).expect("a chunk is a page");
            match self.store_page(owner, page, codec, large) {
                Ok(id) => out.push(id),
                Err(refused) => {
                    self.roll_back(&out[start..]);
                    out.truncate(start);
                    return Err(refused);
                }
            }
        }
        if large {
            self.lock().stats.zswpout_order[count.trailing_zeros() as usize] += 1;
        }
        Ok(())
    }

    /// Takes the pages of a folio back that were stored before one was refused.
    fn roll_back(&self, ids: &[EntryId]) {
        self.put_many(ids);
        // The pages were never accepted as a whole.
        self.lock().stats.zswpout -= ids.len() as u64;
    }

    fn store_page(
        &self,
        owner: SpaceId,
        page: &Page,
        codec: &mut Codec,
        large: bool,
    ) -> Result<EntryId, Refused> {
        if let Some(word) = same_filled(page) {
            let mut inner = self.lock();
            if !inner.config.enabled {
                return Err(Refused::Disabled);
            }
            return inner.insert(owner, Body::Same(word), large);
        }
        let dict = self.admit(owner, codec)?;
        let packed = codec.pack(page, dict.as_ref().map(|(_, dict)| &**dict));
        let held = dict.map_or(0, |(number, _)| number);
        let mut inner = self.lock();
        let takes_poor =
            inner.config.incompressible == Incompressible::StoreRaw && inner.writeback();
        let body = match packed {
            // What saves no memory need not be decompressed either (zram: `huge_class_size`).
            Packed::Bytes(len) if takes_poor && inner.pool.fills_page(len) => Body::Poor(page),
            Packed::Bytes(len) => Body::Bytes {
                data: &codec.packed()[..len],
                dict: held,
            },
            Packed::Poor if takes_poor => Body::Poor(page),
            Packed::Poor | Packed::Failed => {
                inner.dicts.put(held);
                return Err(inner.count_refusal(packed));
            }
        };
        let with_dict = matches!(body, Body::Bytes { dict, .. } if dict != 0);
        let result = inner.insert(owner, body, large);
        if result.is_err() || !with_dict {
            inner.dicts.put(held);
        } else {
            inner.stats.dictionary_stores += 1;
        }
        result
    }

    /// The checks before compression, and the dictionary to compress with. At the owner's limit the
    /// shrinker gets one try at the owner (SPEC 1.4), after which the limit is not looked at again.
    fn admit(&self, owner: SpaceId, codec: &mut Codec) -> Result<HeldDict, Refused> {
        let mut inner = self.lock();
        match inner.admit(owner) {
            Ok(()) => return Ok(inner.take_dict(owner)),
            Err(Refused::OwnerLimit) => drop(inner),
            Err(refused) => return Err(refused),
        }
        match self.shrink_owner(owner, codec).0 {
            Visit::Written => Ok(self.lock().take_dict(owner)),
            _ => Err(Refused::OwnerLimit),
        }
    }
}

/// A dictionary and its number, held.
type HeldDict = Option<(u8, Arc<Dictionary>)>;

impl super::inner::Inner {
    fn count_refusal(&mut self, packed: Packed) -> Refused {
        if packed == Packed::Poor {
            self.stats.reject_compress_poor += 1;
            Refused::CompressPoor
        } else {
            self.stats.reject_compress_fail += 1;
            Refused::CompressFail
        }
    }
}
