//! The older way out, for kernels without UFFDIO_MOVE (before 6.8): write-protect the pages where
//! they are, copy and compress them, and let the agent throw them away.
//!
//! A write in between ends it for that page. Between the last check of the mapping and the discard
//! lies a moment in which the program could replace the mapping itself; UFFDIO_MOVE closes it, this
//! way can only make it short (see docs/design/safety.md).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use neap_policy::{Heat, State, Step};
use neap_sys::{Piece, Stop};
use neap_units::{EntryId, PAGE_SIZE, PageId};
use neap_wire::op;

use super::Reclaimer;
use super::stage::Run;
use crate::agent::{Called, Errand};
use crate::space::{Body, Space, addresses};

/// Between two looks for a late reply.
const PAUSE: Duration = Duration::from_micros(200);

impl Reclaimer {
    /// Evicts up to one batch of old pages in place. Returns how many are on their way out.
    pub(super) fn guard_batch(&mut self, space: &Arc<Space>) -> usize {
        let Some(body) = space.body.get() else {
            return 0;
        };
        {
            let _gate = space.gate.read().expect("gate");
            if !space.lets_go() || !space.catch_up(&self.job, false) {
                return 0;
            }
        }
        let runs = self.protect(space);
        let mut leaving = Vec::new();
        for run in &runs {
            let entries = self.copy_run(space, body, run);
            self.commit(space, run, entries, &mut leaving);
        }
        self.discard(space, body, &leaving)
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
            let progress = space.uffd.write_protect(range.clone(), true);
            if progress.stop.is_none() {
                return true;
            }
            if progress.stop == Some(Stop::Dead) {
                space.set_dead();
            }
            let mut core = self.job.core();
            for &id in &run.ids {
                if let State::Protected { .. } = core.state(id) {
                    self.job.must(core.apply(id, Step::Putback(Heat::Hot)));
                }
            }
            drop(core);
            // Some of it may be protected.
            let _ = space.uffd.write_protect(range, false);
            false
        });
        runs
    }

    /// Compresses the pages of a run; `None` for those that must stay.
    fn copy_run(&mut self, space: &Space, body: &Body, run: &Run) -> Vec<Option<EntryId>> {
        let bytes = run.ids.len() * PAGE_SIZE;
        let mut pieces = [Piece {
            from: run.first.addr(),
            to: &mut self.buffer[..bytes],
        }];
        if body.remote.read(&mut pieces).is_err() {
            return vec![None; run.ids.len()];
        }
        let codec = &mut self.codec;
        let store = &self.job.store;
        self.buffer[..bytes]
            .chunks_exact(PAGE_SIZE)
            .map(|page| {
                store
                    .store(space.id, page.try_into().expect("one page"), codec)
                    .ok()
            })
            .collect()
    }

    /// Commits the pages that are still protected, and lets the others go.
    fn commit(
        &self,
        space: &Space,
        run: &Run,
        entries: Vec<Option<EntryId>>,
        leaving: &mut Vec<PageId>,
    ) {
        let _gate = space.gate.read().expect("gate");
        if space.is_dead() {
            let stored: Vec<EntryId> = entries.into_iter().flatten().collect();
            self.job.store.put_many(&stored);
            return;
        }
        let mut released = Vec::new();
        let mut unprotect = Vec::new();
        let mut core = self.job.core();
        for (&id, entry) in run.ids.iter().zip(entries) {
            let protected = matches!(core.state(id), State::Protected { .. });
            let untouched = protected && !core.take_wanted(id);
            match entry {
                Some(entry) if untouched => {
                    released.push(self.job.must(core.apply(id, Step::CommitDiscard(entry))));
                    leaving.push(id);
                }
                Some(entry) => self.job.store.put(entry),
                None => {}
            }
            if let State::Protected { .. } = core.state(id) {
                // Written to, or not storable. Unprotected by this thread alone, after the mark.
                self.job.must(core.apply(id, Step::Putback(Heat::Hot)));
                unprotect.push(core.locate(id).1);
            }
        }
        drop(core);
        for effect in released {
            self.job.release(space, effect);
        }
        for page in unprotect {
            let _ = space.uffd.write_protect(addresses(page, 1), false);
        }
    }

    /// Has the agent throw the pages away. Their events are announced first, so that they are not
    /// taken for the program's. The fault thread reads them while we wait here, without the gate.
    fn discard(&self, space: &Arc<Space>, body: &Body, leaving: &[PageId]) -> usize {
        let gate = space.gate.read().expect("gate");
        if space.is_dead() {
            return 0;
        }
        let mut spans: Vec<Range<u64>> = Vec::new();
        let mut pages = Vec::new();
        let core = self.job.core();
        let mut own = space.own_discards.lock().expect("own discards lock");
        let mut throwing = space.in_discard.lock().expect("in discard lock");
        for &id in leaving {
            if !matches!(core.state(id), State::Discarding { .. }) {
                continue;
            }
            let page = core.locate(id).1;
            own.insert(page);
            throwing.insert(page);
            pages.push(id);
            match spans.last_mut() {
                Some(span) if span.end == page.addr() => span.end += PAGE_SIZE as u64,
                _ => spans.push(addresses(page, 1)),
            }
        }
        drop((core, own, throwing, gate));
        if pages.is_empty() {
            return 0;
        }
        let count = pages.len();
        let mut errand = Errand::Discard(pages);
        // One command: a batch has at most as many runs as a command has spans.
        loop {
            match body.agent.call(op::DISCARD, &spans, 0, errand, true) {
                Called::Busy(kept) if !space.is_dead() => {
                    errand = kept;
                    std::thread::sleep(PAUSE);
                    let _gate = space.gate.read().expect("gate");
                    if space.is_dead() {
                        return 0;
                    }
                    space.catch_up(&self.job, false);
                }
                called => {
                    let _gate = space.gate.read().expect("gate");
                    if !space.is_dead() {
                        space.complete(&self.job, called);
                    }
                    return count;
                }
            }
        }
    }
}
