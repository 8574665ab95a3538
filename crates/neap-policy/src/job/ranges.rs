//! What happens to whole ranges: a walk, removal, `mremap`, `fork`.

use std::ops::Range;

use neap_units::{EntryId, PageId, PageNr, Pages, SpaceId};

use super::{Core, place};
use crate::page::{Effect, LEAF_PAGES, State, page_id};

/// Places of a leaf that lie in a range of pages.
fn places(number: u64, range: &Range<PageNr>) -> Range<usize> {
    let base = number * LEAF_PAGES as u64;
    let start = range.start.0.saturating_sub(base).min(LEAF_PAGES as u64);
    let end = range.end.0.saturating_sub(base).min(LEAF_PAGES as u64);
    start as usize..end as usize
}

/// Numbers of the leaves that a range of pages touches.
fn leaf_numbers(range: &Range<PageNr>) -> Range<u64> {
    if range.start >= range.end {
        return 0..0;
    }
    range.start.0 / LEAF_PAGES as u64..range.end.0.div_ceil(LEAF_PAGES as u64)
}

impl Core {
    /// Visits the pages of a range that are not absent, in ascending order.
    pub fn for_range(
        &self,
        space: SpaceId,
        range: Range<PageNr>,
        mut visit: impl FnMut(PageNr, PageId, State),
    ) {
        for (number, leaf_id) in self.space(space).index.range(leaf_numbers(&range)) {
            let leaf = self.table.leaf(leaf_id);
            for at in places(number, &range).filter(|&at| !leaf.is_absent(at)) {
                visit(leaf.page(at), page_id(leaf_id, at), leaf.state(at));
            }
        }
    }

    /// Whether all pages of a range are resident.
    #[must_use]
    pub fn are_resident(&self, space: SpaceId, range: Range<PageNr>) -> bool {
        let (length, mut resident) = (range.end.0 - range.start.0, 0);
        self.for_range(space, range, |_, _, state| {
            resident += u64::from(matches!(state, State::Resident { .. }));
        });
        resident == length
    }

    /// The leaves of a range, collected so that the table can change under the walk.
    pub(super) fn leaves_of(&self, space: SpaceId, range: &Range<PageNr>) -> Vec<(u64, u32)> {
        self.space(space).index.range(leaf_numbers(range)).collect()
    }

    /// Drops every page of a range. Returns the effects that free something, in order
    /// of address.
    pub fn remove_range(&mut self, space: SpaceId, range: Range<PageNr>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (number, leaf) in self.leaves_of(space, &range) {
            for at in places(number, &range) {
                if self.table.leaf(leaf).is_resident(at) {
                    let lru = &mut self.spaces[space.index()].lru;
                    lru.remove(&mut self.table, page_id(leaf, at));
                    self.total_resident -= 1;
                }
                self.clear(leaf, at, &mut effects);
            }
            if self.table.leaf(leaf).used() == 0 {
                self.free_leaf(leaf);
            }
        }
        effects
    }

    /// Drops a page that is on no list.
    pub(super) fn clear(&mut self, leaf: u32, at: usize, effects: &mut Vec<Effect>) {
        let leaf = self.table.leaf_mut(leaf);
        if leaf.is_absent(at) {
            return;
        }
        let before = leaf.state(at);
        let effect = Effect {
            freed_entry: before.entry(),
            freed_slot: before.slot(),
        };
        if !effect.is_none() {
            effects.push(effect);
        }
        leaf.set_state(at, State::Absent);
        self.spaces[leaf.space().index()].pages -= 1;
    }

    /// Moves the records of `len` pages at `from` to `to`, as `mremap` moves a mapping:
    /// pages keep their state, wherever they are in it, and their place on the lists.
    /// What was recorded at the destination is dropped first; its effects are
    /// returned. The ranges must not overlap.
    ///
    /// Pages that move get new ids unless both ranges have the same place modulo 64
    /// pages; [`Core::remap_with`] tells which.
    pub fn remap(&mut self, space: SpaceId, from: PageNr, to: PageNr, len: Pages) -> Vec<Effect> {
        self.remap_with(space, from, to, len, |_, _, _| ())
    }

    /// [`Core::remap`], calling `moved(old, new, state)` for each page whose id changes.
    pub fn remap_with(
        &mut self,
        space: SpaceId,
        from: PageNr,
        to: PageNr,
        len: Pages,
        mut moved: impl FnMut(PageId, PageId, State),
    ) -> Vec<Effect> {
        let (source, target) = (from.span(len), to.span(len));
        debug_assert!(source.end <= target.start || target.end <= source.start);
        let effects = self.remove_range(space, target);
        self.space_mut(space).unhurried.shift(from, to, len);
        for (number, leaf) in self.leaves_of(space, &source) {
            let places = places(number, &source);
            let offset = number * LEAF_PAGES as u64;
            let new_place = |at: usize| PageNr(offset + at as u64 - from.0 + to.0);
            let whole = places == (0..LEAF_PAGES);
            if whole && place(new_place(0)).1 == 0 {
                self.move_leaf(space, leaf, place(new_place(0)).0);
                continue;
            }
            for at in places {
                if !self.table.leaf(leaf).is_absent(at) {
                    let old = page_id(leaf, at);
                    let new = self.move_page(space, old, new_place(at));
                    moved(old, new, self.state(new));
                }
            }
            if self.table.leaf(leaf).used() == 0 {
                self.free_leaf(leaf);
            }
        }
        effects
    }

    /// Gives a whole leaf another number; its pages keep their ids.
    fn move_leaf(&mut self, space: SpaceId, leaf: u32, number: u64) {
        let index = &mut self.spaces[space.index()].index;
        index.remove(self.table.leaf(leaf).number());
        index.insert(number, leaf);
        self.table.leaf_mut(leaf).renumber(number);
    }

    /// Moves one record to the place of an absent page.
    fn move_page(&mut self, space: SpaceId, old: PageId, page: PageNr) -> PageId {
        let new = self.ensure(space, page);
        let (leaf, at) = self.table.at_mut(old);
        let record = leaf.take(at);
        let (leaf, at) = self.table.at_mut(new);
        leaf.put(at, record);
        if leaf.is_resident(at) {
            self.spaces[space.index()].lru.rename(&mut self.table, new);
        }
        new
    }

    /// Gives the child of a `fork` what its parent does not hold in memory. For each
    /// page of the parent that is neither absent nor resident, in ascending order,
    /// asks the caller for an entry with the same bytes; `Some(entry)` makes the
    /// child's page `Stored` in it, `None` leaves it as it is.
    ///
    /// The child inherits the parent's eviction stamps and age, so its refaults are
    /// judged as the parent's would be, but for what the parent has learnt of those who left. Pages that the child already has are not
    /// visited.
    pub fn fork(
        &mut self,
        parent: SpaceId,
        child: SpaceId,
        mut visit: impl FnMut(PageNr, State) -> Option<EntryId>,
    ) {
        let age = self.space(parent).lru.age_so_far();
        let unhurried = self.space(parent).unhurried.clone();
        let forked = self.space_mut(child);
        forked.lru.set_age(age);
        forked.unhurried = unhurried;
        for (_, leaf) in self.leaves_of(parent, &(PageNr(0)..PageNr(u64::MAX))) {
            for at in 0..LEAF_PAGES {
                let record = self.table.leaf(leaf);
                if record.is_absent(at) || record.is_resident(at) {
                    continue;
                }
                let (page, state) = (record.page(at), record.state(at));
                if self.find(child, page).is_some() {
                    continue;
                }
                if let Some(entry) = visit(page, state) {
                    self.inherit(page_id(leaf, at), child, page, entry);
                }
            }
        }
    }

    /// Makes a child's page `Stored`, with the stamp of the parent's page if that has
    /// one, or as if evicted now.
    fn inherit(&mut self, parent: PageId, child: SpaceId, page: PageNr, entry: EntryId) {
        let (leaf, at) = self.table.at(parent);
        let evicted = matches!(leaf.state(at), State::Stored { .. } | State::Loading { .. });
        let (stamp, workingset, tried) = (leaf.stamp(at), leaf.workingset(at), leaf.tried(at));
        let stamp = if evicted {
            stamp
        } else {
            self.space(child).lru.stamp()
        };
        let id = self.ensure(child, page);
        self.space_mut(child).pages += 1; // visited only if absent there
        let (leaf, at) = self.table.at_mut(id);
        leaf.set_state(at, State::Stored { entry });
        leaf.set_stamp(at, stamp);
        leaf.set_workingset(at, workingset);
        leaf.set_tried(at, tried);
    }
}
