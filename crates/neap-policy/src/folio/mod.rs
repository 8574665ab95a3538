//! Folios of an imagined machine: one record of 24 bytes each, on intrusive lists.

mod flags;
mod kind;

pub use flags::Flags;
pub use kind::Kind;
pub(crate) use kind::list_of;

use crate::list::{LinkId, Links, NONE};

/// A folio: index of its record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FolioId(pub u32);

impl LinkId for FolioId {
    #[inline]
    fn from_raw(raw: u32) -> FolioId {
        FolioId(raw)
    }

    #[inline]
    fn raw(self) -> u32 {
        self.0
    }
}

/// The lists of one cgroup on one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LruvecId(pub u32);

impl LruvecId {
    /// The id as an array index.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy)]
struct Record {
    prev: u32,
    next: u32,
    lruvec: LruvecId,
    flags: Flags,
    key: u32,
    slot: u32,
}

const _: () = assert!(size_of::<Record>() == 24);

/// All folios. Freed records are chained through `next` and used again, last first.
#[derive(Default)]
pub struct Folios {
    records: Vec<Record>,
    free: Option<u32>,
    live: u64,
}

impl Links<FolioId> for Folios {
    #[inline]
    fn links(&self, id: FolioId) -> (u32, u32) {
        let record = &self.records[id.0 as usize];
        (record.prev, record.next)
    }

    #[inline]
    fn set_prev(&mut self, id: FolioId, prev: u32) {
        self.records[id.0 as usize].prev = prev;
    }

    #[inline]
    fn set_next(&mut self, id: FolioId, next: u32) {
        self.records[id.0 as usize].next = next;
    }
}

impl Folios {
    /// A new folio of a cgroup's node. `key` is the host's: where its pages are mapped.
    pub fn alloc(&mut self, lruvec: LruvecId, key: u32, flags: Flags) -> FolioId {
        let record = Record {
            prev: NONE,
            next: NONE,
            lruvec,
            flags,
            key,
            slot: NONE,
        };
        self.live += 1;
        if let Some(id) = self.free {
            let at = id as usize;
            let next = self.records[at].next;
            self.free = (next != NONE).then_some(next);
            self.records[at] = record;
            return FolioId(id);
        }
        self.records.push(record);
        FolioId(self.records.len() as u32 - 1)
    }

    /// Ends a folio that is on no list.
    pub fn free(&mut self, id: FolioId) {
        debug_assert!(!self.flags(id).has(Flags::LRU), "freed from a list");
        let record = &mut self.records[id.0 as usize];
        record.next = self.free.unwrap_or(NONE);
        record.flags = Flags::FREE;
        self.free = Some(id.0);
        self.live -= 1;
    }

    /// Folios in use.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Flags of a folio.
    #[inline]
    #[must_use]
    pub fn flags(&self, id: FolioId) -> Flags {
        self.records[id.0 as usize].flags
    }

    /// Flags of a folio, to change.
    #[inline]
    pub fn flags_mut(&mut self, id: FolioId) -> &mut Flags {
        &mut self.records[id.0 as usize].flags
    }

    /// Whose list it is (or would be) on.
    #[inline]
    #[must_use]
    pub fn lruvec(&self, id: FolioId) -> LruvecId {
        self.records[id.0 as usize].lruvec
    }

    /// The host's key.
    #[inline]
    #[must_use]
    pub fn key(&self, id: FolioId) -> u32 {
        self.records[id.0 as usize].key
    }

    /// Gives the folio another key.
    pub fn set_key(&mut self, id: FolioId, key: u32) {
        self.records[id.0 as usize].key = key;
    }

    /// First swap slot of a folio in the swap cache.
    #[inline]
    #[must_use]
    pub fn slot(&self, id: FolioId) -> Option<u32> {
        let record = &self.records[id.0 as usize];
        record.flags.has(Flags::SWAPCACHE).then_some(record.slot)
    }

    /// Puts a folio in the swap cache, or takes it out.
    pub fn set_slot(&mut self, id: FolioId, slot: Option<u32>) {
        let record = &mut self.records[id.0 as usize];
        record.slot = slot.unwrap_or(NONE);
        record.flags.set(Flags::SWAPCACHE, slot.is_some());
    }

    /// Pages of a folio.
    #[inline]
    #[must_use]
    pub fn pages(&self, id: FolioId) -> u64 {
        1 << self.flags(id).order()
    }

    /// Bytes of a record: a folio's share of what a simulated page costs.
    #[must_use]
    pub const fn record_bytes() -> usize {
        size_of::<Record>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_used_again() {
        let mut folios = Folios::default();
        let a = folios.alloc(LruvecId(0), 1, Flags::default());
        let b = folios.alloc(LruvecId(0), 2, Flags::default().with_order(9));
        assert_eq!((folios.pages(a), folios.pages(b)), (1, 512));
        folios.free(a);
        folios.free(b);
        assert_eq!(folios.alloc(LruvecId(1), 3, Flags::default()), b);
        assert_eq!(folios.alloc(LruvecId(1), 4, Flags::default()), a);
        assert_eq!(folios.live(), 2);
        folios.set_slot(a, Some(7));
        assert_eq!(folios.slot(a), Some(7));
        folios.set_slot(a, None);
        assert_eq!((folios.slot(a), folios.key(a)), (None, 4));
    }
}
