//! The page table and the generation lists of a job: all its spaces in one place,
//! because they share one limit.
//!
//! [`Core`] is what the engine calls under its lock: every event about a page comes
//! in as a [`Step`], and every decision about what to evict comes out of
//! [`Core::pick`]. It keeps one promise throughout: a page is `Resident` if and only
//! if it is on exactly one list of its space: that of a generation, or of probation.

mod check;
mod hints;
mod lru;
mod ranges;
mod reclaim;
mod regret;
mod spans;
mod vmstat;

#[cfg(test)]
mod hints_tests;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_space;
#[cfg(test)]
mod passing_tests;
#[cfg(test)]
mod probation_tests;
#[cfg(test)]
mod tests;

use neap_units::{Bytes, PageId, PageNr, Pages, SpaceId};

use crate::generations::{MAX_NR_GENS, NonresidentAge};
use crate::page::{
    Effect, Heat, Illegal, Index, LEAF_PAGES, State, Step, Table, page_id, split, step,
};

pub use hints::Hint;
pub use vmstat::Vmstat;

use lru::{Lru, Place};
use spans::Spans;

/// Most spaces at once: ids are 16 bits, and the last one marks free leaves.
const MAX_SPACES: usize = u16::MAX as usize;

/// The resident pages of a space by the lists they are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Sequence number and pages of each generation, the youngest first. One that does not exist any more has no pages.
    pub generations: [(u64, Pages); MAX_NR_GENS as usize],
    /// Pages on probation.
    pub probation: Pages,
}

/// One address space.
struct Space {
    live: bool,
    index: Index,
    lru: Lru,
    /// Pages of mappings without recency, resident or not.
    unhurried: Spans,
    /// Turn in the weighted round robin of reclaim.
    credit: i64,
    vmstat: Vmstat,
    /// Pages that are not absent.
    pages: u64,
}

impl Space {
    fn new() -> Space {
        Space {
            live: true,
            index: Index::default(),
            lru: Lru::new(NonresidentAge::default()),
            unhurried: Spans::default(),
            credit: 0,
            vmstat: Vmstat::default(),
            pages: 0,
        }
    }
}

/// The records of all pages of a job, and the order in which they leave memory.
///
/// A [`PageId`] stays good while its page is not `Absent`; the id of an absent page
/// only until the next call that makes a page absent. A [`Core::remap`] gives the
/// pages it moves new ids.
///
/// # Panics
/// Every method that takes a [`SpaceId`] or [`PageId`] panics when it is handed one
/// that this table never gave out, or a space that was dropped: a bug of the caller.
#[derive(Default)]
pub struct Core {
    table: Table,
    spaces: Vec<Space>,
    free_spaces: Vec<SpaceId>,
    total_resident: u64,
    /// Of spaces that were dropped.
    gone: Vmstat,
}

/// Leaf number of a page, and its place in the leaf.
#[inline]
fn place(page: PageNr) -> (u64, usize) {
    (
        page.0 / LEAF_PAGES as u64,
        (page.0 % LEAF_PAGES as u64) as usize,
    )
}

impl Core {
    /// A job without spaces.
    #[must_use]
    pub fn new() -> Core {
        Core::default()
    }

    /// Adds an empty space. Ids are reused after [`Core::drop_space`].
    ///
    /// # Panics
    /// When 65535 spaces exist.
    pub fn add_space(&mut self) -> SpaceId {
        if let Some(id) = self.free_spaces.pop() {
            self.spaces[id.index()] = Space::new();
            return id;
        }
        assert!(
            self.spaces.len() < MAX_SPACES,
            "no id left for another space"
        );
        self.spaces.push(Space::new());
        SpaceId((self.spaces.len() - 1) as u16)
    }

    /// Drops a space with all its pages. Returns the effects that free something.
    pub fn drop_space(&mut self, id: SpaceId) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (_, leaf) in self.leaves_of(id, &(PageNr(0)..PageNr(u64::MAX))) {
            // The lists go as a whole, so no page has to be unlinked.
            for at in 0..LEAF_PAGES {
                self.clear(leaf, at, &mut effects);
            }
            self.free_leaf(leaf);
        }
        let space = self.space_mut(id);
        let (resident, vmstat) = (space.lru.resident(), space.vmstat);
        *space = Space {
            live: false,
            ..Space::new()
        };
        self.total_resident -= resident;
        self.gone.add(&vmstat);
        self.free_spaces.push(id);
        effects
    }

    #[inline]
    fn space(&self, id: SpaceId) -> &Space {
        let space = &self.spaces[id.index()];
        assert!(space.live, "{id} was dropped");
        space
    }

    #[inline]
    fn space_mut(&mut self, id: SpaceId) -> &mut Space {
        let space = &mut self.spaces[id.index()];
        assert!(space.live, "{id} was dropped");
        space
    }

    /// The record of a page; `None` means `Absent`. (A page may be absent and still
    /// have a record.)
    #[inline]
    #[must_use]
    pub fn find(&self, space: SpaceId, page: PageNr) -> Option<PageId> {
        let (number, at) = place(page);
        let leaf = self.space(space).index.get(number)?;
        (!self.table.leaf(leaf).is_absent(at)).then(|| page_id(leaf, at))
    }

    /// The record of a page, made if there is none.
    #[inline]
    pub fn ensure(&mut self, space: SpaceId, page: PageNr) -> PageId {
        let (number, at) = place(page);
        if let Some(leaf) = self.space(space).index.get(number) {
            return page_id(leaf, at);
        }
        let leaf = self.table.claim(space, number);
        self.spaces[space.index()].index.insert(number, leaf);
        page_id(leaf, at)
    }

    /// The page of a record.
    ///
    /// # Panics
    /// When the record is in a leaf that is not in use (see [`Core`]).
    #[inline]
    #[must_use]
    pub fn locate(&self, id: PageId) -> (SpaceId, PageNr) {
        let (leaf, at) = self.table.at(id);
        assert!(!leaf.is_free(), "{id} belongs to no space");
        (leaf.space(), leaf.page(at))
    }

    /// The page of a record; `None` where [`Core::locate`] would panic.
    #[must_use]
    pub fn try_locate(&self, id: PageId) -> Option<(SpaceId, PageNr)> {
        let used = self.table.knows(id) && !self.table.at(id).0.is_free();
        used.then(|| self.locate(id))
    }

    /// Whether this table ever gave out such an id.
    #[must_use]
    pub fn knows(&self, id: PageId) -> bool {
        self.table.knows(id)
    }

    /// Whether there is such a space.
    #[must_use]
    pub fn is_live(&self, id: SpaceId) -> bool {
        self.spaces.get(id.index()).is_some_and(|space| space.live)
    }

    /// The state of a record.
    #[inline]
    #[must_use]
    pub fn state(&self, id: PageId) -> State {
        let (leaf, at) = self.table.at(id);
        leaf.state(at)
    }

    /// The state of a page.
    #[inline]
    #[must_use]
    pub fn state_at(&self, space: SpaceId, page: PageNr) -> State {
        self.find(space, page)
            .map_or(State::Absent, |id| self.state(id))
    }

    /// Moves a page on, and keeps the lists, the counters and the eviction stamp
    /// right.
    ///
    /// # Errors
    /// [`Illegal`] when the state does not allow the step, or the record is in no
    /// space; nothing has changed then.
    pub fn apply(&mut self, id: PageId, taken: Step) -> Result<Effect, Illegal> {
        if !self.table.knows(id) {
            return Err(Illegal {
                state: State::Absent,
                step: taken,
            });
        }
        let (leaf, at) = self.table.at(id);
        let before = leaf.state(at);
        let (after, effect) = step(before, taken)?;
        if leaf.is_free() {
            return Err(Illegal {
                state: State::Absent,
                step: taken,
            });
        }
        self.carry_out(id, before, after, taken);
        Ok(effect)
    }

    /// Writes a legal transition.
    fn carry_out(&mut self, id: PageId, before: State, after: State, taken: Step) {
        let space = self.table.at(id).0.space();
        let lru = &mut self.spaces[space.index()].lru;
        if before.is_resident() && !after.is_resident() {
            lru.remove(&mut self.table, id);
            self.total_resident -= 1;
        }
        let place = match taken {
            Step::EndLoad { heat, .. } => self.refault(id, space, heat),
            // Nobody touched it: nothing speaks for it that did not before.
            Step::Putback(Heat::Warm) if self.left_probation(id) => Place::Probation,
            // The program touched it while it was staged.
            Step::EndReturn(Heat::Hot) => Place::Referenced,
            _ => Place::Generation(heat_of(taken)),
        };
        let place = self.hinted(id, space, place, taken);
        let (leaf, at) = self.table.at_mut(id);
        leaf.set_state(at, after);
        let Space { lru, pages, .. } = &mut self.spaces[space.index()];
        *pages += u64::from(before == State::Absent);
        *pages -= u64::from(after == State::Absent);
        match after {
            State::Resident { .. } if !before.is_resident() => {
                lru.insert(&mut self.table, id, place);
                self.total_resident += 1;
            }
            State::Stored { .. } if matches!(taken, Step::CommitStore(_)) => {
                let tried = leaf.tried(at);
                leaf.set_stamp(at, lru.evicted(tried));
            }
            State::Absent if leaf.used() == 0 => self.free_leaf(split(id).0),
            _ => (),
        }
        let promoted = place != Place::Probation;
        self.spaces[space.index()].vmstat.count(taken, promoted);
    }

    /// Judges a load: counts the refault and says where the page goes.
    fn refault(&mut self, id: PageId, space: SpaceId, heat: Heat) -> Place {
        let (leaf, at) = self.table.at(id);
        let unhurried = self.lacks_recency(space, leaf.page(at));
        let lru = &mut self.spaces[space.index()].lru;
        let (leaf, at) = self.table.at_mut(id);
        let (stamp, tried, workingset) = (leaf.stamp(at), leaf.tried(at), leaf.workingset(at));
        let (refault, place) = match unhurried {
            true => lru.refault_unhurried(stamp, workingset),
            false => lru.refault(stamp, tried, heat, workingset),
        };
        leaf.set_workingset(at, refault.activated || refault.restored);
        self.spaces[space.index()].vmstat.count_refault(refault);
        place
    }

    /// Whether a page that is on no list was on probation last.
    #[inline]
    fn left_probation(&self, id: PageId) -> bool {
        let (leaf, at) = self.table.at(id);
        leaf.tried(at)
    }

    /// Takes an empty leaf out of its space.
    fn free_leaf(&mut self, leaf: u32) {
        let (space, number) = (
            self.table.leaf(leaf).space(),
            self.table.leaf(leaf).number(),
        );
        self.spaces[space.index()].index.remove(number);
        self.table.release(leaf);
    }

    /// Notes that a fault met the page in transit and waits for the step that ends it.
    pub fn want(&mut self, id: PageId) {
        let (leaf, at) = self.table.at_mut(id);
        // A flag on an absent page would pass to whatever page takes the record next.
        if !leaf.is_absent(at) {
            leaf.set_wanted(at, true);
        }
    }

    /// Whether a fault waits for the page; forgets it.
    pub fn take_wanted(&mut self, id: PageId) -> bool {
        let (leaf, at) = self.table.at_mut(id);
        let wanted = leaf.wanted(at);
        leaf.set_wanted(at, false);
        wanted
    }

    /// How much has left its space, or was activated there, since a stored page left: less for one that left later.
    #[must_use]
    pub fn away(&self, id: PageId) -> u64 {
        let (leaf, at) = self.table.at(id);
        self.space(leaf.space()).lru.away(leaf.stamp(at))
    }

    /// Resident pages of a space.
    #[inline]
    #[must_use]
    pub fn resident(&self, space: SpaceId) -> Pages {
        Pages(self.space(space).lru.resident())
    }

    /// Pages of a space that are somewhere else than in its process, or on their way.
    #[must_use]
    pub fn elsewhere(&self, space: SpaceId) -> Pages {
        let space = self.space(space);
        Pages(space.pages - space.lru.resident())
    }

    /// Resident pages by list; `None` where there is no such space.
    #[must_use]
    pub fn listed(&self, space: SpaceId) -> Option<Listed> {
        self.is_live(space).then(|| self.space(space).lru.listed())
    }

    /// Resident pages of all spaces.
    #[inline]
    #[must_use]
    pub fn total_resident(&self) -> Pages {
        Pages(self.total_resident)
    }

    /// The event counters of the job.
    #[must_use]
    pub fn vmstat(&self) -> Vmstat {
        let live = self.spaces.iter().map(|space| &space.vmstat);
        let mut sum = self.gone;
        live.for_each(|vmstat| sum.add(vmstat));
        sum
    }

    /// Those of one space.
    #[must_use]
    pub fn vmstat_of(&self, space: SpaceId) -> Vmstat {
        self.space(space).vmstat
    }

    /// Memory the records and their indices take, reserves included.
    #[must_use]
    pub fn metadata_bytes(&self) -> Bytes {
        let spaces = self.spaces.capacity() * size_of::<Space>();
        let indices: usize = self
            .spaces
            .iter()
            .map(|space| space.index.metadata_bytes())
            .sum();
        let ids = self.free_spaces.capacity() * size_of::<SpaceId>();
        Bytes((self.table.metadata_bytes() + spaces + indices + ids) as u64)
    }
}

/// Heat with which a step other than a load makes a page resident.
fn heat_of(taken: Step) -> Heat {
    match taken {
        Step::Adopt(heat) | Step::Putback(heat) | Step::EndReturn(heat) => heat,
        _ => Heat::Hot,
    }
}
