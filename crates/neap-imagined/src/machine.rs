//! The machine: its address spaces, its clock, and who is called at each call.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use neap_sys::Clock;

use crate::access::Access;
use crate::areas::Areas;
use crate::chance::{Chance, Odds};
use crate::pages::{Bytes, Frames, Pte};
use crate::thread::{Message, Ran, Thread};
use crate::{Act, ImaginedAgent, ImaginedUffd, ImaginedView, Outcome, PAGE, Prot};

/// An address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceNr(pub usize);

/// A thread of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNr(pub usize);

/// What the engine asks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Events are read.
    Read,
    /// A page is filled, protected, woken, or something like it.
    Page,
    /// Something is registered, or no more.
    Register,
    /// Pages or mappings are looked at, or bytes read.
    Look,
    /// The agent is spoken to, or acts.
    Agent,
    /// The engine lets time pass.
    Sleep,
}

/// What a page must hold, whoever carries it.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    pub bytes: Arc<Bytes>,
    /// Declared free: it may hold zeros instead.
    pub free: bool,
    /// When it was written, or came to its place, by [`Core::stamp`].
    pub since: u64,
}

/// Memory of one program.
#[derive(Debug, Default)]
pub(crate) struct Mm {
    pub alive: bool,
    /// Its parent waits until its fork is read.
    pub unborn: bool,
    pub areas: Areas,
    /// By number of the page.
    pub ptes: BTreeMap<u64, Pte>,
    /// What was written, by number of the page.
    pub truth: BTreeMap<u64, Truth>,
    /// Threads that have changed a mapping and have not gone on since.
    pub changing: u32,
    /// Messages of faults, and of changes, that were not read.
    pub faults: VecDeque<Message>,
    pub events: VecDeque<Message>,
    pub threads: Vec<Thread>,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub mms: Vec<Mm>,
    pub frames: Frames,
    pub chance: Chance,
    pub odds: Odds,
    pub wrong: Option<String>,
    now: u64,
    stamps: u64,
}

impl Core {
    /// A number that is larger than each before it: what has a smaller one was there before.
    pub fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    pub fn mm(&mut self, nr: SpaceNr) -> &mut Mm {
        &mut self.mms[nr.0]
    }

    /// Drops what page tables have of a range.
    pub fn zap(&mut self, nr: SpaceNr, range: &Range<u64>) {
        let pages = range.start / PAGE..range.end / PAGE;
        let mm = &mut self.mms[nr.0];
        let gone: Vec<u64> = mm.ptes.range(pages).map(|(&page, _)| page).collect();
        for page in gone {
            if let Some(frame) = mm.ptes.remove(&page).and_then(Pte::frame) {
                self.frames.put(frame);
            }
        }
    }

    /// Keeps the first thing that went wrong.
    pub fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }
}

type Hook = Box<dyn Fn(Call) + Send + Sync>;

struct Shared {
    core: Mutex<Core>,
    /// Called at each call of the engine, before anything is done.
    hook: OnceLock<Hook>,
    /// Something to hand out where a descriptor is wanted.
    null: File,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

/// The machine. Copies are the same one.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Shared>);

impl Machine {
    /// An empty machine.
    ///
    /// # Panics
    /// If `/dev/null` cannot be opened.
    pub fn new(seed: u64, odds: Odds) -> Self {
        let core = Core {
            mms: Vec::new(),
            frames: Frames::default(),
            chance: Chance::new(seed),
            odds,
            wrong: None,
            now: 1 << 40,
            stamps: 0,
        };
        Self(Arc::new(Shared {
            core: Mutex::new(core),
            hook: OnceLock::new(),
            null: File::open("/dev/null").expect("/dev/null"),
        }))
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.0.core.lock().unwrap_or_else(|gone| gone.into_inner())
    }

    pub(crate) fn null(&self) -> &File {
        &self.0.null
    }

    /// Has `hook` called at each call of the engine, before anything is done.
    pub fn set_hook(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        let _ = self.0.hook.set(Box::new(hook));
    }

    pub(crate) fn enter(&self, call: Call) {
        if let Some(hook) = self.0.hook.get() {
            hook(call);
        }
    }

    /// A program with so many threads and no memory.
    pub fn start(&self, threads: usize) -> SpaceNr {
        let mut core = self.core();
        core.mms.push(Mm {
            alive: true,
            threads: std::iter::repeat_with(Thread::default)
                .take(threads)
                .collect(),
            ..Mm::default()
        });
        SpaceNr(core.mms.len() - 1)
    }

    /// The userfaultfd of a program.
    pub fn uffd(&self, space: SpaceNr) -> ImaginedUffd {
        ImaginedUffd::new(self.clone(), space)
    }

    /// What is seen of it from outside.
    pub fn view(&self, space: SpaceNr) -> ImaginedView {
        ImaginedView::new(self.clone(), space)
    }

    /// An agent in it, and the engine's line to it.
    pub fn agent(&self, space: SpaceNr) -> ImaginedAgent {
        ImaginedAgent::new(self.clone(), space)
    }

    /// Has a thread begin something. It must have done what it began before.
    ///
    /// # Panics
    /// If it has not.
    pub fn begin(&self, space: SpaceNr, thread: ThreadNr, act: Act) {
        let mut core = self.core();
        let thread = &mut core.mm(space).threads[thread.0];
        assert!(thread.is_idle(), "it is at something else");
        thread.begin(act);
    }

    /// Has a thread take its next step.
    pub fn step(&self, space: SpaceNr, thread: ThreadNr) -> Ran {
        self.core().step(space, thread)
    }

    /// Has a thread go on until it waits or is done.
    pub fn run(&self, space: SpaceNr, thread: ThreadNr) -> Ran {
        loop {
            match self.step(space, thread) {
                Ran::On => {}
                ran => return ran,
            }
        }
    }

    /// A page is touched at once, by its address: `change` is done to its bytes if that writes. Nothing is kept of what it
    /// must hold. False: the thread waits.
    pub fn access(
        &self,
        space: SpaceNr,
        address: u64,
        how: Access,
        change: impl FnOnce(&mut [u8; PAGE as usize]),
    ) -> bool {
        self.core().access(space, address / PAGE, how, change)
    }

    /// A signal comes: a thread that waits for a page asks for it again.
    pub fn interrupt(&self, space: SpaceNr, thread: ThreadNr) {
        self.core().mm(space).threads[thread.0].retry();
    }

    /// What came of the last act of a thread, once.
    pub fn outcome(&self, space: SpaceNr, thread: ThreadNr) -> Option<Outcome> {
        self.core().mm(space).threads[thread.0].outcome.take()
    }

    /// Whether a thread has nothing to do.
    pub fn is_idle(&self, space: SpaceNr, thread: ThreadNr) -> bool {
        self.core().mm(space).threads[thread.0].is_idle()
    }

    /// What a thread is at, for messages.
    pub fn describe(&self, space: SpaceNr, thread: ThreadNr) -> String {
        format!("{:?}", self.core().mm(space).threads[thread.0])
    }

    /// Whether some thread has told, or is about to tell, of a change of mappings.
    pub fn is_changing(&self, space: SpaceNr) -> bool {
        self.core().mm(space).changing > 0
    }

    /// Whether a message waits to be read.
    pub fn has_message(&self, space: SpaceNr) -> bool {
        let mut core = self.core();
        let mm = core.mm(space);
        !mm.faults.is_empty() || !mm.events.is_empty()
    }

    /// Threads of a program.
    pub fn threads(&self, space: SpaceNr) -> usize {
        self.core().mm(space).threads.len()
    }

    /// Whether the address space is there.
    pub fn is_alive(&self, space: SpaceNr) -> bool {
        self.core().mm(space).alive
    }

    /// Pages that the program has written, by number.
    pub fn written(&self, space: SpaceNr) -> Vec<u64> {
        self.core().mm(space).truth.keys().copied().collect()
    }

    /// Mappings: where, what may be done there, and how many pages.
    pub fn mappings(&self, space: SpaceNr) -> Vec<(Range<u64>, Prot)> {
        let mut core = self.core();
        let areas = &core.mm(space).areas.0;
        let place = |(&start, area): (&u64, &crate::areas::Area)| (start..area.end, area.prot);
        areas.iter().map(place).collect()
    }

    /// The kernel is short of memory: it drops pages that were declared free.
    pub fn drop_free_pages(&self, space: SpaceNr) {
        self.core().drop_free_pages(space);
    }

    /// Ends an address space.
    pub fn end(&self, space: SpaceNr) {
        let mut core = self.core();
        core.zap(space, &(0..u64::MAX));
        let mm = core.mm(space);
        *mm = Mm {
            threads: mm.threads.iter().map(|_| Thread::default()).collect(),
            ..Mm::default()
        };
    }

    /// Kills a program whose memory somebody else shares: what its threads were about to tell, or had told, is never heard.
    pub fn kill(&self, space: SpaceNr) {
        let mut core = self.core();
        let mm = core.mm(space);
        mm.threads.clear();
        mm.faults.clear();
        mm.events.clear();
        mm.changing = 0;
    }

    /// A process forks, and the kernel announces it to nobody. It waits for nothing.
    pub fn fork_untold(&self, space: SpaceNr) -> SpaceNr {
        self.core().fork_untold(space)
    }

    /// The first thing that went wrong, in words.
    pub fn wrong(&self) -> Option<String> {
        self.core().wrong.clone()
    }

    /// What chance brings from here on.
    pub fn reseed(&self, seed: u64) {
        self.core().chance = Chance::new(seed);
    }

    /// Whether its threads may run: a forked child's may once its fork has been read.
    pub fn is_running(&self, space: SpaceNr) -> bool {
        let mut core = self.core();
        let mm = core.mm(space);
        mm.alive && !mm.unborn
    }

    /// Frames in use.
    pub fn frames(&self) -> usize {
        self.core().frames.used()
    }

    /// Changes how often what may happen does.
    pub fn set_odds(&self, odds: Odds) {
        self.core().odds = odds;
    }
}

/// The machine's clock: each look at it takes a microsecond.
impl Clock for Machine {
    fn now(&self) -> u64 {
        let mut core = self.core();
        core.now += 1000;
        core.now
    }

    fn sleep(&self, nanos: u64) {
        self.core().now += nanos;
        self.enter(Call::Sleep);
    }
}
