//! What to take next: from which space, and which pages.

use std::cmp::Reverse;

use neap_tuning::TUNING;
use neap_units::{PageId, SpaceId};

use super::lru::Lru;
use super::{Core, Space};
use crate::page::{State, Table};

impl Core {
    /// The space to take pages from next among these, or `None` when nothing is resident there.
    ///
    /// A smooth weighted round robin: each space earns its resident pages as credit at
    /// every turn, the richest is chosen and pays for all. Over many turns each is
    /// chosen in proportion to its size, evenly spread, and without chance.
    pub fn choose_space(&mut self, among: &[SpaceId]) -> Option<SpaceId> {
        let mut richest: Option<(i64, Reverse<SpaceId>)> = None;
        let mut total = 0i64;
        for &id in among {
            let space = &mut self.spaces[id.index()];
            let resident = space.lru.resident() as i64;
            if !space.live || resident == 0 {
                // Credit of an empty space would be spent on pages that came later.
                space.credit = 0;
                continue;
            }
            space.credit += resident;
            total += resident;
            richest = richest.max(Some((space.credit, Reverse(id))));
        }
        let (_, Reverse(chosen)) = richest?;
        self.spaces[chosen.index()].credit -= total;
        Some(chosen)
    }

    /// Isolates up to `max` pages of a space, those on probation first while they are many,
    /// then the oldest generation, and appends them to `out` in order of address.
    ///
    /// Ages first when fewer than four generations are left (`Mglru614`, SPEC 3.6). When
    /// the oldest generation does not fill the request, it goes on to the next, but not
    /// to one that was among the two youngest when it was called: those are taken only
    /// when nothing else is left. Referenced pages are passed over; where all of the generations that may leave were,
    /// pages on probation go before another is opened.
    pub fn pick(&mut self, space: SpaceId, max: usize, out: &mut Vec<PageId>) {
        let first = out.len();
        let Space {
            lru, live, vmstat, ..
        } = &mut self.spaces[space.index()];
        assert!(*live, "{space} was dropped");
        let mut limit = lru.youngest_inactive();
        let mut age = |lru: &mut Lru| {
            let (opened, demoted) = lru.age();
            vmstat.aged_generations += opened;
            vmstat.pgrefill += demoted.0;
        };
        age(lru);
        let (mut passed_over, most_passed_over) =
            (0, max.saturating_mul(TUNING.picking.passed_over));
        while out.len() - first < max {
            let Some((id, rank)) = lru.oldest() else {
                if out.len() > first || lru.resident() == 0 {
                    break;
                }
                age(lru); // all that could leave was passed over
                continue;
            };
            if out.len() == first {
                limit = limit.max(rank);
            } else if rank > limit {
                break;
            }
            if passed_over < most_passed_over && lru.pass_over(&mut self.table, id) {
                passed_over += 1;
                continue;
            }
            let (leaf, at) = self.table.at(id);
            let State::Resident { copy } = leaf.state(at) else {
                panic!("{id} is on a list and not resident");
            };
            lru.remove(&mut self.table, id);
            let (leaf, at) = self.table.at_mut(id);
            leaf.set_state(at, State::Isolated { copy });
            out.push(id);
        }
        let picked = (out.len() - first) as u64;
        self.total_resident -= picked;
        vmstat.pgscan += picked;
        vmstat.passed_over += passed_over as u64;
        sort_by_address(&self.table, &mut out[first..]);
    }
}

fn sort_by_address(table: &Table, ids: &mut [PageId]) {
    ids.sort_unstable_by_key(|&id| {
        let (leaf, at) = table.at(id);
        leaf.page(at)
    });
}
