//! Spaces and areas come and go.

use std::cmp::Reverse;

use neap_policy::{Counter, Flags, FolioId, MemcgId, Mm};
use neap_units::{PageNr, Pages, SwapSlot};

use super::ids::{AreaId, FileId, ObjectId, ShmemId, SpaceId};
use super::machine::{Machine, has_recency};
use super::space::{Area, AreaKind, Space};
use super::tables::{AreaState, Entry};

impl Machine {
    pub(super) fn create_space(&mut self, memcg: MemcgId) -> SpaceId {
        let space = Space::new(memcg);
        // Numbers of ended spaces are used again, lowest first.
        let id = match self.spaces.iter().position(Option::is_none) {
            Some(at) if self.ended > 0 => {
                self.ended -= 1;
                self.spaces[at] = Some(space);
                SpaceId(at as u32)
            }
            _ => {
                self.spaces.push(Some(space));
                SpaceId(self.spaces.len() as u32 - 1)
            }
        };
        self.memcg_spaces[memcg.index()].push(id);
        id
    }

    pub(super) fn create_object(&mut self, len: Pages, swapbacked: bool) -> ObjectId {
        self.tables.add_object(len, true, swapbacked, 0)
    }

    fn object_of(&mut self, area: &Area) -> ObjectId {
        match area.kind {
            AreaKind::Anon => self.tables.add_object(area.len, false, true, area.content),
            AreaKind::Shmem(ShmemId(id)) => {
                let object = self.shmems[id as usize];
                self.tables.object_mut(object).content = area.content;
                object
            }
            AreaKind::File(FileId(id)) => self.files[id as usize],
        }
    }

    pub(super) fn map(&mut self, id: SpaceId, area: Area) -> PageNr {
        let object = self.object_of(&area);
        let start = self.space_mut(id).reserve(area.len);
        self.map_at(id, start, area, object);
        PageNr(start)
    }

    fn map_at(&mut self, id: SpaceId, start: u64, area: Area, object: ObjectId) -> AreaId {
        let mapped = self.tables.add_area(AreaState {
            space: id,
            start,
            area,
            object,
            entries: 0,
            bits: 0,
            private: area.kind == AreaKind::Anon,
            readahead: neap_policy::Readahead::new(1 << self.config.page_cluster),
        });
        let areas = &mut self.space_mut(id).areas;
        areas.push((start, start + area.len.0, mapped));
        areas.sort_unstable();
        mapped
    }

    pub(super) fn unmap_area(&mut self, mm: &mut Mm, space: SpaceId, start: PageNr) {
        let areas = &mut self.space_mut(space).areas;
        if let Ok(at) = areas.binary_search_by_key(&start.0, |area| area.0) {
            let (_, _, id) = areas.remove(at);
            self.drop_area(mm, id);
        }
    }

    /// Takes the memory of the space that has most, in memory and swap (kernel: oom_badness),
    /// at once, as the oom reaper does.
    pub(super) fn kill_largest(&mut self, mm: &mut Mm) {
        let spaces = (0..self.spaces.len() as u32).map(SpaceId);
        let live = spaces.filter(|id| self.spaces[id.index()].is_some());
        let sizes = live.map(|id| (self.badness(id), id));
        // Of equals the first.
        let worst = sizes.max_by_key(|&(size, id)| (size, Reverse(id.0)));
        let Some((_, id)) = worst.filter(|&(size, _)| size > 0) else {
            return;
        };
        let space = self.space_mut(id);
        space.killed = true;
        let (areas, memcg) = (std::mem::take(&mut space.areas), space.memcg);
        mm.memcgs.count(memcg, Counter::MemcgOomKill, 1);
        for (_, _, area) in areas {
            self.drop_area(mm, area);
        }
    }

    fn badness(&self, id: SpaceId) -> u64 {
        let space = self.space(id);
        let swapped = |&(_, _, area): &(u64, u64, AreaId)| {
            let state = self.tables.area(area);
            let entries = state.entries..state.entries + state.area.len.0;
            let in_swap = |&at: &u64| matches!(self.tables.entry(at), Entry::Slot(_));
            match state.private {
                true => entries.filter(in_swap).count() as u64,
                false => 0,
            }
        };
        space.rss + space.areas.iter().map(swapped).sum::<u64>()
    }

    pub(super) fn exit_space(&mut self, mm: &mut Mm, id: SpaceId) {
        let areas = std::mem::take(&mut self.space_mut(id).areas);
        for (_, _, area) in areas {
            self.drop_area(mm, area);
        }
        let memcg = self.space(id).memcg;
        self.memcg_spaces[memcg.index()].retain(|&other| other != id);
        self.spaces[id.index()] = None;
        self.ended += 1;
    }

    fn drop_area(&mut self, mm: &mut Mm, id: AreaId) {
        let state = self.tables.area(id);
        let (bits, entries, len) = (state.bits, state.entries, state.area.len.0);
        let (space, private) = (state.space, state.private);
        let counts = has_recency(mm, state.area.advice);
        for at in 0..len {
            let entry = self.tables.entry(entries + at);
            if entry == Entry::None {
                continue;
            }
            let was = self.tables.unmap(bits + at);
            self.space_mut(space).rss -= u64::from(was.is_some());
            match entry {
                Entry::Folio(folio) if private => {
                    self.tables.set_entry(entries + at, Entry::None);
                    self.drop_private(mm, folio);
                }
                Entry::Folio(folio) => self.note_unmapped(mm, folio, was, counts),
                Entry::Slot(slot) if private => {
                    self.tables.set_entry(entries + at, Entry::None);
                    self.put_slot(mm, slot);
                }
                _ => {}
            }
        }
        if let Some(object) = self.tables.remove_area(id)
            && private
        {
            self.tables.remove_object(object);
        }
    }

    fn note_unmapped(&mut self, mm: &mut Mm, id: FolioId, was: Option<(bool, bool)>, counts: bool) {
        let Some((accessed, dirty)) = was else {
            return;
        };
        if dirty {
            mm.folios.flags_mut(id).set(Flags::DIRTY, true);
        }
        if accessed && counts {
            mm.mark_accessed(id);
        }
    }

    /// A page of a private folio is unmapped for good.
    fn drop_private(&mut self, mm: &mut Mm, id: FolioId) {
        if self.referred(mm, id) {
            return;
        }
        match mm.folios.slot(id) {
            Some(slot) => self.reap_cached(mm, SwapSlot(slot)),
            None => self.free(mm, id),
        }
    }

    /// Whether any private area refers to a folio.
    fn referred(&self, mm: &Mm, id: FolioId) -> bool {
        let pages = mm.folios.pages(id);
        self.mappings(mm.folios.key(id)).any(|place| {
            let state = self.tables.area(place.area);
            let end = (place.at + pages).min(state.area.len.0);
            (place.at..end).any(|at| self.tables.entry(state.entries + at) == Entry::Folio(id))
        })
    }

    /// Frees an object of shared memory or a file with all its pages; nobody maps it.
    pub(super) fn remove_pages(&mut self, mm: &mut Mm, id: ObjectId) {
        let object = self.tables.object(id);
        let (Some(base), len) = (object.entries, object.len) else {
            return;
        };
        for at in base..base + len {
            let entry = self.tables.entry(at);
            if let Entry::Folio(folio) = entry {
                let pages = mm.folios.pages(folio);
                for other in at..(at + pages).min(base + len) {
                    self.tables.set_entry(other, Entry::None);
                }
                self.free(mm, folio);
            } else {
                self.tables.set_entry(at, Entry::None);
            }
            match entry {
                Entry::Slot(slot) => self.put_slot(mm, slot),
                Entry::Shadow(number) => {
                    self.take_shadow(number);
                }
                _ => {}
            }
        }
    }

    /// A copy of a space: private memory is shared until one side writes, shared memory is
    /// mapped again when it is touched.
    pub(super) fn fork(&mut self, mm: &mut Mm, parent: SpaceId) -> SpaceId {
        let memcg = self.space(parent).memcg;
        let child = self.create_space(memcg);
        self.space_mut(child).killed = self.space(parent).killed;
        let areas = self.space(parent).areas.clone();
        for (start, _, id) in areas {
            let state = self.tables.area(id);
            let (area, object, private) = (state.area, state.object, state.private);
            let (from, from_bits) = (state.entries, state.bits);
            let copy = self.map_at(child, start, area, object);
            self.space_mut(child).reserve(area.len);
            if !private {
                continue;
            }
            let to = self.tables.area(copy);
            let (to, to_bits) = (to.entries, to.bits);
            for at in 0..area.len.0 {
                let entry = self.tables.entry(from + at);
                match entry {
                    Entry::Folio(folio) => {
                        if self.tables.protect(from_bits + at) {
                            mm.folios.flags_mut(folio).set(Flags::DIRTY, true);
                        }
                        if self.tables.is_present(from_bits + at) {
                            self.tables.set_present(to_bits + at, false);
                            self.space_mut(child).rss += 1;
                        }
                    }
                    Entry::Slot(slot) => {
                        if let Some(swap) = &mut self.swap {
                            swap.slots.dup(slot);
                        }
                    }
                    _ => continue,
                }
                self.tables.set_entry(to + at, entry);
            }
        }
        child
    }
}
