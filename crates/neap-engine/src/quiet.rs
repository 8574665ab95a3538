//! For how long a process has done nothing, as its processor time tells: what `neap top` shows as idle.
//!
//! The sampler looks every few seconds, and whoever asks for figures looks, too. No page is looked at.

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

impl Quiet {
    /// A look at its processor time. One that comes right after another says nothing.
    fn look(&self, now: u64, ran: u64) {
        let mut last = self.0.lock();
        let since = match *last {
            Some(last) if now < last.time + TUNING.idle.look.0 => return,
            Some(last) if ran.saturating_sub(last.ran) <= TUNING.idle.share.of(now - last.time) => {
                last.since
            }
            _ => now,
        };
        *last = Some(Look {
            time: now,
            ran,
            since,
        });
    }

    /// For how long it has done nothing.
    fn lasts(&self, now: u64) -> Nanos {
        let last = *self.0.lock();
        Nanos(last.map_or(0, |last| now.saturating_sub(last.since)))
    }
}

impl Job {
    /// Looks at the processor time of each process.
    pub fn look_for_quiet(&self, spaces: &[Arc<Space>]) {
        for space in spaces {
            let body = space.body.get().filter(|body| !body.is_left());
            if let Some(ran) = body.and_then(|body| body.process.cpu_nanos()) {
                space.quiet.look(neap_sys::monotonic_nanos(), ran);
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

    #[test]
    fn a_process_is_quiet_since_its_processor_time_stands_still() {
        const SECOND: u64 = 1_000_000_000;
        let quiet = Quiet::default();
        assert_eq!(quiet.lasts(SECOND), Nanos(0), "nobody has looked");
        // It works for three seconds, and then wakes for a moment in each.
        let mut ran = 0;
        for second in 10..20 {
            ran += if second < 13 { SECOND } else { SECOND / 100 };
            quiet.look(second * SECOND, ran);
            quiet.look(second * SECOND + 1, ran + 1);
        }
        assert_eq!(quiet.lasts(20 * SECOND), Nanos(8 * SECOND));
        quiet.look(20 * SECOND, ran + SECOND / 10);
        assert_eq!(quiet.lasts(20 * SECOND), Nanos(0), "it works again");
    }
}
