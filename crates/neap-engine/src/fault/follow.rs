//! Where the fault thread runs: on the cpu of the thread that it serves, which it keeps there.

use std::sync::atomic::Ordering::Relaxed;

use neap_sys::CpuTime;
use neap_tuning::TUNING;

use super::patience::Times;
use super::{Fault, FaultThread};

impl FaultThread {
    /// Runs where the faulting thread runs.
    pub(super) fn follow(&mut self, fault: &Fault) {
        if fault.tried_at.is_some() {
            return;
        }
        let thread = fault.thread;
        let stranger = self.followed.is_some_and(|(tid, _)| tid != thread);
        let events = std::mem::take(&mut self.inbox.heard);
        self.rank.note_strangers(events + u32::from(stranger));
        let strayed = self.rank.note_fault();
        let keeps = !self.rank.is_behind() && self.patience.is_due();
        let ranks = self.rank.is_due();
        if strayed || keeps || ranks {
            self.followed = self.met(thread);
            if let Some((_, cpu)) = self.followed {
                if neap_sys::pin_to(0, cpu).is_err() {
                    self.followed = None;
                }
                self.space.served_on.store(cpu + 1, Relaxed);
            }
            let times = self.times().filter(|_| keeps || ranks);
            if keeps {
                self.patience.look(times);
            }
            if ranks {
                self.rank.look(times);
            }
        }
        let was_behind = self.rank.is_behind();
        let quiet = !self.held && !fault.protected && !self.space.expects();
        self.rank.choose(self.followed.is_some() && quiet);
        if self.rank.is_behind() != was_behind {
            self.patience.interrupt();
        }
    }

    /// The cpu time of this thread and of the one that is followed.
    fn times(&self) -> Option<Times> {
        let (tid, _) = self.followed?;
        let its = self.space.body.get()?.process.cpu_time(tid)?;
        let own = CpuTime::own()?;
        Some(Times { tid, own, its })
    }

    /// A thread of the program and the cpu it was on, if its number means the same to us.
    fn met(&self, thread: u32) -> Option<(u32, usize)> {
        let body = self.space.body.get()?;
        let cpu = body.process.cpu_of(thread)?;
        body.same_pids.then_some((thread, cpu))
    }

    /// Whether the thread might be woken elsewhere. Where no cpu is idle it stays, and the calls that keep it take a
    /// sixth of a fault; but one that strayed nevertheless is to come back soon.
    pub(super) fn may_stray(&mut self) -> bool {
        let trusts = self.trusted < TUNING.faults.trusted && self.job.crowded.load(Relaxed);
        self.trusted = if trusts { self.trusted + 1 } else { 0 };
        !trusts
    }

    /// Keeps the thread that is followed on this cpu while it is woken.
    pub(super) fn keep(&self, thread: u32) {
        let followed = self.followed.filter(|(tid, _)| *tid == thread);
        if let Some((_, cpu)) = followed.filter(|_| self.ahead && self.patience.keeps()) {
            self.job.keeper.keep_until_woken(thread.cast_signed(), cpu);
        }
    }
}
