//! Threads of a program: what they do, cut where another could come in between.

use std::collections::VecDeque;
use std::ops::Range;

use crate::areas::Prot;
use crate::machine::{Core, SpaceNr, ThreadNr};

/// Something that a program does. Ranges in bytes, whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Reads a page.
    Read(u64),
    /// Writes a value to one of the 512 words of a page.
    Write(u64, usize, u64),
    /// Writes a whole page of what does not compress, from a seed.
    Noise(u64, u64),
    /// mmap with MAP_FIXED.
    Map(Range<u64>, Prot),
    /// munmap.
    Unmap(Range<u64>),
    /// mremap of `from` to `len` bytes where it is; fails if there is no room.
    Resize {
        /// What is there.
        from: Range<u64>,
        /// What is to be.
        len: u64,
    },
    /// mremap to a fixed place, of `len` bytes there.
    Move {
        /// What moves.
        from: Range<u64>,
        /// Where to.
        to: u64,
        /// How much it is there.
        len: u64,
        /// MREMAP_DONTUNMAP.
        stays: bool,
    },
    /// mprotect.
    Protect(Range<u64>, Prot),
    /// madvise(MADV_DONTNEED).
    Discard(Range<u64>),
    /// madvise(MADV_FREE).
    Free(Range<u64>),
    /// mlock, or munlock.
    Lock(Range<u64>, bool),
    /// madvise(MADV_GUARD_INSTALL), or MADV_GUARD_REMOVE.
    Guard(Range<u64>, bool),
    /// madvise(MADV_DONTFORK).
    Keep(Range<u64>),
    /// fork: the child has one thread.
    Fork,
    /// madvise(MADV_POPULATE_WRITE).
    Populate(Range<u64>),
}

/// What came of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The first word of the page that was read.
    Read(u64),
    /// An errno.
    Failed(i32),
    /// SIGSEGV.
    Segv,
    /// SIGBUS.
    Bus,
    /// The child of a fork.
    Child(SpaceNr),
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// There is more to do.
    On,
    /// It waits: for a page, or until something that it told is read.
    Waits,
    /// All is done.
    Idle,
}

/// What a program tells the reader of its userfaultfd.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub from: ThreadNr,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Fault {
        page: u64,
        write: bool,
        protected: bool,
    },
    Fork(SpaceNr),
    Remap {
        from: u64,
        to: u64,
        len: u64,
    },
    Remove(Range<u64>),
    Unmap(Range<u64>),
}

/// One step of an act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Act(Act),
    Touch {
        page: u64,
        how: Touch,
    },
    Tell(What),
    /// What it told was read: it goes on, and from here on the change is over.
    GoOn,
    /// The rest of a madvise.
    Advise {
        range: Range<u64>,
        free: bool,
    },
    /// `told`: when its event was made.
    Zap {
        range: Range<u64>,
        free: bool,
        told: u64,
    },
    End(Outcome),
}

/// An access to one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write(usize, u64),
    Noise(u64),
    /// For writing, and nothing is written.
    Populate,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Waits {
    #[default]
    No,
    /// For this page, by its number.
    Page(u64),
    /// Until what it told is read.
    Reader,
}

#[derive(Debug, Default)]
pub(crate) struct Thread {
    todo: VecDeque<Step>,
    waits: Waits,
    pub outcome: Option<Outcome>,
}

impl Thread {
    pub fn is_idle(&self) -> bool {
        self.todo.is_empty()
    }

    pub fn begin(&mut self, act: Act) {
        self.outcome = None;
        self.todo.push_back(Step::Act(act));
    }

    /// Does this next, in this order.
    pub fn next(&mut self, steps: impl IntoIterator<Item = Step, IntoIter: DoubleEndedIterator>) {
        for step in steps.into_iter().rev() {
            self.todo.push_front(step);
        }
    }

    /// Is woken, if it waits for one of these pages.
    pub fn wake(&mut self, pages: &Range<u64>) {
        if let Waits::Page(page) = self.waits
            && pages.contains(&page)
        {
            self.waits = Waits::No;
        }
    }

    /// Tries again what it waits for.
    pub fn retry(&mut self) {
        if let Waits::Page(_) = self.waits {
            self.waits = Waits::No;
        }
    }

    /// What it told was read.
    pub fn is_heard(&mut self) {
        if self.waits == Waits::Reader {
            self.waits = Waits::No;
        }
    }

    pub fn waits_for(&mut self, page: u64) {
        self.waits = Waits::Page(page);
    }

    pub fn end(&mut self, outcome: Outcome) {
        self.todo.clear();
        self.outcome = Some(outcome);
    }
}

impl Core {
    pub fn step(&mut self, nr: SpaceNr, thread: ThreadNr) -> Ran {
        let me = &mut self.mms[nr.0].threads[thread.0];
        if me.waits != Waits::No {
            return Ran::Waits;
        }
        let Some(step) = me.todo.pop_front() else {
            return Ran::Idle;
        };
        match step {
            Step::Act(act) => self.act(nr, thread, act),
            Step::Touch { page, how } => self.touch(nr, thread, page, how),
            Step::Tell(what) => {
                let mm = self.mm(nr);
                let from = thread;
                mm.events.push_back(Message { from, what });
                let me = &mut mm.threads[thread.0];
                me.waits = Waits::Reader;
                me.next([Step::GoOn]);
            }
            Step::GoOn => self.mm(nr).changing -= 1,
            Step::Advise { range, free } => self.advise(nr, thread, range, free),
            Step::Zap { range, free, told } => self.discard(nr, thread, range, free, told),
            Step::End(outcome) => self.mm(nr).threads[thread.0].end(outcome),
        }
        let me = &self.mms[nr.0].threads[thread.0];
        match (&me.waits, me.todo.is_empty()) {
            (Waits::No, true) => Ran::Idle,
            (Waits::No, false) => Ran::On,
            _ => Ran::Waits,
        }
    }

    /// Wakes threads that wait in a range, in bytes.
    pub fn wake(&mut self, nr: SpaceNr, range: &Range<u64>) {
        let pages = range.start / crate::PAGE..range.end.div_ceil(crate::PAGE);
        for thread in &mut self.mm(nr).threads {
            thread.wake(&pages);
        }
    }
}
