//! The limit: looking at the kernel's accounting, and acting before it is too late.

mod turns;

pub(crate) use turns::{deputise, sample};

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::Pacer;
use neap_record::Noted;
use neap_sys::Statm;
use neap_tuning::TUNING;
use neap_units::{Bytes, Nanos};

use crate::control::Kind;
use crate::group::{Paces, noted_pacer};
use crate::job::Job;
use crate::load::look_at_flags;
use crate::meter::Sample;
use crate::report::SamplerReport;
use crate::space::{Body, Phase, Space, Stale};

pub(crate) struct Sampler {
    job: Arc<Job>,
    pacer: Noted<Pacer>,
    paces: Paces,
    own: Statm,
    /// When to look again at the earliest, and at the latest.
    look_again: u64,
    look_next: u64,
    /// The last look came since the job grew.
    grows: bool,
    /// Growth since that neap's own fills do not explain, in bytes.
    unexplained: u64,
    /// When to measure again what a process shares.
    next_share: u64,
    /// The same if much of it may be the process's own by now.
    next_doubted: u64,
    /// When to look again at how much that may be.
    next_copies: u64,
    /// When to look next at the time of the agents.
    next_agents: u64,
    /// When to look next for processes that have execed.
    next_execs: u64,
    /// When to look next for those that do nothing.
    next_quiet: u64,
    /// When to count mappings again, and whose turn it is.
    next_count: u64,
    count_turn: usize,
    /// When it looked last, and when it is to look again; 0: not yet.
    last: u64,
    due: u64,
    punctual: SamplerReport,
    /// Memory has been registered.
    registered: bool,
    /// Whether its thread goes ahead of every ordinary one, once that has asked.
    ahead: Option<bool>,
    /// The cpu where it sleeps, once it has looked.
    cpu: Option<usize>,
}

/// Has what these processes share write-protected where they copy it, and there is less room than their family may copy.
fn watch_copies(sharers: &[(&Arc<Space>, &Body)], now: u64) {
    let mut families: HashMap<u64, u64> = HashMap::new();
    for (space, _) in sharers {
        *families.entry(space.kin.family()).or_default() += space.kin.may_copy();
    }
    for (space, _) in sharers {
        let all = families[&space.kin.family()];
        if space.group.room() < all && space.cow.look(space.kin.seen(), now) {
            space.kin.note_copier();
            space.ring();
        }
    }
}

impl Sampler {
    pub fn new(job: Arc<Job>) -> std::io::Result<Self> {
        Ok(Self {
            pacer: noted_pacer(&job.recorder, job.options.limit),
            paces: Paces::default(),
            own: Statm::own()?,
            look_again: 0,
            look_next: 0,
            grows: false,
            unexplained: 0,
            next_share: 0,
            next_doubted: 0,
            next_copies: 0,
            next_agents: 0,
            next_execs: 0,
            next_quiet: 0,
            next_count: 0,
            count_turn: 0,
            last: 0,
            due: 0,
            punctual: SamplerReport::default(),
            registered: false,
            ahead: None,
            cpu: None,
            job,
        })
    }

    fn tick(&mut self) -> Nanos {
        self.pacer.set_limit(self.job.meter.limit());
        let woke = neap_sys::monotonic_nanos();
        let spaces = self.job.spaces();
        self.measure_shares(&spaces);
        self.measure_agents(&spaces);
        self.look_after_agents(&spaces);
        self.look_for_quiet(&spaces);
        let resident = self.measure_resident(&spaces);
        let sample = self.sample(&resident);
        let usage = self.job.meter.usage_of(&sample);
        let unexplained = self.job.meter.sample(sample);
        self.unexplained += unexplained;
        let now = neap_sys::monotonic_nanos();
        self.pacer.observe_native(Nanos(now), Bytes(unexplained));
        if self.job.flags.foreseen.load(Relaxed) {
            self.pacer.arm();
        }
        let mut plan = self.pacer.observe(Nanos(now), Bytes(usage));
        self.job.meter.set_plan(plan.hold_above, plan.reclaim_to);
        let wants = self.paces.look(&self.job, &resident, Nanos(now));
        plan.next_sample = plan.next_sample.min(wants.next.unwrap_or(plan.next_sample));
        self.job
            .look_at_limit(self.job.groups.top(), usage > plan.hold_above.0);
        self.job.note_history(&spaces, usage, now);
        if plan.arm || !wants.armed.is_empty() {
            self.look_at_stalls(now);
            self.count_mappings(&spaces, now);
        }
        self.note_punctuality(woke, usage);
        if plan.arm {
            let enough = match plan.reclaim_to {
                Some(_) => TUNING.looks.unexplained_near.0,
                None => TUNING.looks.unexplained.0,
            };
            self.grows = self.unexplained >= enough;
            self.arm(&spaces, now);
            self.note_armed(usage, &spaces);
        } else if !wants.armed.is_empty() {
            let within =
                |space: &Arc<Space>| wants.armed.iter().any(|group| space.group.is_within(group));
            let theirs: Vec<_> = spaces
                .iter()
                .filter(|space| within(space))
                .cloned()
                .collect();
            self.grows = true;
            self.arm(&theirs, now);
        }
        self.job.note_all_reclaimable(&spaces);
        if plan.reclaim_to.is_some() || wants.reclaims {
            self.job.reclaim.ring();
        }
        self.job.offer_room();
        self.step_aside(&spaces);
        if self.grows && usage > plan.hold_above.0 {
            return TUNING.looks.soonest; // what is mapped meanwhile waits for nothing
        }
        plan.next_sample
    }

    /// Keeps how late this look came, for the report.
    fn note_punctuality(&mut self, woke: u64, usage: u64) {
        let since = |then: u64| {
            if then == 0 {
                0
            } else {
                woke.saturating_sub(then) / 1000
            }
        };
        let (late, after) = (since(self.due), since(self.last));
        let punctual = &mut self.punctual;
        punctual.latest_us = punctual.latest_us.max(late);
        if punctual.armed_bytes == 0 {
            (punctual.armed_late_us, punctual.armed_after_us) = (late, after);
        } else if self.registered && punctual.registered_bytes == 0 {
            punctual.registered_bytes = usage;
        }
        self.last = woke;
        self.publish_punctuality();
    }

    fn publish_punctuality(&self) {
        *self.job.sampling.lock() = self.punctual;
    }

    /// The same of the first look that had memory registered, and whether some is by now.
    fn note_armed(&mut self, usage: u64, spaces: &[Arc<Space>]) {
        if self.punctual.armed_bytes == 0 {
            self.punctual.armed_bytes = usage;
            self.publish_punctuality(); // there may be no other look
        }
        if !self.registered && spaces.iter().any(|space| space.was_looked_at()) {
            self.registered = true;
            self.job.deputy.ring(); // it has other work now
        }
    }

    /// Where it goes ahead of everybody it wakes on the cpu where it slept. That is not to be the one where a process
    /// is served, if only one ever was.
    fn step_aside(&self, spaces: &[Arc<Space>]) {
        let mut served = spaces.iter().filter(|space| space.has_cpu());
        if let (Some(true), Some(only), None) = (self.ahead, served.next(), served.next()) {
            self.job.keeper.leave(only.served_on.load(Relaxed) - 1);
        }
    }

    /// Measures how much each process shares with others: of all at once, so that the parts sum up.
    fn measure_shares(&mut self, spaces: &[Arc<Space>]) {
        let start = neap_sys::monotonic_nanos();
        let sharers: Vec<_> = spaces
            .iter()
            .filter(|space| space.kin.shares())
            .filter_map(|space| Some((space, space.body.get()?)))
            .collect();
        let doubted = start >= self.next_copies && self.measure_copies(&sharers, start);
        // What a new child adds is known: nothing but its copies. Where many come all would be measured all the time.
        let doubted = doubted || sharers.iter().any(|(space, _)| space.kin.is_new());
        if start < self.next_share && !(doubted && start >= self.next_doubted) {
            return;
        }
        for (space, _) in &sharers {
            space.kin.begin_measure();
        }
        // They cannot be asked yet.
        let nameless = spaces
            .iter()
            .filter(|space| space.body.get().is_none() && space.kin.is_young(start));
        for parent in nameless.filter_map(|space| space.kin.parent()) {
            parent.kin.note_unseen();
        }
        for (space, body) in sharers {
            space.kin.measure(&body.process, body.memory_of());
            if space.is_changing() || space.expects() || space.window.holds() {
                space.kin.note_forking();
            }
        }
        let end = neap_sys::monotonic_nanos();
        self.next_share = end + (end - start) * TUNING.looks.rest;
        self.next_doubted = end + (end - start) * TUNING.looks.rest_in_doubt;
    }

    /// Looks at how much of what they share processes may have copied for themselves since. Whether that is much.
    fn measure_copies(&mut self, sharers: &[(&Arc<Space>, &Body)], start: u64) -> bool {
        let copied = sharers
            .iter()
            .map(|(space, body)| space.kin.note_copies(&body.process));
        let copied: u64 = copied.sum();
        watch_copies(sharers, start);
        let end = neap_sys::monotonic_nanos();
        self.next_copies = end + (end - start) * TUNING.looks.rest;
        copied > TUNING.looks.doubt.of(self.job.meter.limit().0)
    }

    /// Looks at how long each agent has had a cpu: the kernel forgets it with the thread.
    fn measure_agents(&mut self, spaces: &[Arc<Space>]) {
        let now = neap_sys::monotonic_nanos();
        if now < self.next_agents {
            return;
        }
        let mut processes = self.job.processes.lock();
        for space in spaces {
            let Some(body) = space.body.get().filter(|body| !body.agent.is_gone()) else {
                continue;
            };
            let time = body.agent.task().and_then(|task| task.cpu_time());
            if let Some((time, process)) = time.zip(processes.latest(body.pid)) {
                process.agent_seconds = time.ran as f64 / 1e9;
            }
        }
        drop(processes);
        let end = neap_sys::monotonic_nanos();
        let rest = (end - now) * TUNING.looks.agents_rest;
        self.next_agents = now + TUNING.looks.agents.0.max(rest);
    }

    /// Looks whose memory is not its process's any more, and who has been stopped.
    fn look_after_agents(&mut self, spaces: &[Arc<Space>]) {
        let now = neap_sys::monotonic_nanos();
        if now < self.next_execs {
            return;
        }
        let before = neap_sys::thread_nanos();
        self.job.look_after_agents(spaces);
        let took = neap_sys::thread_nanos() - before;
        self.next_execs = now + TUNING.looks.execs.0.max(took * TUNING.looks.execs_rest);
    }

    /// Looks who does nothing.
    fn look_for_quiet(&mut self, spaces: &[Arc<Space>]) {
        let now = neap_sys::monotonic_nanos();
        if now >= self.next_quiet {
            self.job.look_for_quiet(spaces);
            self.next_quiet = now + TUNING.idle.look_at_most.0;
        }
    }

    /// Anonymous memory of each process that can be measured, with what the kernel takes for its mappings, in bytes.
    fn measure_resident(&self, spaces: &[Arc<Space>]) -> Vec<(Arc<Space>, u64)> {
        let mut all = Vec::with_capacity(spaces.len());
        let mut families: HashMap<u64, Stale> = HashMap::new();
        let mut processes = self.job.processes.lock();
        for space in spaces {
            let Some(body) = space.body.get() else {
                continue;
            };
            let anon = space.still.see(|| body.extent()).anon;
            let anon = if space.kin.shares() {
                let counted = space.kin.proportional(anon);
                let family = families.entry(space.kin.family()).or_default();
                family.note(all.len(), &space.kin, anon, counted);
                counted
            } else {
                anon
            };
            all.push((space.clone(), anon + space.mappings.bytes()));
            if let Some(process) = processes.latest(body.pid) {
                process.resident_bytes = anon;
                process.stalled_seconds = space.stalled.load(Relaxed) as f64 / 1e9;
                process.peak_resident_bytes = process.peak_resident_bytes.max(anon);
            }
        }
        for (which, lacking) in families.values().map(Stale::lacking) {
            all[which].1 += lacking;
        }
        all
    }

    fn sample(&self, resident: &[(Arc<Space>, u64)]) -> Sample {
        Sample {
            resident: resident.iter().map(|(_, bytes)| bytes).sum(),
            own: self.own.anon_resident().unwrap_or(0),
            pool: self.job.store.holding(),
            thaws: resident.iter().any(|(space, _)| space.is_thawed()),
        }
    }

    /// Moves the averages of the time that threads waited on.
    fn look_at_stalls(&self, now: u64) {
        let groups = &self.job.groups;
        for group in groups.within(groups.top()) {
            if let Some(share) = group.stalls.look(&self.job.spaces_of(&group), now) {
                let line = format!("threads waited for memory in {share:.0} % of the last 10 s");
                self.job
                    .log
                    .note_of(&self.job, &group, Kind::Pressure, line);
            }
        }
    }

    /// Counts some mappings of one space.
    fn count_mappings(&mut self, spaces: &[Arc<Space>], now: u64) {
        if now < self.next_count || spaces.is_empty() {
            return;
        }
        self.count_turn = (self.count_turn + 1) % spaces.len();
        spaces[self.count_turn].count_mappings();
        let end = neap_sys::monotonic_nanos();
        self.next_count = end + (end - now) * TUNING.looks.mappings_counted_rest;
    }

    fn look_at(&self, space: &Arc<Space>, now: u64) {
        if space.told.load(Relaxed) && !space.kin.inherits() && space.still.is_passed_over() {
            space.end_quarantine(&self.job, now);
            return;
        }
        space.still.is_looked_at();
        if !space.told.load(Relaxed) {
            space.arm_agent(&self.job); // it was forking
        }
        let idle = |body: &Body| space.kin.is_idle(&body.process);
        match space.body.get().is_some_and(idle) {
            true => space.find_threads(),
            false => space.discover(&self.job),
        }
        space.end_quarantine(&self.job, now);
        if space.wants_flags(&self.job) {
            look_at_flags(&self.job, space);
        }
    }

    /// Has all that a process has registered the first time, and later registers what is new.
    fn arm(&mut self, spaces: &[Arc<Space>], now: u64) {
        let rested = now > self.look_again;
        let due = now >= self.look_next || self.grows && rested;
        let mut looked = false;
        let before = neap_sys::thread_nanos();
        for space in spaces {
            if space.body.get().is_none() || space.is_dead() {
                continue;
            }
            if space.is_native() {
                crate::thaw::leave_native(&self.job, space);
                continue;
            }
            if space.standing.phase() == Phase::Due {
                looked = true;
                if space.standing.is_served() || self.job.try_serving(space) {
                    space.look_first(&self.job, self.ahead == Some(true));
                }
            } else if due && space.is_managed() {
                self.look_at(space, now);
                looked = true; // also where it was passed over: the pause is between looks at all of them
            }
        }
        if looked {
            self.unexplained = 0;
            let worked = neap_sys::thread_nanos() - before;
            let end = neap_sys::monotonic_nanos();
            let took = worked.max(TUNING.looks.waiting.of(end - now));
            self.look_again = end + took * TUNING.looks.mappings_rest_growing;
            self.look_next = now
                + TUNING
                    .looks
                    .mappings
                    .0
                    .max(took * TUNING.looks.mappings_rest);
        }
    }
}
