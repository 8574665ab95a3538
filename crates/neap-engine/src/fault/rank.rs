//! How this thread stands to the program's on the cpu that they share.
//!
//! Ahead of them (SCHED_FIFO) it serves at once, wherever others want the cpu; but who is woken finds another cpu
//! idle, and has to be kept from going there. Behind them (SCHED_IDLE) this thread's cpu counts as idle: who is woken
//! stays, takes over at once, and has its next fault served without a wake-up, since this thread has only waited for
//! the cpu. Where others want that cpu it would be served last of all: then it goes ahead.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use neap_tuning::TUNING;

use super::patience::{Patience, Span, Terms, Times};
use super::watch::{Client, Doing, Post};
use crate::job::Job;
use crate::space::Space;

pub(super) struct Rank {
    job: Arc<Job>,
    space: Arc<Space>,
    /// Behind, with this post.
    post: Option<Arc<Post>>,
    patience: Patience,
    /// Faults in a row that came soon, and when the last came.
    burst: u32,
    last: u64,
    woken: u32,
    settled: u32,
}

/// A fault that is served from ahead takes twice as long, so that as much may be lost to others before it pays less. What
/// a trial loses at most, some hundred faults make good: the watch ends it where this thread stands still.
const BEHIND: Terms = Terms {
    too_long: lost_much,
    trial: TUNING.faults.trial,
    least_left: TUNING.faults.behind_left,
    growth: TUNING.faults.left_growth,
};

/// Others than the thread that is served kept this one from the cpu for longer than it needed; or that one did, while
/// others wanted something of it.
fn lost_much(span: &Span) -> bool {
    let minded = u64::from(span.strangers) > TUNING.faults.strangers.of(span.faults.into())
        && span.own.waited > span.own.ran;
    minded || span.own.waited.saturating_sub(span.its.ran) > span.own.ran
}

impl Rank {
    pub fn new(job: &Arc<Job>, space: &Arc<Space>) -> Self {
        Self {
            job: job.clone(),
            space: space.clone(),
            post: None,
            patience: Patience::new(BEHIND),
            burst: 0,
            last: 0,
            woken: 0,
            settled: 0,
        }
    }

    pub fn is_behind(&self) -> bool {
        self.post.is_some()
    }

    /// What this thread does from here on.
    pub fn set(&self, doing: Doing) {
        if let Some(post) = &self.post {
            post.set(doing);
        }
    }

    /// It is about to wake who waits in `range`, as its last act.
    pub fn set_waking(&self, range: Range<u64>) {
        if let Some(post) = &self.post {
            post.set_waking(range);
        }
    }

    /// Faults have come, and this thread had to be woken for them. Whether that may be since the program's thread is
    /// on another cpu.
    pub fn note_woken(&mut self) {
        self.woken += 1;
    }

    /// A fault is about to be served. Whether to look which cpu its thread is on.
    pub fn note_fault(&mut self) -> bool {
        self.set(Doing::Work);
        let now = neap_sys::monotonic_nanos();
        let soon = now.saturating_sub(self.last) < TUNING.faults.soon.0;
        self.burst = if soon { self.burst + 1 } else { 0 };
        self.last = now;
        self.settled = self.settled.saturating_sub(1);
        let strayed = self.is_behind() && self.woken >= TUNING.faults.strayed && self.settled == 0;
        if strayed {
            self.woken = 0;
            self.settled = TUNING.faults.settled;
        }
        strayed
    }

    /// Another fault was there already.
    pub fn note_follows(&mut self) {
        self.woken = 0;
    }

    /// So much came from other threads than the one that is served.
    pub fn note_strangers(&mut self, count: u32) {
        self.patience.note_strangers(count);
    }

    pub fn is_due(&mut self) -> bool {
        self.patience.is_due()
    }

    /// A look at how it went.
    pub fn look(&mut self, now: Option<Times>) {
        self.patience.look(now);
        if !self.is_behind() {
            self.patience.interrupt();
        }
    }

    /// Goes behind, if that is best now. `able`: the program's thread is known to this one, which is bound to its cpu,
    /// and nothing but faults is to be served.
    pub fn choose(&mut self, able: bool) {
        let raised = self.post.as_ref().is_some_and(|post| post.was_raised());
        let behind = able && !raised && self.patience.keeps() && self.burst >= TUNING.faults.burst;
        match behind {
            true if !self.is_behind() => self.go_behind(),
            false if self.is_behind() => self.go_ahead(),
            _ => {}
        }
    }

    fn go_behind(&mut self) {
        let post = Arc::new(Post::new(Box::new(Waiting(self.space.clone()))));
        if !self.job.watch.enter(&post) {
            self.patience.fail(); // it may not, or not yet
            return;
        }
        let went = neap_sys::give_way();
        let raised = post.was_raised(); // in between: it may be nobody's last look
        self.post = Some(post);
        self.patience.begin();
        if !went || raised {
            self.patience.fail();
            self.go_ahead();
        }
    }

    pub fn go_ahead(&mut self) {
        if let Some(post) = self.post.take() {
            neap_sys::raise_to_realtime();
            self.job.watch.leave(&post);
            self.burst = 0;
            self.patience.interrupt();
            if post.was_raised() {
                self.patience.fail();
            }
        }
    }
}

/// A space whose fault thread is behind.
struct Waiting(Arc<Space>);

impl Client for Waiting {
    fn asks(&self) -> bool {
        let uffd = self.0.uffd.as_fd();
        let ready = match &self.0.bell {
            Some(bell) => neap_sys::wait_readable(&[uffd, bell.as_fd()], Some(0)),
            None => neap_sys::wait_readable(&[uffd], Some(0)),
        };
        self.0.is_dead() || ready != 0
    }

    fn wake(&self, range: Range<u64>) {
        let _ = self.0.uffd.wake(range); // the address space is gone
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.go_ahead();
    }
}

#[cfg(test)]
mod tests {
    use neap_sys::CpuTime;

    use super::*;

    /// 256 faults of 9 us, while the program ran for 2 ms.
    fn span(waited: u64, strangers: u32) -> Span {
        Span {
            faults: 256,
            strangers,
            own: CpuTime {
                ran: 2_304_000,
                waited,
            },
            its: CpuTime {
                ran: 2_000_000,
                waited: 0,
            },
        }
    }

    #[test]
    fn as_much_as_it_needs_may_be_lost_to_others() {
        assert!(!lost_much(&span(2_000_000, 0)), "the program's own time");
        assert!(!lost_much(&span(4_300_000, 0)));
        assert!(lost_much(&span(4_310_000, 0)));
    }

    #[test]
    fn less_may_be_lost_where_others_ask_for_something() {
        assert!(!lost_much(&span(2_300_000, 33)));
        assert!(lost_much(&span(2_310_000, 33)));
        assert!(!lost_much(&span(2_310_000, 32)));
    }
}
