//! Groups: the memory cgroups of an engine.
//!
//! A group has the processes that descend from one process, its root. What its processes use counts for it and for all groups
//! above it, and each of these may have a limit. A plain `neap run` has one group, whose root is neap itself. A service has
//! one at the top, for its budget, without processes of its own; each job that joins is a group below.

mod counters;
mod membership;
mod pace;
mod protection;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use neap_control::Name;
use neap_store::Account;
use neap_sys::{Lock, Pidfd, Root, descendants_of, nearest_above};
use neap_tuning::TUNING;
use neap_units::{AtomicLimit, Bytes, Limit, Nanos, PAGE_SIZE, Pages};

use crate::control::Seen;
use crate::excess::Held;
use crate::freeze::Freeze;
use crate::meter::Meter;
use crate::stalls::Stalls;
pub(crate) use counters::Counters;
use counters::Gone;
pub(crate) use pace::{Paces, noted_pacer, pacer};
#[cfg(test)]
pub(crate) use tests::a_job_of;

const SIGKILL: i32 = 9;

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    /// Tells it from all others of the engine, now and later.
    pub number: u64,
    /// What it is called among them; the top has none.
    pub name: Option<Name>,
    /// The group that it counts for, too.
    pub parent: Option<Arc<Group>>,
    /// Whose descendants its processes are; `None`: it has none of its own.
    pub root: Option<Root>,
    pub meter: Arc<Meter>,
    /// Of the job: its command, whether none of its processes runs unmanaged, and when it joined, in nanoseconds.
    pub command: Vec<String>,
    pub require: bool,
    pub started: u64,
    /// A process of it has spoken to the engine, and so many were taken over.
    pub met: AtomicBool,
    pub attached: AtomicU64,
    pub events: Counters,
    /// How long its threads wait, and those of the groups below.
    pub stalls: Stalls,
    /// `memory.min` and `memory.low`.
    pub min: AtomicLimit,
    pub low: AtomicLimit,
    /// For how long its processes must do nothing before their memory leaves, in nanoseconds; 0: it stays.
    pub idle: AtomicU64,
    /// What it has in the store, and may have there.
    pub account: Arc<Account>,
    gone: Lock<Gone, 7>,
    pub freeze: Freeze,
    over: AtomicBool,
    /// The user knows that nothing more can be reclaimed.
    told_dry: AtomicBool,
    /// Its processes were killed, since nothing more could be reclaimed.
    pub killed: AtomicBool,
    /// When it was last told that threads wait for `memory.high`, in nanoseconds.
    pub told_high: AtomicU64,
    /// As the sampler saw it last.
    pub seen: Seen,
    /// What could not be reclaimed of it.
    pub held: Held,
}

impl Group {
    /// The number of the group above all others.
    pub const TOP: u64 = 0;

    /// The group above all others, with the limit of all.
    pub fn top(root: Option<Root>, require: bool, meter: Arc<Meter>) -> Arc<Self> {
        Arc::new(Self {
            root,
            require,
            ..Self::bare(meter)
        })
    }

    fn bare(meter: Arc<Meter>) -> Self {
        Self {
            number: Self::TOP,
            name: None,
            parent: None,
            root: None,
            meter,
            command: Vec::new(),
            require: false,
            started: 0,
            met: AtomicBool::new(false),
            attached: AtomicU64::new(0),
            events: Counters::default(),
            stalls: Stalls::default(),
            min: AtomicLimit::new(Limit::ZERO),
            low: AtomicLimit::new(Limit::ZERO),
            idle: AtomicU64::new(0),
            account: Arc::default(),
            gone: Lock::default(),
            freeze: Freeze::default(),
            over: AtomicBool::new(false),
            told_dry: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            told_high: AtomicU64::new(0),
            seen: Seen::default(),
            held: Held::default(),
        }
    }

    /// The number of its root.
    pub fn pid(&self) -> i32 {
        self.root.as_ref().map_or(0, Root::pid)
    }

    /// What it is called, for people.
    pub fn who(&self) -> &str {
        self.name.as_ref().map_or("the job", Name::as_str)
    }

    /// For how long its processes must do nothing before their memory leaves; 0: it stays.
    pub fn idle(&self) -> Nanos {
        Nanos(self.idle.load(Relaxed))
    }

    /// The group and those above it, up to the top.
    pub fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |group| group.parent.as_deref())
    }

    /// The least limit of the groups above it.
    pub fn limit_above(&self) -> Bytes {
        let limits = self.chain().skip(1).map(|group| group.meter.limit());
        limits.min().unwrap_or(TUNING.limit.most)
    }

    /// Whether it is this group or one below it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.chain().any(|group| group.number == other.number)
    }

    /// Pages appeared in a process of the group.
    pub fn charge(&self, bytes: u64) {
        self.chain().for_each(|group| group.meter.charge(bytes));
    }

    /// Pages left a process of the group for good.
    pub fn uncharge(&self, bytes: u64) {
        self.chain().for_each(|group| group.meter.uncharge(bytes));
    }

    /// A space of the group begins to wait, or ends.
    pub fn note_stall(&self, waits: bool, now: u64) {
        self.chain().for_each(|group| group.stalls.turn(waits, now));
    }

    /// Whether a fill of this size must wait for reclaim.
    pub fn must_hold(&self, bytes: u64) -> bool {
        self.chain().any(|group| group.meter.must_hold(bytes))
    }

    /// Whether a page more must wait for reclaim, or is let through since that is in vain.
    pub fn is_full(&self) -> bool {
        self.chain().any(|group| group.meter.is_full())
    }

    /// How much may be filled before faults must wait, in bytes.
    pub fn room(&self) -> u64 {
        let rooms = self.chain().map(|group| group.meter.room());
        rooms.min().unwrap_or(0)
    }

    /// Pages of the block that a fault loads which continues no walk: one, unless no limit is near.
    pub fn around(&self) -> Pages {
        let roomy = self.chain().all(|group| {
            let limit = group.meter.limit();
            let limit = group
                .meter
                .high()
                .bytes()
                .map_or(limit, |high| high.min(limit));
            let free = limit.saturating_sub(Bytes(group.meter.usage()));
            free.0 >= TUNING.loads.around_room.of(limit.0)
        });
        if roomy { TUNING.loads.around } else { Pages(1) }
    }

    /// Whether it has room for a page.
    pub fn has_room(&self) -> bool {
        !self.must_hold(PAGE_SIZE as u64)
    }

    /// How many bytes reclaim still has to free, here or in a group above.
    pub fn excess(&self) -> u64 {
        let all = self.chain().map(|group| group.meter.excess());
        all.max().unwrap_or(0)
    }

    /// Whether it, or a group above, takes more than its `memory.high`.
    pub fn is_over_high(&self) -> bool {
        self.chain().any(|group| group.meter.over_high() > 0)
    }

    /// Notes that a thread which takes memory is above `memory.high`, at each level that is. How long it waits (over_high_delay)
    /// if it owes so many pages.
    pub fn note_high(&self, owed: Pages) -> Nanos {
        let over = |group: &&Self| group.meter.over_high() > 0;
        for level in self.chain().filter(over) {
            level.count(|events| &events.high, 1);
        }
        let pages = |bytes: u64| Bytes(bytes).whole_pages();
        let levels = self.chain().filter(over);
        let levels =
            levels.map(|group| (pages(group.meter.usage()), group.meter.high().whole_pages()));
        neap_policy::over_high_delay(levels, owed)
    }

    /// The user is told that nothing more can be reclaimed. Whether he was before.
    pub fn note_told_dry(&self) -> bool {
        self.told_dry.swap(true, Relaxed)
    }

    /// Whether the user was told that nothing more can be reclaimed.
    pub fn is_told_dry(&self) -> bool {
        self.told_dry.load(Relaxed)
    }

    /// The job has ended: nothing joins the group any more.
    pub fn end(&self) {
        self.over.store(true, Release);
    }

    /// Whether the job has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Acquire)
    }
}

/// All groups of an engine: the top, and those below it.
#[derive(Debug)]
pub(crate) struct Groups {
    top: Arc<Group>,
    /// Copied when one comes or goes while somebody has it.
    below: Lock<Arc<Vec<Arc<Group>>>, 7>,
    /// Groups so far.
    count: AtomicU64,
    /// How often some came or went.
    epoch: AtomicU64,
    /// Nobody joins any more.
    closed: AtomicBool,
}

/// Why a group cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NoPlace {
    /// Its name is another's.
    Taken,
    /// There are as many as may be.
    Full,
    /// The service is about to end.
    Closed,
}

impl Groups {
    pub fn new(top: Arc<Group>) -> Self {
        Self {
            top,
            below: Lock::default(),
            count: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// The group above all others.
    pub fn top(&self) -> &Arc<Group> {
        &self.top
    }

    /// How often groups have come or gone.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Those below the top, as they are now.
    pub fn below(&self) -> Arc<Vec<Arc<Group>>> {
        self.below.lock().clone()
    }

    /// Whether reclaim empties some group, which is frozen.
    pub fn empties(&self) -> bool {
        self.top.freeze.empties() || self.below().iter().any(|group| group.freeze.empties())
    }

    /// Whether the shrinker writes all that the pool holds of some group, which is frozen.
    pub fn writes(&self) -> bool {
        let all = self.within(&self.top);
        all.iter().any(|group| group.freeze.writes())
    }

    /// What was told of groups may be told anew: something was changed.
    pub fn forget_told_dry(&self) {
        for group in self.within(&self.top) {
            group.told_dry.store(false, Relaxed);
        }
    }

    /// The groups that a process descends from, if the kernel says so: the lowest.
    pub fn of(&self, pid: i32, pidfd: &Pidfd) -> Option<Arc<Group>> {
        let all: Vec<_> = std::iter::once(self.top.clone())
            .chain(self.below().iter().cloned())
            .filter(|group| group.root.is_some() && !group.is_over())
            .collect();
        let of = |pid: i32| {
            let its =
                |group: &&Arc<Group>| group.root.as_ref().is_some_and(|root| root.pid() == pid);
            all.iter().find(its)
        };
        let found = nearest_above(pid, pidfd, |pid| of(pid).is_some()).and_then(of)?;
        let lives = found.root.as_ref().is_some_and(Root::lives);
        (lives && !found.is_over()).then(|| found.clone())
    }

    /// The group that a process is in which is to be the root of one.
    pub fn of_root(&self, root: &Root) -> Option<Arc<Group>> {
        self.of(root.pid(), root.pidfd()?)
    }

    /// Whether a job that joins below this group is one that reclaim for the limit of all visits by itself. What runs within
    /// a job gives its part when that is visited.
    pub fn is_unit(&self, parent: &Group) -> bool {
        self.top.root.is_none() && parent.number == Group::TOP
    }

    /// The jobs that reclaim for the limit of all visits.
    pub fn units(&self) -> Vec<Arc<Group>> {
        let is_one = |group: &&Arc<Group>| {
            let parent = group.parent.as_ref();
            parent.is_some_and(|parent| self.is_unit(parent))
        };
        self.below().iter().filter(is_one).cloned().collect()
    }

    /// One more, with a number of its own.
    fn add(&self, mut group: Group) -> Result<Arc<Group>, NoPlace> {
        group.number = self.count.fetch_add(1, Relaxed) + 1;
        let mut below = self.below.lock();
        if self.closed.load(Relaxed) {
            return Err(NoPlace::Closed);
        }
        if below.iter().any(|other| other.name == group.name) {
            return Err(NoPlace::Taken);
        }
        if below.len() >= TUNING.control.members {
            return Err(NoPlace::Full);
        }
        let group = Arc::new(group);
        Arc::make_mut(&mut below).push(group.clone());
        self.epoch.fetch_add(1, Relaxed);
        Ok(group)
    }

    fn remove(&self, group: &Group) {
        Arc::make_mut(&mut self.below.lock()).retain(|other| other.number != group.number);
        self.epoch.fetch_add(1, Relaxed); // after it: who sees this sees that it is gone
    }

    /// Has nobody join any more, if there is nobody. Whether it is so.
    pub fn close_if_empty(&self) -> bool {
        let below = self.below.lock();
        if below.is_empty() {
            self.closed.store(true, Relaxed);
        }
        below.is_empty()
    }

    /// Has nobody join any more. Who has is in [`Groups::below`] from now on.
    pub fn close(&self) {
        let _below = self.below.lock();
        self.closed.store(true, Relaxed);
    }

    /// The one that is called so.
    pub fn named(&self, name: &Name) -> Option<Arc<Group>> {
        let below = self.below();
        let named = |group: &&Arc<Group>| group.name.as_ref() == Some(name);
        below.iter().find(named).cloned()
    }

    /// Sends SIGKILL to every process of a group and of those below it, until there is none.
    pub fn kill(&self, group: &Group) {
        for root in self.within(group) {
            root.root.iter().for_each(Root::kill_descendants);
        }
    }

    /// All processes of all groups, by one look at those of the machine.
    pub fn descendants(&self) -> Vec<i32> {
        let all = self.within(&self.top);
        descendants_of(all.iter().filter_map(|group| group.root.as_ref()))
    }

    /// A group and those below it.
    pub fn within(&self, group: &Group) -> Vec<Arc<Group>> {
        self.all_that(|other| other.is_within(group))
    }

    /// The groups that are so.
    pub fn all_that(&self, is_so: impl FnMut(&&Arc<Group>) -> bool) -> Vec<Arc<Group>> {
        let below = self.below();
        let all = std::iter::once(&self.top).chain(below.iter());
        all.filter(is_so).cloned().collect()
    }
}
