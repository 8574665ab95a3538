//! Storing a page.

use neap_units::{EntryId, SpaceId};

use super::Store;
use super::error::Refused;
use super::inner::Body;
use crate::compress::{Codec, Packed, Page, same_filled};

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
        if let Some(word) = same_filled(page) {
            let mut inner = self.lock();
            inner.allow_entry(owner)?;
            return inner.insert(owner, Body::Same(word));
        }
        let dict = self.lock().admit(owner)?;
        let packed = codec.pack(page, dict.as_ref().map(|(_, dict)| &**dict));
        let held = dict.map_or(0, |(number, _)| number);
        let mut inner = self.lock();
        if let Err(refused) = inner.allow_entry(owner) {
            inner.dicts.put(held); // others of its account have come meanwhile
            return Err(refused);
        }
        // Kept as it is if there is a swap file, to which it goes before all that compresses. The kernel (6.18 on) keeps
        // the order of age (docs/adr/0013-pages-that-do-not-compress.md).
        let takes_poor = inner.writeback() && !inner.owner(owner).stays;
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
        let result = inner.insert(owner, body);
        if result.is_err() || !with_dict {
            inner.dicts.put(held);
        } else {
            inner.stats.dictionary_stores += 1;
        }
        result
    }

    /// Keeps a page as it is, and whatever the limit of the pool says: for a fork, which
    /// cannot wait. Fails only when the arena or the entries are exhausted.
    pub fn store_raw(&self, owner: SpaceId, page: &Page) -> Result<EntryId, Refused> {
        let body = match same_filled(page) {
            Some(word) => Body::Same(word),
            None => Body::Bytes {
                data: page,
                dict: 0,
            },
        };
        self.lock().insert(owner, body)
    }
}

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
