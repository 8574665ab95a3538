//! Whether waiting for reclaim is worth while: the one judge of it.
//!
//! Faults that would take the job over its limit wait while the supply [`Flows`](Supply::Flows). Where
//! nothing comes for a while it is [`Stuck`](Supply::Stuck): over the limit is better than a program that
//! stands still. And it is [`Dry`](Supply::Dry), which is told, when a whole round over what is resident was
//! compressed and hardly any of it taken, which a fast program may bring about within tenths of a second; or
//! when nothing came for a long time; or when the job got far over its limit while it was stuck.
//!
//! Time alone never decides: a busy machine may keep reclaim from its work for tenths of a second, so as
//! many passes must have been made in vain.

use neap_tuning::TUNING;
use neap_units::{Nanos, Pages};

/// Whether memory comes to those who wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Supply {
    /// Waiting helps.
    Flows,
    /// Nothing comes, for now.
    Stuck,
    /// Nothing is left to reclaim.
    Dry,
}

/// What one pass of reclaim achieved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Pages that went to the store.
    pub stored: Pages,
    /// How many of them other processes still have: that frees nothing yet.
    pub vain: Pages,
    /// Pages that no store will take.
    pub refused: Pages,
    /// Pages moved to staging, or blocks were emptied.
    pub moved: bool,
}

/// What a pass is judged by, beside what it achieved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// The time of the monotonic clock.
    pub now: Nanos,
    /// Pages that the programs hold.
    pub resident: Pages,
    /// Passes that it takes to try everything once.
    pub round: u64,
    /// Pages written back since the start.
    pub written: Pages,
    /// Write-back is at work or asked for: a disk may merely be slow.
    pub writing: bool,
    /// Some agent is late or stopped: not everything could be tried.
    pub late: bool,
    /// The job takes more than its limit and what is allowed to a burst.
    pub far_over: bool,
}

/// What the passes so far have come to.
#[derive(Debug)]
pub struct Outlook {
    /// Fewer pages than this are a trickle, on which a program would hardly live.
    batch: Pages,
    supply: Supply,
    /// Pages stored and refused in this round.
    stored: Pages,
    refused: Pages,
    /// When memory came last, and the passes and pages since.
    progress: Nanos,
    passes: u64,
    came: Pages,
    /// When somebody was late last, and the passes since: before, not everything could be tried.
    hampered: Nanos,
    tried: u64,
    /// Some pass since then moved pages.
    moved: bool,
    /// Pages written back by then.
    written: Pages,
    /// Times that waiting was in vain lately.
    halvings: u32,
    /// Since when the job is far over its limit and nothing comes.
    over_since: Option<Nanos>,
    /// Found dry since reclaim began to work.
    over: bool,
}

impl Outlook {
    /// Memory flows. Reclaim takes `batch` pages at a time.
    #[must_use]
    pub fn new(batch: Pages) -> Self {
        Self {
            batch,
            supply: Supply::Flows,
            stored: Pages::ZERO,
            refused: Pages::ZERO,
            progress: Nanos::ZERO,
            passes: 0,
            came: Pages::ZERO,
            hampered: Nanos::ZERO,
            tried: 0,
            moved: false,
            written: Pages::ZERO,
            halvings: 0,
            over_since: None,
            over: false,
        }
    }

    /// Reclaim begins to work at `now`. Until [`Outlook::relieve`] a drought goes on.
    pub fn begin(&mut self, now: Nanos) {
        if self.supply != Supply::Dry {
            self.supply = Supply::Flows;
        }
        (self.stored, self.refused) = (Pages::ZERO, Pages::ZERO);
        self.over = false;
        self.rest(now);
    }

    /// Nothing is wanted of reclaim any more: what comes next is another matter.
    pub fn relieve(&mut self) {
        self.supply = Supply::Flows;
    }

    /// Whether all was tried in vain since reclaim began to work.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Takes note of a pass, and says how things stand.
    pub fn judge(&mut self, pass: &Pass, look: &Look) -> Supply {
        self.came += pass.stored - pass.vain;
        self.came += look.written.saturating_sub(self.written);
        self.written = look.written;
        if look.late {
            (self.hampered, self.tried, self.over_since) = (look.now, 0, None);
        } else {
            self.tried += 1;
            self.stored += pass.stored;
            self.refused += pass.refused;
        }
        if self.ends_round(look.resident) {
            self.runs_dry();
        } else if self.came >= self.batch {
            self.comes(pass, look.now);
        } else {
            self.passes += 1;
            self.moved |= pass.moved;
            self.nothing_comes(look);
        }
        self.supply
    }

    /// Whether a whole round is over, and was not worth its work.
    fn ends_round(&mut self, resident: Pages) -> bool {
        if self.refused + self.stored < resident.max(Pages(1)) {
            return false;
        }
        let worth = is_worth(self.stored, self.refused);
        (self.stored, self.refused) = (Pages::ZERO, Pages::ZERO);
        !worth
    }

    /// A page here and there does not end a drought.
    fn comes(&mut self, pass: &Pass, now: Nanos) {
        if self.supply != Supply::Dry || is_worth(pass.stored, pass.refused) {
            self.supply = Supply::Flows;
            self.halvings = self.halvings.saturating_sub(1);
            self.rest(now);
        }
    }

    fn runs_dry(&mut self) {
        (self.supply, self.over) = (Supply::Dry, true);
    }

    fn rest(&mut self, now: Nanos) {
        (self.progress, self.passes, self.came) = (now, 0, Pages::ZERO);
        (self.moved, self.over_since) = (false, None);
    }

    fn nothing_comes(&mut self, look: &Look) {
        let vain = look.now.saturating_sub(self.progress);
        let slow = look.writing || look.late;
        let (long, passes) = match slow {
            true => (vain > TUNING.reclaim.slow, self.passes),
            // Who was stopped and goes on is to be tried first.
            false => {
                let free = look.now - self.progress.max(self.hampered).min(look.now);
                (free > TUNING.reclaim.fruitless, self.passes.min(self.tried))
            }
        };
        if long && passes > TUNING.reclaim.patience + look.round {
            self.runs_dry();
        }
        match self.supply {
            Supply::Dry => {}
            Supply::Flows => {
                let tried = !self.moved && !look.late;
                let wait = match tried {
                    true => TUNING.reclaim.still,
                    false => TUNING.reclaim.in_vain,
                };
                if vain > wait / (1 << self.halvings)
                    && self.passes >= TUNING.reclaim.few_passes
                    && !look.writing
                {
                    self.halvings = (self.halvings + 1).min(TUNING.reclaim.halvings);
                    self.supply = Supply::Stuck;
                }
            }
            Supply::Stuck if !look.far_over || look.late => self.over_since = None,
            Supply::Stuck => {
                let since = *self.over_since.get_or_insert(look.now);
                if look.now.saturating_sub(since) > TUNING.reclaim.over && !slow {
                    self.runs_dry();
                }
            }
        }
    }
}

/// Whether what was stored was worth the work for what was refused.
fn is_worth(stored: Pages, refused: Pages) -> bool {
    stored.0 > TUNING.reclaim.worth.of(refused.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LOOK: Look = Look {
        now: Nanos::ZERO,
        resident: Pages(10_000),
        round: 20,
        written: Pages::ZERO,
        writing: false,
        late: false,
        far_over: false,
    };

    fn pass(stored: u64, refused: u64, moved: bool) -> Pass {
        Pass {
            stored: Pages(stored),
            vain: Pages::ZERO,
            refused: Pages(refused),
            moved,
        }
    }

    fn outlook() -> Outlook {
        let mut outlook = Outlook::new(Pages(64));
        outlook.begin(Nanos::ZERO);
        outlook
    }

    /// Passes until the supply is as given; one takes `step` nanoseconds.
    fn passes_to(supply: Supply, pass: &Pass, step: u64, look: Look) -> Option<u64> {
        let mut outlook = outlook();
        (1..20_000).find(|i| {
            let look = Look {
                now: Nanos(i * step),
                ..look
            };
            outlook.judge(pass, &look) == supply
        })
    }

    #[test]
    fn a_round_that_nothing_takes_is_the_last_however_fast() {
        let fast = passes_to(Supply::Dry, &pass(0, 500, true), 1, LOOK);
        assert_eq!(fast, Some(20));
    }

    #[test]
    fn a_page_here_and_there_does_not_change_that() {
        assert!(passes_to(Supply::Dry, &pass(1, 499, true), 1, LOOK).is_some());
    }

    #[test]
    fn one_page_in_thirty_two_is_worth_the_work() {
        let worth = pass(16, 496, true);
        assert_eq!(passes_to(Supply::Dry, &worth, 1, LOOK), None);
        assert_eq!(passes_to(Supply::Stuck, &worth, MS, LOOK), None);
    }

    #[test]
    fn a_trickle_holds_nobody_on() {
        let trickle = pass(1, 0, true);
        assert_eq!(passes_to(Supply::Stuck, &trickle, 2 * MS, LOOK), Some(51));
        assert_eq!(
            passes_to(Supply::Stuck, &trickle, MS, LOOK),
            None,
            "64 in 64 ms"
        );
    }

    #[test]
    fn what_moves_in_vain_lets_faults_through_and_is_given_up_later() {
        let vain = pass(0, 0, true);
        assert_eq!(passes_to(Supply::Stuck, &vain, MS, LOOK), Some(101));
        assert_eq!(passes_to(Supply::Dry, &vain, MS, LOOK), Some(2001));
        assert_eq!(passes_to(Supply::Dry, &vain, 1, LOOK), None, "no time");
    }

    #[test]
    fn who_waits_is_let_through_where_all_that_leaves_is_with_others_too() {
        let shared = Pass {
            vain: Pages(255),
            ..pass(256, 0, true)
        };
        assert!(passes_to(Supply::Stuck, &shared, 5 * MS, LOOK).is_some());
        let own = pass(256, 0, true);
        assert_eq!(passes_to(Supply::Stuck, &own, 5 * MS, LOOK), None);
    }

    #[test]
    fn where_nothing_moves_it_takes_less() {
        let still = pass(0, 0, false);
        assert_eq!(passes_to(Supply::Stuck, &still, MS, LOOK), Some(21));
    }

    #[test]
    fn a_machine_that_stood_still_is_no_reason() {
        let still = pass(0, 0, false);
        let long = 10 * TUNING.reclaim.fruitless.0;
        assert_eq!(
            passes_to(Supply::Stuck, &still, long, LOOK),
            Some(TUNING.reclaim.few_passes)
        );
        let all = TUNING.reclaim.patience + LOOK.round + 1;
        assert_eq!(passes_to(Supply::Dry, &still, long, LOOK), Some(all));
    }

    #[test]
    fn a_slow_disk_is_waited_for() {
        let waits = pass(0, 0, false);
        let busy = Look {
            writing: true,
            far_over: true,
            ..LOOK
        };
        assert_eq!(passes_to(Supply::Stuck, &waits, MS, busy), None);
        assert_eq!(passes_to(Supply::Dry, &waits, MS, busy), Some(10_001));
    }

    #[test]
    fn who_does_not_let_go_for_a_while_is_waited_for() {
        let late = Look {
            late: true,
            far_over: true,
            ..LOOK
        };
        let still = pass(0, 0, false);
        assert_eq!(passes_to(Supply::Stuck, &still, MS, late), Some(101));
        assert_eq!(passes_to(Supply::Dry, &still, MS, late), Some(10_001));
    }

    /// Passes of 1 ms, of which somebody is late in the first `late` of every `of`.
    fn stopped_and_continued(late: u64, of: u64, pass: &Pass, passes: u64) -> bool {
        let mut outlook = outlook();
        (1..passes).any(|i| {
            let look = Look {
                now: Nanos(i * MS),
                late: i % of < late,
                far_over: true,
                ..LOOK
            };
            outlook.judge(pass, &look) == Supply::Dry
        })
    }

    #[test]
    fn who_is_stopped_and_goes_on_again_and_again_is_not_judged_by_the_time_it_stood() {
        let still = pass(0, 0, false);
        assert!(!stopped_and_continued(60, 100, &still, 9_000));
        assert!(stopped_and_continued(60, 200, &still, 9_000), "in between");
        assert!(!stopped_and_continued(3_000, 3_040, &still, 3_040));
    }

    #[test]
    fn what_others_refuse_while_one_is_stopped_makes_no_round() {
        let refused = pass(0, 500, true);
        assert!(!stopped_and_continued(90, 100, &refused, 110));
        assert!(stopped_and_continued(90, 100, &refused, 400));
    }

    #[test]
    fn a_drought_ends_when_nothing_is_wanted_any_more() {
        let mut outlook = outlook();
        assert_eq!(outlook.judge(&pass(0, 10_000, true), &LOOK), Supply::Dry);
        outlook.relieve();
        outlook.begin(Nanos(1));
        assert_eq!(outlook.judge(&pass(0, 0, true), &LOOK), Supply::Flows);
    }

    #[test]
    fn a_page_written_back_begins_the_time_anew() {
        let mut outlook = outlook();
        for i in 0..20_000 {
            let look = Look {
                now: Nanos(i * MS),
                written: Pages(i),
                writing: true,
                ..LOOK
            };
            assert_eq!(outlook.judge(&pass(0, 0, false), &look), Supply::Flows);
        }
    }

    #[test]
    fn far_over_the_limit_is_told_soon() {
        let over = Look {
            far_over: true,
            ..LOOK
        };
        let dry = passes_to(Supply::Dry, &pass(0, 0, false), MS, over);
        assert_eq!(dry, Some(21 + 51 + 1));
    }

    #[test]
    fn each_wait_in_vain_makes_the_next_shorter_and_progress_makes_it_longer() {
        let mut outlook = outlook();
        let at = |now| Look {
            now: Nanos(now),
            ..LOOK
        };
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..10 {
            let start = now;
            while outlook.supply == Supply::Flows {
                now += MS / 100;
                outlook.judge(&pass(0, 0, true), &at(now));
            }
            waits.push((now - start).div_ceil(MS));
            outlook.begin(Nanos(now));
        }
        assert_eq!(waits, [101, 51, 26, 13, 7, 4, 2, 2, 2, 2]);
        for _ in 0..TUNING.reclaim.halvings {
            outlook.judge(&pass(64, 0, true), &at(now));
        }
        assert_eq!(outlook.halvings, 0);
    }

    #[test]
    fn a_drought_ends_with_a_pass_that_is_worth_its_work() {
        let mut outlook = outlook();
        assert_eq!(outlook.judge(&pass(0, 10_000, true), &LOOK), Supply::Dry);
        outlook.begin(Nanos(1));
        assert_eq!(outlook.judge(&pass(0, 64, true), &LOOK), Supply::Dry);
        assert_eq!(outlook.judge(&pass(1, 64, true), &LOOK), Supply::Dry);
        assert_eq!(outlook.judge(&pass(8, 56, true), &LOOK), Supply::Dry);
        assert_eq!(outlook.judge(&pass(64, 0, true), &LOOK), Supply::Flows);
    }
}
