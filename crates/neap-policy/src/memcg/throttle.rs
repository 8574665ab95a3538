//! How long a task waits that went over `memory.high` (SPEC 5.2).

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

/// Ticks for an overage of one level.
fn penalty(usage: u64, high: u64) -> u64 {
    let over = u128::from(usage.saturating_sub(high));
    let overage = (over << PRECISION) / u128::from(high.max(1));
    let ticks = overage
        .saturating_mul(overage)
        .saturating_mul(u128::from(HZ));
    u64::try_from(ticks >> (PRECISION + SCALING)).unwrap_or(u64::MAX)
}

fn delay(worst: u64, owed: Pages) -> Nanos {
    let ticks = worst.saturating_mul(owed.0) / CHARGE_BATCH;
    Nanos(ticks.min(MAX_DELAY) * (1_000_000_000 / HZ))
}

/// Wait of a task that owes pages, by the worst level above `memory.high`, capped at 2 s.
#[must_use]
pub fn high_delay(memcgs: &Memcgs, memcg: MemcgId, owed: Pages) -> Nanos {
    let levels = memcgs.ancestors(memcg).filter_map(|id| {
        let high = memcgs.limits(id).high?;
        Some(penalty(memcgs.usage(id).0, high.0))
    });
    delay(levels.max().unwrap_or(0), owed)
}

/// The same for `memory.swap.high`; the two are added before the cap.
#[must_use]
pub fn swap_high_delay(memcgs: &Memcgs, memcg: MemcgId, owed: Pages) -> Nanos {
    let levels = memcgs.ancestors(memcg).filter_map(|id| {
        let high = memcgs.limits(id).swap_high?;
        Some(penalty(memcgs.swap(id).0, high.0))
    });
    delay(levels.max().unwrap_or(0), owed)
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
