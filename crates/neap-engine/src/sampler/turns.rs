//! Who looks when a look is due.
//!
//! The sampler goes ahead of every ordinary thread (SCHED_FIFO) where it may, so that a busy machine does not keep it.
//! But such a thread wakes on the cpu where it slept, also where another is idle, and a kernel without preemption
//! (PREEMPT_NONE) takes no cpu from a call at work in it: `read` of what is in the page cache in large folios kept
//! it for 24 ms, in which 60 MiB came that nothing had registered. So until memory is registered, and fresh pages wait
//! for themselves, a second thread sleeps on another cpu, and looks where the first is late.

use std::time::Duration;

use neap_sys::Lock;
use neap_tuning::TUNING;

use super::Sampler;
use crate::job::Job;

/// Looks whenever a look is due, and whenever it is rung for.
pub(crate) fn sample(job: &Job, sampler: &Lock<Sampler, 1>) {
    neap_sys::block_signals();
    let ahead = neap_sys::raise_to_realtime();
    sampler.lock().ahead = Some(ahead);
    let mut rung = true;
    while !job.is_stopping() {
        let pause = {
            let mut sampler = sampler.lock();
            sampler.look(rung, 0);
            let here = Some(neap_sys::this_cpu());
            if std::mem::replace(&mut sampler.cpu, here) != here {
                job.deputy.ring(); // it is not to sleep there
            }
            sampler.pause(0)
        };
        rung = job.sampler.wait(pause);
    }
}

/// Stands in for the sampler where that is late, until memory is registered. Not for one that is an ordinary thread,
/// which wakes on an idle cpu if there is one.
pub(crate) fn deputise(job: &Job, sampler: &Lock<Sampler, 1>) {
    neap_sys::block_signals();
    neap_sys::raise_to_realtime();
    while !job.is_stopping() {
        let cpu = {
            let mut sampler = sampler.lock();
            if sampler.ahead == Some(false) || sampler.registered {
                return;
            }
            if sampler.cpu.is_some() {
                sampler.look(false, TUNING.looks.late.0); // before, nothing has grown yet
            }
            sampler.cpu
        };
        let Some(cpu) = cpu else {
            job.deputy.wait(TUNING.looks.deputy_sleep.duration());
            continue;
        };
        // Without the lock: the cpu it goes to may be kept just now.
        job.keeper.leave(cpu);
        let pause = sampler.lock().pause(TUNING.looks.late.0);
        job.deputy.wait(pause);
    }
}

impl Sampler {
    /// Looks if that was due so long ago, in nanoseconds, or is asked for.
    fn look(&mut self, asked: bool, ago: u64) {
        if asked || self.pause(ago).is_zero() {
            let next = self.tick();
            self.due = neap_sys::monotonic_nanos() + next.0;
        }
    }

    /// The time until a look will have been due for so long.
    fn pause(&self, ago: u64) -> Duration {
        let then = self.due + ago;
        Duration::from_nanos(then.saturating_sub(neap_sys::monotonic_nanos()))
    }
}
