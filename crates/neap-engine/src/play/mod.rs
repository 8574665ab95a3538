//! The engine played over what a program touches, on an imagined machine and in imagined time.
//!
//! The flow of faults, reclaim, staging, stores, write-back and loads is the engine's own, and so are pacer, meter and store.
//! Imagined are the kernel (`neap-imagined`), what pages hold, and the time that each thing takes. Three clocks: the program's,
//! which stands still while it waits for a page or for room; reclaim's, which works on another cpu; and the disk's.
//!
//! What of the engine is not played: looks for new mappings (all are there from the start), workers beside reclaim,
//! hints, forks, and the classes and cpus of threads. The sampler's look is made anew here, without `/proc`.

mod clock;
mod content;
mod costs;
mod scene;

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_imagined::{Access, Act, Machine, Ran, SpaceNr};
use neap_policy::Pacer;
use neap_store::Codec;
use neap_tuning::TUNING;
use neap_units::{Bytes, Nanos, PAGE_SIZE, Pages};
use serde::Serialize;

use crate::fault::FaultThread;
use crate::job::Job;
use crate::meter::Sample;
use crate::reclaim::{Reclaimer, Work};
use crate::space::Space;
use crate::writeback::write_what_is_wished;
use clock::Time;
use content::noise_of;
pub use costs::PlayCosts;
use costs::Tally;
use scene::{BASE, THREAD, address};

/// The job that is played.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlayJob {
    /// `-m`.
    pub limit: Bytes,
    /// `--pool-max`, in percent of the limit.
    pub pool_max_percent: u8,
    /// Length of the swap file; 0: there is none.
    pub swap: Bytes,
    /// Cpus of the machine.
    pub cpus: u32,
    /// What neap takes for its work.
    pub costs: PlayCosts,
    /// How many times smaller pages get alone, and with a dictionary once there is one.
    pub ratio: (f64, f64),
    /// Pages that are unwatched are touched at once when they are taken out.
    pub unwatched_hot: bool,
}

impl PlayJob {
    fn pool_max(&self) -> Bytes {
        Bytes(self.limit.0 / 100 * u64::from(self.pool_max_percent))
    }
}

/// Counts of a play, by the names of `neap run --stats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PlayCounts {
    /// Faults that waited for a compressed page.
    pub pgmajfault: u64,
    /// Pages moved back before they were compressed.
    pub returned: u64,
    /// Pages decompressed.
    pub zswpin: u64,
    /// Pages compressed.
    pub zswpout: u64,
    /// Pages read from the swap file.
    pub pswpin: u64,
    /// Pages written to it.
    pub pswpout: u64,
    /// The job was far over its limit, or its program had to be given up.
    pub over: bool,
}

/// A program under the engine.
pub struct Play {
    setup: PlayJob,
    machine: Machine,
    program: SpaceNr,
    time: Time,
    job: Arc<Job>,
    space: Arc<Space>,
    faults: FaultThread,
    reclaimer: Reclaimer,
    codec: Codec,
    pacer: Pacer,
    next_look: Nanos,
    armed: bool,
    /// The program's clock, reclaim's, and when the disk has written what it was given.
    now: Nanos,
    busy: Nanos,
    written: Nanos,
    /// Pages that nobody watches.
    unwatched: Vec<bool>,
    /// Pages that came home at once since one stayed out.
    bounced: u64,
    /// Such pages are coming just now.
    bounces: bool,
    /// Writes of the program so far, and bytes of noise that each page gets now.
    stamp: u64,
    noise: u64,
    endless: bool,
    gave_up: bool,
}

impl std::fmt::Debug for Play {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Play")
            .field("setup", &self.setup)
            .finish_non_exhaustive()
    }
}

impl Play {
    /// A program with so many pages, of which these ranges are private memory.
    ///
    /// # Errors
    /// If descriptors are short.
    pub fn new(setup: PlayJob, pages: u32, private: &[Range<u32>]) -> io::Result<Self> {
        let time = Time::new();
        let job = scene::job(&setup, Pages(pages.into()), &time)?;
        let (machine, program) = scene::machine(private);
        let space = scene::space(&job, &machine, program)?;
        let mut play = Self {
            faults: FaultThread::new(job.clone(), space.clone()),
            reclaimer: Reclaimer::new(Arc::new(Work::new(job.clone()))),
            codec: job.store.codec(),
            pacer: Pacer::new(setup.limit, setup.cpus),
            next_look: Nanos::ZERO,
            armed: false,
            now: Nanos::ZERO,
            busy: Nanos::ZERO,
            written: Nanos::ZERO,
            unwatched: vec![false; pages as usize],
            bounced: 0,
            bounces: false,
            stamp: 0,
            noise: noise_of(setup.ratio.0),
            endless: false,
            gave_up: false,
            setup,
            machine,
            program,
            time,
            job,
            space,
        };
        play.look(Nanos::ZERO);
        Ok(play)
    }

    /// The program works for so long.
    pub fn pass(&mut self, span: Nanos) {
        self.now += span;
        self.reclaim();
    }

    /// Time since the program began, with what it waited.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Whether no bound is known: it might have wanted all that is taken from it at once.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.endless
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> PlayCounts {
        let tally = self.tally();
        PlayCounts {
            pgmajfault: tally.pgmajfault,
            returned: tally.returned,
            zswpin: tally.zswpin,
            zswpout: tally.zswpout,
            pswpin: tally.pswpin,
            pswpout: tally.pswpout,
            over: self.gave_up || self.job.meter.was_far_over(),
        }
    }

    /// Whether a page is watched from now on: touches of others are not known.
    pub fn watch(&mut self, page: u32, on: bool) {
        self.unwatched[page as usize] = !on;
    }

    /// The program touches a page, and goes on once it has it.
    pub fn touch(&mut self, page: u32, write: bool) {
        if !self.has(page, write, true) {
            self.fetch(page, write);
            self.reclaim();
        }
    }

    /// The program's thread has told that it waits for a page, and gets it.
    fn fetch(&mut self, page: u32, write: bool) {
        for tries in 0..TUNING.forecast.tries {
            let waits = self.faults.has_waiting();
            if waits && tries > 0 {
                self.wait();
            }
            self.serve(!waits);
            let tells = !self.faults.has_waiting();
            if self.has(page, write, tells) || self.endless {
                return;
            }
        }
        (self.gave_up, self.endless) = (true, true);
    }

    /// The program gives pages back.
    pub fn free(&mut self, first: u32, count: u32) {
        let act = Act::Discard(address(first)..address(first + count));
        self.machine.begin(self.program, THREAD, act);
        for _ in 0..TUNING.forecast.tries {
            if self.machine.run(self.program, THREAD) == Ran::Idle {
                return;
            }
            self.serve(true);
        }
        (self.gave_up, self.endless) = (true, true);
    }

    /// Whether the program has a page now that it touches; else its thread waits for it, and tells of that if it is to.
    fn has(&mut self, page: u32, write: bool, tells: bool) -> bool {
        let how = Access { write, tells };
        let (stamp, noise) = (self.stamp, self.noise);
        self.stamp += u64::from(write);
        self.machine
            .access(self.program, address(page), how, |bytes| {
                content::write(bytes, stamp, noise);
            })
    }

    /// A turn of the thread that serves faults.
    fn serve(&mut self, told: bool) {
        self.time.set(self.now);
        let before = self.tally();
        self.faults.turn(told);
        let done = self.tally().since(&before);
        self.now = self.time.get() + self.setup.costs.of_turn(&done);
    }

    /// The program's thread waits until reclaim has got on.
    fn wait(&mut self) {
        self.busy = self.busy.max(self.now);
        if self.next_look <= self.busy || self.space.group.excess() == 0 || !self.round() {
            self.busy = self.busy.max(self.next_look);
            self.look(self.busy);
        }
        self.now = self.now.max(self.busy);
    }

    /// What sampler and reclaim do until now, beside the program.
    fn reclaim(&mut self) {
        while self.busy < self.now && !self.endless {
            if self.next_look <= self.busy {
                self.look(self.busy);
            } else if self.space.group.excess() == 0 || !self.round() {
                self.busy = self.next_look.min(self.now);
            }
        }
    }

    /// One round of reclaim. False: it wants none, or rests.
    fn round(&mut self) -> bool {
        self.time.set(self.busy);
        let before = self.tally();
        let works = self.reclaimer.round();
        let done = self.tally().since(&before);
        let staged = if done.staged > 0 {
            self.staged()
        } else {
            Vec::new()
        };
        let cost = self.setup.costs.of_pass(&done, runs(&staged));
        let spent = self.time.get() + cost - self.busy;
        self.busy += spent.max(TUNING.forecast.least_pass);
        if self.setup.cpus < 2 {
            self.now += spent;
        }
        if self.has_dictionary() {
            self.noise = noise_of(self.setup.ratio.1);
        }
        self.write_back();
        self.bounced = if done.zswpout + done.clean > 0 {
            0
        } else {
            self.bounced
        };
        if self.setup.unwatched_hot {
            self.touch_unwatched(&staged);
        }
        works
    }

    /// Pages get smaller by a dictionary of the program's own pages, as in the engine.
    fn has_dictionary(&self) -> bool {
        self.job.store.stats().zswpout > TUNING.dictionaries.stored_before().0
            && self.setup.limit >= TUNING.dictionaries.least_limit
    }

    /// The pages that the last round took out, in the order of their addresses.
    fn staged(&self) -> Vec<u32> {
        let core = self.job.core();
        let picked = self.reclaimer.picked().iter();
        let pages = picked.filter_map(|&id| core.try_locate(id));
        let mut pages: Vec<u32> = pages
            .map(|(_, page)| ((page.addr() - BASE) / PAGE_SIZE as u64) as u32)
            .collect();
        pages.sort_unstable();
        pages
    }

    /// The harshest of what is not known: what nobody watched is wanted as soon as it is out.
    fn touch_unwatched(&mut self, staged: &[u32]) {
        if std::mem::replace(&mut self.bounces, true) {
            return; // one that waits for another
        }
        for &page in staged {
            if self.unwatched[page as usize] && !self.endless && !self.has(page, false, true) {
                self.fetch(page, false);
                self.bounced += 1;
            }
        }
        self.bounces = false;
        let resident = self.job.core().total_resident();
        let most = (resident + TUNING.agents.block).0 * TUNING.forecast.in_vain;
        self.endless |= self.bounced > most;
    }

    /// The shrinker's thread writes what it was asked for, once the disk has the last.
    fn write_back(&mut self) {
        if self.written <= self.busy && self.job.priority.load(Relaxed) != u64::MAX {
            self.time.set(self.busy);
            let before = self.job.store.stats().pswpout;
            write_what_is_wished(&self.job, &mut self.codec);
            let pages = self.job.store.stats().pswpout - before;
            self.written = self.busy + Nanos(self.setup.costs.disk_write.0 * pages);
        }
        self.job.writing.store(self.written > self.busy, Relaxed);
    }

    /// The sampler looks what is used, and sets the marks of the limit.
    fn look(&mut self, at: Nanos) {
        self.time.set(at);
        self.write_back();
        let now = self.job.clock.now();
        let holding = self.job.store.holding();
        let tables = self.job.core().metadata_bytes() + self.job.store.metadata_bytes();
        let own = TUNING.forecast.own.0 + tables.0;
        let sample = Sample {
            resident: Pages(self.machine.frames() as u64).bytes().0,
            own: own + holding.backed,
            pool: holding,
            thaws: false,
        };
        let meter = &self.job.meter;
        let usage = Bytes(meter.usage_of(&sample));
        let unexplained = Bytes(meter.sample(sample));
        self.pacer.observe_native(Nanos(now), unexplained);
        let plan = self.pacer.observe(Nanos(now), usage);
        meter.set_plan(plan.hold_above, plan.reclaim_to);
        if plan.arm && !self.armed {
            self.armed = true;
            self.space.standing.step(crate::space::Advance::BeginLook);
            self.space.make_first_look(&self.job);
            self.space.traits.forget(); // nothing is declared free
            self.space.catch_up(&self.job, true);
        }
        if self.armed {
            self.space.end_quarantine(&self.job, now);
        }
        self.job.note_all_reclaimable(&self.job.spaces());
        self.job.offer_room();
        self.next_look = at + plan.next_sample;
    }

    fn tally(&self) -> Tally {
        let stats = self.job.store.stats();
        let events = &self.space.group.events;
        Tally {
            pgfault: events.pgfault.load(Relaxed),
            pgmajfault: events.pgmajfault.load(Relaxed),
            staged: events.staged.load(Relaxed),
            returned: events.returned.load(Relaxed),
            fresh: events.fresh.load(Relaxed),
            clean: events.clean.load(Relaxed),
            zswpout: stats.zswpout,
            zswpin: stats.zswpin,
            pswpout: stats.pswpout,
            pswpin: stats.pswpin,
        }
    }
}

/// Runs of pages that follow each other.
fn runs(pages: &[u32]) -> u64 {
    let breaks = pages.windows(2).filter(|pair| pair[1] != pair[0] + 1);
    if pages.is_empty() {
        0
    } else {
        breaks.count() as u64 + 1
    }
}
