//! Refault feedback of generations (SPEC 3.8): which tiers to evict, which kind first.

use super::MIN_LRU_BATCH;
use crate::folio::Kind;
use crate::switches::Lru;

/// Tiers of a generation (SPEC 0).
pub(crate) const MAX_NR_TIERS: usize = 4;

/// Counters of one kind: those of the generation under eviction, and the moving averages
/// of those before.
#[derive(Clone, Copy, Default)]
pub(crate) struct Feedback {
    pub(crate) refaulted: [u64; MAX_NR_TIERS],
    pub(crate) evicted: [u64; MAX_NR_TIERS],
    pub(crate) protected: [u64; MAX_NR_TIERS],
    avg_refaulted: [u64; MAX_NR_TIERS],
    avg_total: [u64; MAX_NR_TIERS],
}

/// Refaults out of evictions, with a gain.
#[derive(Clone, Copy, Debug)]
struct Position {
    refaulted: u64,
    total: u64,
    gain: u64,
}

impl Feedback {
    /// A generation is retired: averages take its counters in.
    pub(crate) fn carry_over(&mut self) {
        for tier in 0..MAX_NR_TIERS {
            let total = self.evicted[tier] + self.protected[tier];
            self.avg_refaulted[tier] = (self.avg_refaulted[tier] + self.refaulted[tier]) / 2;
            self.avg_total[tier] = (self.avg_total[tier] + total) / 2;
            (
                self.refaulted[tier],
                self.evicted[tier],
                self.protected[tier],
            ) = (0, 0, 0);
        }
    }

    fn position(&self, tier: usize, gain: u64) -> Position {
        Position {
            refaulted: self.avg_refaulted[tier] + self.refaulted[tier],
            total: self.avg_total[tier] + self.evicted[tier] + self.protected[tier],
            gain,
        }
    }

    fn sum(&self, gain: u64) -> Position {
        (0..MAX_NR_TIERS).fold(
            Position {
                refaulted: 0,
                total: 0,
                gain,
            },
            |sum, tier| {
                let at = self.position(tier, gain);
                Position {
                    refaulted: sum.refaulted + at.refaulted,
                    total: sum.total + at.total,
                    gain,
                }
            },
        )
    }

    /// Highest tier to evict.
    pub(crate) fn tier_limit(&self, lru: Lru) -> usize {
        let (base, gain) = match lru {
            Lru::Mglru614 => (2, 3),
            _ => (1, 2),
        };
        let a = self.position(0, base);
        let fails = |&tier: &usize| !not_worse(a, self.position(tier, gain));
        (1..MAX_NR_TIERS).find(fails).unwrap_or(MAX_NR_TIERS) - 1
    }
}

/// Whether B is not worse than A.
fn not_worse(a: Position, b: Position) -> bool {
    let wide = u128::from;
    b.refaulted < MIN_LRU_BATCH
        || wide(b.refaulted) * wide(a.total + MIN_LRU_BATCH) * wide(a.gain)
            <= wide(a.refaulted + 1) * wide(b.total) * wide(b.gain)
}

/// Which kind to evict from first, by the feedback and the oldest generation of each.
pub(crate) fn kind_to_scan(
    feedback: &[Feedback; 2],
    oldest: [u64; 2],
    swappiness: u8,
    lru: Lru,
) -> Kind {
    let [anon, file] = oldest;
    let rework = lru == Lru::Mglru614;
    match swappiness {
        0 => return Kind::File,
        1 if rework => return Kind::File,
        _ if !rework && anon < file => return Kind::Anon,
        _ if !rework && file < anon => return Kind::File,
        1 => return Kind::File,
        200 => return Kind::Anon,
        _ => {}
    }
    let [anon, file] = feedback;
    let (low, high) = (u64::from(swappiness), 200 - u64::from(swappiness));
    let better = if rework {
        not_worse(anon.sum(low), file.sum(high))
    } else {
        not_worse(anon.position(0, low), file.position(0, high))
    };
    if better { Kind::File } else { Kind::Anon }
}

/// Tier for accesses through descriptors beyond the first (SPEC 3.5): 0, 1, 2-3, 4 give
/// 0, 1, 2, 3.
pub(crate) fn tier_of(refs: u32) -> usize {
    (u32::BITS - refs.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(refaulted: u64, total: u64, gain: u64) -> Position {
        Position {
            refaulted,
            total,
            gain,
        }
    }

    #[test]
    fn few_refaults_are_never_worse() {
        assert!(not_worse(position(0, 0, 200), position(63, 63, 1)));
        assert!(!not_worse(position(0, 0, 200), position(64, 64, 1)));
    }

    #[test]
    fn shares_are_compared_by_gain() {
        // 10 % against 20 %: worse at equal gain, not with a gain of more than two.
        let a = position(1000, 10_000, 1);
        assert!(!not_worse(a, position(2000, 10_000, 1)));
        assert!(
            !not_worse(a, position(2000, 10_000, 2)),
            "the margin of 64 evictions"
        );
        assert!(not_worse(a, position(1980, 10_000, 2)));
    }

    /// Refaults and evictions of each tier, of one kind.
    fn feedback(tiers: &[(u64, u64)]) -> Feedback {
        let mut feedback = Feedback::default();
        for (tier, &(refaulted, evicted)) in tiers.iter().enumerate() {
            feedback.refaulted[tier] = refaulted;
            feedback.evicted[tier] = evicted;
        }
        feedback
    }

    #[test]
    fn tiers_are_spared_whose_share_is_twice_or_half_again_that_of_the_first() {
        // A tenth of the first tier comes back; with the margin of 64 evictions a bit less than twice that passes in 6.3,
        // and a bit less than 1.5 times from 6.14 on.
        for (second, of_6_3, of_6_14) in [
            (1000, 3, 3),
            (1490, 3, 3),
            (1500, 3, 0),
            (1980, 3, 0),
            (2000, 0, 0),
        ] {
            let found = feedback(&[(1000, 10_000), (second, 10_000)]);
            let limits = [Lru::Mglru63, Lru::Mglru614].map(|lru| found.tier_limit(lru));
            assert_eq!(limits, [of_6_3, of_6_14], "{second}");
        }
        // The first tier that fails ends it, and too few refaults say nothing.
        let found = feedback(&[(1000, 10_000), (63, 63), (3000, 10_000), (0, 10_000)]);
        assert_eq!(found.tier_limit(Lru::Mglru63), 1);
        let found = feedback(&[(0, 10_000), (64, 64)]);
        assert_eq!(found.tier_limit(Lru::Mglru63), 0);
        assert_eq!(feedback(&[]).tier_limit(Lru::Mglru614), 3);
    }

    #[test]
    fn the_kind_to_scan_goes_by_swappiness_age_and_refaults() {
        let (old, new) = (Lru::Mglru63, Lru::Mglru614);
        let even = [feedback(&[(1000, 10_000)]); 2];
        let scan = |oldest, swappiness, lru| kind_to_scan(&even, oldest, swappiness, lru);
        // Swappiness 0 is files, whatever else; 1 is files unless, in 6.3, anonymous generations are older.
        for lru in [old, new] {
            assert_eq!(scan([0, 9], 0, lru), Kind::File);
            assert_eq!(scan([3, 3], 1, lru), Kind::File);
            assert_eq!(scan([3, 3], 200, lru), Kind::Anon);
        }
        assert_eq!(scan([0, 9], 1, old), Kind::Anon);
        assert_eq!(scan([0, 9], 1, new), Kind::File);
        // In 6.3 the older kind goes first even with swappiness 200; from 6.14 on ages do not matter.
        assert_eq!(scan([9, 0], 200, old), Kind::File);
        assert_eq!(scan([9, 0], 200, new), Kind::Anon);
        assert_eq!(scan([0, 9], 60, old), Kind::Anon);
        // Of equal age: files, unless they come back 140 / 60 times as often.
        for (files, want) in [(1000, Kind::File), (2320, Kind::File), (2322, Kind::Anon)] {
            let found = [feedback(&[(1000, 10_000)]), feedback(&[(files, 10_000)])];
            for lru in [old, new] {
                assert_eq!(kind_to_scan(&found, [3, 3], 60, lru), want, "{files} {lru}");
            }
        }
        // 6.3 looks at the first tier, 6.14 at the sum of all.
        let files = feedback(&[(0, 0), (9000, 10_000)]);
        let found = [feedback(&[(1000, 10_000)]), files];
        assert_eq!(kind_to_scan(&found, [3, 3], 60, old), Kind::File);
        assert_eq!(kind_to_scan(&found, [3, 3], 60, new), Kind::Anon);
    }

    #[test]
    fn averages_halve_with_each_generation() {
        let mut feedback = Feedback::default();
        feedback.refaulted[1] = 80;
        feedback.evicted[1] = 100;
        feedback.protected[1] = 60;
        feedback.carry_over();
        let at = feedback.position(1, 1);
        assert_eq!((at.refaulted, at.total), (40, 80));
        feedback.carry_over();
        let at = feedback.position(1, 1);
        assert_eq!((at.refaulted, at.total), (20, 40));
        feedback.evicted[0] = 5;
        assert_eq!(feedback.sum(1).total, 45);
    }
}
