//! Active and inactive lists (SPEC 3.2).

use neap_units::PAGE_SHIFT;

use super::{Lruvec, Mm};
use crate::folio::{Flags, FolioId, Kind, LruvecId, list_of};

/// Cost of reading a page back, in pages scanned (SPEC 3.2; SWAP_CLUSTER_MAX).
const REFAULT_COST: u64 = 32;

/// Which active lists a pass may shorten, by [`Kind`].
pub(crate) type Deactivate = [bool; 2];

/// Integer square root.
fn int_sqrt(n: u64) -> u64 {
    n.isqrt()
}

impl Lruvec {
    /// Whether too little is inactive, here and below: `inactive * ratio < active`.
    pub(crate) fn inactive_is_low(&self, kind: Kind) -> bool {
        let (inactive, active) = (
            self.total[list_of(kind, false)],
            self.total[list_of(kind, true)],
        );
        let gib = (inactive + active) >> (30 - PAGE_SHIFT);
        let ratio = if gib > 0 { int_sqrt(10 * gib) } else { 1 };
        inactive * ratio < active
    }

    /// Whether the active list should be shortened: also while refaults go on.
    pub(crate) fn may_deactivate(&self, kind: Kind) -> bool {
        self.activates[kind as usize] != self.refaults[kind as usize] || self.inactive_is_low(kind)
    }

    /// Costs of anonymous and file memory.
    pub(crate) fn costs(&self) -> [u64; 2] {
        self.cost
    }
}

impl Mm {
    /// Reclaim of one kind had a cost: pages read or written, and pages looked at in vain
    /// (kernel: lru_note_cost). Old costs fade by halves.
    pub(crate) fn note_cost(&mut self, id: LruvecId, kind: Kind, pages_io: u64, rotated: u64) {
        let cost = pages_io * REFAULT_COST + rotated;
        if cost == 0 {
            return;
        }
        let mut at = Some(id);
        while let Some(id) = at {
            let lruvec = self.lruvec_mut(id);
            lruvec.cost[kind as usize] += cost;
            let size: u64 = lruvec.total.iter().sum();
            if lruvec.cost[0] + lruvec.cost[1] > size / 4 {
                lruvec.cost[0] /= 2;
                lruvec.cost[1] /= 2;
            }
            at = lruvec.parent;
        }
    }

    /// Takes folios from the tail of a classic list until `pages` are looked at, oldest
    /// first. They keep their flags and belong to the caller.
    pub(crate) fn isolate_classic(
        &mut self,
        id: LruvecId,
        list: usize,
        pages: u64,
        into: &mut Vec<FolioId>,
    ) -> u64 {
        let mut taken = 0;
        while taken < pages {
            let Some(folio) = self.lruvecs[id.index()].lists[list].tail() else {
                break;
            };
            taken += self.folios.pages(folio);
            self.remove_folio(folio);
            into.push(folio);
        }
        taken
    }

    pub(super) fn check_classic(&self, id: LruvecId) {
        let lruvec = self.lruvec(id);
        for kind in Kind::BOTH {
            for active in [false, true] {
                let at = list_of(kind, active);
                let mut pages = 0;
                lruvec.lists[at].check(&self.folios, |folio| {
                    let flags = self.folios.flags(folio);
                    assert_eq!(self.folios.lruvec(folio), id);
                    assert!(flags.has(Flags::LRU) && flags.has(Flags::ACTIVE) == active);
                    assert!(Kind::of(flags) == kind);
                    pages += self.folios.pages(folio);
                });
                assert_eq!(lruvec.own[at], pages, "size of list {at}");
            }
        }
    }
}
