//! Completing what an agent was asked to do, whoever hears of it.

use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Heat, State, Step};
use neap_sys::Stop;
use neap_units::{PAGE_SIZE, PageId, SlotId};
use neap_wire as wire;

use super::{Body, Space, addresses};
use crate::agent::{Called, Errand};
use crate::job::Job;

/// Rest of a space whose pages mostly did not move: 5 ms, in nanoseconds.
const STUCK_REST: u64 = 5_000_000;

impl Space {
    /// Ends what must not be under way when an event is read: a move must not meet a mapping that the
    /// program changed, and the kernel refuses it only until then. A discard by our own agent, on
    /// the contrary, waits for its event. The caller holds the gate exclusively.
    pub fn quiesce(&self, job: &Job) {
        let late = || {
            self.body
                .get()
                .is_some_and(|body| body.agent.has_late_move())
        };
        while late() && !self.is_dead() {
            self.catch_up(job, true);
        }
    }

    /// Whether a command is late.
    pub fn is_late(&self) -> bool {
        self.body.get().is_some_and(|body| body.agent.is_late())
    }

    /// Completes a late command. False while it is still late. The caller holds the gate: shared, and
    /// then it must not `wait`, since a discard waits for whoever holds it exclusively.
    pub fn catch_up(&self, job: &Job, wait: bool) -> bool {
        let Some(body) = self.body.get() else {
            return true;
        };
        match body.agent.collect(wait) {
            None => true,
            Some(called) => self.complete(job, called).is_some(),
        }
    }

    /// Completes a call. `None`: late, or the space is gone; else how many pages it moved or freed.
    /// The caller holds the gate, unless the errand touches no page.
    pub fn complete(&self, job: &Job, called: Called) -> Option<usize> {
        let body = self.body.get()?;
        match called {
            Called::Done(errand, reply) => Some(self.finish(job, body, errand, &reply)),
            Called::Late | Called::Busy(_) => None,
            Called::Gone => {
                self.set_dead();
                None
            }
        }
    }

    /// From here on the program depends on the engine, and its agent must know.
    pub fn arm_agent(&self, job: &Job) {
        if let Some(body) = self.body.get() {
            let called = body.agent.call(wire::op::ARM, &[], 0, Errand::Simple, true);
            self.complete(job, called);
        }
    }

    fn finish(&self, job: &Job, body: &Body, errand: Errand, reply: &wire::Reply) -> usize {
        match errand {
            Errand::Stage { pages, first } => self.staged(job, body, &pages, first, &reply.pages),
            Errand::Return(pages) => self.returned(job, body, &pages, &reply.pages),
            Errand::Recycle(blocks) => {
                let emptied = |i: usize| i < reply.done as usize;
                let freed: u32 = blocks
                    .into_iter()
                    .enumerate()
                    .map(|(i, block)| body.stage.recycled(block, emptied(i)))
                    .sum();
                job.meter.uncharge(u64::from(freed) * PAGE_SIZE as u64);
                freed as usize
            }
            Errand::Discard(pages) => self.discarded(job, &pages),
            Errand::Simple => 0,
        }
    }

    /// The pages are in the slots now, or the kernel said why not. Those that a fault met on the way
    /// are looked at again by their threads.
    fn staged(
        &self,
        job: &Job,
        body: &Body,
        ids: &[PageId],
        first: SlotId,
        results: &[u8],
    ) -> usize {
        let mut wanted = Vec::new();
        let mut freed = Vec::new();
        let mut stuck = Vec::new();
        let mut taken = 0;
        let mut core = job.core();
        for (i, (&id, &result)) in ids.iter().zip(results).enumerate() {
            if !matches!(core.state(id), State::Isolated { .. }) {
                continue; // dropped by an event, after the command was late
            }
            let page = core.locate(id).1;
            if core.take_wanted(id) {
                wanted.push(page);
            }
            let step = match Stop::from_errno(i32::from(result)) {
                _ if result == 0 => {
                    let slot = SlotId(first.0 + i as u32);
                    body.stage.fill(slot, id);
                    taken += 1;
                    Step::Stage(slot)
                }
                // There was no page: the program gave it back, or the kernel dropped it.
                Stop::Absent => Step::Vanish,
                Stop::Retry => Step::Putback(Heat::Warm),
                stop => {
                    job.events.busy.fetch_add(1, Relaxed);
                    if stop == Stop::Busy {
                        stuck.push(page);
                    }
                    Step::Putback(Heat::Hot)
                }
            };
            freed.push(job.must(core.apply(id, step)));
        }
        drop(core);
        body.stage.unpin(first);
        if stuck.len() > taken {
            self.rests_until
                .store(neap_sys::monotonic_nanos() + STUCK_REST, Relaxed);
        }
        self.stuck.lock().expect("stuck lock").append(&mut stuck);
        for effect in freed {
            job.release(self, effect);
        }
        for page in wanted {
            let _ = self.uffd.wake(addresses(page, 1));
        }
        job.events.staged.fetch_add(taken as u64, Relaxed);
        taken
    }

    /// The pages are home (their threads were woken by the move), or stay staged.
    fn returned(&self, job: &Job, body: &Body, ids: &[PageId], results: &[u8]) -> usize {
        let mut freed = Vec::new();
        let mut core = job.core();
        for (i, (&id, &result)) in ids.iter().zip(results).enumerate() {
            if !matches!(core.state(id), State::Returning { .. }) {
                continue;
            }
            // The first is the one that was asked for.
            let heat = if i == 0 { Heat::Hot } else { Heat::Warm };
            let step = if result == 0 {
                Step::EndReturn(heat)
            } else {
                Step::AbortReturn
            };
            freed.push(job.must(core.apply(id, step)));
        }
        drop(core);
        let home = results[..ids.len()]
            .iter()
            .filter(|&&result| result == 0)
            .count();
        for slot in freed.into_iter().filter_map(|effect| effect.freed_slot) {
            body.stage.vacate(slot);
        }
        job.events.returned.fetch_add(home as u64, Relaxed);
        home
    }

    /// The agent has thrown the pages away: from here on a fault finds them in the store.
    fn discarded(&self, job: &Job, pages: &[PageId]) -> usize {
        let mut waiting = Vec::new();
        {
            let mut core = job.core();
            let mut own = self.own_discards.lock().expect("own discards lock");
            for &id in pages {
                if let State::Discarding { .. } = core.state(id) {
                    let page = core.locate(id).1;
                    own.remove(&page);
                    core.take_wanted(id);
                    job.must(core.apply(id, Step::Discarded));
                    waiting.push(page);
                }
            }
        }
        for page in &waiting {
            let _ = self.uffd.wake(addresses(*page, 1));
        }
        job.meter.uncharge((waiting.len() * PAGE_SIZE) as u64);
        waiting.len()
    }
}
