//! The way out: pick, move to staging, wait for a touch, compress, throw the frame away.
//!
//! One thread for the whole job. It works while usage is above the mark that the pacer set: it
//! moves old pages to staging, and has the block that has been staged longest compressed once staging
//! holds its share, by workers on other cpus as far as they keep up.

mod company;
mod inventory;
mod outlook;
mod pressure;
mod samples;
mod stage;
mod store;
mod workers;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use neap_sys::Keeper;
use neap_tuning::TUNING;
use neap_units::{PageId, Pages, SpaceId};
use neap_wire::{BLOCK_PAGES, op};

use self::company::Company;
pub(crate) use self::inventory::Inventory;
use self::outlook::{Look, Outlook, Supply};
use self::pressure::Pressure;
use self::store::{Storer, Taken};
pub(crate) use self::workers::Work;
#[cfg(test)]
pub(crate) use self::workers::Worker;
use crate::agent::{Called, Errand};
use crate::control::Kind;
use crate::job::Job;
use crate::options::Exhausted;
use crate::space::Space;

/// Pages taken in one go: one staging block.
const BATCH: usize = BLOCK_PAGES as usize;

pub(crate) struct Reclaimer {
    job: Arc<Job>,
    work: Arc<Work>,
    storer: Storer,
    picked: Vec<PageId>,
    outlook: Outlook,
    supply: Supply,
    /// Pause before the next try.
    rest: Duration,
    /// Pages that a step may take.
    most: usize,
    /// NEAP_CHECK is set.
    checks: bool,
    /// There are two cpus for all of us.
    two_cpus: bool,
    company: Company,
    /// This thread goes ahead of every ordinary one.
    ahead: bool,
}

fn rests(space: &Space) -> bool {
    !space.lets_go()
        || space.is_late()
        || space.rests_until.load(Relaxed) > neap_sys::monotonic_nanos()
}

/// A pause after a round in vain that took this many nanoseconds: it would take a cpu for itself otherwise.
fn rest_after(round: u64) -> Duration {
    Duration::from_nanos(round * TUNING.reclaim.rest_times).clamp(
        TUNING.reclaim.rest.duration(),
        TUNING.reclaim.rest_at_most.duration(),
    )
}

/// A part of a pass.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Stage(usize),
    Unshare(usize),
    Store { early: bool },
    Recycle,
    CatchUp,
}

/// What one pass achieved.
struct Pass {
    /// Pages that went to the store.
    stored: u64,
    /// Pages that no store will take.
    refused: u64,
    /// Pages moved to staging, or blocks were emptied.
    moved: bool,
}

impl Reclaimer {
    pub fn new(work: Arc<Work>) -> Self {
        let job = work.job.clone();
        Self {
            storer: Storer::new(work.clone()),
            work,
            picked: Vec::with_capacity(BATCH),
            outlook: Outlook::new(),
            supply: Supply::Flows,
            rest: Duration::ZERO,
            most: BATCH,
            checks: std::env::var_os("NEAP_CHECK").is_some(),
            two_cpus: Keeper::has_two_cpus(),
            company: Company::default(),
            ahead: false,
            job,
        }
    }

    pub fn run(mut self) {
        neap_sys::block_signals();
        let mut checked = 0;
        while !self.job.is_stopping() {
            let late = self.job.spaces().iter().any(|space| space.is_late());
            let sleep = match late {
                true => TUNING.reclaim.sleep_while_late,
                false => TUNING.reclaim.sleep,
            };
            self.job.reclaim.wait(sleep.duration());
            self.catch_up();
            self.work();
            if self.checks && neap_sys::monotonic_nanos() > checked + TUNING.reclaim.checks.0 {
                self.check();
                checked = neap_sys::monotonic_nanos();
            }
        }
    }

    /// Reclaims until usage is where the pacer wants it, or nothing is left.
    fn work(&mut self) {
        self.take_rest();
        let mut still = 0;
        let mut pressure = Pressure::new(self.job.meter.limit().0);
        let start = neap_sys::monotonic_nanos();
        self.outlook.begin(start);
        while !self.job.is_stopping() && self.job.meter.excess() > 0 {
            if self.above_floor() == Pages(0) && !self.job.meter.is_full() {
                break; // all that it may take was taken, and nobody waits
            }
            self.go_ahead(self.job.meter.is_over() && self.supply == Supply::Flows);
            let pass = self.pass();
            self.job.crowded.store(false, Relaxed);
            if let Some(priority) = pressure.note(pass.stored, || self.job.store.holding()) {
                self.job.ask_shrinker(priority);
            }
            let gets_on = pass.moved || pass.stored > 0;
            if !gets_on && pass.refused == 0 && self.work.is_busy() {
                self.job.offer_room();
                self.job.reclaim.wait(TUNING.reclaim.pause.duration()); // nothing else can be done before they have
                continue;
            }
            let look = self.look();
            let mut supply = self.outlook.judge(&pass, &look);
            if supply == Supply::Dry && self.supply != Supply::Dry && self.finds_more() {
                self.outlook.relieve();
                self.outlook.begin(neap_sys::monotonic_nanos());
                supply = Supply::Flows;
            }
            self.turn(supply);
            self.job.offer_room();
            if self.outlook.is_over() {
                self.rest = rest_after(look.now - start);
                self.go_ahead(false);
                return;
            }
            still = if gets_on { 0 } else { still + 1 };
            if still > self.job.spaces().len() || self.ahead && still > 0 {
                self.pause();
            }
        }
        self.go_ahead(false);
        self.rest = Duration::ZERO;
        self.outlook.relieve();
        self.turn(Supply::Flows);
    }

    /// While a job is over its limit its programs have the cpus only that reclaim leaves: who exceeds a limit of the kernel's
    /// reclaims itself meanwhile.
    fn go_ahead(&mut self, ahead: bool) {
        if ahead && !self.ahead {
            self.ahead = neap_sys::raise_above_ordinary();
        } else if self.ahead && !ahead {
            neap_sys::lower_to_ordinary();
            self.ahead = false;
        }
    }

    /// Ends early when there is much more or less memory to try it with.
    fn take_rest(&self) {
        let meter = &self.job.meter;
        let (usage, much) = (meter.usage(), TUNING.reclaim.rest_ends.of(meter.limit().0));
        let mut left = self.rest;
        while !left.is_zero() && !self.job.is_stopping() && meter.usage().abs_diff(usage) < much {
            let now = left.min(TUNING.reclaim.rest.duration());
            std::thread::sleep(now);
            left -= now;
            self.catch_up();
            self.tell();
        }
    }

    /// What the last pass is judged by.
    fn look(&self) -> Look {
        let resident = self.job.note_reclaimable().0;
        let spaces = self.job.spaces();
        Look {
            now: neap_sys::monotonic_nanos(),
            resident,
            round: resident / BLOCK_PAGES + self.work.stage_target() as u64,
            written: self.job.store.written_back(),
            writing: self.job.is_writing(),
            late: spaces.iter().any(|space| space.lets_go_later()),
            far_over: self.job.meter.is_far_over(),
        }
    }

    /// Looks for all memory of the job that is not managed yet, before nothing is said to be left. Whether there is some.
    fn finds_more(&self) -> bool {
        let before = self.job.core().total_resident();
        for space in self.job.spaces() {
            if space.is_managed() {
                space.discover(&self.job);
            }
        }
        let found = self.job.core().total_resident().saturating_sub(before);
        found.0 >= BLOCK_PAGES
    }

    /// Nothing moved: until the disk has made room, or for a moment.
    fn pause(&self) {
        self.job.ask_shrinker(0);
        if self.job.store.waits_for_disk() {
            self.job
                .reclaim
                .wait(TUNING.reclaim.pause_for_disk.duration());
        } else {
            std::thread::sleep(TUNING.reclaim.pause.duration());
        }
    }

    /// The supply is as given from now on. Who wants the job killed rather than over its limit has faults
    /// wait in any case.
    fn turn(&mut self, supply: Supply) {
        self.supply = supply;
        let may_go_over = self.job.options.on_exhausted == Exhausted::Open;
        self.job
            .meter
            .set_open(supply != Supply::Flows && may_go_over);
        self.tell();
    }

    /// Once nothing is left to reclaim and more is wanted: says so, and kills the job if asked, again if some
    /// of it was just being started. A job that stays just below its limit is left in peace.
    fn tell(&self) {
        let kills = self.job.options.on_exhausted == Exhausted::Kill;
        let wanted = !kills || self.job.meter.is_over() || self.job.room.is_wanted();
        if self.supply != Supply::Dry || !self.job.meter.is_full() || !wanted {
            return;
        }
        let told = self.job.told_dry.swap(true, Relaxed);
        let inventory = (!told).then(|| Inventory::take(&self.job));
        if kills {
            neap_sys::kill_descendants();
        }
        let Some(inventory) = inventory else {
            return;
        };
        let over = if kills {
            "the job is killed, as asked"
        } else {
            "the program goes over its limit"
        };
        let trouble = self.job.store.swap_trouble().map(|why| format!("{why}; "));
        let line = format!(
            "nothing more can be reclaimed ({}{}): {over}; {}",
            trouble.unwrap_or_default(),
            inventory.words(),
            inventory.advice(self.job.store.writeback()),
        );
        self.job.tell_of(Kind::Exhausted, line);
    }

    /// Panics on a broken invariant of any structure. For tests: it walks everything.
    fn check(&self) {
        self.job.core().check();
        for space in self.job.spaces() {
            if let Some(body) = space.body.get() {
                body.stage.check();
            }
        }
    }

    /// Late commands are completed even when nothing needs to be reclaimed: threads may wait.
    fn catch_up(&self) {
        for space in self.job.spaces() {
            if space.is_late() {
                let _gate = space.gate.read();
                if !space.is_dead() {
                    space.catch_up(&self.job, false);
                }
            }
        }
    }

    /// One step of each kind. While the pool is full it waits for the disk: what is taken out now would only
    /// be sent home. And below the floor nothing is taken out.
    fn pass(&mut self) -> Pass {
        self.catch_up();
        if self.job.store.waits_for_disk() {
            return self.recycle_all(0, Taken::default());
        }
        self.most = usize::try_from(self.above_floor().0).map_or(BATCH, |most| most.min(BATCH));
        if self.most == 0 {
            let store = self.store_overdue(true);
            return self.recycle_all(0, store);
        }
        // Who is stopped, forks or has no agent is passed over.
        let resting: Vec<SpaceId> = self
            .job
            .spaces()
            .iter()
            .filter(|space| rests(space))
            .map(|space| space.id)
            .collect();
        let chosen = self.job.core().choose_space(|id| !resting.contains(&id));
        let space = chosen.and_then(|id| self.job.space(id));
        if let Some(space) = &space {
            self.step_aside(space);
        }
        let taken = match &space {
            Some(space) => self.stage_batch(space) + self.part(space),
            None => 0,
        };
        let store = self.store_overdue(taken == 0);
        self.recycle_all(taken, store)
    }

    /// Resident pages that may be taken. Less is left than may be filled, so that those who fill and reclaim do not
    /// wait for each other.
    fn above_floor(&self) -> Pages {
        let floor = self.job.meter.kept().0;
        let resident = self.job.core().total_resident();
        resident.saturating_sub(Pages(floor - floor / 4))
    }

    /// Gives the frames back of what was stored: the end of a pass.
    fn recycle_all(&mut self, taken: usize, store: Taken) -> Pass {
        self.job.meter.note_pool(self.job.store.pool_memory().0);
        let spaces = self.job.spaces();
        self.work.make_dictionaries(&spaces);
        let freed: usize = spaces.iter().map(|space| self.recycle(space)).sum();
        Pass {
            stored: store.stored,
            refused: store.refused,
            moved: taken + freed > 0,
        }
    }

    /// Reclaim is not to take the cpu from those it works for: the waiting thread and who serves it. Not
    /// where it works for several: they are everywhere, and each step costs more than it gains.
    fn step_aside(&mut self, space: &Space) {
        let spaces = self.job.spaces();
        if spaces.iter().filter(|space| space.has_cpu()).count() > 1 {
            return;
        }
        if let Some(cpu) = space.served_on.load(Relaxed).checked_sub(1) {
            self.job.keeper.leave(cpu);
            // Other processes of the job that are at work come and go on that cpu.
            let crowded = self.two_cpus && neap_sys::this_cpu() != cpu;
            let crowded = crowded && self.company.is_alone(&spaces);
            self.job.crowded.store(crowded, Relaxed);
        }
    }

    /// Has the oldest blocks compressed while the spaces stage more than their share. `all`: nothing could be
    /// staged, so what is staged must go, a block of every space.
    fn store_overdue(&mut self, all: bool) -> Taken {
        let spaces = self.job.spaces();
        let mut sum = self.work.take_done();
        let overdue = self.work.overdue(&spaces);
        let left = overdue.min(self.work.allowance());
        if left > 0 {
            self.job.compress.ring();
        }
        if all {
            spaces
                .iter()
                .for_each(|space| self.store_block(space, true, &mut sum));
            return sum;
        }
        for _ in left..overdue {
            let before = sum.stored;
            if let Some(space) = workers::next(&spaces) {
                self.store_block(space, false, &mut sum);
            }
            if sum.stored == before {
                break; // it may not go now: later
            }
        }
        sum
    }

    fn store_block(&mut self, space: &Arc<Space>, early: bool, sum: &mut Taken) {
        if let Some(body) = space.body.get() {
            let taken = self.storer.store_block(space, body, early);
            sum.stored += taken.stored;
            sum.refused += taken.refused;
        }
    }

    /// Parts of a pass, one by one.
    #[cfg(test)]
    pub(crate) fn part_of_pass(&mut self, part: Part, space: &Arc<Space>) {
        match part {
            Part::Stage(most) => {
                self.most = most;
                self.stage_batch(space);
            }
            Part::Unshare(most) => {
                self.most = most;
                self.part(space);
            }
            Part::Store { early } => self.store_block(space, early, &mut Taken::default()),
            Part::Recycle => _ = self.recycle(space),
            Part::CatchUp => self.catch_up(),
        }
    }

    /// Has the agent empty the dead blocks.
    fn recycle(&self, space: &Arc<Space>) -> usize {
        let Some(body) = space.body.get() else {
            return 0;
        };
        if body.agent.is_gone() {
            return 0;
        }
        let blocks = body.stage.take_dead(neap_wire::MAX_RANGES);
        if blocks.is_empty() {
            return 0;
        }
        let spans: Vec<_> = blocks.iter().map(|block| body.stage.span(*block)).collect();
        match body
            .agent
            .call(op::RECYCLE, &spans, 0, Errand::Recycle(blocks), true)
        {
            Called::Busy(Errand::Recycle(blocks)) => {
                body.stage.take_back(&blocks);
                0
            }
            called => space.complete(&self.job, called).unwrap_or(0),
        }
    }
}
