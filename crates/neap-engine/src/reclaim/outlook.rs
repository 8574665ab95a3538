//! Whether anything can still be reclaimed.
//!
//! Either a whole round over what is resident was compressed and hardly any of it taken, which a
//! fast program may bring about within tenths of a second; or nothing left the programs for a long
//! time although everything was tried (pinned, locked, shared); or nobody has let go for a long time.

use super::Pass;

/// Of a whole round, the share that must be stored for reclaim to be worth its work: 1/64.
const WORTH: u64 = 64;
/// Fruitless passes, beyond those that try everything once, after which nothing is left to reclaim.
const PATIENCE: u64 = 100;
/// Passes, each with its pause, in which everybody rests, after which nobody will give any more.
const LONGEST_REST: u64 = 5000;
/// Time without a page stored after which nothing is left to reclaim: 2 s, in nanoseconds. A busy machine may
/// keep reclaim from its work for tenths of a second.
const FRUITLESS_FOR: u64 = 2_000_000_000;

/// Whether what was stored was worth the work for what was refused.
pub(super) fn is_worth(stored: u64, refused: u64) -> bool {
    stored > refused / WORTH
}

/// What the passes since reclaim began have come to.
pub(super) struct Outlook {
    /// Pages stored and refused in this round.
    stored: u64,
    refused: u64,
    /// Passes in a row that found somebody to take from, and stored nothing.
    fruitless: u64,
    /// Passes in a row that found nobody.
    resting: u64,
    /// When a page was stored last, in nanoseconds.
    progress: u64,
}

impl Outlook {
    pub fn new(now: u64) -> Self {
        Self {
            stored: 0,
            refused: 0,
            fruitless: 0,
            resting: 0,
            progress: now,
        }
    }

    /// Takes note of a pass. `resident`: pages that the programs hold. `round`: passes that it takes
    /// to try everything once. True: nothing is left to reclaim.
    pub fn is_bleak(&mut self, pass: &Pass, resident: u64, round: u64, now: u64) -> bool {
        self.stored += pass.stored;
        self.refused += pass.refused;
        if pass.stored > 0 {
            (self.fruitless, self.resting, self.progress) = (0, 0, now);
        } else if pass.tried {
            (self.fruitless, self.resting) = (self.fruitless + 1, 0);
        } else {
            self.resting += 1;
        }
        if self.refused + self.stored >= resident.max(1) {
            let worth = is_worth(self.stored, self.refused);
            (self.stored, self.refused) = (0, 0);
            if !worth {
                return true;
            }
        }
        // Not while the swap file is merely slow.
        let long = now - self.progress > FRUITLESS_FOR;
        long && self.fruitless > PATIENCE + round || self.resting > LONGEST_REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESIDENT: u64 = 10_000;
    const ROUND: u64 = 20;

    fn pass(stored: u64, refused: u64, tried: bool) -> Pass {
        Pass {
            stored,
            refused,
            moved: true,
            tried,
        }
    }

    /// Passes until the outlook is bleak; one takes `step` nanoseconds.
    fn passes(pass: &Pass, step: u64) -> Option<u64> {
        let mut outlook = Outlook::new(0);
        (1..20_000).find(|i| outlook.is_bleak(pass, RESIDENT, ROUND, i * step))
    }

    #[test]
    fn a_round_that_nothing_takes_is_the_last_however_fast() {
        assert_eq!(passes(&pass(0, 500, true), 1), Some(RESIDENT / 500));
    }

    #[test]
    fn a_page_here_and_there_does_not_change_that() {
        assert!(passes(&pass(1, 499, true), 1).is_some());
    }

    #[test]
    fn one_page_in_thirty_two_is_worth_the_work() {
        assert_eq!(passes(&pass(16, 496, true), 1), None);
    }

    #[test]
    fn what_moves_in_vain_is_given_up_after_all_was_tried_and_time_passed() {
        let fruitless = PATIENCE + ROUND + 1;
        assert_eq!(passes(&pass(0, 0, true), FRUITLESS_FOR), Some(fruitless));
        assert_eq!(passes(&pass(0, 0, true), 1), None);
        let step = FRUITLESS_FOR / 1000;
        assert_eq!(passes(&pass(0, 0, true), step), Some(1001));
    }

    #[test]
    fn where_everybody_rests_patience_ends_by_passes() {
        assert_eq!(passes(&pass(0, 0, false), 1), Some(LONGEST_REST + 1));
    }

    #[test]
    fn one_stored_page_begins_the_time_anew() {
        let mut outlook = Outlook::new(0);
        for i in 0..2000 {
            let stored = u64::from(i % 100 == 0);
            assert!(!outlook.is_bleak(
                &pass(stored, 0, true),
                RESIDENT,
                ROUND,
                i * FRUITLESS_FOR / 200
            ));
        }
    }
}
