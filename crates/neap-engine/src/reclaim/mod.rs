//! The way out: pick, move to staging, wait for a touch, compress, throw the frame away.
//!
//! One thread for the whole job. It works while usage is above the mark that the pacer set: it
//! moves old pages to staging, and has the block that has been staged longest compressed once staging
//! holds its share, by workers on other cpus as far as they keep up.

mod bout;
mod company;
mod hints;
mod idle;
mod inventory;
mod samples;
mod stage;
mod store;
mod visits;
mod workers;
mod young;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use neap_policy::{Pass, Protection, Supply};
use neap_sys::Keeper;
use neap_tuning::TUNING;
use neap_units::{PageId, Pages, SpaceId};
use neap_wire::{BLOCK_PAGES, op};

use self::bout::{Bout, Low};
use self::company::Company;
pub(crate) use self::inventory::Inventory;
use self::store::{Storer, Taken};
use self::visits::{Turn, Visits};
pub(crate) use self::workers::Work;
#[cfg(test)]
pub(crate) use self::workers::Worker;
use crate::agent::{Called, Errand};
use crate::group::Group;
use crate::job::Job;
use crate::space::Space;

/// Pages taken in one go: one staging block.
const BATCH: usize = BLOCK_PAGES as usize;

pub(crate) struct Reclaimer {
    job: Arc<Job>,
    work: Arc<Work>,
    storer: Storer,
    picked: Vec<PageId>,
    /// One for each group with a limit, the top last.
    bouts: Vec<Bout>,
    /// Whom reclaim for the top takes from, of those below.
    visits: Visits,
    /// Pages that a step may take.
    most: usize,
    /// NEAP_CHECK is set.
    checks: bool,
    /// There are two cpus for all of us.
    two_cpus: bool,
    company: Company,
    /// Pages of those that were taken out and not stored yet which other processes still have.
    vain: u64,
    /// This thread goes ahead of every ordinary one.
    ahead: bool,
    /// The last pass found nobody to take from.
    nobody: bool,
    /// The job of a service that was killed last, as long as its memory may be there, and when.
    killed: Option<(Arc<Group>, u64)>,
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
    /// Of what no other process has.
    StageOwn(usize),
    Unshare(usize),
    Store,
    Recycle,
    CatchUp,
    Hints,
}

impl Reclaimer {
    pub fn new(work: Arc<Work>) -> Self {
        let job = work.job.clone();
        Self {
            storer: Storer::new(work.clone()),
            work,
            picked: Vec::with_capacity(BATCH),
            visits: Visits::new(neap_sys::monotonic_nanos()),
            bouts: vec![Bout::new(&job.recorder, job.groups.top().clone())],
            most: BATCH,
            checks: std::env::var_os("NEAP_CHECK").is_some(),
            two_cpus: Keeper::has_two_cpus(),
            company: Company::default(),
            vain: 0,
            ahead: false,
            nobody: false,
            killed: None,
            job,
        }
    }

    pub fn run(mut self) {
        neap_sys::block_signals();
        let mut checked = 0;
        while !self.job.is_stopping() {
            let sleep = match self.job.flags.late.is_raised() {
                true => TUNING.reclaim.sleep_while_late,
                false => TUNING.reclaim.sleep,
            };
            self.job.reclaim.wait(sleep.duration());
            self.catch_up();
            self.work();
            while self.work_for_hints() && !self.job.is_stopping() {
                self.work();
            }
            self.work_for_idle();
            if self.checks && neap_sys::monotonic_nanos() > checked + TUNING.reclaim.checks.0 {
                self.check();
                checked = neap_sys::monotonic_nanos();
            }
        }
    }

    /// Panics on a broken invariant of any structure. For tests: it walks everything.
    fn check(&self) {
        self.job.core().check();
        for space in self.job.spaces().iter() {
            if let Some(body) = space.body.get() {
                body.stage.check();
            }
        }
    }

    /// Late commands are completed even when nothing needs to be reclaimed: threads may wait.
    fn catch_up(&self) {
        if !self.job.flags.late.take() {
            return;
        }
        for space in self.job.spaces().iter() {
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
    fn pass(&mut self, group: &Group) -> Pass {
        self.nobody = false;
        self.catch_up();
        self.work_for_hints();
        if self.job.store.waits_for_disk() {
            return self.recycle_all(group, 0, Taken::default());
        }
        self.most =
            usize::try_from(self.above_floor(group).0).map_or(BATCH, |most| most.min(BATCH));
        if self.most == 0 {
            let store = self.store_overdue(group, true);
            return self.recycle_all(group, 0, store);
        }
        let in_vain = self
            .bout_of(group)
            .is_some_and(|at| self.bouts[at].low != Low::Spared);
        let turn = match group.parent {
            None => self.visits.next(&self.job, in_vain),
            Some(_) => Turn::All,
        };
        let visited = match turn {
            Turn::All => None,
            Turn::Of(group, most) => {
                self.most = self.most.min(most);
                Some(group)
            }
            Turn::Nobody => {
                self.nobody = true;
                let store = self.store_overdue(group, true);
                return self.recycle_all(group, 0, store);
            }
        };
        let from = visited.as_deref().unwrap_or(group);
        let spaces = self.job.spaces_of(from);
        // Who is stopped, forks or has no agent is passed over, and so is whose pages can go nowhere.
        let lets_out = |space: &&Arc<Space>| {
            let free = !rests(space) && self.job.lets_out(&space.group);
            free && !self.protects(&space.group, from, group, in_vain)
        };
        let able = spaces.iter().filter(lets_out);
        let able: Vec<SpaceId> = able.map(|space| space.id).collect();
        let chosen = self.job.core().choose_space(&able);
        let mut taken = 0;
        if let Some(space) = spaces.iter().find(|space| Some(space.id) == chosen) {
            self.step_aside(space);
            taken = self.take_from(group, space);
        }
        match visited {
            Some(_) => self.visits.took(&self.job, taken),
            None => self.nobody = chosen.is_none(),
        }
        let store = self.store_overdue(group, taken == 0);
        self.recycle_all(from, taken, store)
    }

    /// Whether a run within `from` is protected from reclaim for `target`; `from` itself has been visited. `in_vain`: nothing comes
    /// of what is not protected, and then `memory.low` protects nothing. Who empties a group empties all of it.
    fn protects(&self, group: &Group, from: &Group, target: &Group, in_vain: bool) -> bool {
        if group.number == from.number || target.freeze.empties() {
            return false;
        }
        match self.job.groups.protects(group, target) {
            Protection::Open => false,
            Protection::BelowLow => !in_vain,
            Protection::BelowMin => true,
        }
    }

    /// Resident pages of a group that may be taken. Less is left than may be filled, so that those who fill and reclaim do not
    /// wait for each other.
    fn above_floor(&self, group: &Group) -> Pages {
        let floor = group.meter.kept().0;
        let resident = self.job.resident_of(group);
        resident.saturating_sub(Pages(floor - floor / 4))
    }

    /// Gives the frames back of what was stored: the end of a pass that took pages from this group.
    fn recycle_all(&mut self, from: &Group, taken: usize, store: Taken) -> Pass {
        self.job.note_pool(from);
        self.work.make_dictionaries();
        let staging = self.work.staging();
        let freed: usize = staging.iter().map(|space| self.recycle(space)).sum();
        self.work.forget_empty_stages();
        if staging.is_empty() {
            self.vain = 0; // they came back
        }
        let vain = self.vain.min(store.stored);
        self.vain -= vain;
        Pass {
            stored: Pages(store.stored),
            vain: Pages(vain),
            refused: Pages(store.refused),
            moved: taken + freed > 0,
        }
    }

    /// Has the oldest blocks compressed while the spaces of a group stage more than their share. `all`: nothing could be
    /// staged, so what is staged must go, a block of every space.
    fn store_overdue(&mut self, group: &Group, all: bool) -> Taken {
        let mut spaces = self.work.staging();
        spaces.retain(|space| space.group.is_within(group));
        self.send_home_what_stays(&spaces);
        let mut sum = self.work.take_done();
        let overdue = self.work.overdue(group, &spaces);
        let left = overdue.min(self.work.allowance());
        if left > 0 {
            self.job.compress.ring();
        }
        if all {
            spaces
                .iter()
                .for_each(|space| self.store_block(space, &mut sum));
            return sum;
        }
        for _ in left..overdue {
            let before = sum.stored;
            if let Some(space) = workers::next(&spaces) {
                self.store_block(space, &mut sum);
            }
            if sum.stored == before {
                break; // it may not go now: later
            }
        }
        sum
    }

    /// What the store takes no more of goes home at once: staged, it would be refused block by block, before what can leave.
    fn send_home_what_stays(&mut self, spaces: &[Arc<Space>]) {
        let can_write = self.job.store.can_write();
        for space in spaces {
            let stays = space.group.account.trouble(can_write).is_some();
            let blocks = space.body.get().map_or(0, |body| body.stage.blocks());
            for _ in 0..if stays { blocks } else { 0 } {
                self.store_block(space, &mut Taken::default());
            }
        }
    }

    fn store_block(&mut self, space: &Arc<Space>, sum: &mut Taken) {
        if let Some(body) = space.body.get() {
            let taken = self.storer.store_block(space, body);
            sum.stored += taken.stored;
            sum.refused += taken.refused;
        }
    }

    /// The pages that the last pass picked.
    pub(crate) fn picked(&self) -> &[PageId] {
        &self.picked
    }

    /// Parts of a pass, one by one.
    #[cfg(test)]
    pub(crate) fn part_of_pass(&mut self, part: Part, space: &Arc<Space>) {
        match part {
            Part::Stage(most) => {
                self.most = most;
                self.stage_batch(space, false);
            }
            Part::StageOwn(most) => {
                self.most = most;
                self.stage_batch(space, true);
            }
            Part::Unshare(most) => {
                self.most = most;
                self.part(space);
            }
            Part::Store => self.store_block(space, &mut Taken::default()),
            Part::Recycle => _ = self.recycle(space),
            Part::CatchUp => self.catch_up(),
            Part::Hints => _ = self.work_for_hints(),
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
