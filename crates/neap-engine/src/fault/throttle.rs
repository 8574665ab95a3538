//! memory.high: a thread that takes memory while its group is above it waits, the longer the further above (mm/memcontrol.c,
//! mem_cgroup_handle_over_high). Reclaim works meanwhile, and the wait ends where it has brought the group below.

use std::collections::HashMap;

use neap_policy::{CHARGE_BATCH, SHORTEST_DELAY};
use neap_units::Pages;

use crate::group::Group;

/// What a thread owes.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    /// Pages that it took above `memory.high` and has not waited for.
    pages: u64,
    /// Until when it waits, in nanoseconds.
    until: u64,
}

/// What the threads of a space owe. Nothing, where their group is not above.
#[derive(Debug, Default)]
pub(super) struct Throttle(HashMap<u32, Debt>);

/// Whether a thread is to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Throttled {
    No,
    /// From now on.
    Begins,
    Still,
}

impl Throttle {
    /// A thread has got so many pages.
    pub fn owe(&mut self, group: &Group, thread: u32, pages: u64) {
        if group.is_over_high() {
            self.0.entry(thread).or_default().pages += pages;
        } else {
            self.0.clear();
        }
    }

    /// Whether a thread that asks for memory is to wait. It owes a batch before it does, as the kernel charges.
    pub fn holds(&mut self, group: &Group, thread: u32, now: impl FnOnce() -> u64) -> Throttled {
        if self.0.is_empty() {
            return Throttled::No;
        }
        if !group.is_over_high() {
            self.0.clear();
            return Throttled::No;
        }
        let Some(debt) = self.0.get_mut(&thread) else {
            return Throttled::No;
        };
        let now = now();
        if now < debt.until {
            return Throttled::Still;
        }
        if debt.pages < CHARGE_BATCH {
            return Throttled::No;
        }
        let owed = Pages(std::mem::take(&mut debt.pages));
        let delay = group.note_high(owed);
        if delay <= SHORTEST_DELAY {
            return Throttled::No;
        }
        debt.until = now + delay.0;
        Throttled::Begins
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use neap_units::{Bytes, Limit};

    use super::*;
    use crate::meter::Meter;

    const MIB: u64 = 1 << 20;

    #[test]
    fn who_takes_memory_above_high_waits_by_the_kernels_arithmetic_until_it_is_below() {
        let meter = Arc::new(Meter::new(Bytes(1 << 40), true));
        let group = Group::top(None, false, meter.clone());
        let mut throttle = Throttle::default();
        meter.charge(110 * MIB);
        throttle.owe(&group, 1, 64);
        assert_eq!(throttle.holds(&group, 1, || 0), Throttled::No, "no high");
        meter.set_high(Limit::Bytes(Bytes(100 * MIB)));
        throttle.owe(&group, 1, 63);
        assert_eq!(
            throttle.holds(&group, 1, || 0),
            Throttled::No,
            "no batch yet"
        );
        throttle.owe(&group, 1, 1);
        assert_eq!(
            throttle.holds(&group, 2, || 0),
            Throttled::No,
            "it took none"
        );
        assert_eq!(throttle.holds(&group, 1, || 0), Throttled::Begins);
        let ms = 1_000_000;
        assert_eq!(throttle.holds(&group, 1, || 638 * ms), Throttled::Still);
        assert_eq!(throttle.holds(&group, 1, || 639 * ms), Throttled::No);
        assert_eq!(group.events.high.load(Relaxed), 1);
        throttle.owe(&group, 1, 6400);
        let at = |throttle: &mut Throttle, at: u64| throttle.holds(&group, 1, || at * ms);
        assert_eq!(at(&mut throttle, 1000), Throttled::Begins);
        assert_eq!(at(&mut throttle, 2999), Throttled::Still);
        assert_eq!(at(&mut throttle, 3000), Throttled::No, "2 s at most");
        throttle.owe(&group, 1, 64);
        assert_eq!(at(&mut throttle, 3000), Throttled::Begins);
        meter.uncharge(10 * MIB);
        assert_eq!(at(&mut throttle, 3001), Throttled::No, "it is not above");
        meter.charge(MIB);
        throttle.owe(&group, 1, 64);
        let short = at(&mut throttle, 3002);
        assert_eq!(short, Throttled::No, "6 ms are not worth it");
        assert_eq!(group.events.high.load(Relaxed), 4, "counted all the same");
    }
}
