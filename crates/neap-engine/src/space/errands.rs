//! Completing what an agent was asked to do, whoever hears of it.

use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Heat, State, Step};
use neap_sys::Stop;
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageId, SlotId};
use neap_wire as wire;

use super::{Advance, Body, Space, addresses, runs};
use crate::agent::{Called, Errand};
use crate::job::Job;

const EPERM: i32 = 1;
const ENOMEM: i32 = 12;

impl Space {
    /// Ends what must not be under way when an event is read: a move must not meet a mapping that the
    /// program changed, and the kernel refuses it only until then. A discard by our own agent, on
    /// the contrary, waits for its event. False while a move is late. The caller holds the gate
    /// exclusively.
    pub fn quiesce(&self, job: &Job) -> bool {
        let late = || {
            self.body
                .get()
                .is_some_and(|body| body.agent.has_late_move())
        };
        if late() {
            self.catch_up(job, false);
        }
        !late()
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
            Called::Done(errand, mut reply) => {
                self.correct(job, body, &errand, &mut reply);
                Some(self.finish(job, body, errand, &reply))
            }
            Called::Late => {
                job.flags.late.raise();
                None
            }
            Called::Busy(_) => None,
            Called::Gone(errand) => {
                let reply = self.judge(job, body, &errand);
                Some(self.finish(job, body, errand, &reply))
            }
        }
    }

    /// When pages leave, the program depends on the engine, and its agent must know before. It is not waited for:
    /// where more programs run than there are cpus, each would keep the next from being registered for milliseconds.
    pub fn arm_agent(&self, job: &Job) {
        if let Some(body) = self.body.get() {
            let called = body.agent.ask(wire::op::ARM, Errand::Arm);
            self.complete(job, called);
        }
    }

    fn finish(&self, job: &Job, body: &Body, errand: Errand, reply: &wire::Reply) -> usize {
        match errand {
            Errand::Stage { pages, first } => self.staged(job, body, &pages, first, &reply.pages),
            Errand::Return { pages, touched } => {
                self.returned(job, body, &pages, touched, &reply.pages)
            }
            Errand::Recycle(mut blocks) => {
                // One that failed is suspect, unless the program has no mapping left to split off for it: what is
                // in it is dead, so that it can be tried again. Those after it were not tried.
                let suspect = usize::from(reply.errno != ENOMEM);
                if suspect == 0 {
                    job.warn(format!("process {} has as many mappings as it may: its memory leaves slowly or not at all; raise vm.max_map_count", body.pid));
                }
                let untried = blocks.split_off(blocks.len().min(reply.done as usize + suspect));
                body.stage.take_back(&untried);
                let emptied = |i: usize| i < reply.done as usize;
                let freed: u32 = blocks
                    .into_iter()
                    .enumerate()
                    .map(|(i, block)| body.stage.recycled(block, emptied(i)))
                    .sum();
                self.group.uncharge(u64::from(freed) * PAGE_SIZE as u64);
                freed as usize
            }
            Errand::Arm => {
                let armed = reply.magic == wire::MAGIC && reply.errno == 0;
                self.told.store(armed, Relaxed);
                if reply.magic == wire::MAGIC && reply.errno == EPERM {
                    self.standing.step(Advance::StayNative); // the sampler tells of it, without a gate
                }
                0
            }
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
                    self.group.count(|events| &events.busy, 1);
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
        self.note_stuck(job, stuck.len(), taken);
        self.stuck.lock().append(&mut stuck);
        for effect in freed {
            job.release(self, effect);
        }
        for page in wanted {
            let _ = self.uffd.wake(addresses(page, 1));
        }
        self.group.count(|events| &events.staged, taken as u64);
        taken
    }

    /// So many pages would not move, while `taken` others did. Once a whole round would not, which is the answer, trying again
    /// at once would only take time.
    pub(crate) fn note_stuck(&self, job: &Job, stuck: usize, taken: usize) -> bool {
        let run = match taken {
            0 => self.stuck_run.load(Relaxed) + stuck as u64,
            _ => 0,
        };
        let round = run > 0 && run >= job.core().resident(self.id).0;
        self.stuck_run.store(if round { 0 } else { run }, Relaxed);
        if taken > 0 {
            self.rests_until.store(0, Relaxed);
        } else if round {
            self.rest(job);
        }
        round
    }

    /// Nothing is picked of it for a moment.
    pub(crate) fn rest(&self, job: &Job) {
        let until = job.clock.now() + TUNING.agents.stuck_rest.0;
        self.rests_until.store(until, Relaxed);
    }

    /// The pages are home, or stay staged. Threads that came to wait for them are woken in either case.
    fn returned(
        &self,
        job: &Job,
        body: &Body,
        ids: &[PageId],
        touched: bool,
        results: &[u8],
    ) -> usize {
        let (mut freed, mut pages, mut home) = (Vec::new(), Vec::new(), 0);
        let mut core = job.core();
        for (i, (&id, &result)) in ids.iter().zip(results).enumerate() {
            if !matches!(core.state(id), State::Returning { .. }) {
                continue;
            }
            let heat = match i {
                0 if touched => Heat::Hot,
                _ => Heat::Warm,
            };
            let step = if result == 0 {
                Step::EndReturn(heat)
            } else {
                Step::AbortReturn
            };
            home += usize::from(result == 0);
            pages.push(core.locate(id).1);
            freed.push(job.must(core.apply(id, step)));
        }
        drop(core);
        for slot in freed.into_iter().filter_map(|effect| effect.freed_slot) {
            body.stage.vacate(slot);
        }
        for run in runs(&pages) {
            let _ = self.uffd.wake(run);
        }
        self.group.count(|events| &events.returned, home as u64);
        self.came_back.fetch_add(home as u64, Relaxed);
        home
    }
}
