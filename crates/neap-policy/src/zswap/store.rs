//! Into the pool: a folio of any order, whole or not at all (SPEC 1.5, 1.6).

use neap_units::{Bytes, SwapSlot};

use super::entry::Entry;
use super::{Accounts, RAW, Zswap};
use crate::folio::LruvecId;
use crate::limits::Admission;
use crate::switches::{FullPool, Incompressible, LargeStore, ZeroPages};

/// How far over its limit a pool may be that trades (SPEC 9.5), as a share of the limit.
const TRADE_SHARE: u64 = 16;

/// A folio on its way out: locked, in the swap cache, with a slot for each page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Slot of its first page; the others follow.
    pub first: SwapSlot,
    /// Its pages.
    pub pages: u32,
    /// Its owner and node.
    pub owner: LruvecId,
    /// Whether the owner may write back (`memory.zswap.writeback`, with its ancestors).
    pub writeback: bool,
}

/// What became of one page in the compressor and the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compressed {
    /// So many bytes; a page or more is poor.
    Bytes(u16),
    /// One word over and over, and what a compressor that does not know makes of it.
    SameFilled(u16),
    /// The compressor failed.
    Failed,
    /// The pool has no class for the size.
    NoClass,
    /// The pool got no memory.
    NoPool,
    /// No memory for the entry.
    NoEntry,
}

/// Why a folio was not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// zswap is switched off.
    Disabled,
    /// Folios of more than one page are not taken.
    Large,
    /// Its owner is at `memory.zswap.max`.
    OwnerLimit,
    /// The pool is or was full.
    PoolFull,
    /// A page of it failed.
    Page,
}

/// A refused store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// Whether the pool worker is to be woken.
    pub wake_worker: bool,
    /// Pages of the folio that are stored all the same, from its first on; 0 unless
    /// prefixes are kept.
    pub kept: u32,
}

/// A successful store; `zswpout` grows by the pages of the folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stored {
    /// Entries to be written back in return before more is stored (SPEC 9.5), 0 unless
    /// the full pool trades.
    pub owed: u32,
}

impl Zswap {
    /// Whether a folio of so many pages gets as far as the limit of its owner. If so and
    /// the owner is at its limit, the caller shrinks it once before the store.
    #[must_use]
    pub fn considers(&self, pages: u32) -> bool {
        self.config.enabled && (pages == 1 || self.takes_large())
    }

    fn takes_large(&self) -> bool {
        matches!(
            self.rules.large_store,
            LargeStore::V6KnobOn | LargeStore::Merged | LargeStore::Prefix
        )
    }

    /// Stores a folio.
    ///
    /// * `admitted`: whether its owner is below `memory.zswap.max`, or was shrunk with
    ///   success.
    /// * `compress`: what becomes of each page, asked for in order until one fails.
    ///
    /// # Errors
    /// [`Refused`]: no entry is left at any of its slots, not even an old one, which could
    /// overwrite newer data later; except that the early exit for large folios leaves
    /// what is there, as it did in the kernels that had it. Where prefixes are kept, that
    /// holds for the slots after [`Refused::kept`].
    pub fn store(
        &mut self,
        folio: &Outgoing,
        admitted: bool,
        accounts: &mut impl Accounts,
        compress: impl FnMut(u32) -> Compressed,
    ) -> Result<Stored, Refused> {
        if folio.pages > 1 && !self.takes_large() {
            return Err(Refused {
                why: Refusal::Large,
                wake_worker: false,
                kept: 0,
            });
        }
        let mut placed = 0;
        match self.try_store(folio, admitted, accounts, compress, &mut placed) {
            Ok(stored) => {
                self.orders[folio.pages.ilog2() as usize].zswpout += 1;
                Ok(stored)
            }
            Err(why) => {
                // Without write-back the whole folio stays in memory, and needs no copy.
                let keeps = self.rules.large_store == LargeStore::Prefix && folio.writeback;
                let kept = if keeps { placed } else { 0 };
                let rest = SwapSlot(folio.first.0 + kept);
                self.invalidate(rest, folio.pages - kept, accounts);
                Err(Refused {
                    why,
                    wake_worker: self.gate.reached_full(),
                    kept,
                })
            }
        }
    }

    fn try_store(
        &mut self,
        folio: &Outgoing,
        admitted: bool,
        accounts: &mut impl Accounts,
        mut compress: impl FnMut(u32) -> Compressed,
        placed: &mut u32,
    ) -> Result<Stored, Refusal> {
        if !self.config.enabled {
            return Err(Refusal::Disabled);
        }
        let mut stored = Stored::default();
        match self.gate.admit(admitted, self.pool.pages()) {
            Admission::Admitted => {}
            Admission::OwnerLimit => return Err(Refusal::OwnerLimit),
            Admission::PoolFull if self.trades() => stored.owed = folio.pages,
            Admission::PoolFull => return Err(Refusal::PoolFull),
        }
        for page in 0..folio.pages {
            let again = stored.owed == 0 && self.checks_each_page();
            if again && !self.gate.check(self.pool.pages()) {
                return Err(Refusal::PoolFull);
            }
            let length = self.length(compress(page), folio.writeback)?;
            let slot = SwapSlot(folio.first.0 + page);
            self.free(slot, accounts);
            self.place(slot, length, folio.owner, accounts);
            *placed = page + 1;
        }
        Ok(stored)
    }

    /// Whether the limit is looked at again before each page: so the sixth posting does, whatever its knob says, also
    /// before the only page of a folio. A full pool that trades has agreed to the whole folio.
    fn checks_each_page(&self) -> bool {
        matches!(
            self.rules.large_store,
            LargeStore::V6KnobOff | LargeStore::V6KnobOn | LargeStore::Prefix
        )
    }

    /// Whether a full pool takes a page against another.
    fn trades(&self) -> bool {
        let max = self.gate.max();
        self.rules.full_pool == FullPool::Trade && self.pool.pages() < max + max / TRADE_SHARE
    }

    /// Bytes a page takes in the pool, or why it fails.
    fn length(&mut self, page: Compressed, writeback: bool) -> Result<u16, Refusal> {
        let stats = &mut self.stats;
        let raw = self.rules.incompressible == Incompressible::StoreRaw && writeback;
        match page {
            Compressed::SameFilled(_) if self.rules.zero_pages == ZeroPages::SameFilledInZswap => {
                return Ok(0);
            }
            Compressed::Bytes(bytes) | Compressed::SameFilled(bytes)
                if (1..RAW).contains(&bytes) =>
            {
                return Ok(bytes);
            }
            Compressed::Bytes(_) | Compressed::SameFilled(_) | Compressed::Failed if raw => {
                return Ok(RAW);
            }
            Compressed::Bytes(_) | Compressed::SameFilled(_) | Compressed::NoClass => {
                stats.reject_compress_poor += 1;
            }
            Compressed::Failed => stats.reject_compress_fail += 1,
            Compressed::NoPool => stats.reject_alloc_fail += 1,
            Compressed::NoEntry => stats.reject_kmemcache_fail += 1,
        }
        Err(Refusal::Page)
    }

    /// Makes the entry; on the list last, so that no shrinker sees half of it.
    fn place(
        &mut self,
        slot: SwapSlot,
        length: u16,
        owner: LruvecId,
        accounts: &mut impl Accounts,
    ) {
        let place = self.pool.add(length);
        accounts.charge(owner, Bytes(length.into()));
        self.entries.insert(
            slot,
            Entry {
                length,
                referenced: self.rules.shrinker.scheme.marks_new(),
                list: owner,
            },
            place,
        );
        if length == 0 {
            self.stats.same_filled_pages += 1;
            return;
        }
        self.stats.stored_incompressible_pages += u64::from(length == RAW);
        let list = &mut self.lists[owner.0 as usize];
        list.bytes += u64::from(length);
        list.ends.push(&mut self.entries, slot);
        list.state
            .on_insert(self.rules.shrinker.scheme, list.ends.len);
    }

    /// The slots of a folio are freed or written anew: deletes what is stored there.
    pub fn invalidate(&mut self, first: SwapSlot, pages: u32, accounts: &mut impl Accounts) {
        for slot in first.0..first.0 + pages {
            self.free(SwapSlot(slot), accounts);
        }
    }
}
