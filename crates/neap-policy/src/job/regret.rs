//! Whether what generations hold is in use, told by what becomes of those who had to leave them.

/// Evictions after which older ones count half.
const LATELY: u32 = 256;

/// Pages that left from generations lately, and those of them that came back while others, which stayed, could have
/// made room for them. Nothing is seen of a page that stays: what happens to its like must speak for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Regret {
    left: u32,
    back: u32,
}

impl Regret {
    pub(super) fn left(&mut self) {
        self.left += 1;
        if self.left >= LATELY {
            (self.left, self.back) = (self.left / 2, self.back / 2);
        }
    }

    pub(super) fn came_back(&mut self) {
        self.back = self.left.min(self.back + 1);
    }

    /// Most of those that left came back.
    pub(super) fn is_great(self) -> bool {
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
        assert!(!regret(2 * LATELY, 0, long).is_great());
        let never = regret(10_000, 0, Regret::default());
        assert!(regret(2 * LATELY, 4, never).is_great());
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
