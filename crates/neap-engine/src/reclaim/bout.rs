//! For whom reclaim works, and how long: groups that want memory take turns, a pass each.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use neap_policy::{Look, Outlook, PoolHolds, Supply, WritePressure};
use neap_record::{Noted, Recorder};
use neap_tuning::TUNING;
use neap_units::{Bytes, Nanos, Pages};
use neap_wire::BLOCK_PAGES;

use super::{Inventory, Reclaimer, rest_after};
use crate::control::Kind;
use crate::group::Group;
use crate::job::Job;
use crate::options::Exhausted;
use crate::space::Space;

/// What becomes of the memory that `memory.low` protects from reclaim for a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Low {
    /// It stays.
    Spared,
    /// Nobody else has any. It leaves until groups are met again: others may have some then.
    Taken,
    /// Nothing came of what others have. It leaves until no more is wanted.
    GivenUp,
}

/// How reclaim gets on for one group.
pub(super) struct Bout {
    pub group: Arc<Group>,
    outlook: Noted<Outlook>,
    pub supply: Supply,
    pressure: Noted<WritePressure>,
    /// Pause before the next try, and until when that is, in nanoseconds.
    rest: Duration,
    rests_until: u64,
    /// When it began to work.
    since: u64,
    pub low: Low,
    /// Passes in a row that came to nothing.
    still: usize,
    /// It is at work.
    works: bool,
}

impl Bout {
    pub fn new(recorder: &Recorder, group: Arc<Group>) -> Self {
        Self {
            outlook: Noted::new(recorder, Pages(BLOCK_PAGES)),
            supply: Supply::Flows,
            pressure: Noted::new(recorder, group.meter.limit()),
            rest: Duration::ZERO,
            rests_until: 0,
            since: 0,
            low: Low::Spared,
            still: 0,
            works: false,
            group,
        }
    }

    fn begin(&mut self, recorder: &Recorder, now: u64) {
        self.pressure = Noted::new(recorder, self.group.meter.limit());
        self.outlook.begin(Nanos(now));
        (self.since, self.still, self.works) = (now, 0, true);
    }
}

fn pool_of(job: &Job) -> PoolHolds {
    let holding = job.store.holding();
    PoolHolds {
        takes: Bytes(holding.bytes),
        holds: Bytes(holding.held),
    }
}

impl Reclaimer {
    /// Reclaims until usage is where the pacers want it, or nothing is left. A group that begins to want memory meanwhile takes part
    /// from the next round on: emptying a large one takes seconds, and threads of others wait for room.
    pub(super) fn work(&mut self) {
        self.meet_groups();
        if self.bouts.len() == 1 && self.bouts[0].group.meter.excess() > 0 {
            self.take_rest(0);
            self.bouts[0].rests_until = 0;
        }
        self.begin_bouts();
        let mut met = self.job.clock.now();
        while !self.job.is_stopping() {
            self.pass_each();
            if !self.bouts.iter().any(|bout| bout.works) {
                break;
            }
            let now = self.job.clock.now();
            if now > met + TUNING.reclaim.meet.0 {
                self.meet_groups();
                let taken = self.bouts.iter_mut().filter(|bout| bout.low == Low::Taken);
                taken.for_each(|bout| bout.low = Low::Spared);
                met = now;
            }
            self.begin_bouts();
        }
        self.go_ahead(false);
    }

    /// One pass for each group that wants memory, as threads that take turns with others have it. Whether there was one.
    pub(crate) fn round(&mut self) -> bool {
        self.meet_groups();
        self.begin_bouts();
        self.pass_each();
        self.bouts.iter().any(|bout| bout.works)
    }

    fn pass_each(&mut self) {
        for at in 0..self.bouts.len() {
            if self.bouts[at].works {
                self.bouts[at].works = self.step(at);
            }
        }
    }

    /// Groups that want memory begin to be worked for, unless that is known to be in vain for now.
    fn begin_bouts(&mut self) {
        let now = self.job.clock.now();
        for at in 0..self.bouts.len() {
            let bout = &mut self.bouts[at];
            if bout.works {
                continue;
            }
            if bout.group.meter.excess() == 0 {
                if bout.supply != Supply::Flows || bout.rests_until > 0 {
                    self.end(at);
                }
            } else if bout.rests_until <= now {
                bout.begin(&self.job.recorder, now);
                if bout.group.parent.is_none() {
                    self.visits.begin(&self.job);
                }
            }
        }
    }

    /// One pass for a group. Whether it wants another.
    fn step(&mut self, at: usize) -> bool {
        let group = self.bouts[at].group.clone();
        let meter = &group.meter;
        // The second: all that it may take was taken, and nobody waits.
        let nothing = self.above_floor(&group) == Pages(0) && !meter.is_full();
        let empties = || group.freeze.empties() && self.job.pages_in_memory(&group) > 0;
        if meter.excess() == 0 || nothing && !empties() {
            self.end(at);
            return false;
        }
        self.go_ahead(meter.is_over() && self.bouts[at].supply == Supply::Flows);
        let pass = self.pass(&group);
        self.job.crowded.store(false, Relaxed);
        let pressure = &mut self.bouts[at].pressure;
        if let Some(priority) = pressure.asks(pass.stored, || pool_of(&self.job)) {
            self.job.ask_shrinker(priority.into());
        }
        let gets_on = pass.moved || pass.stored > Pages::ZERO;
        if !gets_on && pass.refused == Pages::ZERO && self.work.is_busy() {
            self.job.offer_room();
            self.wait(TUNING.reclaim.pause.duration()); // nothing else can be done before they have
            return true;
        }
        let look = self.look(&group);
        let hampered = look.late || self.job.store.waits_for_disk();
        group.freeze.note_pass(!gets_on && !hampered);
        let mut supply = self.bouts[at].outlook.judge(pass, look);
        let dries = supply == Supply::Dry && self.bouts[at].supply != Supply::Dry;
        let in_vain = match supply {
            Supply::Dry => true,
            Supply::Stuck => !gets_on && !hampered,
            Supply::Flows => self.finds_nobody(at) && !gets_on && !hampered && !look.writing,
        };
        let more = in_vain && self.takes_low_now(at, supply);
        if more || dries && self.finds_more(&group) {
            let outlook = &mut self.bouts[at].outlook;
            outlook.relieve();
            outlook.begin(Nanos(self.job.clock.now()));
            supply = Supply::Flows;
        }
        self.turn(at, supply);
        self.job.offer_room();
        let bout = &mut self.bouts[at];
        if bout.outlook.is_over() {
            bout.rest = rest_after(look.now.0 - bout.since);
            bout.rests_until = look.now.0 + bout.rest.as_nanos() as u64;
            return false;
        }
        bout.still = if gets_on { 0 } else { bout.still + 1 };
        if bout.still > self.job.spaces().len() || self.ahead && bout.still > 0 {
            self.pause();
        }
        true
    }

    /// Nothing comes of what is not protected. So what `memory.low` protects is taken, as the kernel does with its second try
    /// (`memcg_low_reclaim`). Whether the verdict on the supply is to wait for that: once.
    fn takes_low_now(&mut self, at: usize, supply: Supply) -> bool {
        let bout = &mut self.bouts[at];
        let next = match supply {
            Supply::Flows => Low::Taken,
            Supply::Stuck | Supply::Dry => Low::GivenUp,
        };
        let known = bout.low == Low::GivenUp || bout.low == next;
        if known || !self.job.groups.protects_by_low(&bout.group) {
            return false;
        }
        bout.low = next;
        next == Low::GivenUp
    }

    /// Whether there was nobody to take from, in as many passes as there are spaces: one that forks or changes mappings is passed over for
    /// a moment.
    fn finds_nobody(&self, at: usize) -> bool {
        self.nobody && self.bouts[at].still > self.job.spaces().len()
    }

    pub(super) fn bout_of(&self, group: &Group) -> Option<usize> {
        let is_its = |bout: &Bout| bout.group.number == group.number;
        self.bouts.iter().position(is_its)
    }

    /// Nothing is wanted for a group any more.
    fn end(&mut self, at: usize) {
        let bout = &mut self.bouts[at];
        (bout.rest, bout.rests_until, bout.low) = (Duration::ZERO, 0, Low::Spared);
        bout.outlook.relieve();
        self.turn(at, Supply::Flows);
    }

    /// Groups come and go.
    fn meet_groups(&mut self) {
        let below = self.job.groups.below();
        let is_there =
            |number: u64| number == 0 || below.iter().any(|group| group.number == number);
        self.bouts.retain(|bout| is_there(bout.group.number));
        // The top is the last: what a group gives back to keep within its own limit it need not give twice.
        let wants = |group: &&Arc<Group>| group.meter.is_limited() || group.meter.excess() > 0;
        for group in below.iter().filter(wants) {
            if self.bout_of(group).is_none() {
                self.bouts
                    .insert(0, Bout::new(&self.job.recorder, group.clone()));
            }
        }
    }

    /// While a job is over its limit its programs have the cpus only that reclaim leaves: who exceeds a limit of the kernel's
    /// reclaims itself meanwhile.
    fn go_ahead(&mut self, ahead: bool) {
        if self.job.clock.pass(0) {
            return; // nobody else is there
        }
        if ahead && !self.ahead {
            self.ahead = neap_sys::raise_above_ordinary();
        } else if self.ahead && !ahead {
            neap_sys::lower_to_ordinary();
            self.ahead = false;
        }
    }

    /// Ends early when there is much more or less memory to try it with.
    fn take_rest(&mut self, at: usize) {
        let meter = self.bouts[at].group.meter.clone();
        let (usage, much) = (meter.usage(), TUNING.reclaim.rest_ends.of(meter.limit().0));
        let mut left = self.bouts[at].rest;
        while !left.is_zero() && !self.job.is_stopping() && meter.usage().abs_diff(usage) < much {
            let now = left.min(TUNING.reclaim.rest.duration());
            self.job.clock.sleep(now.as_nanos() as u64);
            left -= now;
            self.catch_up();
            self.tell(at);
            if self.bouts[at].supply == Supply::Flows {
                break; // a job was ended
            }
        }
    }

    /// What the last pass is judged by.
    fn look(&self, group: &Group) -> Look {
        let resident = self.job.note_reclaimable(group, &self.work.staging());
        let spaces = self.job.spaces_of(group);
        Look {
            now: Nanos(self.job.clock.now()),
            resident,
            round: resident.0 / BLOCK_PAGES + self.work.stage_target(group) as u64,
            written: Pages(self.job.store.written_back()),
            writing: self.job.is_writing(),
            late: spaces.iter().any(|space| space.lets_go_later()),
            far_over: group.meter.is_far_over(),
        }
    }

    /// Looks for all memory of the group that is not managed yet, before nothing is said to be left. Whether there is some.
    fn finds_more(&self, group: &Group) -> bool {
        let before = self.job.resident_of(group);
        let spaces = self.job.spaces_of(group);
        for space in spaces.iter().filter(|space| space.is_managed()) {
            space.discover(&self.job);
        }
        let found = self.job.resident_of(group).saturating_sub(before);
        found.0 >= BLOCK_PAGES
    }

    fn wait(&self, limit: Duration) {
        self.job.reclaim.wait_by(&*self.job.clock, limit);
    }

    /// Nothing moved: until the disk has made room, or for a moment.
    fn pause(&self) {
        self.job.ask_shrinker(0);
        if self.job.store.waits_for_disk() {
            self.wait(TUNING.reclaim.pause_for_disk.duration());
        } else {
            self.job.clock.sleep(TUNING.reclaim.pause.0);
        }
    }

    /// The supply is as given from now on. Who wants the job killed rather than over its limit has faults
    /// wait in any case.
    fn turn(&mut self, at: usize, supply: Supply) {
        let bout = &mut self.bouts[at];
        bout.supply = supply;
        let may_go_over = self.job.options.on_exhausted == Exhausted::Open;
        let open = supply != Supply::Flows && may_go_over && bout.group.meter.is_pressed();
        bout.group.meter.set_open(open);
        self.tell(at);
    }

    /// Once nothing is left to reclaim and more is wanted: says so, and kills processes if asked, again if some of them were
    /// just being started. A group that stays just below its limit is left in peace. Of a service one job is ended at a time.
    fn tell(&mut self, at: usize) {
        let bout = &self.bouts[at];
        let group = bout.group.clone();
        let kills = self.job.options.on_exhausted == Exhausted::Kill;
        let wanted = !kills || group.meter.is_over() || self.job.room.is_wanted();
        if bout.supply != Supply::Dry || !group.meter.is_full() || !wanted {
            return;
        }
        if kills && self.is_left_to_die(at) {
            return;
        }
        let victim = match kills {
            true => self.job.groups.victim(&group),
            false => Some(group.clone()),
        };
        let Some(victim) = victim else {
            return; // no job has memory
        };
        if !victim.note_told_dry() {
            group.count(|events| &events.oom, 1);
            self.tell_why(&group, &victim, kills); // first: a client ends with its job
        }
        if kills {
            self.job.kill_for_room(&victim);
        }
        if victim.number != group.number {
            self.killed = Some((victim, self.job.clock.now()));
        }
    }

    /// Whether a job of the service was killed and gives its memory back. Once it has, or takes long, all is judged anew.
    fn is_left_to_die(&mut self, at: usize) -> bool {
        let Some((victim, since)) = self
            .killed
            .take_if(|_| self.bouts[at].group.parent.is_none())
        else {
            return false;
        };
        let now = self.job.clock.now();
        let gone = self.job.spaces_of(&victim).is_empty() && victim.meter.pool() == 0;
        if !gone && now < since + TUNING.reclaim.dies.0 {
            self.killed = Some((victim, since));
            return true;
        }
        self.job.sampler.ring();
        self.visits.begin(&self.job);
        let bout = &mut self.bouts[at];
        bout.outlook.relieve();
        bout.begin(&self.job.recorder, now);
        (bout.supply, bout.rest, bout.low) = (Supply::Flows, Duration::ZERO, Low::Spared);
        true
    }

    /// Says that nothing is left of a group, what it has instead, and what to do: to `told`, the group itself or the job that is ended
    /// for it.
    fn tell_why(&self, group: &Group, told: &Group, kills: bool) {
        let inventory = Inventory::take(&self.job, group);
        let over = match kills {
            _ if told.number != group.number => {
                "the job is killed, as asked: of all in the service it has most above its protection"
            }
            true => "the job is killed, as asked",
            false => "the program goes over its limit",
        };
        let who = told.name.as_ref().map(|name| format!("{name}: "));
        let own = group.account.trouble(self.job.store.can_write());
        let trouble = own
            .map(str::to_owned)
            .or_else(|| self.job.store.swap_trouble());
        let trouble = trouble.map(|why| format!("{why}; "));
        let advice = match own {
            Some(_) => "give a larger -m, or set a larger swap.max or zswap.max",
            None => inventory.advice(self.job.store.writeback() && group.account.writes()),
        };
        let line = format!(
            "{}nothing more can be reclaimed ({}{}): {over}; {}",
            who.unwrap_or_default(),
            trouble.unwrap_or_default(),
            inventory.words(),
            advice,
        );
        self.job.tell_group(told, Kind::Exhausted, line);
    }

    /// Reclaim is not to take the cpu from those it works for: the waiting thread and who serves it. Not
    /// where it works for several: they are everywhere, and each step costs more than it gains.
    pub(super) fn step_aside(&mut self, space: &Space) {
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
}
