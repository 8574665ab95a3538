//! The older way out, for kernels without UFFDIO_MOVE (before 6.8): write-protect the pages where
//! they are, copy and compress them, and let the agent throw them away.
//!
//! A write in between ends it for that page. Between the last check of the mapping and the discard
//! lies a moment in which the program could replace the mapping itself; UFFDIO_MOVE closes it, this
//! way can only make it short (see docs/design/safety.md).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Heat, State, Step};
use neap_sys::{Piece, Stop};
use neap_units::{EntryId, PAGE_SIZE, PageId, PageNr};
use neap_wire::op;

use super::Reclaimer;
use super::stage::Run;
use crate::agent::{Called, Errand};
use crate::space::{Body, Space, addresses};

/// Rest of a space of whose pages none could be thrown away: 1 ms, in nanoseconds.
const FRUITLESS_REST: u64 = 1_000_000;

/// Pages that the agent is to throw away.
struct Leaving {
    span: Range<u64>,
    pages: Vec<PageId>,
}

impl Reclaimer {
    /// Evicts up to one batch of old pages in place. Returns how many are on their way out.
    pub(super) fn guard_batch(&mut self, space: &Arc<Space>) -> usize {
        let Some(body) = space.body.get() else {
            return 0;
        };
        if !body.agent.has_answered() {
            space.arm_agent(&self.job); // who it is must be known before it throws anything away
        }
        {
            let _gate = space.gate.read().expect("gate");
            if !space.lets_go() || !space.catch_up(&self.job, false) {
                return 0;
            }
        }
        let (mut count, mut late) = (0, false);
        for run in self.protect(space) {
            let entries = if late {
                vec![None; run.ids.len()]
            } else {
                self.copy_run(space, body, &run)
            };
            let leaving = self.commit(space, body, &run, entries);
            if let Some(leaving) = leaving {
                match self.discard(space, body, leaving) {
                    Some(thrown) => count += thrown,
                    None => late = true,
                }
            }
        }
        if count == 0 && !late {
            // The kernel keeps them (they are locked), or all are written to: not at once again.
            let until = neap_sys::monotonic_nanos() + FRUITLESS_REST;
            space.rests_until.store(until, Relaxed);
        }
        count
    }

    /// Picks pages and write-protects them.
    fn protect(&mut self, space: &Space) -> Vec<Run> {
        let _gate = space.gate.read().expect("gate");
        if !space.lets_go() {
            return Vec::new();
        }
        let mut runs = self.pick_runs(space);
        runs.retain(|run| {
            // Marked before they are protected: a write that comes at once finds the mark.
            let mut core = self.job.core();
            for &id in &run.ids {
                self.job.must(core.apply(id, Step::Putback(Heat::Warm)));
                self.job.must(core.apply(id, Step::Protect));
                core.take_wanted(id);
            }
            drop(core);
            let range = addresses(run.first, run.ids.len());
            let progress = space.uffd.protect(range.clone());
            if progress.stop.is_none() {
                return true;
            }
            if progress.stop == Some(Stop::Dead) {
                space.look_for_life();
            }
            let heat = match progress.stop {
                Some(Stop::Retry) => Heat::Warm,
                _ => Heat::Hot,
            };
            let mut core = self.job.core();
            for &id in &run.ids {
                if let State::Protected { .. } = core.state(id) {
                    self.job.must(core.apply(id, Step::Putback(heat)));
                }
            }
            drop(core);
            // Some of it may be protected.
            space.unprotect(range);
            false
        });
        runs
    }

    /// Compresses the pages of a run; `None` for those that must stay.
    fn copy_run(&mut self, space: &Space, body: &Body, run: &Run) -> Vec<Option<EntryId>> {
        let codec = &mut self.codec;
        let store = &self.job.store;
        let buffer = &mut self.buffer[..run.ids.len() * PAGE_SIZE];
        let read = |from: u64, to: &mut [u8]| {
            // It never waits for a fault, as process_vm_readv would: the program may have thrown some of it away, and
            // the fill might wait for this very thread.
            body.remote.read(&mut [Piece { from, to }]).is_ok()
        };
        let first = run.first.addr();
        let whole = read(first, buffer);
        (first..)
            .step_by(PAGE_SIZE)
            .zip(buffer.chunks_exact_mut(PAGE_SIZE))
            .map(|(at, page)| {
                let there = whole || read(at, page);
                let page: &[u8; PAGE_SIZE] = (&*page).try_into().expect("one page");
                there.then(|| store.store(space.id, page, codec).ok())?
            })
            .collect()
    }

    /// Commits the pages from the first that was not written to up to the next that was, and lets the others
    /// go: what is thrown away is one span. Its event is announced, so that it is not taken for the program's.
    fn commit(
        &self,
        space: &Space,
        body: &Body,
        run: &Run,
        entries: Vec<Option<EntryId>>,
    ) -> Option<Leaving> {
        let _gate = space.gate.read().expect("gate");
        if space.is_dead() {
            let stored: Vec<EntryId> = entries.into_iter().flatten().collect();
            self.job.store.put_many(&stored);
            return None;
        }
        let (mut span, mut leaving) = (0..0, Vec::new());
        let mut released = Vec::new();
        let mut unprotect = Vec::new();
        let mut core = self.job.core();
        for (&id, entry) in run.ids.iter().zip(entries) {
            let protected = matches!(core.state(id), State::Protected { .. });
            let touched = protected && core.take_wanted(id);
            let heat = heat_of_staying(touched, entry);
            let leaves = protected && !touched && space.lets_go();
            match entry {
                Some(entry) if leaves && follows(&span, core.locate(id).1) => {
                    released.push(self.job.must(core.apply(id, Step::CommitDiscard(entry))));
                    let page = addresses(core.locate(id).1, 1);
                    span = if leaving.is_empty() {
                        page.start
                    } else {
                        span.start
                    }..page.end;
                    leaving.push(id);
                }
                Some(entry) => self.job.store.put(entry),
                None => {}
            }
            if let State::Protected { .. } = core.state(id) {
                // Unprotected by this thread alone, after the mark.
                self.job.must(core.apply(id, Step::Putback(heat)));
                unprotect.push(core.locate(id).1);
            }
        }
        drop(core);
        if !leaving.is_empty() {
            space.announce_discard(&span);
            body.agent.set_throwing(true);
        }
        for effect in released {
            self.job.release(space, effect);
        }
        for page in unprotect {
            space.unprotect(addresses(page, 1));
        }
        (!leaving.is_empty()).then_some(Leaving {
            span,
            pages: leaving,
        })
    }

    /// Has the agent throw the pages away: one span, so that it does nothing more once its event is read.
    /// The fault thread reads it while we wait here, without the gate. Returns how many pages went; `None`:
    /// the answer is late.
    fn discard(&self, space: &Arc<Space>, body: &Body, leaving: Leaving) -> Option<usize> {
        let errand = Errand::Discard(leaving.pages);
        let called = match body
            .agent
            .call(op::DISCARD, &[leaving.span], 0, errand, true)
        {
            // Nothing was sent, so nothing has left: where the pages are tells.
            Called::Busy(errand) => {
                body.agent.set_throwing(false);
                Called::Gone(errand)
            }
            called => called,
        };
        let _gate = space.gate.read().expect("gate");
        if space.is_dead() {
            return Some(0);
        }
        space.complete(&self.job, called)
    }
}

/// Of a page that does not leave: what was written to, or cannot be stored, does not come up again soon.
fn heat_of_staying(touched: bool, entry: Option<EntryId>) -> Heat {
    if touched || entry.is_none() {
        Heat::Hot
    } else {
        Heat::Warm
    }
}

/// Whether a page is the next of a span, which may be empty.
fn follows(span: &Range<u64>, page: PageNr) -> bool {
    span.is_empty() || span.end == page.addr()
}
