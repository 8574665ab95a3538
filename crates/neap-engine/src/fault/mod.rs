//! The way in begins here: one thread for each armed space waits for its faults and events.
//!
//! It reads under the exclusive gate, applies changes when nothing is still to come, and then serves the
//! faults under the shared one. It stays on the cpu of the thread it serves: behind it in bursts of faults, and
//! otherwise ahead, where it keeps that thread while it wakes it. A wake-up that crosses cpus costs many times what the
//! fault itself does.

mod cow;
mod follow;
mod gaps;
mod inbox;
mod patience;
mod rank;
mod serve;
mod throttle;
mod watch;
mod zeros;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::FreshRuns;
use neap_record::Noted;
use neap_sys::Wake;
use neap_tuning::TUNING;
use neap_units::PageNr;

use crate::job::Job;
use crate::load::Loader;
use crate::space::{Body, Space, addresses};
use crate::spawn::spawn;
use gaps::Gaps;
use inbox::Inbox;
use patience::{Patience, Span, Terms};
use rank::Rank;
use throttle::Throttle;
use watch::Doing;
pub(crate) use watch::Watch;

/// A thread of the program waits for this page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub page: PageNr,
    pub write: bool,
    pub protected: bool,
    pub thread: u32,
    /// When it was tried first, and had to wait; in nanoseconds.
    pub tried_at: Option<u64>,
    /// Since when the address space has been changing, or looked at last for why; in nanoseconds.
    pub stuck_since: Option<u64>,
    /// When it had to wait for room last, in nanoseconds.
    pub held_at: Option<u64>,
}

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Filled, or somebody else is about to: that one wakes the thread.
    Done,
    /// The address space is changing: again, after the events.
    Later,
    /// Memory must be reclaimed first: again, once there is room.
    Held,
}

/// Who is kept where a cpu is wanted may wait for milliseconds each time, and nobody looks after it meanwhile.
const KEEP: Terms = Terms {
    too_long: waits_long,
    trial: TUNING.faults.trial,
    least_left: TUNING.faults.keep_left,
    growth: TUNING.faults.left_growth,
};

/// The thread that is kept on its cpu waits there longer for others than for this one.
fn waits_long(span: &Span) -> bool {
    let others = span.its.waited.saturating_sub(span.own.ran);
    others > TUNING.faults.long_wait.0 * u64::from(span.faults)
}

/// A thread for the faults and events of a space.
pub(crate) fn start_fault_thread(job: &Arc<Job>, space: &Arc<Space>) -> io::Result<()> {
    let (job, space) = (job.clone(), space.clone());
    spawn("neap-fault", move || FaultThread::new(job, space).run())
}

pub(crate) struct FaultThread {
    job: Arc<Job>,
    space: Arc<Space>,
    loader: Loader,
    /// Where fresh memory is written, where it is read, and where it is written once it was read.
    fresh: Noted<FreshRuns>,
    read: Noted<FreshRuns>,
    written: Noted<FreshRuns>,
    /// Where what a fork shared is copied; and whether the fault that is served now copies.
    copied: Noted<FreshRuns>,
    copies: bool,
    inbox: Inbox,
    /// Since when some thread waits, in nanoseconds.
    stalled: Option<u64>,
    /// Faults wait for room.
    held: bool,
    /// Some fault waits for something else than room.
    soon: bool,
    /// The thread that is followed, and the cpu it was met on.
    followed: Option<(u32, usize)>,
    patience: Patience,
    /// How long the next look for the end of a change waits.
    unsure: u64,
    /// When to look next at what a thread is at whose fault waits for that.
    next_look: u64,
    /// Threads in a row that were not kept, since no cpu was idle.
    trusted: u32,
    /// This thread runs ahead of the program's on a cpu they share.
    ahead: bool,
    rank: Rank,
    gaps: Gaps,
    /// Fills are tried again and again: there was a nap just before.
    insists: bool,
    /// When to look for notes of which the library did not tell, in nanoseconds; and whether there may be some.
    next_notes: u64,
    hears_more: bool,
    /// Its library called during the first look, and nobody has heard it since.
    unheard: bool,
    throttle: Throttle,
    /// From where on what a fork shared is still to be write-protected, and the nanoseconds that this took so far.
    unheld: Option<(u64, u64)>,
}

impl FaultThread {
    pub fn new(job: Arc<Job>, space: Arc<Space>) -> Self {
        Self {
            loader: Loader::new(&job.recorder),
            rank: Rank::new(&job, &space),
            inbox: Inbox::new(&job, &space),
            fresh: Noted::new(&job.recorder, ()),
            read: Noted::new(&job.recorder, ()),
            written: Noted::new(&job.recorder, ()),
            copied: Noted::new(&job.recorder, ()),
            job,
            space,
            copies: false,
            stalled: None,
            held: false,
            soon: false,
            followed: None,
            patience: Patience::new(KEEP),
            unsure: TUNING.faults.unsure.0,
            next_look: 0,
            trusted: 0,
            ahead: false,
            gaps: Gaps::default(),
            insists: false,
            next_notes: 0,
            hears_more: false,
            unheard: false,
            throttle: Throttle::default(),
            unheld: None,
        }
    }

    pub fn run(mut self) {
        neap_sys::block_signals();
        self.ahead = neap_sys::raise_to_realtime();
        while !self.space.is_dead() {
            if self.rank.is_behind() && self.reads_on() {
                continue;
            }
            let space = self.space.clone();
            let alone = space.body.get().is_none_or(|body| body.agent.is_gone());
            self.hold_copies();
            let told = self.lets_changes_pass() || self.sleep(alone);
            let quiet = self.inbox.waiting.is_empty() && !space.expects();
            if !told && quiet {
                self.rank.go_ahead();
                self.hear_late();
                if alone {
                    space.look_for_life();
                }
                continue;
            }
            self.turn(told);
        }
        self.end();
    }

    /// The address space has ended.
    pub fn end(mut self) {
        self.rank.go_ahead();
        self.inbox.end();
        self.inbox.waiting.clear();
        self.note_stall();
        self.job.drop_space(&self.space);
        let job = self.job.clone();
        drop(self); // and its descriptors
        job.spares.keep();
    }

    /// Where something starves, gives the cpu up for so long that a thread that shares it comes out of its call, and has
    /// what is served then insist. Whether it was so.
    fn lets_changes_pass(&mut self) -> bool {
        let (inbox, rank, ahead) = (&mut self.inbox, &mut self.rank, self.ahead);
        // Without a class of its own this thread gets the cpu back in time only from one that it has hardly kept waiting.
        let naps = inbox.is_starved()
            && self.gaps.nap(|| {
                if !ahead {
                    inbox.read(rank);
                }
            });
        if !naps && self.gaps.end() {
            self.followed = None; // it is on another cpu
        }
        self.insists = naps;
        naps
    }

    /// Reads what there is, applies what can be applied, and serves. `told`: something was there to be read.
    pub fn turn(&mut self, told: bool) {
        self.inbox.read(&mut self.rank);
        // For all faults together: the threads whose events were read just now go on once.
        self.loader.filler.insist_until(match self.insists {
            true => self.job.clock.now() + TUNING.faults.gap.0,
            false => 0,
        });
        self.space.discover_replaced(&self.job);
        if told && self.inbox.fruitless > TUNING.faults.fruitless && self.space.look_for_life() {
            self.job.clock.sleep(TUNING.faults.fruitless_pause.0);
        }
        self.unsure = match self.space.expects() {
            true if told => self.unsure,
            true => (self.unsure * 2).min(TUNING.faults.unsure_at_most.0),
            false => TUNING.faults.unsure.0,
        };
        if told {
            self.rank.note_woken();
        }
        self.serve_all();
        self.hear_late();
    }

    /// Looks now and then for notes of which the library did not tell.
    fn hear_late(&mut self) {
        let now = self.job.clock.now();
        let notes = self.space.body.get().is_some_and(|body| body.notes != 0);
        if notes && now >= self.next_notes && self.space.is_managed() {
            self.hear(now);
        }
    }

    /// Hears what the library has noted, and does what it calls for.
    fn hear(&mut self, now: u64) {
        self.next_notes = now + TUNING.hints.notes.0;
        let heard = self.space.hear_notes(&self.job);
        if heard.looks {
            self.space.discover(&self.job);
        }
        self.hears_more = heard.notes;
    }

    /// Sleeps until there is something to do, or it is time to look. Whether there is something to be read.
    fn sleep(&self, alone: bool) -> bool {
        let space = &self.space;
        let limit = match alone {
            _ if self.unheld.is_some() && !space.window.holds() => Some(0),
            _ if space.expects() => Some(self.unsure),
            _ if !self.inbox.waiting.is_empty() => Some(self.pause()),
            true => Some(TUNING.faults.alone.0),
            _ if self.rank.is_behind() => Some(TUNING.faults.soon.0),
            _ if self.hears_more => Some(TUNING.hints.notes.0),
            // A timer costs a twentieth of a fault; all that ends this sleep rings or is read.
            false => None,
        };
        let rests = self.inbox.waiting.is_empty() && !space.expects();
        self.rank.set(if rests { Doing::Rest } else { Doing::Work });
        let ready = match &space.bell {
            Some(bell) => neap_sys::wait_readable(&[space.uffd.as_fd(), bell.as_fd()], limit),
            None => {
                let limit = limit.map_or(TUNING.faults.alone.0, |limit| {
                    limit.min(TUNING.faults.alone.0)
                });
                neap_sys::wait_readable(&[space.uffd.as_fd()], Some(limit))
            }
        };
        self.rank.set(Doing::Work);
        if let Some(bell) = space.bell.as_ref().filter(|_| ready & 2 != 0) {
            bell.clear();
        }
        ready & 1 != 0
    }

    /// Serves what has come while this thread waited for the cpu. Whether there was something.
    fn reads_on(&mut self) -> bool {
        if !self.inbox.waiting.is_empty() || self.space.expects() {
            return false;
        }
        self.inbox.read_soon(&mut self.rank);
        let found = !self.inbox.waiting.is_empty();
        if found {
            self.rank.note_follows();
            self.serve_all();
        }
        found
    }

    /// How long to sleep while faults wait.
    fn pause(&self) -> u64 {
        if self.held && !self.soon {
            TUNING.faults.held.0
        } else {
            TUNING.faults.again.0
        }
    }

    fn serve_all(&mut self) {
        self.note_stall();
        let mut held = 0;
        let holds = self
            .inbox
            .waiting
            .iter()
            .any(|fault| fault.held_at.is_some());
        let now = if holds { self.job.clock.now() } else { 0 };
        for _ in 0..self.inbox.waiting.len() {
            let Some(mut fault) = self.inbox.waiting.pop_front() else {
                break;
            };
            if fault
                .held_at
                .is_some_and(|at| now < at + TUNING.faults.held_again.0)
                && self.waits_its_turn()
            {
                held += 1;
                self.inbox.waiting.push_back(fault);
                continue;
            }
            self.follow(&fault);
            self.loader.filler.set(match self.rank.is_behind() {
                true => Wake::Later,
                false => Wake::Now,
            });
            if !self.rank.is_behind() && self.may_stray() {
                self.keep(fault.thread);
            }
            let served = self.serve(fault);
            neap_sys::end_keep();
            if self.loader.filler.has_called() {
                self.rank.go_ahead();
            }
            match served {
                Served::Done => {
                    self.space.group.count(|events| &events.pgfault, 1);
                    if !std::mem::take(&mut self.copies) {
                        self.space.kin.explain(1);
                    }
                }
                Served::Later if self.lets_populate(&mut fault) => {}
                Served::Later | Served::Held => {
                    fault.tried_at.get_or_insert_with(|| self.job.clock.now());
                    if served == Served::Held {
                        held += 1;
                        fault.held_at = Some(self.job.clock.now());
                    }
                    self.inbox.waiting.push_back(fault);
                    self.rank.go_ahead(); // what it waits for has the cpus
                }
            }
        }
        // Others were to be tried again, or have come while these were served.
        self.soon = self.inbox.waiting.len() > held;
        self.wake_all();
    }

    /// Counts the time in which some thread waits.
    fn note_stall(&mut self) {
        let waits = !self.inbox.waiting.is_empty();
        if waits == self.stalled.is_some() {
            return;
        }
        let now = self.job.clock.now();
        self.space.group.note_stall(waits, now);
        match self.stalled.take() {
            Some(since) => _ = self.space.stalled.fetch_add(now - since, Relaxed),
            None => self.stalled = Some(now),
        }
    }

    /// Wakes who waits for what has been filled.
    fn wake_all(&mut self) {
        if let Some(range) = self.loader.filler.owed() {
            // Who is woken takes this cpu over. No lock is held.
            if self.inbox.waiting.is_empty() && !self.space.expects() {
                self.rank.set_waking(range);
            }
            self.loader.filler.wake(&self.space);
            self.rank.set(Doing::Work);
        }
        self.note_stall();
    }

    /// There is no room yet, and this space will be called when there is some.
    fn waits_its_turn(&self) -> bool {
        !self.space.group.has_room() && self.space.queues.load(Relaxed)
    }

    /// mremap of locked memory fills what the mapping grew by before it tells that it has moved, and until
    /// that is told the kernel takes no page of us: they would wait for each other for ever. A page there that
    /// the table does not know is left to the kernel; the next look for mappings finds it. One that it knows
    /// waits: its thread may have come to mremap from a signal, and its bytes are ours.
    fn lets_populate(&mut self, fault: &mut Fault) -> bool {
        let now = self.job.clock.now();
        let since = *fault.stuck_since.get_or_insert(now);
        if now - since < TUNING.faults.long_change.0 {
            return false;
        }
        if now < self.next_look {
            return false; // its turn comes
        }
        fault.stuck_since = Some(now);
        // It reads and writes no memory of the program but what it populates.
        let moves = |body: &Body| match body.same_pids {
            true => body.process.is_in_mremap(fault.thread),
            false => body.process.any_in_mremap(),
        };
        let populates = self.space.body.get().is_some_and(moves);
        let end = self.job.clock.now();
        self.next_look = end + (end - now) * TUNING.faults.looks_rest;
        if !populates {
            return false;
        }
        let _gate = self.space.gate.write();
        if let Some(why) = self.space.lost.why(fault.page) {
            self.job.lose(&self.space, fault.page, &why);
            return false;
        }
        let known = self.job.core().find(self.space.id, fault.page).is_some();
        // What the table has of a place that was left is not its bytes; of what came there it has none yet.
        let (comes, left) = self.space.is_awaited(fault.page);
        if comes || known && !left {
            return false;
        }
        let range = addresses(fault.page, 1);
        let mut ranges = self.space.ranges.lock();
        ranges.remove(range.clone());
        self.space.uffd.unregister(range).is_ok()
    }
}
