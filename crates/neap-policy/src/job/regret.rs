//! Whether what generations hold is in use, told by what becomes of those who had to leave them.

use neap_tuning::TUNING;

/// Pages that left from generations lately, and those of them that came back while others, which stayed, could have
/// made room for them. Nothing is seen of a page that stays: what happens to its like must speak for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Regret {
    left: u32,
    back: u32,
    /// Pages kept out of generations since the last trial.
    kept_out: u64,
    /// Evictions until the trial ends.
    trial: u64,
}

impl Regret {
    pub(super) fn left(&mut self) {
        self.trial = self.trial.saturating_sub(1);
        self.left += 1;
        if self.left >= TUNING.picking.lately {
            (self.left, self.back) = (self.left / 2, self.back / 2);
        }
    }

    pub(super) fn came_back(&mut self) {
        self.back = self.left.min(self.back + 1);
    }

    /// Whether a page is to be kept out of generations, of which there are so many pages. Now and then none is, until
    /// all have been turned over once: those that are in use may be kept from leaving by younger ones that are not.
    pub(super) fn keeps_out(&mut self, settled: u64) -> bool {
        self.trial = self.trial.min(settled); // there may be fewer by now
        let keeps = self.trial == 0 && self.is_great();
        if keeps {
            self.kept_out += 1;
            if self.kept_out > settled * TUNING.picking.between_trials {
                (self.kept_out, self.trial) = (0, settled);
            }
        }
        keeps
    }

    /// Most of those that left came back.
    fn is_great(self) -> bool {
        self.back * 2 > self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regret(evictions: u32, back_of_four: u32, mut regret: Regret) -> Regret {
        for at in 0..evictions {
            regret.left();
            if at % 4 < back_of_four {
                regret.came_back();
            }
        }
        regret
    }

    #[test]
    fn it_is_great_if_most_come_back() {
        assert!(!Regret::default().is_great());
        for evictions in [8, 200, 1_000, 100_000] {
            let is_great = |of_four| regret(evictions, of_four, Regret::default()).is_great();
            assert_eq!([0, 1, 3, 4].map(is_great), [false, false, true, true]);
        }
    }

    #[test]
    fn what_is_long_ago_counts_less() {
        let long = regret(10_000, 4, Regret::default());
        assert!(!regret(2 * TUNING.picking.lately, 0, long).is_great());
        let never = regret(10_000, 0, Regret::default());
        assert!(regret(2 * TUNING.picking.lately, 4, never).is_great());
    }

    #[test]
    fn now_and_then_all_are_turned_over() {
        let mut great = regret(1_000, 4, Regret::default());
        let kept_out = (0..1_000).take_while(|_| great.keeps_out(100)).count();
        assert_eq!(kept_out, 201);
        for _ in 0..100 {
            assert!(!great.keeps_out(100));
            great.left();
            great.came_back();
        }
        assert!(great.keeps_out(100), "they came back");
    }

    #[test]
    fn more_come_back_than_left_lately_after_a_pause() {
        let mut late = Regret::default();
        (0..10_000).for_each(|_| late.came_back());
        assert!(!late.is_great());
        late.left();
        assert!(!late.is_great());
    }
}
