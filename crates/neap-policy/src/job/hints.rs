//! What a program says of its memory: mappings without recency, and pages that it calls cold or soon needed.
//!
//! Pages of a mapping without recency are on probation, always: no touch promotes them, and they leave before all others
//! while they are more than a share of what is resident. The share is what a walk needs to find what was read ahead for it.

use std::ops::Range;

use neap_units::{PageId, PageNr, Pages, SpaceId};

use super::Core;
use super::lru::Place;
use crate::page::{Heat, Step};
use crate::recency::Advice;
use crate::switches::Recency;

/// What a program says of a range of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// How it will use the range from now on.
    Use(Advice),
    /// It will not use the pages soon (MADV_COLD): those that are resident go to the reclaim end of the oldest
    /// generation, and what speaks for them is forgotten.
    Cold,
    /// It will use them soon (MADV_WILLNEED): those that are resident go to the youngest generation.
    Soon,
}

impl Core {
    /// Takes a hint. Returns how many pages changed their place on the lists.
    ///
    /// [`Hint::Use`] holds for the range until the next one, goes where [`Core::remap`] moves the pages, and is inherited
    /// over [`Core::fork`]; pages that are unmapped need a [`Advice::Normal`].
    pub fn hint(&mut self, space: SpaceId, range: Range<PageNr>, hint: Hint) -> Pages {
        let hinted = &mut self.space_mut(space).unhurried;
        match hint {
            Hint::Use(advice) if advice.has_recency(Recency::Hints, true) => {
                hinted.remove(&range);
                return Pages::ZERO;
            }
            Hint::Use(_) => hinted.insert(&range),
            Hint::Cold | Hint::Soon => {}
        }
        let mut resident: Vec<PageId> = Vec::new();
        self.for_range(space, range, |_, id, state| {
            if state.is_resident() {
                resident.push(id);
            }
        });
        let mut changed = Pages::ZERO;
        if hint == Hint::Cold {
            resident.reverse(); // at the reclaim end the last one leaves first
        }
        for id in resident {
            let (leaf, at) = self.table.at(id);
            let unhurried = self.lacks_recency(space, leaf.page(at));
            let to = match hint {
                Hint::Use(_) => Place::Probation,
                Hint::Cold | Hint::Soon if unhurried => continue,
                Hint::Cold => Place::Oldest,
                Hint::Soon => Place::Generation(Heat::Hot),
            };
            let lru = &mut self.spaces[space.index()].lru;
            lru.remove(&mut self.table, id);
            lru.insert(&mut self.table, id, to);
            changed += Pages(1);
        }
        let vmstat = &mut self.spaces[space.index()].vmstat;
        match hint {
            Hint::Soon => vmstat.pgactivate += changed.0,
            Hint::Cold | Hint::Use(_) => vmstat.pgdeactivate += changed.0,
        }
        changed
    }

    /// Whether some range of a space has no recency.
    #[must_use]
    pub fn has_hints(&self, space: SpaceId) -> bool {
        !self.space(space).unhurried.is_empty()
    }

    /// Ranges of a space that have no recency.
    #[must_use]
    pub fn without_recency(&self, space: SpaceId) -> Vec<Range<PageNr>> {
        self.space(space).unhurried.iter().collect()
    }

    #[inline]
    pub(super) fn lacks_recency(&self, space: SpaceId, page: PageNr) -> bool {
        let unhurried = &self.spaces[space.index()].unhurried;
        !unhurried.is_empty() && unhurried.has(page)
    }

    /// Where a page goes by its hints that would go to `place` by what is seen of it. One that could not be taken is not
    /// to come up again at once.
    #[inline]
    pub(super) fn hinted(&self, id: PageId, space: SpaceId, seen: Place, taken: Step) -> Place {
        let (leaf, at) = self.table.at(id);
        let busy = taken == Step::Putback(Heat::Hot);
        match !busy && self.lacks_recency(space, leaf.page(at)) {
            true => Place::Probation,
            false => seen,
        }
    }
}
