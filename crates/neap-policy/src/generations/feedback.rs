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
