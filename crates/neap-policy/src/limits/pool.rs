//! Limits of the compressed pool: the hysteresis of the pool as a whole (SPEC 1.3) and
//! the limit of one owner, `memory.zswap.max` (SPEC 1.4).

use neap_units::{Bytes, Pages};

/// Whether the pool takes pages: full at the limit, open again at the accept
/// threshold. In between the answer depends on where the pool came from, so that a
/// pool at its limit does not flap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolGate {
    max: Pages,
    threshold: Pages,
    reached_full: bool,
    limit_hits: u64,
}

impl PoolGate {
    /// A pool of at most `max` pages that opens again at `accept_threshold_percent` of
    /// them (kernel default: 90).
    #[must_use]
    pub fn new(max: Pages, accept_threshold_percent: u8) -> PoolGate {
        let product = u128::from(max.0) * u128::from(accept_threshold_percent);
        PoolGate {
            max,
            threshold: Pages(u64::try_from(product / 100).unwrap_or(u64::MAX)),
            reached_full: false,
            limit_hits: 0,
        }
    }

    /// Moves the limit. Whether stores are refused is seen at the next check.
    pub fn set_max(&mut self, max: Pages, accept_threshold_percent: u8) {
        let moved = PoolGate::new(max, accept_threshold_percent);
        (self.max, self.threshold) = (moved.max, moved.threshold);
    }

    /// Checks the pool, which now holds `pool` pages. Returns whether it takes a page.
    pub fn check(&mut self, pool: Pages) -> bool {
        if pool >= self.max {
            self.limit_hits += 1;
            self.reached_full = true;
        } else if self.reached_full && pool <= self.threshold {
            self.reached_full = false;
        }
        !self.reached_full
    }

    /// The checks before compression, of a pool that now holds `pool` pages. A page that its owner's limit keeps out is no
    /// check of the pool: it moves no flag and counts no hit. `allowed`: the owner is below its limit.
    pub fn admit(&mut self, allowed: bool, pool: Pages) -> Admission {
        match allowed {
            false => Admission::OwnerLimit,
            true if self.check(pool) => Admission::Admitted,
            true => Admission::PoolFull,
        }
    }

    /// Whether stores are refused since the pool was full (kernel: pool_reached_full).
    #[inline]
    #[must_use]
    pub fn reached_full(&self) -> bool {
        self.reached_full
    }

    /// Whether the pool is down to the accept threshold: where the pool worker stops.
    #[inline]
    #[must_use]
    pub fn below_threshold(&self, pool: Pages) -> bool {
        pool <= self.threshold
    }

    /// Checks that found the pool at its limit (kernel: pool_limit_hit).
    #[inline]
    #[must_use]
    pub fn limit_hits(&self) -> u64 {
        self.limit_hits
    }

    /// The limit.
    #[inline]
    #[must_use]
    pub fn max(&self) -> Pages {
        self.max
    }

    /// The accept threshold.
    #[inline]
    #[must_use]
    pub fn threshold(&self) -> Pages {
        self.threshold
    }
}

/// What the checks before compression say of a page (SPEC 1.4, 1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may come.
    Admitted,
    /// Its owner is at `memory.zswap.max`.
    OwnerLimit,
    /// The pool is or was full.
    PoolFull,
}

/// Whether an owner may store, given its compressed bytes and its `memory.zswap.max` (`None`: "max") at each level from
/// itself up to below the root. A check before compression, not a reservation: one store may overshoot.
#[must_use]
pub fn zswap_max_allows(levels: impl IntoIterator<Item = (Bytes, Option<Pages>)>) -> bool {
    let allows =
        |(used, max): (Bytes, Option<Pages>)| max.is_none_or(|max| used.whole_pages() < max);
    levels.into_iter().all(allows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_owner_at_its_limit_is_refused_before_the_pool_is_looked_at() {
        let mut gate = PoolGate::new(Pages(1000), 90);
        assert_eq!(gate.admit(false, Pages(1000)), Admission::OwnerLimit);
        assert!(!gate.reached_full() && gate.limit_hits() == 0);
        assert_eq!(gate.admit(true, Pages(999)), Admission::Admitted);
        assert_eq!(gate.admit(true, Pages(1000)), Admission::PoolFull);
        assert_eq!(gate.admit(false, Pages(900)), Admission::OwnerLimit);
        assert!(gate.reached_full() && gate.limit_hits() == 1);
        assert_eq!(gate.admit(true, Pages(900)), Admission::Admitted);
    }

    #[test]
    fn the_gate_closes_at_the_limit_and_opens_at_the_threshold() {
        let mut gate = PoolGate::new(Pages(1000), 90);
        assert_eq!((gate.max(), gate.threshold()), (Pages(1000), Pages(900)));
        assert!(gate.check(Pages(999)), "rising: accept up to the limit");
        assert!(!gate.check(Pages(1000)));
        assert!(
            !gate.check(Pages(901)),
            "falling: refuse until the threshold"
        );
        assert!(gate.reached_full() && !gate.below_threshold(Pages(901)));
        assert!(gate.below_threshold(Pages(900)));
        assert!(gate.check(Pages(900)));
        assert!(gate.check(Pages(999)));
        assert_eq!(gate.limit_hits(), 1);
    }

    #[test]
    fn a_limit_that_moves_keeps_what_was_counted() {
        let mut gate = PoolGate::new(Pages(100), 90);
        assert!(!gate.check(Pages(100)));
        gate.set_max(Pages(200), 90);
        assert_eq!((gate.max(), gate.threshold()), (Pages(200), Pages(180)));
        assert!(gate.check(Pages(100)) && gate.limit_hits() == 1);
        gate.set_max(Pages(50), 90);
        assert!(!gate.check(Pages(100)));
    }

    #[test]
    fn percentages_truncate_and_huge_limits_do_not_overflow() {
        assert_eq!(PoolGate::new(Pages(19), 90).threshold(), Pages(17));
        assert_eq!(
            PoolGate::new(Pages(u64::MAX), 100).threshold(),
            Pages(u64::MAX)
        );
        assert!(
            !PoolGate::new(Pages(0), 90).check(Pages(0)),
            "a pool of nothing is full"
        );
    }

    #[test]
    fn each_level_has_its_say() {
        let page = |n: u64| Bytes(n * 4096);
        let at_most = |n| Some(Pages(n));
        assert!(zswap_max_allows([]));
        assert!(zswap_max_allows([(page(5), None), (page(5), at_most(6))]));
        assert!(!zswap_max_allows([(page(5), None), (page(6), at_most(6))]));
        assert!(
            !zswap_max_allows([(page(0), at_most(0))]),
            "zero refuses at once"
        );
        assert!(
            zswap_max_allows([(Bytes(6 * 4096 - 1), at_most(6))]),
            "bytes round down"
        );
    }

    proptest! {
        /// Refusals happen exactly while the flag is set; the flag rises only at the
        /// limit and falls only at the threshold.
        #[test]
        fn the_flag_has_hysteresis(walk in prop::collection::vec(0u64..120, 0..200), percent in 0u8..=100) {
            let mut gate = PoolGate::new(Pages(100), percent);
            let mut full = false;
            for pool in walk {
                if pool >= 100 {
                    full = true;
                } else if pool <= u64::from(percent) {
                    full = false;
                }
                prop_assert_eq!(gate.check(Pages(pool)), !full);
                prop_assert_eq!(gate.reached_full(), full);
            }
        }
    }
}
