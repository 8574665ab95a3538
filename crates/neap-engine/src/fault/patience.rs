//! Whether something is done for each fault that pays only where nobody else wants the cpu: it is tried, judged by how
//! long a thread had to wait for its cpu, and left alone for ever longer where that was too long.

use neap_sys::CpuTime;
use neap_tuning::TUNING;

/// How soon it is given up, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// Whether a thread waited too long.
    pub too_long: fn(&Span) -> bool,
    /// Faults of a trial, after a time of being left alone.
    pub trial: u32,
    /// Looks for which it is left after the first trial that failed, and how many times as many after each further one.
    pub least_left: u32,
    pub growth: u32,
}

/// The cpu time of the fault thread so far, and that of a thread that it serves.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub tid: u32,
    pub own: CpuTime,
    pub its: CpuTime,
}

/// What happened between two looks.
pub(super) struct Span {
    pub faults: u32,
    /// Faults and events that came from other threads than the one that is served, of all that came.
    pub strangers: u32,
    /// The fault thread's time, and that of the thread it serves.
    pub own: CpuTime,
    pub its: CpuTime,
}

pub(super) struct Patience {
    terms: Terms,
    /// Faults until the next look, and how many they were.
    until: u32,
    faults: u32,
    /// What came from other threads since the last look.
    strangers: u32,
    /// The times at the last look, if it was done all the time since then.
    then: Option<Times>,
    /// Looks for which it is left still, and from the next time on.
    left: u32,
    next: u32,
    /// It was left, and has not paid since.
    trial: bool,
}

impl Patience {
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            until: 0,
            faults: terms.trial,
            strangers: 0,
            then: None,
            left: 0,
            next: terms.least_left,
            trial: true,
        }
    }

    /// Counts a fault. Whether it is time for a look.
    pub fn is_due(&mut self) -> bool {
        let due = self.until == 0;
        self.until = self.until.saturating_sub(1);
        due
    }

    /// A look: the times so far.
    pub fn look(&mut self, now: Option<Times>) {
        let both = now.zip(self.then).filter(|(now, then)| now.tid == then.tid);
        let span = both.map(|(now, then)| Span {
            faults: self.faults,
            strangers: self.strangers,
            own: now.own.since(then.own),
            its: now.its.since(then.its),
        });
        self.then = now;
        self.strangers = 0;
        let too_long = span.as_ref().map(self.terms.too_long);
        match too_long {
            _ if self.left > 0 => self.left -= 1,
            Some(true) => self.fail(),
            Some(false) => {
                if self.faults == TUNING.faults.judged_every {
                    self.next = self.terms.least_left;
                }
                self.trial = false;
            }
            None => {}
        }
        let tries = self.trial && self.left == 0;
        self.faults = if tries {
            self.terms.trial
        } else {
            TUNING.faults.judged_every
        };
        self.until = self.faults - 1;
    }

    /// So much came from other threads than the one that is served.
    pub fn note_strangers(&mut self, count: u32) {
        self.strangers = self.strangers.saturating_add(count);
    }

    /// It is not done from here on, or was not until here: what comes until the next look says nothing.
    pub fn interrupt(&mut self) {
        self.then = None;
    }

    /// It is done from here on: a trial begins with a look.
    pub fn begin(&mut self) {
        self.then = None;
        if self.trial {
            self.until = 0;
        }
    }

    /// It did not pay.
    pub fn fail(&mut self) {
        if self.left == 0 {
            // A look that is due soon would end the pause before it has begun.
            (self.faults, self.until) =
                (TUNING.faults.judged_every, TUNING.faults.judged_every - 1);
            self.left = self.next;
            self.trial = true;
            self.next = (self.next * self.terms.growth).min(TUNING.faults.left_at_most);
        }
    }

    /// Whether it is done.
    pub fn keeps(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: u32 = 16;
    const LEAST_LEFT: u32 = 4;

    const TERMS: Terms = Terms {
        too_long: |span| span.its.waited > 50_000 * span.faults as u64,
        trial: TRIAL,
        least_left: LEAST_LEFT,
        growth: 4,
    };

    fn patience() -> Patience {
        Patience::new(TERMS)
    }

    fn waited(waited: u64) -> Option<Times> {
        Some(Times {
            tid: 1,
            own: CpuTime::default(),
            its: CpuTime { ran: 0, waited },
        })
    }

    /// Faults out of so many for which the thread is kept, where each kept one waits for `wait` nanoseconds.
    fn kept(faults: u32, wait: impl Fn(u32) -> u64) -> u32 {
        let (mut patience, mut so_far, mut kept) = (patience(), 0, 0);
        for fault in 0..faults {
            if patience.is_due() {
                patience.look(waited(so_far));
            }
            if patience.keeps() {
                kept += 1;
                so_far += wait(fault);
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
    fn a_trial_that_begins_late_is_judged_as_soon() {
        let mut patience = patience();
        patience.fail();
        for fault in 0.. {
            if patience.is_due() {
                patience.look(waited(0));
                patience.interrupt(); // something else keeps it from being done
            }
            if patience.keeps() {
                assert!(fault <= LEAST_LEFT * TUNING.faults.judged_every, "{fault}");
                break;
            }
        }
        patience.begin();
        let trial = (0..u64::MAX).take_while(|fault| {
            if patience.is_due() {
                patience.look(waited(fault * 3_000_000));
            }
            patience.keeps()
        });
        assert_eq!(trial.count(), TRIAL as usize);
    }

    #[test]
    fn what_fails_between_two_looks_is_left_for_whole_ones() {
        let mut patience = Patience::new(Terms {
            least_left: 1,
            ..TERMS
        });
        let mut kept_until = |failing: u32| {
            for fault in 0..10 * TUNING.faults.judged_every {
                if patience.is_due() {
                    patience.look(waited(0));
                }
                if fault == failing {
                    patience.fail();
                }
                if fault > failing && patience.keeps() {
                    return fault - failing;
                }
            }
            10 * TUNING.faults.judged_every
        };
        assert_eq!(kept_until(5), TUNING.faults.judged_every, "in a trial");
    }

    #[test]
    fn where_nothing_is_known_it_is_kept() {
        let mut patience = patience();
        for _ in 0..10_000 {
            if patience.is_due() {
                patience.look(None);
            }
            assert!(patience.keeps());
        }
    }
}
