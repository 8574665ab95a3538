//! Whether the thread that is served is kept on its cpu while it is woken. That saves a wake-up across cpus; but where
//! others want that cpu it waits behind them, though another may be free sooner.

/// A thread that waits longer for its cpu than this for each fault, in nanoseconds, is left where the kernel wakes it.
const LONG_WAIT: u64 = 50_000;
/// Faults of a trial, after a time of being left alone.
const TRIAL: u32 = 16;
/// Faults between two looks otherwise.
const LOOK: u32 = 256;
/// Looks for which it is left alone: four times as many after each trial that failed.
const LEAST_LEFT: u32 = 4;
const MOST_LEFT: u32 = 1024;

pub(super) struct Patience {
    /// Faults until the next look, and how many they were.
    until: u32,
    faults: u32,
    /// How long the thread had waited for a cpu at the last look, in nanoseconds.
    waited: Option<u64>,
    /// Looks for which it is left alone still, and from the next time on.
    left: u32,
    next: u32,
}

impl Patience {
    pub fn new() -> Self {
        Self {
            until: 0,
            faults: TRIAL,
            waited: None,
            left: 0,
            next: LEAST_LEFT,
        }
    }

    /// Counts a fault. Whether it is time for a look.
    pub fn is_due(&mut self) -> bool {
        let due = self.until == 0;
        self.until = self.until.saturating_sub(1);
        due
    }

    /// A look: how long the thread has waited so far. `same`: as the thread of the last look.
    pub fn look(&mut self, waited: Option<u64>, same: bool) {
        let since = waited.zip(self.waited).filter(|_| same);
        self.waited = waited;
        self.faults = if self.left > 0 {
            self.left -= 1;
            if self.left == 0 { TRIAL } else { LOOK }
        } else {
            let most = LONG_WAIT * u64::from(self.faults);
            if since.is_some_and(|(now, then)| now.saturating_sub(then) > most) {
                self.left = self.next;
                self.next = (self.next * 4).min(MOST_LEFT);
            } else if since.is_some() {
                self.next = LEAST_LEFT;
            }
            LOOK
        };
        self.until = self.faults - 1;
    }

    /// Whether the thread is kept.
    pub fn keeps(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults out of so many for which the thread is kept, where each kept one waits for `wait` nanoseconds.
    fn kept(faults: u32, wait: impl Fn(u32) -> u64) -> u32 {
        let (mut patience, mut waited, mut kept) = (Patience::new(), 0, 0);
        for fault in 0..faults {
            if patience.is_due() {
                patience.look(Some(waited), true);
            }
            if patience.keeps() {
                kept += 1;
                waited += wait(fault);
            }
        }
        kept
    }

    #[test]
    fn who_does_not_wait_is_kept() {
        assert_eq!(kept(100_000, |_| 5_000), 100_000);
    }

    #[test]
    fn who_waits_is_kept_ever_more_rarely() {
        let all = kept(1_000_000, |_| 3_000_000);
        assert!((TRIAL..800).contains(&all), "{all}");
    }

    #[test]
    fn who_waits_no_longer_is_kept_again() {
        let all = kept(100_000, |fault| if fault < 2_000 { 3_000_000 } else { 0 });
        assert!(all > 90_000, "{all}");
    }

    #[test]
    fn where_nothing_is_known_it_is_kept() {
        let mut patience = Patience::new();
        for _ in 0..10_000 {
            if patience.is_due() {
                patience.look(None, true);
            }
            assert!(patience.keeps());
        }
    }
}
