//! `neap freeze`: all processes of the job are stopped (SIGSTOP) until `neap thaw` continues them.
//!
//! The agents go on, or no page could leave. Processes are found as descendants of this one, parents before children, by
//! several looks: who was forked between two of them is found by the next. A process waits for its parent to stand still,
//! since a shell that runs would hear that its child is stopped. One that its user had stopped before stays so at the end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use neap_sys::{Lock, Member, Root, Stand};
use neap_tuning::TUNING;
use neap_units::{Limit, Pages};

use crate::control::Kind;
use crate::group::Group;
use crate::job::Job;
use crate::space::Space;

pub(crate) const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// What agents are called, from their first moments on.
const AGENT: &str = "mm-agent";

#[derive(Debug, Default)]
pub(crate) struct Freeze {
    held: Lock<Option<Held>, 1>,
    /// The job is frozen, or is about to be.
    frozen: AtomicBool,
    /// Reclaim takes what is staged, too, and has help.
    empties: AtomicBool,
    /// Passes in a row in which reclaim, which could try all, moved nothing.
    vain: AtomicU64,
    /// The shrinker writes all that the pool holds.
    writes: AtomicBool,
}

/// What a look at the processes came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Round {
    /// Somebody has thawed the job meanwhile.
    Thawed,
    /// Some process may still run.
    UnderWay,
    /// All that can be stopped are.
    Settled,
}

/// What a job had when it was frozen.
#[derive(Debug, Default)]
pub(crate) struct Had {
    /// Usage, in bytes.
    pub usage: u64,
    /// The resident pages of each space, by its number.
    pub pages: Vec<(u64, Pages)>,
}

#[derive(Debug)]
struct Held {
    since: u64,
    /// In the order in which they were stopped.
    halted: Vec<Halted>,
    known: HashMap<(i32, u64), usize>,
    /// Looks in a row that found nothing to do.
    quiet: u32,
    had: Option<Had>,
}

/// A process as it was met.
#[derive(Debug)]
struct Halted {
    member: Member,
    how: How,
    /// When.
    at: u64,
    /// Nothing of it runs.
    stands: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// It was sent SIGSTOP.
    Ours,
    /// It was stopped before.
    Before,
    /// We may not stop it.
    Refused,
}

/// Of whom processes descend, and who is to be left alone, by number.
struct Apart<'a> {
    root: &'a Root,
    agents: HashSet<i32>,
    /// They speak with neap, or fork.
    busy: HashSet<i32>,
}

impl<'a> Apart<'a> {
    fn look(job: &Job, root: &'a Root) -> Self {
        let spaces = job.spaces();
        let bodies = spaces.iter().filter_map(|space| space.body.get());
        let agents = bodies.filter_map(|body| body.agent.task());
        let forks =
            |space: &&Arc<Space>| (space.is_thawed() || space.window.is_open()) && !space.is_dead();
        let forking = spaces.iter().filter(forks);
        let mut busy = job.talks.speakers();
        busy.extend(forking.map(|space| space.pid.load(Relaxed)));
        Self {
            root,
            agents: agents.map(|task| task.process().pid()).collect(),
            busy,
        }
    }

    /// Whether it is an agent, or, while `young`, says that it is one and may not have been met yet.
    fn is_agent(&self, member: &Member, young: bool) -> bool {
        let says = || neap_sys::comm(member.pid).is_some_and(|name| name == AGENT);
        self.agents.contains(&member.pid) || young && member.parent == self.root.pid() && says()
    }
}

impl Held {
    fn new(now: u64) -> Self {
        Self {
            since: now,
            halted: Vec::new(),
            known: HashMap::new(),
            quiet: 0,
            had: None,
        }
    }

    /// Stops who is not stopped yet. Whether all stand still.
    fn look(&mut self, family: &[Member], apart: &Apart<'_>, now: u64) -> bool {
        self.let_agents_go(apart);
        let young = now < self.since + TUNING.freeze.busy.0;
        let mut still = true;
        for member in family {
            let known = self.known.get(&(member.pid, member.born)).copied();
            let is_agent = || apart.is_agent(member, young);
            still &= match known {
                Some(at) => self.halted[at].looks_still(now),
                None if is_agent() => true,
                None if young && apart.busy.contains(&member.pid) => false,
                None if !self.parent_stands(member, now) => false,
                None => !self.halt(*member, apart.root, now),
            };
        }
        still
    }

    /// One that was met only after it was stopped is to go on.
    fn let_agents_go(&mut self, apart: &Apart<'_>) {
        let is_agent = |halted: &&mut Halted| apart.agents.contains(&halted.member.pid);
        for halted in self.halted.iter_mut().filter(is_agent) {
            if halted.how == How::Ours {
                let _ = halted.member.signal(apart.root, SIGCONT);
            }
            (halted.how, halted.stands) = (How::Before, true);
        }
    }

    fn parent_stands(&self, member: &Member, now: u64) -> bool {
        let is_parent = |halted: &&Halted| halted.member.pid == member.parent;
        let parent = self.halted.iter().rfind(is_parent);
        parent.is_none_or(|parent| parent.stands || now > parent.at + TUNING.freeze.parent.0)
    }

    /// Stops a process that was just found. Whether there was such a one.
    fn halt(&mut self, member: Member, root: &Root, now: u64) -> bool {
        let how = match member.stand() {
            Stand::Ended => return false,
            Stand::Stopped => How::Before,
            Stand::Waits | Stand::Runs => match member.signal(root, SIGSTOP) {
                Ok(true) => How::Ours,
                Ok(false) => return false,
                Err(_) => How::Refused,
            },
        };
        self.known
            .insert((member.pid, member.born), self.halted.len());
        self.halted.push(Halted {
            member,
            how,
            at: now,
            stands: how != How::Ours,
        });
        true
    }

    /// Those that run on all the same, and how many there are.
    fn running(&self) -> (usize, Vec<String>) {
        let runs = |halted: &&Halted| halted.how == How::Refused || !halted.stands;
        let all: Vec<_> = self.halted.iter().filter(runs).collect();
        let name = |halted: &&Halted| {
            let name = neap_sys::comm(halted.member.pid)?;
            let name = name.replace(char::is_control, "?");
            Some(format!("{name} ({})", halted.member.pid))
        };
        let named: Vec<_> = all.iter().filter_map(name).collect();
        (named.len(), named)
    }
}

impl Halted {
    /// Whether nothing of it runs any more, or what does waits in the kernel and stops after that.
    fn looks_still(&mut self, now: u64) -> bool {
        if !self.stands {
            let stand = self.member.stand();
            let waits = stand == Stand::Waits && now > self.at + TUNING.freeze.waits.0;
            self.stands = stand <= Stand::Stopped || waits;
        }
        self.stands
    }
}

impl Freeze {
    /// Whether the job is frozen, or is about to be.
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Relaxed)
    }

    /// Whether reclaim is to take all, what is staged too.
    pub fn empties(&self) -> bool {
        self.empties.load(Relaxed)
    }

    pub fn set_empties(&self, empties: bool) {
        self.vain.store(0, Relaxed);
        self.empties.store(empties && self.is_frozen(), Relaxed);
    }

    /// Reclaim has made a pass. `in_vain`: it could try all, and moved nothing.
    pub fn note_pass(&self, in_vain: bool) {
        match in_vain {
            true => _ = self.vain.fetch_add(1, Relaxed),
            false => self.vain.store(0, Relaxed),
        }
    }

    /// Whether reclaim has tried again and again in vain.
    pub fn is_in_vain(&self) -> bool {
        self.vain.load(Relaxed) >= TUNING.freeze.passes
    }

    /// Whether all of the pool is to be written.
    pub fn writes(&self) -> bool {
        self.writes.load(Relaxed)
    }

    pub fn set_writes(&self, writes: bool) {
        self.writes.store(writes && self.is_frozen(), Relaxed);
    }

    /// Begins. False: the job is frozen already.
    pub fn begin(&self) -> bool {
        let mut held = self.held.lock();
        if held.is_some() {
            return false;
        }
        *held = Some(Held::new(neap_sys::monotonic_nanos()));
        self.frozen.store(true, Relaxed);
        true
    }

    /// Looks at all processes and stops those that run. To be called again until it is settled.
    pub fn round(&self, job: &Job, root: &Root) -> Round {
        let mut held = self.held.lock();
        let Some(held) = &mut *held else {
            return Round::Thawed;
        };
        let now = neap_sys::monotonic_nanos();
        let still = held.look(&root.family(), &Apart::look(job, root), now);
        held.quiet = if still { held.quiet + 1 } else { 0 };
        let over = now > held.since + TUNING.freeze.stop.0;
        match held.quiet >= TUNING.freeze.quiet_looks || over {
            true => Round::Settled,
            false => Round::UnderWay,
        }
    }

    /// Notes what each space has now, for who brings it back.
    pub fn note_pages(&self, job: &Job, group: &Group) {
        let spaces = job.spaces_of(group);
        let core = job.core();
        let living = spaces.iter().filter(|space| core.is_live(space.id));
        let pages = living.map(|space| (space.cookie, core.resident(space.id)));
        let pages = pages.collect();
        drop(core);
        let usage = group.meter.usage();
        if let Some(held) = &mut *self.held.lock() {
            held.had.get_or_insert(Had { usage, pages });
        }
    }

    /// How many processes are stopped, how many run on, and those by name.
    pub fn tell(&self) -> (usize, usize, Vec<String>) {
        let held = self.held.lock();
        held.as_ref().map_or((0, 0, Vec::new()), |held| {
            let (running, named) = held.running();
            let stopped = held.halted.iter().filter(|one| one.how != How::Refused);
            (stopped.count(), running, named)
        })
    }
}

/// To all that were stopped here, children before their parents. Who was above them may have ended since.
fn signal_ours(halted: &[Halted], signal: i32) {
    for ours in halted.iter().rev().filter(|one| one.how == How::Ours) {
        let _ = ours.member.signal_again(signal);
    }
}

impl Job {
    /// Lets a frozen job go on: children before their parents, so that no parent sees a child of its own stopped. What it had
    /// when it was frozen; `None`: it is not frozen.
    pub fn unfreeze(&self, group: &Group) -> Option<Had> {
        let freeze = &group.freeze;
        let mut held = freeze.held.lock();
        let Held { halted, had, .. } = held.take()?;
        if freeze.empties.swap(false, Relaxed) {
            group.meter.ask_for(Limit::Max);
        }
        freeze.writes.store(false, Relaxed);
        for space in self.spaces_of(group).iter() {
            space.quiet.begin_anew(neap_sys::monotonic_nanos());
        }
        freeze.frozen.store(false, Relaxed);
        signal_ours(&halted, SIGCONT);
        drop(held);
        let line = format!("{} goes on", group.who());
        self.log.note_of(self, group, Kind::Thaw, line);
        Some(had.unwrap_or_default())
    }

    /// The job has ended. What was stopped for it and is there still gets `signal`: an agent that was stopped before anybody met
    /// it, or what lost everyone above it.
    pub fn let_go_of_stopped(&self, group: &Group, signal: i32) {
        let mut held = group.freeze.held.lock();
        if let Some(Held { halted, .. }) = held.take() {
            group.freeze.frozen.store(false, Relaxed);
            signal_ours(&halted, signal);
        }
    }

    /// Pages that are in the programs or staged there.
    pub fn pages_in_memory(&self, group: &Group) -> u64 {
        let spaces = self.spaces_of(group);
        let bodies = spaces.iter().filter_map(|space| space.body.get());
        let staged: u64 = bodies.map(|body| body.stage.frames()).sum();
        self.resident_of(group).0 + staged
    }

    /// Anonymous memory that the programs have, in bytes, where what they share counts once; and how many of them there are.
    pub fn anonymous(&self, group: &Group) -> (u64, usize) {
        let part = |space: &Arc<Space>| {
            let has = space.body.get()?.extent().anon;
            let shares = space.kin.shares();
            Some(if shares {
                space.kin.proportional(has)
            } else {
                has
            })
        };
        let spaces = self.spaces_of(group);
        let each: Vec<u64> = spaces.iter().filter_map(part).collect();
        (each.iter().sum(), each.len())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> (Child, Member) {
        let child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id().cast_signed();
        let all = Root::own().family();
        let member = all.into_iter().find(|member| member.pid == pid);
        (child, member.expect("our child"))
    }

    fn nobody(root: &Root) -> Apart<'_> {
        Apart {
            root,
            agents: HashSet::new(),
            busy: HashSet::new(),
        }
    }

    fn until_still(held: &mut Held, family: &[Member], apart: &Apart<'_>) {
        while !held.look(family, apart, held.since) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_was_stopped_before_stays_so_and_agents_are_left_alone() {
        let (mut one, first) = sleeper();
        let (mut other, second) = sleeper();
        let (mut third, agent) = sleeper();
        second.signal(&Root::own(), SIGSTOP).expect("ours");
        while second.stand() != Stand::Stopped {
            std::thread::yield_now();
        }
        let root = Root::own();
        let mut apart = nobody(&root);
        apart.agents.insert(agent.pid);
        let mut held = Held::new(1);
        until_still(&mut held, &[first, second, agent], &apart);
        let how: Vec<_> = held.halted.iter().map(|one| one.how).collect();
        assert_eq!(how, [How::Ours, How::Before]);
        assert_eq!(first.stand(), Stand::Stopped);
        assert_eq!(agent.stand(), Stand::Runs);
        assert_eq!(held.running().0, 0);
        for child in [&mut one, &mut other, &mut third] {
            child.kill().expect("it is stopped, and ends");
            child.wait().expect("ours");
        }
    }

    #[test]
    fn an_agent_that_was_stopped_before_it_was_met_goes_on() {
        let (mut child, member) = sleeper();
        let root = Root::own();
        let (mut held, mut apart) = (Held::new(1), nobody(&root));
        until_still(&mut held, &[member], &apart);
        assert_eq!(member.stand(), Stand::Stopped);
        apart.agents.insert(member.pid);
        until_still(&mut held, &[member], &apart);
        while member.stand() != Stand::Runs {
            std::thread::yield_now();
        }
        child.kill().expect("it runs");
        child.wait().expect("ours");
    }

    #[test]
    fn a_child_waits_for_its_parent_and_one_that_is_busy_is_let_be_for_a_while() {
        let (mut child, member) = sleeper();
        let root = Root::own();
        let (mut held, mut apart) = (Held::new(1), nobody(&root));
        let parent = Member {
            pid: member.parent,
            parent: 1,
            born: 0,
        };
        held.halted.push(Halted {
            member: parent,
            how: How::Ours,
            at: 1,
            stands: false,
        });
        assert!(!held.look(&[member], &apart, 1), "its parent runs");
        assert_eq!(held.halted.len(), 1);
        apart.busy.insert(member.pid);
        held.halted[0].stands = true;
        assert!(!held.look(&[member], &apart, 2), "it is busy");
        assert_eq!(held.halted.len(), 1);
        let late = 2 + TUNING.freeze.busy.0;
        assert!(!held.look(&[member], &apart, late), "it is stopped now");
        assert_eq!(held.halted.len(), 2);
        child.kill().expect("it is stopped, and ends");
        child.wait().expect("ours");
    }
}
