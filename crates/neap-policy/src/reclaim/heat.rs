//! The walk by heat levels, as posted in 2026 (SPEC 8): cold cgroups first, then warm,
//! then hot, each class with the position that all reclaimers share.

use neap_units::Nanos;

use super::{Reclaim, Visit};
use crate::counters::Counter;
use crate::folio::LruvecId;
use crate::lru::Mm;

const MAX_HEAT: u8 = 12;
const WARM: u8 = 4;
const HOT: u8 = 8;
/// A level is lost each second (SPEC 8).
const DECAY: Nanos = Nanos(1_000_000_000);
/// Classes of one pass: cold, warm, hot.
const CLASSES: u8 = 3;

/// How hard a cgroup was to reclaim from lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HeatLevel {
    level: u8,
    decayed: Nanos,
    /// Refaults when it was visited last.
    refaults: u64,
}

impl HeatLevel {
    fn now(&mut self, now: Nanos) -> u8 {
        let seconds = now.saturating_sub(self.decayed).0 / DECAY.0;
        if seconds > 0 {
            self.level = self
                .level
                .saturating_sub(seconds.min(MAX_HEAT.into()) as u8);
            self.decayed += DECAY * seconds;
        }
        self.level
    }

    /// After a visit. Scanning little for much cools, refaults heat.
    fn note(&mut self, scanned: u64, reclaimed: u64, refaults: u64) {
        let growth = refaults.saturating_sub(std::mem::replace(&mut self.refaults, refaults));
        let mut change: i32 = match () {
            () if scanned == 0 => MAX_HEAT.into(),
            () if reclaimed * 2 >= scanned => -2,
            () if reclaimed * 4 >= scanned => -1,
            () => 1,
        };
        if growth > reclaimed {
            change += 1;
        } else if growth == 0 {
            change -= 1;
        }
        let level = i32::from(self.level) + change;
        self.level = level.clamp(0, MAX_HEAT.into()) as u8;
    }
}

/// A pass: three rounds over the tree.
#[derive(Default)]
pub(super) struct HeatWalk {
    class: u8,
    cycle: Option<u64>,
    pub(super) over: bool,
}

fn class_of(level: u8) -> u8 {
    u8::from(level >= WARM) + u8::from(level >= HOT)
}

impl Reclaim {
    pub(super) fn next_by_heat(&mut self, walk: &mut HeatWalk, mm: &mut Mm) -> Option<LruvecId> {
        let target = self.request.target;
        let root = mm.lruvec_of(target, self.node);
        while !walk.over {
            let mut cookie = mm.lruvec(root).cookie;
            let next = cookie.next_group(&mm.memcgs, target, &mut walk.cycle);
            mm.lruvec_mut(root).cookie = cookie;
            let Some(memcg) = next else {
                walk.cycle = None;
                walk.class += 1;
                walk.over = walk.class == CLASSES;
                continue;
            };
            let id = mm.lruvec_of(memcg, self.node);
            let now = mm.now;
            let level = mm.lruvec_mut(id).heat.now(now);
            if class_of(level) == walk.class && !self.spared(memcg, mm) {
                return Some(id);
            }
        }
        None
    }

    pub(super) fn note_heat(&self, visit: &Visit, mm: &mut Mm) {
        if !matches!(self.pass, Some(super::walk::Pass::Heat(_))) {
            return;
        }
        let counters = mm.memcgs.counters(mm.memcg_of(visit.lruvec));
        let refaults =
            counters[Counter::WorkingsetRefaultAnon] + counters[Counter::WorkingsetRefaultFile];
        let scanned = self.scanned.saturating_sub(visit.scanned);
        let reclaimed = self.reclaimed.saturating_sub(visit.reclaimed);
        mm.lruvec_mut(visit.lruvec)
            .heat
            .note(scanned, reclaimed, refaults);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_heats_and_time_cools() {
        let mut heat = HeatLevel::default();
        heat.note(0, 0, 0);
        assert_eq!(
            heat.now(Nanos::ZERO),
            11,
            "nothing to scan, nothing refaulted"
        );
        assert_eq!(class_of(11), 2);
        assert_eq!(heat.now(Nanos(3_500_000_000)), 8);
        assert_eq!(heat.now(Nanos(4_000_000_000)), 7);
        heat.note(100, 50, 10);
        assert_eq!(heat.level, 5);
        heat.note(100, 10, 40);
        assert_eq!((heat.level, class_of(5)), (7, 1));
    }
}
