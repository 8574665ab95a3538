//! Faults: first touch, swap-in, copy on write, page cache (SPEC 2.1).

use neap_policy::{Counter, Flags, FolioId, MemcgId, Mm, OverLimit};
use neap_units::{Nanos, PageNr, Pages, SwapSlot};

use super::ids::{AreaId, FileId, ObjectId, SpaceId};
use super::machine::{Event, Machine, has_recency};
use super::swapin::Ahead;
use super::tables::Entry;
use crate::swap::Direction;

/// A fault under way.
pub(super) struct Fault {
    pub(super) space: SpaceId,
    pub(super) area: AreaId,
    pub(super) page: PageNr,
    pub(super) write: bool,
    /// Accesses through the mapping count.
    pub(super) recency: bool,
}

/// Why a fault cannot be finished now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    /// A cgroup is at its max.
    Room(MemcgId),
    /// The machine has no free page.
    Memory,
    /// Somebody reads the page.
    Read(Nanos),
}

impl Machine {
    /// Charges pages that are to be allocated, if the machine has them. `ahead`: for pages
    /// nobody asked for, which are not worth reclaim.
    pub(super) fn charge(
        &mut self,
        mm: &mut Mm,
        memcg: MemcgId,
        pages: u64,
        ahead: bool,
    ) -> Result<(), Missing> {
        let nodes = 0..self.used.len() as u32;
        let floor = if ahead {
            self.marks.low
        } else {
            self.marks.min
        };
        if !nodes
            .clone()
            .any(|node| self.free_pages(node) >= floor + pages)
        {
            return Err(Missing::Memory);
        }
        match mm.memcgs.try_charge(self.cpu, memcg, Pages(pages), false) {
            Ok(charged) => {
                self.owed += charged.owed.0;
                for node in nodes {
                    let lruvec = mm.lruvec_of(memcg, node);
                    mm.check_soft_limit(lruvec, &mut |n| self.draw(n));
                }
                Ok(())
            }
            Err(OverLimit(level)) => Err(Missing::Room(level)),
        }
    }

    /// Whether accesses to a page of a space count.
    pub(super) fn counts(&mut self, mm: &Mm, space: SpaceId, page: PageNr) -> bool {
        let area = self.space_mut(space).find(page);
        area.is_some_and(|area| has_recency(mm, self.tables.area(area).area.advice))
    }

    /// Handles a touch that did not hit. `ahead`: what it has still to read ahead.
    pub(super) fn fault(
        &mut self,
        mm: &mut Mm,
        space: SpaceId,
        page: PageNr,
        write: bool,
        ahead: &mut Option<Ahead>,
    ) -> Result<(), Missing> {
        let found = self.space_mut(space).find(page);
        let area = found.unwrap_or_else(|| panic!("{page} of space {} is not mapped", space.0));
        let state = self.tables.area(area);
        let at = page.0 - state.start;
        let fault = Fault {
            space,
            area,
            page,
            write,
            recency: has_recency(mm, state.area.advice),
        };
        let (entry, bit) = (self.tables.entry(state.entries + at), state.bits + at);
        self.spent += self.config.costs.fault;
        self.read_ahead(mm, &fault, ahead, Vec::new())?;
        match entry {
            Entry::Folio(id) if self.tables.is_present(bit) => self.write_fault(mm, &fault, at, id),
            Entry::Folio(id) => {
                if let Some(&end) = self.reads.get(&id.0) {
                    return Err(Missing::Read(end));
                }
                self.map_folio(mm, &fault, at, id);
                Ok(())
            }
            Entry::Slot(slot) => self.slot_fault(mm, &fault, at, slot, ahead),
            Entry::None | Entry::Shadow(_) => self.first_touch(mm, &fault, at, entry),
        }
    }

    fn slot_fault(
        &mut self,
        mm: &mut Mm,
        fault: &Fault,
        at: u64,
        slot: SwapSlot,
        ahead: &mut Option<Ahead>,
    ) -> Result<(), Missing> {
        let cached = |machine: &Machine| machine.swap.as_ref().and_then(|swap| swap.cached(slot));
        if cached(self).is_none() {
            self.swap_in(mm, fault, at, slot, ahead)?;
        }
        let Some(id) = cached(self) else {
            return Err(Missing::Memory);
        };
        if let Some(&end) = self.reads.get(&id.0) {
            return Err(Missing::Read(end));
        }
        self.map_cached(mm, fault, at, id, slot);
        Ok(())
    }

    /// Sets a page-table entry.
    pub(super) fn map_page(&mut self, area: AreaId, at: u64, write: bool) {
        let state = self.tables.area(area);
        let (bit, space) = (state.bits + at, state.space);
        self.tables.set_present(bit, write);
        self.space_mut(space).rss += 1;
    }

    /// Maps every page of a folio that the area has and the folio holds.
    fn map_folio(&mut self, mm: &mut Mm, fault: &Fault, at: u64, id: FolioId) {
        let first = mm.folios.key(id);
        let own = self.key_of(fault.area, at);
        let pages = mm.folios.pages(id);
        let state = self.tables.area(fault.area);
        let (len, bits, entries) = (state.area.len.0, state.bits, state.entries);
        let start = at.saturating_sub(u64::from(own - first));
        for other in start..(start + pages).min(len) {
            let ours = self.tables.entry(entries + other) == Entry::Folio(id);
            if ours && !self.tables.is_present(bits + other) {
                self.map_page(fault.area, other, fault.write && other == at);
                if other != at {
                    self.tables.clear_accessed(bits + other);
                }
            }
        }
    }

    /// A store to a private page that is mapped read-only.
    fn write_fault(
        &mut self,
        mm: &mut Mm,
        fault: &Fault,
        at: u64,
        id: FolioId,
    ) -> Result<(), Missing> {
        let state = self.tables.area(fault.area);
        let (bit, entries) = (state.bits + at, state.entries);
        if !fault.write {
            return Ok(());
        }
        if !self.mapped_elsewhere(mm, id, fault.area) {
            let slots_alone = mm.folios.slot(id).is_none_or(|slot| {
                self.swap
                    .as_ref()
                    .is_none_or(|swap| swap.slots.users(SwapSlot(slot)) == 1)
            });
            if slots_alone {
                self.uncache(mm, id, None);
            }
            mm.folios.flags_mut(id).set(Flags::DIRTY, true);
            self.tables.set_dirty(bit);
            return Ok(());
        }
        let memcg = self.space(fault.space).memcg;
        self.charge(mm, memcg, 1, false)?;
        self.spent += self.config.costs.clear;
        let key = self.key_of(fault.area, at);
        let copy = self.alloc(mm, memcg, key, Flags::SWAPBACKED.with(Flags::DIRTY));
        self.tables.set_entry(entries + at, Entry::Folio(copy));
        self.tables.set_present(bit, true);
        self.add_new(mm, copy, fault.recency);
        Ok(())
    }

    /// Whether another area refers to a folio.
    fn mapped_elsewhere(&self, mm: &Mm, id: FolioId, area: AreaId) -> bool {
        let pages = mm.folios.pages(id);
        self.mappings(mm.folios.key(id)).any(|place| {
            let state = self.tables.area(place.area);
            let end = (place.at + pages).min(state.area.len.0);
            place.area != area
                && (place.at..end)
                    .any(|at| self.tables.entry(state.entries + at) == Entry::Folio(id))
        })
    }

    pub(super) fn add_new(&mut self, mm: &mut Mm, id: FolioId, recency: bool) {
        if recency {
            mm.note_fault(id);
        }
        self.queue_add(mm, id);
    }

    /// The page is in no memory and in no swap: it is new, or on disk.
    fn first_touch(
        &mut self,
        mm: &mut Mm,
        fault: &Fault,
        at: u64,
        entry: Entry,
    ) -> Result<(), Missing> {
        let state = self.tables.area(fault.area);
        let (object, offset) = (state.object, state.area.offset.0);
        let memcg = self.space(fault.space).memcg;
        if !self.tables.object(object).swapbacked {
            self.read_file(mm, memcg, object, offset + at, fault.recency)?;
            // The read takes its time; the fault comes again.
            let Entry::Folio(id) = self.tables.entry(self.tables.area(fault.area).entries + at)
            else {
                return Err(Missing::Memory);
            };
            let end = self.reads.get(&id.0).copied();
            return match end {
                Some(end) => Err(Missing::Read(end)),
                None => {
                    self.map_folio(mm, fault, at, id);
                    Ok(())
                }
            };
        }
        debug_assert!(entry == Entry::None);
        let (mut start, mut order) = self.room_for_folio(fault.area, at);
        if order > 0 && self.charge(mm, memcg, 1 << order, false).is_err() {
            // Large folios are not worth reclaim (kernel: GFP_TRANSHUGE_LIGHT).
            (start, order) = (at, 0);
        }
        if order == 0 {
            self.charge(mm, memcg, 1, false)?;
        }
        self.spent += Nanos(self.config.costs.clear.0 << order);
        let key = self.key_of(fault.area, start);
        let flags = Flags::SWAPBACKED.with(Flags::DIRTY).with_order(order);
        let id = self.alloc(mm, memcg, key, flags);
        for page in start..start + (1 << order) {
            let entries = self.tables.area(fault.area).entries;
            self.tables.set_entry(entries + page, Entry::Folio(id));
        }
        self.map_folio(mm, fault, at, id);
        self.add_new(mm, id, fault.recency);
        Ok(())
    }

    /// First page and order of the folio for a first touch: as the area asks, if all of it
    /// lies within the area and is untouched, else a single page.
    fn room_for_folio(&self, area: AreaId, at: u64) -> (u64, u8) {
        let state = self.tables.area(area);
        let order = state.area.folio_order;
        let start = at >> order << order;
        let end = start + (1 << order);
        let fits = order > 0
            && end <= state.area.len.0
            && (start..end).all(|page| self.tables.entry(state.entries + page) == Entry::None);
        if fits { (start, order) } else { (at, 0) }
    }

    /// Reads a page of a file into its cache.
    fn read_file(
        &mut self,
        mm: &mut Mm,
        memcg: MemcgId,
        object: ObjectId,
        page: u64,
        recency: bool,
    ) -> Result<(), Missing> {
        let Some(base) = self.tables.object(object).entries else {
            return Err(Missing::Memory);
        };
        self.charge(mm, memcg, 1, false)?;
        mm.memcgs.count(memcg, Counter::Pgmajfault, 1);
        let key = (self.tables.object(object).key + page) as u32;
        let id = self.alloc(mm, memcg, key, Flags::SHARED);
        if let Entry::Shadow(number) = self.tables.entry(base + page) {
            let shadow = self.take_shadow(number);
            mm.refault(id, shadow, recency);
        }
        self.tables.set_entry(base + page, Entry::Folio(id));
        self.add_new(mm, id, recency);
        self.spent += self.config.costs.io;
        let at = self.now + self.spent;
        let end = self.disk.submit(at, Direction::Read, Pages(1));
        if self.disk.config().synchronous {
            self.spent += end.saturating_sub(at);
        } else {
            mm.folios.flags_mut(id).set(Flags::LOCKED, true);
            self.reads.insert(id.0, end);
            self.schedule(end, Event::ReadEnd(id.0));
        }
        Ok(())
    }

    /// `read()` or `write()` of a page of a file.
    pub(super) fn file_io(
        &mut self,
        mm: &mut Mm,
        space: SpaceId,
        file: FileId,
        page: PageNr,
        write: bool,
    ) -> Result<(), Missing> {
        let object = self.files[file.index()];
        let memcg = self.space(space).memcg;
        let Some(base) = self.tables.object(object).entries else {
            return Err(Missing::Memory);
        };
        let Entry::Folio(id) = self.tables.entry(base + page.0) else {
            self.read_file(mm, memcg, object, page.0, false)?;
            return self.file_io(mm, space, file, page, write);
        };
        if let Some(&end) = self.reads.get(&id.0) {
            return Err(Missing::Read(end));
        }
        self.spent += self.config.costs.clear;
        // NOREUSE is about mappings: accesses through the descriptor count all the same.
        mm.mark_accessed(id);
        if write {
            mm.folios.flags_mut(id).set(Flags::DIRTY, true);
        }
        Ok(())
    }
}
