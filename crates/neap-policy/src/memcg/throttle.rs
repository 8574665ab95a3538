//! How long a task waits that went over `memory.high` (SPEC 5.2; kernel: mm/memcontrol.c, `calculate_overage`,
//! `calculate_high_delay`).

use neap_units::{Nanos, Pages};

use super::charge::CHARGE_BATCH;
use super::{MemcgId, Memcgs};
use crate::counters::Counter;

/// Bits of an overage in proportion to the limit.
const PRECISION: u32 = 20;
/// Further bits by which the square is scaled down.
const SCALING: u32 = 14;
/// Ticks a second.
const HZ: u64 = 1000;
/// Longest wait in ticks.
const MAX_DELAY: u64 = 2 * HZ;
/// Waits that are not worth it: a hundredth of a second, or less.
pub const SHORTEST_DELAY: Nanos = Nanos(10_000_000);

/// Ticks for an overage of one level.
fn penalty(usage: u64, high: u64) -> u64 {
    let over = u128::from(usage.saturating_sub(high));
    let overage = (over << PRECISION) / u128::from(high.max(1));
    let ticks = overage
        .saturating_mul(overage)
        .saturating_mul(u128::from(HZ));
    u64::try_from(ticks >> (PRECISION + SCALING)).unwrap_or(u64::MAX)
}

/// The wait of a task that owes pages: what it charged while a level was above high. `levels` are (usage, high) of its group
/// and of each above it that has a high; the worst counts. The wait grows with the square of the overage in proportion to
/// high and with what is owed (64 pages: once), in steps of 1 ms, and is 2 s at most.
#[must_use]
pub fn over_high_delay(levels: impl IntoIterator<Item = (Pages, Pages)>, owed: Pages) -> Nanos {
    let penalties = levels
        .into_iter()
        .map(|(usage, high)| penalty(usage.0, high.0));
    let worst = penalties.max().unwrap_or(0);
    let ticks = worst.saturating_mul(owed.0) / CHARGE_BATCH;
    Nanos(ticks.min(MAX_DELAY) * (1_000_000_000 / HZ))
}

/// Wait of a task that owes pages, by the worst level above `memory.high`, capped at 2 s.
#[must_use]
pub fn high_delay(memcgs: &Memcgs, memcg: MemcgId, owed: Pages) -> Nanos {
    let level = |id| Some((memcgs.usage(id), memcgs.limits(id).high?));
    over_high_delay(memcgs.ancestors(memcg).filter_map(level), owed)
}

/// The same for `memory.swap.high`; the two are added before the cap.
#[must_use]
pub fn swap_high_delay(memcgs: &Memcgs, memcg: MemcgId, owed: Pages) -> Nanos {
    let level = |id| Some((memcgs.swap(id), memcgs.limits(id).swap_high?));
    over_high_delay(memcgs.ancestors(memcg).filter_map(level), owed)
}

impl Memcgs {
    /// A task is about to be delayed: an event for each level above `memory.swap.high`
    /// (SPEC 5.4; kernel: swap_find_max_overage).
    pub fn count_swap_high(&mut self, memcg: MemcgId) {
        let mut at = Some(memcg);
        while let Some(level) = at {
            if self.over_swap_high(level) > 0 {
                self.count(level, Counter::MemcgSwapHigh, 1);
            }
            at = self.parent(level);
        }
    }
}
