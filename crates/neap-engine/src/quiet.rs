//! For how long a process has done nothing, as its processor time tells: what `neap top` shows as idle, and what `--idle` goes by.
//!
//! The sampler looks every few seconds. With `--idle` its thread looks as often as that needs, and whoever asks for figures looks,
//! too. No page is looked at.

use std::sync::Arc;

use neap_sys::Lock;
use neap_tuning::TUNING;
use neap_units::Nanos;

use crate::group::Group;
use crate::job::Job;
use crate::space::Space;

/// What one process has had of the cpus.
#[derive(Debug, Default)]
pub(crate) struct Quiet(Lock<Option<Look>, 8>);

#[derive(Clone, Copy, Debug)]
struct Look {
    /// When, and the processor time by then, in nanoseconds.
    time: u64,
    ran: u64,
    /// Since when it does nothing.
    since: u64,
}

/// Time between two looks at a process that must do nothing for so long; 0: for no time that anybody has set.
pub(crate) fn look_each(period: Nanos) -> Nanos {
    let each = Nanos(period.0 / TUNING.idle.looks);
    each.clamp(TUNING.idle.look, TUNING.idle.look_at_most)
}

impl Quiet {
    /// Whether so much time has passed since the last look. In less, the work of a timer would be a large share.
    fn is_due(&self, now: u64, each: Nanos) -> bool {
        self.0.lock().is_none_or(|last| now >= last.time + each.0)
    }

    /// A look at its processor time.
    fn look(&self, now: u64, ran: u64) {
        let mut last = self.0.lock();
        let rests = |last: &Look| {
            let passed = now.saturating_sub(last.time);
            ran.saturating_sub(last.ran) <= TUNING.idle.share.of(passed)
        };
        let since = last.filter(rests).map_or(now, |last| last.since);
        *last = Some(Look {
            time: now,
            ran,
            since,
        });
    }

    /// It was stopped by others and goes on: it is to do nothing for long again.
    pub fn begin_anew(&self, now: u64) {
        if let Some(last) = &mut *self.0.lock() {
            (last.time, last.since) = (now, now);
        }
    }

    /// When it was looked at last.
    pub fn looked(&self) -> Option<Nanos> {
        self.0.lock().map(|last| Nanos(last.time))
    }

    /// For how long it has done nothing.
    pub fn lasts(&self, now: u64) -> Nanos {
        let last = *self.0.lock();
        Nanos(last.map_or(0, |last| now.saturating_sub(last.since)))
    }
}

impl Job {
    /// Looks at the processor time of each process, unless somebody has just done so.
    pub fn look_for_quiet(&self, spaces: &[Arc<Space>]) {
        for space in spaces {
            let now = neap_sys::monotonic_nanos();
            if !space.quiet.is_due(now, look_each(space.group.idle())) {
                continue;
            }
            let body = space.body.get().filter(|body| !body.is_left());
            if let Some(ran) = body.and_then(|body| body.process.cpu_nanos()) {
                space.quiet.look(now, ran);
            }
        }
    }

    /// For how long no process of a group, or of one below it, has done anything; 0 if there is none.
    pub fn idle_for(&self, group: &Group) -> Nanos {
        let now = neap_sys::monotonic_nanos();
        let spaces = self.spaces_of(group);
        let live = spaces.iter().filter(|space| {
            let body = space.body.get();
            !space.is_dead() && body.is_some_and(|body| !body.is_left())
        });
        let lasts = live.map(|space| space.quiet.lasts(now));
        lasts.min().unwrap_or(Nanos(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_process_is_quiet_since_its_processor_time_stands_still() {
        let quiet = Quiet::default();
        assert_eq!(quiet.lasts(SECOND), Nanos(0), "nobody has looked");
        // It works for three seconds, and then wakes for a moment in each.
        let mut ran = 0;
        for second in 10..20 {
            ran += if second < 13 { SECOND } else { SECOND / 100 };
            quiet.look(second * SECOND, ran);
        }
        assert_eq!(quiet.lasts(20 * SECOND), Nanos(8 * SECOND));
        quiet.look(20 * SECOND, ran + SECOND / 10);
        assert_eq!(quiet.lasts(20 * SECOND), Nanos(0), "it works again");
    }

    #[test]
    fn a_process_that_goes_on_is_to_do_nothing_for_long_again() {
        let quiet = Quiet::default();
        quiet.begin_anew(SECOND);
        assert!(quiet.is_due(SECOND, Nanos(SECOND)), "nobody has looked");
        quiet.look(SECOND, 7);
        quiet.look(9 * SECOND, 7);
        quiet.begin_anew(12 * SECOND);
        quiet.look(13 * SECOND, 7);
        assert_eq!(quiet.lasts(14 * SECOND), Nanos(2 * SECOND));
    }

    #[test]
    fn looks_are_as_far_apart_as_a_share_of_the_time_between_them_tells_something() {
        let quiet = Quiet::default();
        let each = [0, 2, 4, 3600].map(|seconds| look_each(Nanos(seconds * SECOND)));
        let apart = [100, 500, 1000, 5000].map(Nanos::millis);
        assert_eq!(each, apart);
        quiet.look(SECOND, 7);
        assert!(!quiet.is_due(2 * SECOND - 1, each[2]));
        assert!(quiet.is_due(2 * SECOND, each[2]));
    }
}
