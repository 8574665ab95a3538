//! A job that does little but wait for its pages: who watches it is to know why, while it runs.

/// Time that is looked at as a whole: 10 s, in nanoseconds. Shorter ones may be the change from one phase to the next.
const WINDOW: u64 = 10_000_000_000;
/// Faults in each second of it that waited for pages which were out: at some 15 us each, a third of the time of one
/// thread.
const RATE: u64 = 20_000;

/// How many faults wait.
#[derive(Debug, Default)]
pub(super) struct Strain {
    /// Start of the window, and how many had waited by then.
    since: u64,
    before: u64,
}

impl Strain {
    /// Takes note of how many have waited so far. True at the end of a window in which they were too many.
    pub fn note(&mut self, now: u64, faults: u64) -> bool {
        let took = now - self.since;
        if took < WINDOW {
            return false;
        }
        let waited = faults.saturating_sub(self.before);
        let first = self.since == 0;
        (self.since, self.before) = (now, faults);
        !first && waited >= took / 1_000_000 * RATE / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Looks ten times a second for so many seconds.
    fn tells(seconds: u64, rate: u64) -> bool {
        let mut strain = Strain::default();
        (0..=seconds * 10)
            .any(|tenth| strain.note((1_000 + tenth / 10) * SECOND, tenth * rate / 10))
    }

    #[test]
    fn a_job_that_waits_for_its_pages_is_told_of() {
        assert!(tells(11, RATE));
        assert!(tells(300, RATE + RATE / 2));
    }

    #[test]
    fn one_that_gets_on_or_ends_soon_is_not() {
        assert!(!tells(300, RATE / 2));
        assert!(!tells(9, RATE * 4));
    }

    #[test]
    fn what_came_back_before_the_first_look_does_not_count() {
        assert!(!Strain::default().note(1_000 * SECOND, 1 << 40));
    }
}
