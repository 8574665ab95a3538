//! What has a size at any time, weighted with time: the pool, and what its shrinkers are about.

use std::collections::HashMap;

use neap_policy::Zswap;
use neap_units::{Nanos, SwapSlot};

/// Sums over the time that has passed.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauges {
    since: Nanos,
    span: u128,
    pool: u128,
    deferred: u128,
    shrinkers: u128,
    /// Time with a shrinker at work.
    busy: u128,
    most_shrinkers: u64,
    most_deferred: u64,
    /// When the entry of a slot was written back that nobody has read since.
    written: HashMap<u32, Nanos>,
    feedback: u128,
    read_back: u64,
    counted: u64,
}

/// What they come to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GaugeMeans {
    /// Pages of zswap's pool.
    pub pool: f64,
    /// Objects deferred by its shrinkers (kernel: nr_deferred).
    pub deferred: f64,
    /// The most of them.
    pub most_deferred: u64,
    /// Shrinkers at work, of the time in which any is.
    pub shrinkers: f64,
    /// The most of them at once.
    pub most_shrinkers: u64,
    /// Seconds from the write-back of an entry to the read of its page, of those that were read.
    pub feedback: f64,
    /// Swap-ins that the rule of the shrinker counts, each second.
    pub counted: f64,
}

impl Gauges {
    /// Time passes up to `now` with what is as it is.
    pub(super) fn pass(&mut self, now: Nanos, zswap: &Zswap) {
        let span = u128::from(now.saturating_sub(self.since).0);
        self.since = self.since.max(now);
        let work = zswap.work();
        self.span += span;
        self.pool += span * u128::from(zswap.pool_pages().0);
        self.deferred += span * u128::from(work.deferred);
        self.shrinkers += span * u128::from(work.shrinkers);
        self.busy += if work.shrinkers > 0 { span } else { 0 };
        self.most_deferred = self.most_deferred.max(work.deferred);
        self.most_shrinkers = self.most_shrinkers.max(work.shrinkers);
    }

    /// An entry is written back.
    pub(super) fn written_back(&mut self, slot: SwapSlot, now: Nanos) {
        self.written.insert(slot.0, now);
    }

    /// A page is read from the device.
    pub(super) fn read(&mut self, slot: SwapSlot, now: Nanos) {
        if let Some(at) = self.written.remove(&slot.0) {
            self.feedback += u128::from(now.saturating_sub(at).0);
            self.read_back += 1;
        }
    }

    /// The shrinker's rule counts a swap-in.
    pub(super) fn counted(&mut self) {
        self.counted += 1;
    }

    /// Nobody needs the slot any more.
    pub(super) fn gone(&mut self, slot: SwapSlot) {
        if !self.written.is_empty() {
            self.written.remove(&slot.0);
        }
    }

    pub(super) fn means(&self) -> GaugeMeans {
        let over = |sum: u128, of: u128| sum as f64 / of.max(1) as f64;
        GaugeMeans {
            pool: over(self.pool, self.span),
            deferred: over(self.deferred, self.span),
            most_deferred: self.most_deferred,
            shrinkers: over(self.shrinkers, self.busy),
            most_shrinkers: self.most_shrinkers,
            feedback: over(self.feedback, u128::from(self.read_back)) / 1e9,
            counted: over(u128::from(self.counted) * 1_000_000_000, self.span),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedback_is_from_the_write_back_to_the_read_of_the_same_slot() {
        let mut gauges = Gauges::default();
        gauges.written_back(SwapSlot(1), Nanos(1_000_000_000));
        gauges.written_back(SwapSlot(2), Nanos(1_000_000_000));
        gauges.written_back(SwapSlot(3), Nanos(1_000_000_000));
        gauges.gone(SwapSlot(2));
        gauges.read(SwapSlot(2), Nanos(9_000_000_000));
        gauges.read(SwapSlot(1), Nanos(2_000_000_000));
        gauges.read(SwapSlot(1), Nanos(9_000_000_000));
        gauges.read(SwapSlot(3), Nanos(4_000_000_000));
        assert_eq!(gauges.means().feedback, 2.0);
    }
}
