//! One managed address space.
//!
//! Lock order: [`Space::gate`], then the core, then the stage. The gate is the law of this crate:
//! whoever changes the program's memory and the page table together (a fill, a move) holds it
//! shared from the look at the table to the note in it; whoever reads events from the userfaultfd
//! holds it exclusively. Until a change is read the kernel refuses fills and moves (EAGAIN), and from
//! then until it is applied we do ([`Space::expects`]).

mod adopt;
mod births;
mod cow;
mod discover;
mod errands;
mod events;
mod hints;
mod judge;
mod kin;
mod look;
mod lost;
mod mappings;
mod order;
mod quarantine;
mod ranges;
mod refused;
mod stage;
mod standing;
mod still;
mod threads;
mod traits;
mod unborn;
mod vouch;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
use std::sync::{Arc, OnceLock};

use neap_policy::{Copies, Core};
use neap_sys::{
    Extent, Gate, Lock, Pagemap, Pidfd, Process, Program, Stop, Userfault, View, Waker, Word,
};
use neap_units::{PAGE_SIZE, PageNr, Pages, SpaceId};

use crate::agent::Agent;
use crate::group::Group;
use crate::proof::Token;
use crate::quiet::Quiet;
pub(crate) use births::Born;
use cow::Cow;
pub(crate) use events::News;
use hints::Hints;
pub(crate) use hints::Wish;
pub(crate) use kin::{Kin, Stale, offer};
use lost::Lost;
use mappings::Mappings;
use quarantine::Quarantine;
pub(crate) use ranges::Ranges;
pub(crate) use refused::Refused;
#[cfg(test)]
pub(crate) use stage::BLOCK_BYTES;
pub(crate) use stage::{BlockId, Stage};
pub(crate) use standing::{Advance, Phase, Standing};
use still::Still;
use threads::ThreadPages;
pub(crate) use traits::{Trait, Traits};
use unborn::Window;
pub(crate) use unborn::{Children, Unborn};

/// What a process handed over about itself. A forked child that has not done so is served, so that
/// it reads what its parent wrote, but nothing of it is evicted.
pub(crate) struct Body {
    /// For words and reports.
    pub pid: i32,
    pub process: Arc<Process>,
    /// What it runs, if that could be seen.
    pub program: Option<Program>,
    /// Its numbers of threads mean the same to us: it is in our pid namespace.
    pub same_pids: bool,
    /// Readable once it has ended.
    pub pidfd: Pidfd,
    pub view: Box<dyn View>,
    /// Tells whether the process still runs in this space.
    pub token: Token,
    pub stage: Stage,
    pub agent: Agent,
    /// Address of the page below the agent's stack, which is never there.
    pub agent_guard: u64,
    /// Where its library notes what the program says of its memory; 0: nowhere.
    pub notes: u64,
    /// Where its library keeps what copies of the memory are known by; 0: nowhere.
    pub imprint: u64,
    /// Memory of neap's own in the program: never managed.
    pub own: Vec<Range<u64>>,
    /// The process has ended, or has other memory by now.
    pub left: AtomicBool,
    /// At the last look it seemed so.
    pub doubted: AtomicBool,
    /// The user knows that it lost a page.
    pub lost: AtomicBool,
}

impl Body {
    /// Whether the process has ended, or has other memory by now.
    pub fn is_left(&self) -> bool {
        self.left.load(Relaxed)
    }

    /// Notes that, and has the agent end: then the memory does.
    pub fn leave(&self) {
        if !self.left.swap(true, Relaxed) {
            self.agent.dismiss();
        }
    }

    /// Who tells of this memory: the agent has no other as long as it is there.
    pub fn memory_of(&self) -> &Process {
        let task = self.agent.task();
        let task = task.filter(|_| self.is_left() || !self.agent.is_gone());
        task.map_or(&self.process, |task| task.process())
    }

    /// How much memory the address space has. The agent's task tells of it as long as there is one; then the process does,
    /// unless it has other memory by now.
    pub fn extent(&self) -> Extent {
        let shared = self.agent.task().and_then(|task| task.extent());
        let anon = match shared.filter(|extent| extent.anon > 0) {
            Some(extent) => return extent,
            None if self.is_left() || !self.pidfd.lives() => 0,
            None => neap_sys::anon_resident(self.pid).unwrap_or(0),
        };
        Extent { anon, size: 0 }
    }
}

/// The last page that a program may have in 47 bits of addresses.
const HIGHEST: u64 = 0x7fff_ffff_e000;

pub(crate) struct Space {
    pub id: SpaceId,
    /// Unlike the id, never used again, and not to be guessed.
    pub cookie: u64,
    /// A process has asked to be the one of this space.
    pub claimed: AtomicBool,
    /// Address of one page, wiped at fork, in which a forked child reads its `cookie`; 0: none.
    pub cookie_page: AtomicU64,
    /// The process, from before it is told that it is managed; 0: none yet.
    pub pid: AtomicI32,
    pub uffd: Box<dyn Userfault>,
    pub gate: Gate<(), 2>,
    pub body: OnceLock<Body>,
    /// Registered with the userfaultfd.
    pub ranges: Lock<Ranges, 4>,
    /// What the program asked us to leave alone.
    pub refused: Lock<Refused, 6>,
    /// What the kernel would not register, by start: where it ends, and until when (nanoseconds) it
    /// is not tried again.
    pub failed: Lock<HashMap<u64, (u64, u64)>, 6>,
    /// Where registered mappings went and others came: see [`Self::note_replaced`].
    pub replaced: Lock<Vec<Range<u64>>, 6>,
    /// What a look has registered that was given up, since mappings changed meanwhile.
    pub given_up: Lock<Ranges, 6>,
    pub mappings: Mappings,
    pub still: Still,
    pub traits: Traits,
    /// Where pages are sure not to have been declared free unheard.
    pub vouched: Lock<Ranges, 6>,
    pub quarantine: Lock<Quarantine, 6>,
    pub kin: Kin,
    pub cow: Cow,
    /// What it counts for.
    pub group: Arc<Group>,
    pub lost: Lost,
    /// Changes that were read and not applied yet, in this order.
    pub news: Lock<Vec<News>, 4>,
    pub copies: Copies,
    pub hints: Hints,
    /// There are some: the table may not be true. Each fault asks, and need not take the lock for it.
    pub unsure: AtomicBool,
    /// Pages that would not move (EBUSY), to be unshared.
    pub stuck: Lock<Vec<PageNr>, 6>,
    /// The cpu that its faults are served on, and one more; 0: none yet.
    pub served_on: AtomicUsize,
    /// Pages that must stay, since the kernel writes to them at the end of a thread.
    pub threads: ThreadPages,
    /// How many pages in a row would not move.
    pub stuck_run: AtomicU64,
    /// Until when (nanoseconds) reclaim leaves the space alone: its pages did not move.
    pub rests_until: AtomicU64,
    /// Its faults wait for memory to be freed.
    pub queues: AtomicBool,
    /// Pages that are to be taken since its process does nothing (`--idle`).
    pub idle: AtomicU64,
    /// Since when its process does nothing.
    pub quiet: Quiet,
    /// Pages that were touched after they had left. What came with them from the store is not counted.
    pub came_back: AtomicU64,
    /// Time for which some thread waited, in nanoseconds.
    pub stalled: AtomicU64,
    /// Bytes that it was given so far.
    pub charged: AtomicU64,
    pub standing: Standing,
    /// The agent knows that the program depends on the engine.
    pub told: AtomicBool,
    /// While this is not 0 no page leaves: a fork is under way that the kernel cannot announce, or
    /// memory is being let go.
    pub thawed: AtomicU32,
    /// The first command since which some page was always elsewhere: see [`Self::note_if_home`]. `u32::MAX` once the space is gone.
    pub away_since: AtomicU32,
    /// A fork that the kernel does not announce.
    pub window: Window,
    /// Calls its fault thread; without one that looks by itself.
    pub bell: Option<Waker>,
}

impl Space {
    pub fn new(
        id: SpaceId,
        cookie: u64,
        kin: Kin,
        group: Arc<Group>,
        uffd: Box<dyn Userfault>,
        bell: Option<Waker>,
        ranges: Ranges,
    ) -> Self {
        Self {
            id,
            cookie,
            claimed: AtomicBool::new(false),
            cookie_page: AtomicU64::new(0),
            pid: AtomicI32::new(0),
            uffd,
            gate: Gate::new(()),
            body: OnceLock::new(),
            ranges: Lock::new(ranges),
            refused: Lock::default(),
            failed: Lock::default(),
            replaced: Lock::default(),
            given_up: Lock::default(),
            mappings: Mappings::default(),
            still: Still::default(),
            traits: Traits::default(),
            vouched: Lock::default(),
            quarantine: Lock::default(),
            cow: Cow::new(kin.is_forked()),
            kin,
            group,
            lost: Lost::default(),
            news: Lock::default(),
            copies: Copies::default(),
            hints: Hints::default(),
            unsure: AtomicBool::new(false),
            stuck: Lock::default(),
            served_on: AtomicUsize::new(0),
            threads: ThreadPages::default(),
            stuck_run: AtomicU64::new(0),
            rests_until: AtomicU64::new(0),
            queues: AtomicBool::new(false),
            idle: AtomicU64::new(0),
            quiet: Quiet::default(),
            came_back: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            standing: Standing::default(),
            told: AtomicBool::new(false),
            thawed: AtomicU32::new(0),
            away_since: AtomicU32::new(0),
            window: Window::default(),
            bell,
        }
    }

    /// Whether faults of it have been served on a cpu that is known.
    pub fn has_cpu(&self) -> bool {
        self.served_on.load(Relaxed) > 0
    }

    pub fn is_dead(&self) -> bool {
        self.standing.phase() == Phase::Ended
    }

    /// Whether no page of it may ever leave.
    pub fn is_native(&self) -> bool {
        self.standing.phase() == Phase::Native
    }

    /// Whether the first look for its memory is over, whatever came of it.
    pub fn was_looked_at(&self) -> bool {
        !matches!(self.standing.phase(), Phase::Due | Phase::Looking)
    }

    /// Whether all that it had at the first look is registered.
    pub fn is_managed(&self) -> bool {
        self.standing.phase() == Phase::Managed
    }

    /// The address space is gone: its threads stop at the next look.
    pub fn set_dead(&self) {
        self.standing.step(Advance::End);
        self.ring();
    }

    /// Calls the fault thread.
    pub fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.wake();
        }
    }

    /// Pages appeared in it.
    pub fn charge(&self, bytes: u64) {
        self.group.charge(bytes);
        self.charged.fetch_add(bytes, Relaxed);
    }

    /// Whether pages may leave: an agent is there to move them, it is known what there is, and nobody asked for a pause.
    pub fn lets_go(&self) -> bool {
        let agent = self.body.get().is_some_and(|body| !body.agent.is_gone());
        let sure = !self.unsure.load(Relaxed);
        let pauses = self.is_thawed() || self.window.holds();
        let ready = self.told.load(Relaxed) && self.was_looked_at();
        agent && sure && ready && !self.is_dead() && !pauses
    }

    /// Notes if all pages are in the process. Done whenever some are about to leave, so a copy of its memory that was made since command `n` and
    /// before the next lacks pages if that is not before [`Self::away_since`].
    pub fn note_if_home(&self, core: &Core) {
        if core.elsewhere(self.id) == Pages(0)
            && let Some(body) = self.body.get()
        {
            // Nothing is on its way: the agent has done all that it was sent.
            self.away_since.fetch_max(body.agent.serial() + 1, Relaxed);
        }
    }

    /// Whether no page leaves: memory comes back for a fork, or is being let go.
    pub fn is_thawed(&self) -> bool {
        self.thawed.load(Relaxed) > 0
    }

    /// Whether pages may leave later that may not now: it is stopped, or forks, or its agent is about to come.
    pub fn lets_go_later(&self) -> bool {
        let never = self.is_native() || self.is_dead();
        let agent = match self.body.get() {
            None => self.kin.is_young(neap_sys::monotonic_nanos()),
            Some(body) => !body.agent.is_gone(),
        };
        agent && !never && (self.is_late() || !self.lets_go())
    }

    /// Asks the kernel whether the address space still exists; notes it if not. It asks twice: nobody would serve the
    /// threads of one that was taken for dead.
    pub fn look_for_life(&self) -> bool {
        let dead = (0..2).all(|_| self.probe() == Some(Stop::Dead));
        if dead {
            self.set_dead();
        }
        !dead
    }

    /// Whether some thread has changed the address space, and what it tells of that is still to come: from
    /// the change on until it goes on, the kernel refuses every fill.
    pub fn is_changing(&self) -> bool {
        self.probe() == Some(Stop::Retry)
    }

    /// What the kernel says to a fill that it never makes. Any page would do, since none is written, but for those
    /// below vm.mmap_min_addr, which are refused before anything is looked at. Where a mapping is, the kernel looks
    /// without waiting for a change that is under way: the page below the agent's stack, which is not registered.
    fn probe(&self) -> Option<Stop> {
        let at = self.body.get().map_or(HIGHEST, |body| body.agent_guard);
        self.uffd.try_nothing(at..at + PAGE_SIZE as u64)
    }

    /// How many of the pages from `first` on are `such`, one after the other. A fill (UFFDIO_COPY) takes the place of
    /// a guard region (MADV_GUARD_INSTALL), of which the kernel tells nobody: so nothing that no thread waits for is
    /// filled unseen. Where nothing can be seen (a forked child that has told nothing of itself), none is.
    pub fn leading(&self, first: PageNr, count: usize, such: fn(Word) -> bool) -> usize {
        let mut words = [Word::default(); Pagemap::MOST_WORDS];
        let words = &mut words[..count.min(Pagemap::MOST_WORDS)];
        let body = self.body.get().filter(|_| !words.is_empty());
        let seen = body.is_some_and(|body| body.view.words(first.addr(), words).is_ok());
        if !seen {
            return 0;
        }
        words.iter().take_while(|&&word| such(word)).count()
    }

    /// The registered range that holds a page.
    pub fn registered(&self, page: PageNr) -> Option<Range<u64>> {
        self.ranges.lock().find(page.addr())
    }
}

/// Addresses of `count` pages.
pub(crate) fn addresses(first: PageNr, count: usize) -> Range<u64> {
    first.addr()..first.addr() + (count * PAGE_SIZE) as u64
}

/// The whole pages of an address range.
pub(crate) fn pages(range: &Range<u64>) -> Range<PageNr> {
    PageNr::containing(range.start)..PageNr(range.end.div_ceil(PAGE_SIZE as u64))
}

/// Addresses of pages, joined where they follow each other.
pub(crate) fn runs(pages: &[PageNr]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(run) if run.end == page.addr() => run.end += PAGE_SIZE as u64,
            _ => runs.push(addresses(*page, 1)),
        }
    }
    runs
}
