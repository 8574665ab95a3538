//! What a task runs.

use neap_units::{Bytes, Nanos, PageNr};

use crate::kernel::{FileId, Kernel, MemcgId, SpaceId};
use crate::workload::Rng;

/// A load or store at a page of the context's space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch(u64);

impl Touch {
    /// Of this page.
    #[inline]
    #[must_use]
    pub fn new(page: PageNr, write: bool) -> Touch {
        Touch(page.0 << 1 | u64::from(write))
    }

    /// Which page.
    #[inline]
    #[must_use]
    pub fn page(self) -> PageNr {
        PageNr(self.0 >> 1)
    }

    /// Whether it is a store.
    #[inline]
    #[must_use]
    pub fn write(self) -> bool {
        self.0 & 1 != 0
    }
}

/// What a task does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The touches put down in [`Context::touches`], one after the other.
    Touches,
    /// Work of its own.
    Compute(Nanos),
    /// Nothing until then.
    SleepUntil(Nanos),
    /// Nothing until then, as a shell that runs `sleep`: a new program is put on the node with most idle CPUs,
    /// and wakes who waits for it there. Which that is is asked at the end.
    RunUntil(Nanos),
    /// `read()` or `write()` of one page of a file, on behalf of [`Context::space`].
    FileIo {
        /// Which file.
        file: FileId,
        /// Which page of it.
        page: PageNr,
        /// `write()`.
        write: bool,
        /// Opened or advised NOREUSE.
        no_reuse: bool,
    },
    /// A write to `memory.reclaim`.
    Reclaim {
        /// Of this cgroup.
        memcg: MemcgId,
        /// How much.
        bytes: Bytes,
    },
    /// The end.
    Exit,
}

/// Numbers that tasks of one machine share: a queue of work, what was done, who waits for whom.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shared {
    values: Vec<u64>,
}

impl Shared {
    /// Makes a number.
    pub fn make(&mut self, value: u64) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    /// The number `at` (0 if it was never made).
    #[must_use]
    pub fn get(&self, at: usize) -> u64 {
        self.values.get(at).copied().unwrap_or(0)
    }

    /// Adds to the number `at` and returns what it was.
    pub fn add(&mut self, at: usize, n: u64) -> u64 {
        self.values.get_mut(at).map_or(0, |value| {
            let before = *value;
            *value = before.saturating_add(n);
            before
        })
    }

    /// Takes one off the number `at`; false when it is 0.
    pub fn take(&mut self, at: usize) -> bool {
        let value = self.values.get_mut(at).filter(|value| **value > 0);
        value.map(|value| *value -= 1).is_some()
    }
}

/// What a program sees when it is asked for its next step.
pub struct Context<'a> {
    /// Time.
    pub now: Nanos,
    /// The kernel, for what takes no time of its own: mapping, forking, ending spaces. Their CPU time
    /// goes to [`Context::system`].
    pub kernel: &'a mut Kernel,
    /// The task's random numbers.
    pub rng: &'a mut Rng,
    /// The machine's shared numbers.
    pub shared: &'a mut Shared,
    /// Empty when the program is asked; what [`Step::Touches`] does.
    pub touches: &'a mut Vec<Touch>,
    /// The space of touches and file reads; set it before either.
    pub space: &'a mut Option<SpaceId>,
    /// CPU time of the task between touches.
    pub pace: &'a mut Nanos,
    /// System time spent while putting the step together.
    pub system: &'a mut Nanos,
    /// Whether the last `memory.reclaim` gave up (EAGAIN).
    pub again: bool,
}

/// A task's behaviour: asked for one step after the other.
pub trait Program: Send {
    /// The next step.
    fn step(&mut self, cx: &mut Context<'_>) -> Step;

    /// The task was killed for want of memory; its space is already ended. By default that is the end;
    /// a program that goes on (a job of a parallel build that is started anew) says so.
    fn killed(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touch_keeps_page_and_kind() {
        let touch = Touch::new(PageNr(1 << 40), true);
        assert_eq!((touch.page(), touch.write()), (PageNr(1 << 40), true));
    }

    #[test]
    fn shared_numbers_are_a_queue_of_work() {
        let mut shared = Shared::default();
        let jobs = shared.make(2);
        assert!(shared.take(jobs) && shared.take(jobs) && !shared.take(jobs));
        assert_eq!(shared.add(jobs, 3), 0);
        assert_eq!((shared.get(jobs), shared.get(9)), (3, 0));
    }
}
