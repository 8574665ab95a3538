//! A program with threads, and what the engine has of it: on the machine's kernel, or on the imagined one.

use neap_imagined::{Act, Machine, Odds, Outcome, PAGE, Ran, SpaceNr, ThreadNr};
use neap_sys::{Event, Stop, Userfault, View};
use std::collections::VecDeque;

/// One of the two kernels, with one program.
pub(crate) trait World {
    /// Has a thread of the program begin something.
    fn begin(&mut self, thread: usize, act: Act);
    /// What came of that, once it is done.
    fn outcome(&mut self, thread: usize) -> Outcome;
    /// A thread that was woken gets on: on the machine it does so by itself.
    fn goes_on(&mut self, _thread: usize) {}
    /// Waits until there is a message.
    fn await_message(&mut self);
    fn uffd(&self) -> &dyn Userfault;
    fn view(&self) -> &dyn View;
    /// UFFDIO_MOVE by a task of the program: how many pages moved, or why the first did not.
    fn move_pages(&mut self, from: u64, pages: u64, to: u64) -> Result<u64, Stop>;
    /// Has a forked child begin to read a page.
    fn child_reads(&mut self, page: u64);
    /// The first word of that page, once it has it.
    fn child_read(&mut self) -> u64;
    /// The forked child ends, with its memory.
    fn end_child(&mut self);
    /// Waits for messages of a forked child, by its own userfaultfd.
    fn await_child(&mut self, uffd: &dyn Userfault);
    /// What was read and not asked for yet.
    fn queue(&mut self) -> &mut VecDeque<Event>;

    /// Does something that nothing stands in the way of.
    fn does(&mut self, act: Act) -> Outcome {
        self.begin(0, act);
        self.outcome(0)
    }

    /// The next message.
    fn event(&mut self) -> Event {
        if self.queue().is_empty() {
            self.await_message();
            let mut read = Vec::new();
            let count = self.uffd().read_events(&mut |event| read.push(event));
            assert!(count.is_ok(), "{count:?}");
            self.queue().extend(read);
        }
        self.queue().pop_front().expect("a message")
    }

    fn holds(&self, page: u64) -> bool {
        self.view().holds(page).expect("a word of the page")
    }
}

pub(crate) struct Imagined {
    machine: Machine,
    space: SpaceNr,
    uffd: neap_imagined::ImaginedUffd,
    view: neap_imagined::ImaginedView,
    child: Option<SpaceNr>,
    queue: VecDeque<Event>,
}

impl Imagined {
    pub(crate) fn new() -> Self {
        let machine = Machine::new(1, Odds::default());
        let space = machine.start(3);
        Self {
            uffd: machine.uffd(space),
            view: machine.view(space),
            machine,
            space,
            child: None,
            queue: VecDeque::new(),
        }
    }
}

impl World for Imagined {
    fn begin(&mut self, thread: usize, act: Act) {
        self.machine.begin(self.space, ThreadNr(thread), act);
        self.machine.run(self.space, ThreadNr(thread));
    }

    fn outcome(&mut self, thread: usize) -> Outcome {
        let thread = ThreadNr(thread);
        let ran = self.machine.run(self.space, thread);
        assert_eq!(
            ran,
            Ran::Idle,
            "{}",
            self.machine.describe(self.space, thread)
        );
        let outcome = self
            .machine
            .outcome(self.space, thread)
            .expect("an outcome");
        if let Outcome::Child(child) = outcome {
            self.child = Some(child);
            return Outcome::Done;
        }
        outcome
    }

    fn goes_on(&mut self, thread: usize) {
        self.machine.run(self.space, ThreadNr(thread));
    }

    fn await_message(&mut self) {
        (0..3).for_each(|thread| _ = self.machine.run(self.space, ThreadNr(thread)));
        assert!(self.machine.has_message(self.space), "nothing was told");
    }

    fn uffd(&self) -> &dyn Userfault {
        &self.uffd
    }

    fn view(&self) -> &dyn View {
        &self.view
    }

    fn move_pages(&mut self, from: u64, pages: u64, to: u64) -> Result<u64, Stop> {
        let moved = self.uffd.move_pages(to, from..from + pages * PAGE);
        moved.map(|bytes| bytes / PAGE).map_err(Stop::from_errno)
    }

    fn child_reads(&mut self, page: u64) {
        let child = self.child.expect("a child");
        self.machine.begin(child, ThreadNr(0), Act::Read(page));
        self.machine.run(child, ThreadNr(0));
    }

    fn child_read(&mut self) -> u64 {
        let child = self.child.expect("a child");
        assert_eq!(self.machine.run(child, ThreadNr(0)), Ran::Idle);
        match self.machine.outcome(child, ThreadNr(0)) {
            Some(Outcome::Read(word)) => word,
            other => panic!("{other:?}"),
        }
    }

    fn end_child(&mut self) {
        self.machine.end(self.child.expect("a child"));
    }

    fn await_child(&mut self, _uffd: &dyn Userfault) {
        let child = self.child.expect("a child");
        assert!(self.machine.has_message(child), "nothing was told");
    }

    fn queue(&mut self) -> &mut VecDeque<Event> {
        &mut self.queue
    }
}
