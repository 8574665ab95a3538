//! A visit of active and inactive lists (SPEC 3.2).

use neap_units::Pages;

use super::{Cause, Host, Reclaim, SWAP_CLUSTER_MAX};
use crate::counters::Counter;
use crate::folio::{Flags, Kind, LruvecId, list_of};
use crate::lru::{Deactivate, Mm};
use crate::shrinker::DEF_PRIORITY;

/// What holds for a whole pass over a node (kernel: prepare_scan_control).
#[derive(Clone, Copy, Default)]
pub(super) struct Balance {
    costs: [u64; 2],
    may_deactivate: Deactivate,
    cache_trim: bool,
    file_is_tiny: bool,
}

/// What is left to scan of each list, by `list_of`.
pub(super) struct Chunks {
    left: [u64; 4],
    targets: [u64; 4],
    reclaimed: u64,
}

/// How scanning is split between the kinds.
enum Split {
    Only(Kind),
    Equal,
    Share([u128; 2]),
}

impl Reclaim {
    pub(super) fn balance_of(&self, mm: &Mm, host: &dyn Host) -> Balance {
        let target = mm.lruvec(mm.lruvec_of(self.request.target, self.node));
        let may = |kind| self.force_deactivate || target.may_deactivate(kind);
        let may_deactivate = [may(Kind::Anon), may(Kind::File)];
        let size = |kind, active| target.total[list_of(kind, active)];
        let inactive_file = size(Kind::File, false);
        let cache_trim = inactive_file >> self.priority() > 0 && !may_deactivate[1];
        let mut file_is_tiny = false;
        if !self.on_behalf_of_cgroup() {
            let (free, high) = host.free_and_high(self.node);
            let file = inactive_file + size(Kind::File, true);
            let anon = size(Kind::Anon, false);
            file_is_tiny = file + free <= high && !may_deactivate[0] && anon >> self.priority() > 0;
        }
        Balance {
            costs: target.costs(),
            may_deactivate,
            cache_trim,
            file_is_tiny,
        }
    }

    fn split(&self, lruvec: LruvecId, mm: &Mm) -> Split {
        let swappiness = self.swappiness(mm);
        let memcg = mm.memcg_of(lruvec);
        let room = mm.memcgs.swap_available(memcg, mm.free_swap);
        if room == Pages::ZERO || (self.on_behalf_of_cgroup() && swappiness == 0) {
            return Split::Only(Kind::File);
        }
        if self.priority == 0 && swappiness > 0 {
            return Split::Equal;
        }
        if self.balance.file_is_tiny {
            return Split::Only(Kind::Anon);
        }
        if self.balance.cache_trim {
            return Split::Only(Kind::File);
        }
        let [anon, file] = self.balance.costs.map(u128::from);
        let (anon, file) = (2 * anon + file, 2 * file + anon);
        let total = anon + file;
        let swappiness = u128::from(swappiness);
        Split::Share([
            swappiness * (total + 1) / (anon + 1),
            (200 - swappiness) * (total + 1) / (file + 1),
        ])
    }

    /// Scan targets of a cgroup's four lists (kernel: get_scan_count).
    pub(super) fn scan_targets(&mut self, lruvec: LruvecId, mm: &mut Mm) -> Chunks {
        let split = self.split(lruvec, mm);
        let memcg = mm.memcg_of(lruvec);
        let online = mm.memcgs.online(memcg);
        let mut left = [0; 4];
        for kind in Kind::BOTH {
            for active in [false, true] {
                let at = list_of(kind, active);
                let size = mm.lruvec(lruvec).own[at];
                let target = mm.memcgs.scaled(memcg, size, self.low_reclaim);
                self.low_skipped |= target.by_low;
                let mut scan = target.pages.0 >> self.priority();
                if scan == 0 && !online {
                    scan = size.min(SWAP_CLUSTER_MAX);
                }
                left[at] = match &split {
                    Split::Only(only) if *only != kind => 0,
                    Split::Only(_) | Split::Equal => scan,
                    Split::Share(shares) => {
                        let all = shares[0] + shares[1];
                        let part = u128::from(scan) * shares[kind as usize];
                        let part = if online {
                            part / all
                        } else {
                            part.div_ceil(all)
                        };
                        part as u64
                    }
                };
            }
        }
        Chunks {
            left,
            targets: left,
            reclaimed: 0,
        }
    }

    /// One chunk of each list; false when the visit is over (kernel: shrink_lruvec).
    pub(super) fn classic_chunk(
        &mut self,
        lruvec: LruvecId,
        chunks: &mut Chunks,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) -> bool {
        // The active anonymous list alone keeps no visit going.
        if chunks.left[0] == 0 && chunks.left[2] == 0 && chunks.left[3] == 0 {
            return false;
        }
        for list in 0..4 {
            let n = chunks.left[list].min(SWAP_CLUSTER_MAX);
            if n > 0 {
                chunks.left[list] -= n;
                let before = self.reclaimed;
                self.shrink_list(lruvec, list, n, mm, host);
                chunks.reclaimed += self.reclaimed - before;
            }
        }
        let busy = !self.on_behalf_of_cgroup()
            && self.request.cause != Cause::Kswapd
            && self.priority == DEF_PRIORITY as i8;
        if chunks.reclaimed < self.goal || busy {
            return true;
        }
        chunks.trim()
    }

    fn shrink_list(
        &mut self,
        lruvec: LruvecId,
        list: usize,
        n: u64,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) {
        let kind = if list < 2 { Kind::Anon } else { Kind::File };
        if list == list_of(kind, false) {
            self.shrink_inactive(lruvec, kind, n, mm, host);
        } else if self.balance.may_deactivate[kind as usize] {
            self.shrink_active(lruvec, kind, n, mm, host);
        } else {
            self.skipped_deactivate = true;
        }
    }

    fn shrink_inactive(
        &mut self,
        lruvec: LruvecId,
        kind: Kind,
        n: u64,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) {
        host.drain_batches(mm);
        let mut batch = std::mem::take(&mut self.batch);
        let taken = mm.isolate_classic(lruvec, list_of(kind, false), n, &mut batch);
        let done = self.shrink_folios(&mut batch, true, mm, host);
        for id in batch.drain(..) {
            mm.put_back(id);
        }
        self.batch = batch;
        self.count(mm, lruvec, kind, taken, done.freed);
        mm.note_cost(lruvec, kind, done.written, taken.saturating_sub(done.freed));
    }

    /// Makes pages inactive that nobody executes (kernel: shrink_active_list).
    fn shrink_active(
        &mut self,
        lruvec: LruvecId,
        kind: Kind,
        n: u64,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) {
        host.drain_batches(mm);
        let mut batch = std::mem::take(&mut self.batch);
        let taken = mm.isolate_classic(lruvec, list_of(kind, true), n, &mut batch);
        let memcg = mm.memcg_of(lruvec);
        mm.memcgs.count(memcg, Counter::Pgrefill, taken);
        let (mut rotated, mut deactivated) = (0, 0);
        for id in batch.drain(..) {
            let found = host.referenced(mm, id, self.request.target);
            let pages = mm.folios.pages(id);
            if found.ptes > 0 && found.exec && kind == Kind::File {
                rotated += pages;
            } else {
                let flags = mm.folios.flags_mut(id);
                flags.set(Flags::ACTIVE, false);
                flags.set(Flags::WORKINGSET, true);
                deactivated += pages;
            }
            mm.put_back(id);
        }
        self.batch = batch;
        mm.memcgs.count(memcg, Counter::Pgdeactivate, deactivated);
        mm.note_cost(lruvec, kind, 0, rotated);
    }

    /// Whatever else, the anonymous lists are kept in proportion where swap exists.
    pub(super) fn end_classic(&mut self, lruvec: LruvecId, mm: &mut Mm, host: &mut dyn Host) {
        if mm.free_swap > Pages::ZERO && mm.lruvec(lruvec).inactive_is_low(Kind::Anon) {
            self.shrink_active(lruvec, Kind::Anon, SWAP_CLUSTER_MAX, mm, host);
        }
    }
}

impl Chunks {
    /// The goal is reached on these lists alone: drop the kind with less left, and trim
    /// the other in proportion. False when one is used up already.
    fn trim(&mut self) -> bool {
        let anon = self.left[0] + self.left[1];
        let file = self.left[2] + self.left[3];
        if anon == 0 || file == 0 {
            self.left = [0; 4];
            return false;
        }
        let (smaller, larger, left) = if file > anon {
            (0, 2, anon)
        } else {
            (2, 0, file)
        };
        let target = self.targets[smaller] + self.targets[smaller + 1] + 1;
        let percentage = left * 100 / target;
        self.left[smaller] = 0;
        self.left[smaller + 1] = 0;
        for list in [larger, larger + 1] {
            let scanned = self.targets[list] - self.left[list];
            let now = self.targets[list] * (100 - percentage) / 100;
            self.left[list] = now.saturating_sub(scanned);
        }
        // One nudge only: the smaller kind is used up now, and the next chunk ends the visit.
        true
    }
}

#[cfg(test)]
#[path = "classic_tests.rs"]
mod tests;
