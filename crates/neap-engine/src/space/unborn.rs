//! A fork that the kernel does not announce: its child is given what was out at a moment before it.
//!
//! The kernel takes a child's mappings out of its parent's userfaultfd, so the child makes one of its own before it touches any
//! memory that may be out. What it inherits is taken down before the fork. From then on until the fork is over no page leaves,
//! and no event is read: who discards memory waits for that before it acts, and a change of mappings is seen afterwards. Pages that come in
//! meanwhile are in the child or are not, which the kernel tells.
//!
//! ```text
//! Quiet ── time is up ──> Reading
//!   └───── the fork is over ────┴──> Made ── nothing is still to come ──> Over
//! ```
//!
//! Where other threads have changed mappings meanwhile it is not known whether that was before the fork. What the
//! child has not in these places, it has lost.
//!
//! If the parent is killed, what its threads have not told yet is never told, and the kernel goes on as if they had told it. So
//! an account counts only if nobody else can have changed anything, or if the thread that forked still runs after the engine has seen that
//! nothing is to come. Else a child that may lack pages does not begin.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use neap_sys::{Event, Lock, Mode, Userfault, View};
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageNr, SpaceId};

use super::events::shape;
use super::lost::Lost;
use super::order::Shape;
use super::{Ranges, Space, addresses, pages};
use crate::job::Job;

const EVERYTHING: Range<PageNr> = PageNr(0)..PageNr(u64::MAX);
const WHY: &str = "another thread changed mappings there while its parent forked";
const ORPHAN: &str = "a forked child is killed: its parent was killed while it forked, and what the parent's other threads did then is not known";

/// What a child is to have.
pub(crate) struct Unborn {
    /// That of its space.
    pub number: u64,
    pub id: SpaceId,
    pub parent: Arc<Space>,
    /// What was registered in its parent.
    places: Ranges,
    lost: Lost,
    /// The thread that forks was its parent's only one.
    alone: bool,
    account: Lock<Account, 4>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing is read.
    Quiet,
    /// It takes long: what is read is noted.
    Reading,
    /// The child is there. What is still to come may have been made before.
    Made,
    Over,
}

/// What happened since.
struct Account {
    phase: Phase,
    changes: Vec<Shape>,
    /// Whether it holds all that the parent has changed; `None`: that is still to be learnt.
    whole: Option<bool>,
}

/// The fork of a process that is under way, one at a time.
#[derive(Default)]
pub(crate) struct Window {
    open: AtomicBool,
    /// What the child is to have is taken down: no page leaves.
    holds: AtomicBool,
    /// No event is read.
    quiet: AtomicBool,
    unborn: Lock<Option<Arc<Unborn>>, 4>,
    /// When the last one was over, in nanoseconds.
    ended: AtomicU64,
}

impl Window {
    /// Whether the process forks.
    pub fn is_open(&self) -> bool {
        self.open.load(Relaxed)
    }

    /// Whether no page leaves for that.
    pub fn holds(&self) -> bool {
        self.holds.load(Relaxed)
    }

    /// Whether nothing is read.
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Relaxed)
    }

    /// Begins a fork, unless another is under way, or has just been and others wait to be heard.
    pub fn begin(&self, job: &Job, uffd: &dyn Userfault) -> bool {
        let soon = job.clock.now() < self.ended.load(Relaxed) + TUNING.talk.fork_between.0;
        let heard = || neap_sys::wait_readable(&[uffd.as_fd()], Some(0)) == 0;
        (!soon || heard()) && !self.open.swap(true, Relaxed)
    }

    /// Ends it.
    pub fn end(&self, job: &Job) {
        self.quiet.store(false, Relaxed);
        self.holds.store(false, Relaxed);
        *self.unborn.lock() = None;
        self.ended.store(job.clock.now(), Relaxed);
        self.open.store(false, Relaxed);
    }

    /// Takes note of an event that is read.
    pub fn hear(&self, event: &Event) {
        let unborn = self.is_open().then(|| self.unborn.lock().clone());
        if let Some(unborn) = unborn.flatten() {
            unborn.hear(event);
        }
    }
}

/// The children that are expected.
#[derive(Default)]
pub(crate) struct Children(Lock<Vec<Arc<Unborn>>, 7>);

impl Children {
    pub fn add(&self, unborn: &Arc<Unborn>) {
        self.0.lock().push(unborn.clone());
    }

    /// The parent of the one with this number.
    pub fn parent_of(&self, number: u64) -> Option<Arc<Space>> {
        let all = self.0.lock();
        let mut its = all.iter().filter(|unborn| unborn.number == number);
        Some(its.next()?.parent.clone())
    }

    /// The one with this number, which is the caller's from now on.
    pub fn take(&self, number: u64) -> Option<Arc<Unborn>> {
        let mut all = self.0.lock();
        let at = all.iter().position(|unborn| unborn.number == number)?;
        Some(all.swap_remove(at))
    }

    /// It will not be born, unless it was.
    pub fn forget(&self, job: &Job, unborn: &Unborn) {
        if self.take(unborn.number).is_some() {
            job.free_number(unborn.id);
        }
    }
}

impl Unborn {
    fn hear(&self, event: &Event) {
        self.account.lock().hear(shape(event));
    }

    /// The fork takes long, and the thread that forks may wait for a page.
    pub fn read_on(&self) {
        let mut account = self.account.lock();
        if account.phase == Phase::Quiet {
            account.phase = Phase::Reading;
            self.parent.window.quiet.store(false, Relaxed);
        }
    }

    /// The fork is over. Waits until it is known what has changed meanwhile.
    pub fn close(&self, job: &Job) {
        while !self.try_close(job) {
            job.clock.sleep(TUNING.talk.fork_look.0);
        }
    }

    /// Whether that is known.
    pub fn try_close(&self, job: &Job) -> bool {
        {
            let mut account = self.account.lock();
            match account.phase {
                Phase::Over => return true,
                Phase::Quiet | Phase::Reading => account.phase = Phase::Made,
                Phase::Made => {}
            }
        }
        {
            let _gate = self.parent.gate.write();
            let settled = !self.parent.expects() && !self.parent.is_changing();
            if settled || self.parent.is_dead() || !self.parent.look_for_life() {
                self.end(job);
                return true;
            }
        }
        self.parent.window.quiet.store(false, Relaxed);
        self.parent.ring();
        false
    }

    /// Whether it is to be learnt that the thread that forked runs once this is closed.
    pub fn needs_word(&self) -> bool {
        !self.alone
    }

    /// It does, or never will.
    pub fn learn(&self, runs: bool) {
        let mut account = self.account.lock();
        account.whole.get_or_insert(runs || self.alone);
    }

    /// Waits until that is known.
    pub fn await_word(&self, job: &Job) {
        while self.account.lock().whole.is_none() {
            job.clock.sleep(TUNING.talk.fork_look.0);
        }
    }

    fn end(&self, job: &Job) {
        {
            let mut account = self.account.lock();
            if account.phase == Phase::Over {
                return;
            }
            account.phase = Phase::Over;
        }
        self.parent.window.end(job);
        self.parent.ring();
        job.reclaim.ring();
    }
}

impl Account {
    /// Takes note of a change that is read.
    fn hear(&mut self, shape: Shape) {
        match (self.phase, &shape) {
            // Who discards does so after that is read.
            (Phase::Made, Shape::Discard(_)) | (_, Shape::Still) | (Phase::Over, _) => {}
            _ => self.changes.push(shape),
        }
    }

    /// Where pages that were out may be, or have been, if others have changed mappings.
    fn doubtful(&self, out: &Ranges) -> Ranges {
        let mut doubtful = Ranges::default();
        // In whatever order that was: until nothing is added.
        loop {
            let before = doubtful.clone();
            for change in &self.changes {
                let within = |place| [out.within(place), doubtful.within(place)].concat();
                let touched = match change {
                    Shape::Unmap(place) | Shape::Discard(place) => within(place),
                    Shape::Move { from, to } => {
                        let left = within(from);
                        let come = |part: &Range<u64>| {
                            part.start - from.start + to.start..part.end - from.start + to.start
                        };
                        let come = left.iter().map(come).collect();
                        [within(to), come, left].concat()
                    }
                    Shape::Still => Vec::new(),
                };
                touched.into_iter().for_each(|part| doubtful.insert(part));
            }
            if doubtful == before {
                return doubtful;
            }
        }
    }
}

impl Space {
    /// Takes down what a child of a fork is to have that comes next, in a moment when nothing is to be read. The caller holds the
    /// gate exclusively, and has begun the fork. `alone`: no other thread of the process can change anything.
    pub fn expect_child(self: &Arc<Self>, job: &Job, alone: bool) -> Arc<Unborn> {
        self.window.holds.store(true, Relaxed); // who lets pages leave asks under the gate
        let id = job.take_number(&self.group);
        let kept = self.keep_staged(job);
        let lost = Lost::default();
        lost.inherit(&self.lost, self.copy_table(job, id, kept));
        let unborn = Arc::new(Unborn {
            number: Job::new_number(),
            id,
            parent: self.clone(),
            places: self.ranges.lock().clone(),
            lost,
            alone,
            account: Lock::new(Account {
                phase: Phase::Quiet,
                changes: Vec::new(),
                whole: alone.then_some(true),
            }),
        });
        *self.window.unborn.lock() = Some(unborn.clone());
        self.window.quiet.store(true, Relaxed);
        unborn
    }

    /// Registers what this child has of its parent's memory, and makes the table true. Its only thread waits for that.
    /// `None`: it cannot be, and the child must not go on.
    pub fn be_born(&self, job: &Job, view: &dyn View, unborn: &Unborn) -> Option<()> {
        let mut out = self.recorded(job);
        let known = unborn.lost.ranges();
        known.iter().for_each(|run| out.insert(run));
        if unborn.account.lock().whole != Some(true) && !out.is_empty() {
            job.warn(ORPHAN.to_owned());
            return None;
        }
        let doubtful = unborn.account.lock().doubtful(&out);
        let mut places = unborn.places.clone();
        // What a mapping grew by, and where what was out may have moved to.
        out.iter()
            .chain(doubtful.iter())
            .for_each(|run| places.insert(run));
        let ranges = self.register_inherited(view, &places)?;
        for hole in ranges.gaps(&(0..u64::MAX)) {
            self.drop_records(job, pages(&hole)); // its parent keeps that to itself (MADV_DONTFORK)
        }
        let mut present = Ranges::default();
        for range in ranges.iter() {
            let mut note = |run: Range<u64>, _| present.insert(run);
            view.present(range, &mut note).ok()?;
        }
        for run in out.iter().flat_map(|run| present.within(&run)) {
            self.drop_records(job, pages(&run));
        }
        let mut lost = Vec::new();
        let there = doubtful.iter().flat_map(|run| ranges.within(&run));
        for gap in there.flat_map(|run| present.gaps(&run)) {
            self.drop_records(job, pages(&gap));
            lost.extend(
                gap.step_by(PAGE_SIZE)
                    .map(|at| (PageNr::containing(at), WHY.to_owned())),
            );
        }
        self.lost.inherit(&unborn.lost, lost);
        ranges
            .gaps(&(0..u64::MAX))
            .iter()
            .for_each(|hole| self.lost.forget(hole));
        *self.ranges.lock() = ranges;
        Some(())
    }

    /// Where the table has pages of it.
    fn recorded(&self, job: &Job) -> Ranges {
        let (mut all, mut run) = (Ranges::default(), 0..0);
        job.core().for_range(self.id, EVERYTHING, |page, _, _| {
            let page = addresses(page, 1);
            if page.start != run.end {
                all.insert(run.clone());
                run.start = page.start;
            }
            run.end = page.end;
        });
        all.insert(run);
        all
    }

    /// Whole mappings of private memory that meet these places, registered.
    fn register_inherited(&self, view: &dyn View, places: &Ranges) -> Option<Ranges> {
        let mappings = view.survey(0..u64::MAX, &mut |_| None).ok()?;
        let mut ranges = Ranges::default();
        for mapping in mappings {
            let private = mapping.anonymous && !mapping.shared && !mapping.special;
            if private && places.touches(&mapping.range) {
                ranges.insert(mapping.range);
            }
        }
        for range in ranges.iter() {
            self.uffd.register(range, Mode::MissingAndWp).ok()?;
        }
        Some(ranges)
    }

    fn drop_records(&self, job: &Job, range: Range<PageNr>) {
        let effects = job.core().remove_range(self.id, range);
        for effect in effects {
            job.release(self, effect);
        }
    }
}

const _: () = assert!(
    PAGE_SIZE == 4096,
    "addresses of pages are their first bytes"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn account(phase: Phase, changes: Vec<Shape>) -> Account {
        let mut account = Account {
            phase,
            changes: Vec::new(),
            whole: Some(true),
        };
        changes.into_iter().for_each(|shape| account.hear(shape));
        account
    }

    fn place(first: u64, pages: u64) -> Range<u64> {
        addresses(PageNr(first), pages as usize)
    }

    fn doubtful(account: &Account, out: &[u64]) -> Vec<u64> {
        let mut places = Ranges::default();
        out.iter().for_each(|&page| places.insert(place(page, 1)));
        let found = account.doubtful(&places);
        let pages = found.iter().flat_map(|run| run.step_by(PAGE_SIZE));
        pages.map(|at| PageNr::containing(at).0).collect()
    }

    #[test]
    fn what_is_in_doubt_goes_with_each_move_whatever_was_read_first() {
        let moves = |from, to| Shape::Move {
            from: place(from, 4),
            to: place(to, 4),
        };
        let story = vec![moves(20, 30), moves(10, 20), Shape::Unmap(place(31, 1))];
        for turn in 0..story.len() {
            let mut story = story.clone();
            story.rotate_left(turn);
            let account = account(Phase::Quiet, story);
            let found = doubtful(&account, &[9, 10, 12, 14]);
            assert_eq!(found, [10, 12, 20, 22, 30, 32], "from {turn} on");
        }
    }

    #[test]
    fn a_discard_that_is_read_after_the_fork_was_made_after_it() {
        let discard = || vec![Shape::Discard(place(5, 2))];
        assert!(doubtful(&account(Phase::Made, discard()), &[5, 6]).is_empty());
        assert_eq!(doubtful(&account(Phase::Reading, discard()), &[4, 6]), [6]);
        let unmapped = vec![Shape::Unmap(place(5, 2))];
        assert_eq!(doubtful(&account(Phase::Made, unmapped.clone()), &[5]), [5]);
        assert!(doubtful(&account(Phase::Over, unmapped), &[5]).is_empty());
    }
}
