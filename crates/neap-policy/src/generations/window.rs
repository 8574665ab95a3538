//! The window of generations that exist: opening, leaving behind, evicting.

use crate::folio::Kind;
use crate::switches::Lru;

/// Fewest generations of a kind (SPEC 0). The two youngest are never evicted from: they
/// are what counts as active.
pub(crate) const MIN_NR_GENS: u64 = 2;

/// Most generations of a kind (SPEC 0); two bits name one.
pub(crate) const MAX_NR_GENS: u64 = 4;

/// Folios isolated at once (SPEC 0); fewer refaults say nothing.
pub(crate) const MIN_LRU_BATCH: u64 = 64;

/// Where a generation lies in arrays.
#[inline]
pub(crate) fn index(seq: u64) -> usize {
    (seq % MAX_NR_GENS) as usize
}

/// Sequence numbers of the youngest generation and, by [`Kind`], of the oldest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window<const KINDS: usize> {
    max_seq: u64,
    min_seq: [u64; KINDS],
}

/// Whether lists want a new generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aging {
    /// No.
    Not,
    /// Yes, but what is old can still be evicted.
    Wanted,
    /// Yes: only the two youngest are left.
    Needed,
}

/// When lists with three generations want a fourth (SPEC 3.6).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trigger {
    /// When pages are spread unevenly over them (`Mglru63`).
    Spread(Spread),
    /// Always (`Mglru614`, and `neap run`).
    Edge,
}

/// Sizes that decide whether to age.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Spread {
    /// Pages of the youngest generation.
    pub(crate) young: u64,
    /// Pages of the youngest that may be evicted.
    pub(crate) old: u64,
    pub(crate) total: u64,
}

impl Spread {
    fn is_uneven(&self) -> bool {
        self.young * MIN_NR_GENS > self.total || self.old * (MIN_NR_GENS + 2) < self.total
    }
}

impl<const KINDS: usize> Window<KINDS> {
    /// Four generations.
    pub(crate) fn new() -> Window<KINDS> {
        Window {
            max_seq: MAX_NR_GENS - 1,
            min_seq: [0; KINDS],
        }
    }

    /// The youngest: where a page goes that was seen in use.
    #[inline]
    pub(crate) fn max_seq(&self) -> u64 {
        self.max_seq
    }

    /// The oldest of a kind.
    #[inline]
    pub(crate) fn min_seq(&self, kind: Kind) -> u64 {
        self.min_seq[kind as usize]
    }

    /// Generations of a kind.
    #[inline]
    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.max_seq - self.min_seq(kind) + 1
    }

    /// The two youngest, which count as active.
    #[inline]
    pub(crate) fn active(&self) -> [u64; MIN_NR_GENS as usize] {
        [self.max_seq, self.max_seq - 1]
    }

    /// Whether what lies at a place is one of them.
    #[inline]
    pub(crate) fn is_active(&self, generation: usize) -> bool {
        self.active().map(index).contains(&generation)
    }

    /// The youngest that is not one of them.
    #[inline]
    pub(crate) fn youngest_inactive(&self) -> u64 {
        self.max_seq - MIN_NR_GENS
    }

    /// Sequence number of what lies at a place.
    #[inline]
    pub(crate) fn seq_of(&self, kind: Kind, generation: usize) -> u64 {
        let min = self.min_seq(kind);
        min + (generation as u64).wrapping_sub(min) % MAX_NR_GENS
    }

    /// The generation of a kind to evict from: the oldest, unless it is one of the two
    /// youngest (SPEC 3.7 step 3).
    #[inline]
    pub(crate) fn evictable(&self, kind: Kind) -> Option<u64> {
        (self.count(kind) > MIN_NR_GENS).then_some(self.min_seq(kind))
    }

    /// Whether an eviction round should age first, with `oldest` the oldest generation
    /// it may evict from (SPEC 3.6).
    #[inline]
    pub(crate) fn aging(&self, oldest: u64, trigger: &Trigger) -> Aging {
        let edge = oldest + MIN_NR_GENS;
        if edge > self.max_seq {
            return Aging::Needed;
        }
        let wanted = match trigger {
            Trigger::Edge => true,
            Trigger::Spread(spread) => spread.is_uneven(),
        };
        if edge == self.max_seq && wanted {
            Aging::Wanted
        } else {
            Aging::Not
        }
    }

    /// Opens a youngest generation (kernel: inc_max_seq); no kind may have four. Returns
    /// the one that thereby ceases to be active.
    #[inline]
    pub(crate) fn open(&mut self) -> u64 {
        debug_assert!(
            self.min_seq
                .iter()
                .all(|min| self.max_seq - min + 1 < MAX_NR_GENS)
        );
        self.max_seq += 1;
        self.youngest_inactive()
    }

    /// The oldest of a kind has been folded into the next.
    pub(crate) fn retire(&mut self, kind: Kind) {
        self.min_seq[kind as usize] += 1;
    }

    /// The first generation of a kind that has pages, or else the second youngest (SPEC
    /// 3.7 step 4).
    #[inline]
    pub(crate) fn first_in_use(&self, kind: Kind, is_empty: impl Fn(u64) -> bool) -> u64 {
        let mut seq = self.min_seq(kind);
        while seq + MIN_NR_GENS <= self.max_seq && is_empty(seq) {
            seq += 1;
        }
        seq
    }

    /// Panics unless each kind has two to four generations.
    pub(crate) fn check(&self) {
        for min in self.min_seq {
            let count = self.max_seq - min + 1;
            assert!(
                (MIN_NR_GENS..=MAX_NR_GENS).contains(&count),
                "{count} generations"
            );
        }
    }
}

impl Window<1> {
    /// Leaves generations behind that were found empty up to `reached`.
    #[inline]
    pub(crate) fn leave_until(&mut self, reached: u64) {
        self.min_seq[0] = reached;
    }
}

impl Window<2> {
    /// Leaves generations behind that were found empty up to `reached`; where both kinds
    /// can be evicted, one does not run ahead of the other. Returns which kinds moved.
    pub(crate) fn leave(&mut self, reached: [u64; 2], both: bool, lru: Lru) -> [bool; 2] {
        let (now, mut min) = (self.min_seq, reached);
        let [anon, file] = reached;
        if both && lru == Lru::Mglru614 {
            let seq = self.youngest_inactive();
            match (anon > seq, file > seq) {
                (true, false) if file < seq => min[0] = seq,
                (false, true) if anon < seq => min[1] = seq,
                _ => {}
            }
            min = [min[0].max(now[0]), min[1].max(now[1])];
        } else if both {
            min[0] = anon.min(file);
            min[1] = min[0].max(now[1]);
        }
        self.min_seq = min;
        [min[0] != now[0], min[1] != now[1]]
    }

    /// Whether a refault of a page that left while `seq` was the oldest is recent (SPEC
    /// 3.9).
    pub(crate) fn recent(&self, kind: Kind, seq: u64, lru: Lru) -> bool {
        match lru {
            Lru::Mglru614 => self.max_seq.abs_diff(seq) < MAX_NR_GENS,
            _ => self.min_seq(kind) == seq,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Youngest 9, oldest anonymous 6, oldest of files 7.
    const WINDOW: Window<2> = Window {
        max_seq: 9,
        min_seq: [6, 7],
    };

    #[test]
    fn a_refault_is_recent_in_the_oldest_generation_or_within_four() {
        let recent = |kind, lru| {
            let all = 0..16;
            all.filter(|&seq| WINDOW.recent(kind, seq, lru))
                .collect::<Vec<_>>()
        };
        assert_eq!(recent(Kind::Anon, Lru::Mglru63), [6]);
        assert_eq!(recent(Kind::File, Lru::Mglru63), [7]);
        for kind in Kind::BOTH {
            // A later one would be of a window that wrapped round; as the kernel's, it is within four all the same.
            assert_eq!(recent(kind, Lru::Mglru614), [6, 7, 8, 9, 10, 11, 12]);
        }
    }

    #[test]
    fn lists_age_when_only_two_generations_are_left_and_in_6_3_when_three_are_uneven() {
        let aging = |oldest, trigger| WINDOW.aging(oldest, &trigger);
        let spread = |young, old, total| Trigger::Spread(Spread { young, old, total });
        assert_eq!(aging(8, Trigger::Edge), Aging::Needed);
        assert_eq!(aging(7, Trigger::Edge), Aging::Wanted);
        assert_eq!(aging(6, Trigger::Edge), Aging::Not);
        // More than half of all is young, or less than a quarter is old.
        for (young, old, want) in [
            (50, 25, Aging::Not),
            (51, 25, Aging::Wanted),
            (50, 24, Aging::Wanted),
        ] {
            assert_eq!(aging(7, spread(young, old, 100)), want, "{young} {old}");
            assert_eq!(aging(6, spread(young, old, 100)), Aging::Not);
        }
    }

    #[test]
    fn a_place_holds_the_one_generation_of_four_that_exists() {
        let seqs = |kind| [0, 1, 2, 3].map(|place| WINDOW.seq_of(kind, place));
        assert_eq!(seqs(Kind::Anon), [8, 9, 6, 7]);
        assert_eq!(seqs(Kind::File), [8, 9, 10, 7]);
    }

    #[test]
    fn no_kind_runs_ahead_of_the_other_where_both_can_be_evicted() {
        // Youngest 9, so that 7 is the youngest that is not active.
        let leave = |min_seq, reached, both, lru| {
            let mut window = Window {
                max_seq: 9,
                min_seq,
            };
            let moved = window.leave(reached, both, lru);
            (window.min_seq, moved)
        };
        let new = |reached| leave([6, 6], reached, true, Lru::Mglru614);
        // From 6.14 on the kind that is ahead stays at 7 while the other has not come so far.
        assert_eq!(new([8, 6]), ([7, 6], [true, false]));
        assert_eq!(new([6, 8]), ([6, 7], [false, true]));
        assert_eq!(new([8, 7]), ([8, 7], [true, true]));
        assert_eq!(new([7, 6]), ([7, 6], [true, false]));
        assert_eq!(new([8, 8]), ([8, 8], [true, true]));
        // Before, both are where the older is, and files do not go back.
        let old = |min_seq, reached| leave(min_seq, reached, true, Lru::Mglru63);
        assert_eq!(old([6, 6], [8, 6]), ([6, 6], [false, false]));
        assert_eq!(old([6, 6], [7, 8]), ([7, 7], [true, true]));
        assert_eq!(old([6, 7], [6, 7]), ([6, 7], [false, false]));
        // Where one kind alone can be evicted it goes where it is.
        for lru in [Lru::Mglru63, Lru::Mglru614] {
            assert_eq!(leave([6, 6], [6, 8], false, lru), ([6, 8], [false, true]));
        }
    }
}
