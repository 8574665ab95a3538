//! A task: its program, what is left of its step, and what its time went to.

use neap_units::Nanos;

use super::program::{Program, Touch};
use crate::kernel::SpaceId;
use crate::workload::Rng;

/// What a task's time went to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Its own work.
    pub user: Nanos,
    /// The kernel's work for it.
    pub system: Nanos,
    /// Sleeping in the kernel: for I/O, or throttled.
    pub stalled: Nanos,
}

impl Times {
    /// Adds another task's.
    pub fn add(&mut self, other: Times) {
        self.user += other.user;
        self.system += other.system;
        self.stalled += other.stalled;
    }
}

/// Times of a task, and when it began and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskTimes {
    /// What its time went to.
    pub times: Times,
    /// When it was started.
    pub started: Nanos,
    /// When it ended, if it did.
    pub ended: Option<Nanos>,
    /// Times it was killed for want of memory.
    pub kills: u64,
}

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Waits for a CPU, or has one.
    Ready,
    /// Sleeps by its own wish.
    Asleep,
    /// Sleeps in the kernel since then.
    Stalled(Nanos),
    /// Is over.
    Ended,
}

/// What is left of a task's step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// Nothing: ask the program.
    Nothing,
    /// A kernel entry goes on.
    Kernel,
    /// Touches from this one on.
    Touches(usize),
    /// Work.
    Compute(Nanos),
}

pub(super) struct Task {
    /// Taken out while it is asked.
    pub(super) program: Option<Box<dyn Program>>,
    pub(super) rng: Rng,
    pub(super) state: State,
    pub(super) left: Left,
    /// The touch the kernel works on is this one; after it comes the next.
    pub(super) touches: Vec<Touch>,
    pub(super) at: usize,
    pub(super) space: Option<SpaceId>,
    pub(super) pace: Nanos,
    pub(super) again: bool,
    /// The machine runs on while one of these is not over.
    pub(super) awaited: bool,
    /// The node it last ran on, unless it is to be placed anew.
    pub(super) node: Option<u32>,
    pub(super) times: TaskTimes,
}

impl Task {
    pub(super) fn new(program: Box<dyn Program>, rng: Rng, start: Nanos, awaited: bool) -> Task {
        Task {
            program: Some(program),
            rng,
            state: State::Asleep,
            left: Left::Nothing,
            touches: Vec::new(),
            at: 0,
            space: None,
            pace: Nanos::ZERO,
            again: false,
            awaited,
            node: None,
            times: TaskTimes {
                started: start,
                ..TaskTimes::default()
            },
        }
    }
}
