//! Onto a list, off it, and marks of use.

use super::Mm;
use crate::counters::Counter;
use crate::folio::{Flags, FolioId, Kind, list_of};

impl Mm {
    /// A folio is new during a fault of a mapping whose accesses count: generations take
    /// it as hot (kernel: folio_add_lru).
    pub fn note_fault(&mut self, id: FolioId) {
        if self.generational() {
            self.folios.flags_mut(id).set(Flags::ACTIVE, true);
        }
    }

    /// Puts a folio on the list its flags ask for, at the reclaim end if `tail` (kernel:
    /// lruvec_add_folio).
    pub fn add_folio(&mut self, id: FolioId, tail: bool) {
        self.insert(id, tail);
    }

    /// Puts a folio back on a list, at the reclaim end if `tail`.
    pub(crate) fn insert(&mut self, id: FolioId, tail: bool) {
        let flags = self.folios.flags_mut(id);
        debug_assert!(!flags.has(Flags::LRU), "already on a list");
        flags.set(Flags::LRU, true);
        if self.generational() {
            self.insert_generation(id, tail);
        } else {
            self.insert_classic(id, tail);
        }
    }

    fn insert_classic(&mut self, id: FolioId, tail: bool) {
        let flags = self.folios.flags(id);
        let list = list_of(Kind::of(flags), flags.has(Flags::ACTIVE));
        let lruvec = self.folios.lruvec(id);
        self.resize(lruvec, list, 1 << flags.order());
        let list = &mut self.lruvecs[lruvec.index()].lists[list];
        if tail {
            list.push_tail(&mut self.folios, id);
        } else {
            list.push_head(&mut self.folios, id);
        }
    }

    /// Takes a folio off its list (kernel: lruvec_del_folio); with generations, `ACTIVE`
    /// then says whether it was among the two youngest.
    pub fn remove_folio(&mut self, id: FolioId) {
        let flags = self.folios.flags_mut(id);
        debug_assert!(flags.has(Flags::LRU), "on no list");
        flags.set(Flags::LRU, false);
        if self.generational() {
            self.remove_generation(id);
            return;
        }
        let flags = self.folios.flags(id);
        let list = list_of(Kind::of(flags), flags.has(Flags::ACTIVE));
        let lruvec = self.folios.lruvec(id);
        self.resize(lruvec, list, -(1 << flags.order()));
        self.lruvecs[lruvec.index()].lists[list].unlink(&mut self.folios, id);
    }

    /// An access through a file descriptor, or the accessed bit found at unmapping
    /// (kernel: folio_mark_accessed).
    pub fn mark_accessed(&mut self, id: FolioId) {
        if self.generational() {
            self.raise_tier(id);
            return;
        }
        let flags = self.folios.flags_mut(id);
        if !flags.has(Flags::REFERENCED) {
            flags.set(Flags::REFERENCED, true);
        } else if !flags.has(Flags::ACTIVE) && !flags.has(Flags::UNEVICTABLE) {
            flags.take(Flags::REFERENCED);
            self.activate(id);
            let lruvec = self.folios.lruvec(id);
            let pages = self.folios.pages(id);
            self.age_nonresident(lruvec, pages);
        }
    }

    /// Makes a folio active, wherever it is.
    fn activate(&mut self, id: FolioId) {
        let on_list = self.folios.flags(id).has(Flags::LRU);
        if on_list {
            self.remove_folio(id);
        }
        self.folios.flags_mut(id).set(Flags::ACTIVE, true);
        if on_list {
            self.insert(id, false);
        }
        let memcg = self.folio_memcg(id);
        let pages = self.folios.pages(id);
        self.memcgs.count(memcg, Counter::Pgactivate, pages);
    }

    /// Moves a folio on a list to the reclaim end: its write has ended and reclaim wanted
    /// it (SPEC 4.3: classic, the inactive tail; generations, the oldest).
    pub fn rotate_reclaimable(&mut self, id: FolioId) {
        self.remove_folio(id);
        self.folios.flags_mut(id).set(Flags::ACTIVE, false);
        self.insert(id, true);
        let memcg = self.folio_memcg(id);
        let pages = self.folios.pages(id);
        self.memcgs.count(memcg, Counter::Pgrotated, pages);
    }
}
