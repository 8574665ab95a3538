//! Moving chosen pages out of the program, whole and unchanged.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use neap_policy::{Heat, State, Step};
use neap_sys::{Wake, Word};
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageId, PageNr, Pages};
use neap_wire::op;

use super::{BATCH, Reclaimer, rests};
use crate::agent::{Called, Errand};
use crate::space::{Body, Space, addresses, runs};

/// Consecutive pages of the program.
pub(super) struct Run {
    pub first: PageNr,
    pub ids: Vec<PageId>,
}

/// Runs, handed out in pieces of given sizes.
struct Cuts {
    runs: std::vec::IntoIter<Run>,
    open: Range<u64>,
}

impl Cuts {
    fn new(runs: Vec<Run>) -> Self {
        Self {
            runs: runs.into_iter(),
            open: 0..0,
        }
    }

    /// The addresses of the next `pages` pages, at most one span for each.
    fn take(&mut self, pages: usize) -> Vec<Range<u64>> {
        let mut left = (pages * PAGE_SIZE) as u64;
        let mut spans = Vec::new();
        while left > 0 {
            if self.open.is_empty() {
                let Some(run) = self.runs.next() else { break };
                self.open = addresses(run.first, run.ids.len());
            }
            let end = self.open.end.min(self.open.start + left);
            spans.push(self.open.start..end);
            left -= end - self.open.start;
            self.open.start = end;
        }
        spans
    }
}

/// Who shares pages with a process of which some leave.
struct Sharer {
    space: Arc<Space>,
    pages: Vec<PageNr>,
    lets_go: bool,
}

/// The pages that a process shares, of up to a batch in their order. Of a child that has told nothing of itself: all.
fn shared_in(space: &Space, pages: &[PageNr]) -> Vec<PageNr> {
    let _gate = space.gate.read();
    let mut shared = Vec::new();
    if space.is_dead() {
        return shared;
    }
    let Some(body) = space.body.get() else {
        return pages.to_vec();
    };
    for run in runs(pages) {
        let mut words = [Word::default(); BATCH];
        let count = (run.end - run.start) as usize / PAGE_SIZE;
        let _ = body.view.words(run.start, &mut words[..count]); // it has ended
        let first = PageNr::containing(run.start);
        let found = words.iter().enumerate();
        let found = found.filter(|(_, word)| word.is_shared());
        shared.extend(found.map(|(at, _)| first + Pages(at as u64)));
    }
    shared
}

/// Poisons the guard pages of the stage that are wanted now. Kernels before 6.6 know no poison, and mlockall fills the stage there.
fn guard(space: &Space, body: &Body) {
    while let Some(page) = body.stage.unguarded() {
        match space.uffd.poison(page, Wake::Later) {
            Err(error) if error.passes() => return, // with the next batch
            _ => body.stage.note_guarded(),
        }
    }
}

impl Reclaimer {
    /// Takes up to one block of old pages; `own_only`: of those that no other process has. Returns how many left the program.
    pub(super) fn stage_batch(&mut self, space: &Arc<Space>, own_only: bool) -> usize {
        let Some(body) = space.body.get() else {
            return 0;
        };
        let _gate = space.gate.read();
        // Looked at under the gate: who asks for a pause waits for it, and so does the end of a space.
        if !space.lets_go() || !space.catch_up(&self.job, false) {
            return 0;
        }
        let runs = match own_only {
            true => self.pick_own(space, body),
            false => self.pick_runs(space),
        };
        self.send(space, body, runs)
    }

    /// Takes these pages, which are resident. Returns how many left the program. The caller holds the gate.
    pub(super) fn stage_pages(
        &mut self,
        space: &Arc<Space>,
        body: &Body,
        pages: &[PageNr],
    ) -> usize {
        self.isolate(space, pages);
        let runs = self.runs();
        self.send(space, body, runs)
    }

    /// Picks pages, as far as they are resident.
    fn isolate(&mut self, space: &Space, pages: &[PageNr]) {
        self.picked.clear();
        let mut core = self.job.core();
        space.note_if_home(&core);
        for &page in pages {
            if let Some(id) = core.find(space.id, page)
                && let State::Resident { .. } = core.state(id)
            {
                self.job.must(core.apply(id, Step::Isolate));
                self.picked.push(id);
            }
        }
    }

    /// Has the agent move the picked pages. Returns how many it moved. The caller holds the gate.
    fn send(&self, space: &Arc<Space>, body: &Body, runs: Vec<Run>) -> usize {
        self.work.note_staging(space);
        let mut taken = 0;
        let mut rest = &self.picked[..];
        let mut cuts = Cuts::new(runs);
        while !rest.is_empty() {
            let Some(slots) = body.stage.reserve(rest.len() as u32) else {
                self.put_back(space, rest, Heat::Warm);
                break;
            };
            guard(space, body);
            let (now, later) = rest.split_at(slots.count as usize);
            let spans = cuts.take(now.len());
            let target = body.stage.address(slots.first);
            let errand = Errand::Stage {
                pages: now.to_vec(),
                first: slots.first,
            };
            match body.agent.call(op::MOVE, &spans, target, errand, true) {
                Called::Busy(_) => {
                    body.stage.unpin(slots.first);
                    self.put_back(space, now, Heat::Warm);
                }
                called => taken += space.complete(&self.job, called).unwrap_or(0),
            }
            rest = later;
        }
        taken
    }

    /// Pages that a fork shared do not move, also after the end of the other process, until somebody
    /// writes to them. The agent makes the kernel part them, which copies what is still shared, and then
    /// they move at once. Returns how many.
    ///
    /// Memory is free when the last process has given a page up. So the relatives that let go of pages give up the same ones now.
    pub(super) fn part(&mut self, space: &Arc<Space>) -> usize {
        let mut stuck = std::mem::take(&mut *space.stuck.lock());
        stuck.sort_unstable();
        stuck.truncate(self.most);
        // Looked at before: of two that share a page, the second has it alone once the first has parted it.
        let mut sharers = self.sharers_of(space, &stuck);
        if self.most < BATCH {
            let all = 1 + sharers.iter().filter(|sharer| sharer.lets_go).count();
            stuck.truncate((self.most / all).max(1));
        }
        let left = self.part_in(space, stuck);
        let mut free: HashSet<PageNr> = left.iter().copied().collect();
        let mut late = false;
        for sharer in &mut sharers {
            let pages = sharer.pages.iter().copied();
            let pages: Vec<_> = pages.filter(|page| free.contains(page)).collect();
            let left = match sharer.lets_go && !late {
                true => self.part_in(&sharer.space, pages),
                false => Vec::new(),
            };
            late |= sharer.space.is_late(); // each waits as long
            let had = std::mem::replace(&mut sharer.pages, left);
            for page in had.iter().filter(|page| !sharer.pages.contains(page)) {
                free.remove(page);
            }
        }
        if space.kin.shares() {
            // Each was charged for its copy. The last of them needed none.
            let page = PAGE_SIZE as u64;
            space.group.uncharge(free.len() as u64 * page);
        }
        let all = sharers.iter().map(|sharer| (&sharer.space, &sharer.pages));
        let (mut taken, mut of_free) = (0, 0);
        for (space, left) in all.chain([(space, &left)]) {
            let given_up = left.iter().filter(|page| free.contains(page)).count();
            space.kin.has_given_up(given_up);
            space.kin.has_parted(left.len() - given_up);
            taken += left.len();
            of_free += given_up;
        }
        if self.may_go_over() {
            // Who keeps a page now is taken to follow.
            let others = (taken - of_free) as u64;
            let followed = space.kin.note_parts(others, 1 + sharers.len() as u64);
            self.vain += (taken - free.len()) as u64 - followed;
        }
        taken
    }

    /// Who shares some of these pages of a process with it.
    fn sharers_of(&self, space: &Space, pages: &[PageNr]) -> Vec<Sharer> {
        if pages.is_empty() {
            return Vec::new();
        }
        let relatives = space.kin.relatives(&self.job, space.id);
        let together = relatives.len() <= TUNING.reclaim.together;
        let sharers = relatives.into_iter().map(|other| {
            // Another group may be protected, and has its own turns.
            let same = other.group.number == space.group.number;
            let lets_go = same && together && !rests(&other) && !self.is_spared(&other);
            let pages = shared_in(&other, pages);
            if lets_go && !pages.is_empty() && other.kin.inherits() {
                other.discover(&self.job); // its pages are not in the table yet
            }
            Sharer {
                pages,
                space: other,
                lets_go,
            }
        });
        sharers.filter(|sharer| !sharer.pages.is_empty()).collect()
    }

    /// Parts these pages in one process, as far as they are there. Those that left.
    fn part_in(&mut self, space: &Arc<Space>, mut stuck: Vec<PageNr>) -> Vec<PageNr> {
        let Some(body) = space.body.get().filter(|_| !stuck.is_empty()) else {
            return Vec::new();
        };
        let _gate = space.gate.read();
        if !space.lets_go() || !space.catch_up(&self.job, false) || space.is_changing() {
            return Vec::new();
        }
        // Only what is still ours and still there: the agent must not wait for a fault of its own.
        stuck.retain(|page| space.registered(*page).is_some() && !space.threads.holds(*page));
        {
            let core = self.job.core();
            let is_resident =
                |page| matches!(core.state_at(space.id, page), State::Resident { .. });
            stuck.retain(|&page| is_resident(page));
        }
        let mut spans = runs(&stuck);
        spans.truncate(neap_wire::MAX_RANGES);
        let count: u64 = spans.iter().map(|span| span.end - span.start).sum();
        stuck.truncate(count as usize / PAGE_SIZE);
        if stuck.is_empty() || !self.let_part(space, &spans) {
            return Vec::new();
        }
        if space.kin.shares() {
            space.kin.part(&stuck);
            space.group.charge(count);
        } else {
            space.kin.forget_parted();
        }
        let called = body
            .agent
            .call(op::UNSHARE, &spans, 0, Errand::Simple, true);
        if space.complete(&self.job, called).is_none() {
            return Vec::new(); // they move when their turn comes
        }
        self.stage_pages(space, body, &stuck);
        // What does not move now is held by something else.
        space.stuck.lock().clear();
        let core = self.job.core();
        let stays = |page| {
            let state = core.state_at(space.id, page);
            matches!(state, State::Resident { .. } | State::Isolated { .. })
        };
        stuck.retain(|&page| !stays(page));
        stuck
    }

    /// Lets the agent write there: it would wait for the fault thread, and that one for the gate.
    fn let_part(&self, space: &Space, spans: &[Range<u64>]) -> bool {
        let allowed = |span: &Range<u64>| {
            let progress = space.uffd.unprotect(span.clone(), neap_sys::Wake::Now);
            progress.stop.is_none()
        };
        !space.cow.holds() || spans.iter().all(allowed)
    }

    /// Picks pages and groups what is adjacent. Caller holds the gate: `Isolated` never outlives it.
    fn pick_runs(&mut self, space: &Space) -> Vec<Run> {
        self.pick(space);
        self.runs()
    }

    /// Picks pages. Caller holds the gate, as for [`Self::pick_runs`].
    pub(super) fn pick(&mut self, space: &Space) {
        self.picked.clear();
        let mut core = self.job.core();
        space.note_if_home(&core);
        core.pick(space.id, self.most, &mut self.picked);
        self.picked.retain(|&id| {
            let stays = space.threads.holds(core.locate(id).1);
            if stays {
                self.job.must(core.apply(id, Step::Putback(Heat::Hot)));
            }
            !stays
        });
    }

    /// The picked pages, those together that are adjacent.
    pub(super) fn runs(&self) -> Vec<Run> {
        let core = self.job.core();
        let mut runs: Vec<Run> = Vec::new();
        for &id in &self.picked {
            let page = core.locate(id).1;
            match runs.last_mut() {
                Some(run) if run.first.0 + run.ids.len() as u64 == page.0 => run.ids.push(id),
                _ => runs.push(Run {
                    first: page,
                    ids: vec![id],
                }),
            }
        }
        runs
    }

    /// The pages never left.
    pub(super) fn put_back(&self, space: &Space, ids: &[PageId], heat: Heat) {
        let mut wanted = Vec::new();
        let mut core = self.job.core();
        for &id in ids {
            self.job.must(core.apply(id, Step::Putback(heat)));
            if core.take_wanted(id) {
                wanted.push(core.locate(id).1);
            }
        }
        drop(core);
        for page in wanted {
            let _ = space.uffd.wake(addresses(page, 1)); // the address space is gone
        }
    }
}
