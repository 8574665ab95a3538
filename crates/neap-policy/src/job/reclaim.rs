//! What to take next: from which space, and which pages.

use neap_units::{PageId, SpaceId};

use super::{Core, Space};
use crate::page::{LEAF_PAGES, State, Table, page_id, split};

/// Pages of a folio as far as reclaim is concerned: 64 KiB, naturally aligned. Pages
/// that became old together are taken together, so that they are compressed, written
/// and read back in runs.
const FOLIO_PAGES: usize = 16;
const _: () = assert!(LEAF_PAGES.is_multiple_of(FOLIO_PAGES));

impl Core {
    /// The space to take pages from next among those that `may` give some, or `None` when nothing is
    /// resident there.
    ///
    /// A smooth weighted round robin: each space earns its resident pages as credit at
    /// every turn, the richest is chosen and pays for all. Over many turns each is
    /// chosen in proportion to its size, evenly spread, and without chance.
    pub fn choose_space(&mut self, may: impl Fn(SpaceId) -> bool) -> Option<SpaceId> {
        let mut richest: Option<usize> = None;
        let mut total = 0i64;
        for at in 0..self.spaces.len() {
            let space = &mut self.spaces[at];
            let resident = space.lru.resident() as i64;
            if !space.live || resident == 0 {
                // Credit of an empty space would be spent on pages that came later.
                space.credit = 0;
                continue;
            }
            if !may(SpaceId(at as u16)) {
                continue;
            }
            space.credit += resident;
            total += resident;
            let credit = space.credit;
            if richest.is_none_or(|best| credit > self.spaces[best].credit) {
                richest = Some(at);
            }
        }
        let chosen = richest?;
        self.spaces[chosen].credit -= total;
        Some(SpaceId(chosen as u16))
    }

    /// Isolates up to `max` pages of a space, those on probation first while they are many,
    /// then the oldest generation, and appends them to `out` in order of address.
    ///
    /// Ages first when fewer than four generations are left (`Mglru614`, SPEC 3.6). When
    /// the oldest generation does not fill the request, it goes on to the next, but not
    /// to one that was among the two youngest when it was called: those are taken only
    /// when nothing else is left. Each page takes along the resident pages of its
    /// naturally aligned 16-page folio, as far as they would not leave later.
    pub fn pick(&mut self, space: SpaceId, max: usize, out: &mut Vec<PageId>) {
        let first = out.len();
        let Space { lru, live, .. } = &mut self.spaces[space.index()];
        assert!(*live, "{space} was dropped");
        let mut limit = lru.youngest_inactive();
        let (opened, demoted) = lru.age();
        self.vmstat.aged_generations += opened;
        self.vmstat.pgrefill += demoted.0;
        while out.len() - first < max {
            let Some((id, rank)) = lru.oldest() else {
                break;
            };
            if out.len() == first {
                limit = limit.max(rank);
            } else if rank > limit {
                break;
            }
            let (leaf, at) = split(id);
            for at in folio_around(at) {
                if out.len() - first == max {
                    break;
                }
                if let State::Resident { copy } = self.table.leaf(leaf).state(at)
                    && lru.rank_of(self.table.leaf(leaf).list(at)) <= rank
                {
                    let id = page_id(leaf, at);
                    lru.remove(&mut self.table, id);
                    self.table
                        .leaf_mut(leaf)
                        .set_state(at, State::Isolated { copy });
                    out.push(id);
                }
            }
        }
        let picked = (out.len() - first) as u64;
        self.total_resident -= picked;
        self.vmstat.pgscan += picked;
        sort_by_address(&self.table, &mut out[first..]);
    }
}

/// Places in the leaf of the folio that contains place `at`.
#[inline]
fn folio_around(at: usize) -> std::ops::Range<usize> {
    let start = at - at % FOLIO_PAGES;
    start..start + FOLIO_PAGES
}

fn sort_by_address(table: &Table, ids: &mut [PageId]) {
    ids.sort_unstable_by_key(|&id| {
        let (leaf, at) = table.at(id);
        leaf.page(at)
    });
}
