//! The way in begins here: one thread for each armed space waits for its faults and events.
//!
//! It reads under the exclusive gate, applies events at once, and then serves the faults under the
//! shared one. It stays on the cpu of the thread it serves: a wake-up that crosses cpus costs many
//! times what the fault itself does.

mod serve;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_sys::{Event, Stop};
use neap_units::PageNr;

use crate::job::Job;
use crate::load::Loader;
use crate::space::{FreshRun, Space};

/// A thread of the program waits for this page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub page: PageNr,
    pub write: bool,
    pub protected: bool,
    pub thread: u32,
}

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Filled, or somebody else is about to: that one wakes the thread.
    Done,
    /// The address space is changing, or memory must be reclaimed first: again, after the events.
    Later,
}

/// Faults between two looks at where the program's thread runs.
const FOLLOW_EVERY: u32 = 32;
/// Longest sleep: a forked child without an agent ends without a word.
const IDLE_NANOS: u64 = 1_000_000_000;
/// Pause before faults that had to wait are tried again.
const RETRY_NANOS: u64 = 100_000;

/// Faults wait for reclaim.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Since when without progress, in nanoseconds of the monotonic clock.
    since: u64,
    /// Bytes that reclaim had freed then.
    freed: u64,
}

pub(crate) struct FaultThread {
    job: Arc<Job>,
    space: Arc<Space>,
    loader: Loader,
    fresh: FreshRun,
    waiting: VecDeque<Fault>,
    held: Option<Held>,
    cpu: Option<usize>,
    until_follow: u32,
}

impl FaultThread {
    pub fn new(job: Arc<Job>, space: Arc<Space>) -> Self {
        Self {
            loader: Loader::new(&job),
            job,
            space,
            fresh: FreshRun::default(),
            waiting: VecDeque::new(),
            held: None,
            cpu: None,
            until_follow: 0,
        }
    }

    pub fn run(mut self) {
        neap_sys::block_signals();
        neap_sys::raise_priority();
        while !self.space.is_dead() {
            let limit = if self.waiting.is_empty() {
                IDLE_NANOS
            } else {
                RETRY_NANOS
            };
            let space = self.space.clone();
            let ready =
                neap_sys::wait_readable(&[space.uffd.as_fd(), space.bell.as_fd()], Some(limit));
            if ready.is_err() {
                break;
            }
            if ready.is_ok_and(|bits| bits == 0) && self.waiting.is_empty() {
                self.look_for_life();
                continue;
            }
            self.read();
            self.serve_all();
        }
        self.job.drop_space(&self.space);
    }

    /// Takes what there is. Faults wait in the queue until the gate is free again.
    fn read(&mut self) {
        let _gate = self.space.gate.write().expect("gate");
        self.space.quiesce(&self.job);
        let (space, job, waiting) = (&self.space, &self.job, &mut self.waiting);
        let read = space.uffd.read_events(|event| match event {
            Event::Fault {
                address,
                write,
                protected,
                thread,
            } => {
                let page = PageNr::containing(address);
                // A signal makes a thread ask again for what it waits for already.
                let known = |fault: &Fault| (fault.page, fault.protected) == (page, protected);
                if !waiting.iter().any(known) {
                    waiting.push_back(Fault {
                        page,
                        write,
                        protected,
                        thread,
                    });
                }
            }
            other => space.apply(job, other),
        });
        if read.is_err() {
            self.space.set_dead();
        }
    }

    fn serve_all(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(fault) = self.waiting.pop_front() else {
                break;
            };
            self.follow(fault.thread);
            self.job.events.pgfault.fetch_add(1, Relaxed);
            if self.serve(fault) == Served::Later {
                self.waiting.push_back(fault);
            }
        }
    }

    /// Runs where the faulting thread runs.
    fn follow(&mut self, thread: u32) {
        if self.until_follow == 0 {
            if let Some(body) = self.space.body.get() {
                self.cpu = neap_sys::follow_cpu_of(body.pid, thread, self.cpu);
            }
            self.until_follow = FOLLOW_EVERY;
        }
        self.until_follow -= 1;
    }

    /// A forked child without an agent says nothing when it ends: a fill tells.
    fn look_for_life(&self) {
        if self.space.body.get().is_none()
            && self.space.uffd.zero(0x1000..0x2000).stop == Some(Stop::Dead)
        {
            self.space.set_dead();
        }
    }
}
