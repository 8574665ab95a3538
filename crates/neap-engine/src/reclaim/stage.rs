//! Moving chosen pages out of the program, whole and unchanged.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Heat, State, Step};
use neap_sys::Stop;
use neap_units::{PAGE_SIZE, PageId, PageNr, SlotId};
use neap_wire::op;

use super::{BATCH, Reclaimer};
use crate::load::return_staged;
use crate::space::{Body, Space, addresses};

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

impl Reclaimer {
    /// Takes up to one block of old pages. Returns how many left the program.
    pub(super) fn stage_batch(&mut self, space: &Arc<Space>) -> usize {
        let Some(body) = space.body.get() else {
            return 0;
        };
        let _gate = space.gate.read().expect("gate");
        let runs = self.pick_runs(space);
        let mut taken = 0;
        let mut rest = &self.picked[..];
        let mut cuts = Cuts::new(runs);
        while !rest.is_empty() {
            let Some(slots) = body.stage.reserve(rest.len() as u32) else {
                self.put_back(space, rest, Heat::Warm);
                break;
            };
            let (now, later) = rest.split_at(slots.count as usize);
            let spans = cuts.take(now.len());
            let target = body.stage.address(slots.first);
            match body.agent.call(op::MOVE, &spans, target) {
                Some(reply) => taken += self.settle(space, body, now, slots.first, &reply.pages),
                None => {
                    space.set_dead();
                    self.put_back(space, now, Heat::Warm);
                }
            }
            body.stage.unpin(slots.first);
            rest = later;
        }
        self.job.events.staged.fetch_add(taken as u64, Relaxed);
        taken
    }

    /// Picks pages and groups what is adjacent. Caller holds the gate: `Isolated` never outlives it.
    pub(super) fn pick_runs(&mut self, space: &Space) -> Vec<Run> {
        self.picked.clear();
        let mut core = self.job.core();
        core.pick(space.id, BATCH, &mut self.picked);
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

    /// The pages are in the slots now, or the kernel said why not. Those that a fault met on the way
    /// go home at once.
    fn settle(
        &self,
        space: &Space,
        body: &Body,
        ids: &[PageId],
        first: SlotId,
        results: &[u8],
    ) -> usize {
        let mut wanted = Vec::new();
        let mut vanished = Vec::new();
        let mut taken = 0;
        let mut core = self.job.core();
        for (i, (&id, &result)) in ids.iter().zip(results).enumerate() {
            let step = match Stop::from_errno(i32::from(result)) {
                _ if result == 0 => {
                    let slot = SlotId(first.0 + i as u32);
                    body.stage.fill(slot, id);
                    taken += 1;
                    Step::Stage(slot)
                }
                Stop::Absent => {
                    vanished.push(id);
                    continue;
                }
                Stop::Retry => Step::Putback(Heat::Warm),
                _ => {
                    self.job.events.busy.fetch_add(1, Relaxed);
                    Step::Putback(Heat::Hot)
                }
            };
            self.job.must(core.apply(id, step));
            if core.take_wanted(id) {
                wanted.push(id);
            }
        }
        drop(core);
        for id in vanished {
            self.vanish(space, id);
        }
        for id in wanted {
            self.answer(space, id);
        }
        taken
    }

    /// A fault met the page while it was isolated.
    fn answer(&self, space: &Space, id: PageId) {
        let core = self.job.core();
        let (page, state) = (core.locate(id).1, core.state(id));
        drop(core);
        if let State::Staged { .. } = state {
            return_staged(&self.job, space, id);
        }
        let _ = space.uffd.wake(addresses(page, 1));
    }

    /// The pages never left.
    pub(super) fn put_back(&self, space: &Space, ids: &[PageId], heat: Heat) {
        let mut wanted = Vec::new();
        let mut core = self.job.core();
        for &id in ids {
            self.job.must(core.apply(id, Step::Putback(heat)));
            if core.take_wanted(id) {
                wanted.push(id);
            }
        }
        drop(core);
        for id in wanted {
            self.answer(space, id);
        }
    }

    /// There was no page: the program gave it back, or the kernel dropped it.
    pub(super) fn vanish(&self, space: &Space, id: PageId) {
        let mut core = self.job.core();
        let page = core.locate(id).1;
        let wanted = core.take_wanted(id);
        let effect = self.job.must(core.apply(id, Step::Vanish));
        drop(core);
        self.job.release(space, effect);
        if wanted {
            let _ = space.uffd.wake(addresses(page, 1));
        }
    }
}
