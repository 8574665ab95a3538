//! What can be changed while a job runs, and memory that is asked back from it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use neap_control::{Change, failure, success};
use neap_tuning::{Share, TUNING};
use neap_units::{Bytes, Limit, Nanos};
use serde_json::{Value, json};

use super::frost::{Freezing, Refused, Thawing};
use super::{Desk, Kind};
use crate::group::Group;
use crate::job::Job;
use crate::options::Swap;
use crate::prefetch::Prefetch;
use crate::reclaim::Inventory;
use crate::space::Phase;
use crate::writeback::RELIEF;

/// What lasts for a while, for one connection.
pub(super) struct Errand {
    /// Whose.
    pub id: u64,
    /// From whom memory is wanted.
    group: Arc<Group>,
    task: Task,
    started: u64,
    /// When usage was lowest so far, and what it was.
    progress: u64,
    lowest: u64,
}

enum Task {
    /// Usage is to come below the limit.
    Shrink,
    /// So many bytes are to be taken away, from the usage at the start.
    Reclaim {
        wanted: u64,
        from: u64,
        begun: bool,
    },
    Freeze(Freezing),
    Thaw(Thawing),
}

/// How an errand stands.
pub(super) enum Outcome {
    /// It goes on.
    UnderWay,
    /// It was done.
    Done(Value),
    /// Not all of it could be.
    Short(String, Value),
}

impl Desk {
    /// Sets all or, if something is wrong, nothing.
    pub(super) fn set(
        &mut self,
        at: usize,
        group: &Arc<Group>,
        changes: &[Change],
    ) -> Option<String> {
        let job = self.job.clone();
        if let Some(line) = changes
            .iter()
            .find_map(|change| job.refuses(group, *change))
        {
            return Some(failure("EINVAL", &line, &json!(null)));
        }
        for change in changes {
            match *change {
                Change::MemoryMax(limit) if group.parent.is_some() => {
                    job.set_max(group, limit.bytes().unwrap_or(TUNING.limit.most));
                }
                Change::MemoryMax(limit) => {
                    self.follow = None; // what a person sets stands
                    job.set_limit(limit.bytes().unwrap_or(TUNING.limit.most), "");
                }
                Change::MemoryHigh(limit) => {
                    group.meter.set_high(limit);
                    job.note_limit(group, "high", limit);
                }
                Change::MemoryLow(limit) => job.protect(group, "low", limit),
                Change::MemoryMin(limit) => job.protect(group, "min", limit),
                Change::SwapMax(limit) => job.set_swap_max(group, limit),
                Change::ZswapMax(limit) => job.set_zswap_max(group, limit),
                Change::MaxPoolPercent(percent) => job.set_pool_percent(percent),
                Change::Writeback(on) => job.set_writeback(group, on),
                Change::Idle(millis) => job.change_idle(group, Nanos::millis(millis)),
                Change::MemoryPressure(percent) => job.set_pressure(group, percent),
            }
        }
        if group.meter.usage() <= group.meter.limit().0 || self.is_at(group) {
            return Some(success(&job.settings(group)));
        }
        let id = self.peers[at].id;
        self.begin(at, group, || Ok(Errand::shrink(id, group.clone())))
    }
}

impl Job {
    /// Why something cannot be set for a group, if it cannot.
    fn refuses(&self, group: &Group, change: Change) -> Option<String> {
        let (key, _) = change.entry();
        let least = TUNING.limit.least;
        match change {
            Change::MemoryLow(_) | Change::MemoryMin(_) if group.parent.is_none() => {
                let line = "only a job in a service, or a run within another, has memory.low and memory.min: they protect it from others there";
                Some(line.to_owned())
            }
            Change::MaxPoolPercent(_) if group.parent.is_some() => Some(format!(
                "{key} is set for the service, not for one of its jobs"
            )),
            Change::MemoryMax(limit) if limit < Limit::Bytes(least) => {
                Some(format!("memory.max is at least {least}"))
            }
            Change::MemoryHigh(limit) if limit < Limit::Bytes(least) => {
                Some(format!("memory.high is at least {least}"))
            }
            Change::MaxPoolPercent(_) if self.options.pool_beside => {
                let line = "the pool is no share of the limit: the job runs with --pool-beside";
                Some(line.to_owned())
            }
            _ => None,
        }
    }

    /// Moves the limit. The pool's share moves along. Reclaim begins at once where usage is above it.
    pub fn set_limit(&self, limit: Bytes, why: &str) {
        self.meter.set_limit(limit);
        self.fit_pool();
        self.groups.forget_told_dry();
        let line = format!("the limit is {} from now on{why}", self.meter.limit());
        self.log.note(self, Kind::Set, line);
        self.sampler.ring();
    }

    /// Moves the pool's share of the limit.
    pub fn set_pool_percent(&self, percent: u8) {
        self.pool_percent.store(percent.into(), Relaxed);
        self.fit_pool();
        let line = format!("the pool may take {percent} % of the limit from now on");
        self.log.note(self, Kind::Set, line);
    }

    /// Lets pages go to the swap file, or not. Reclaim and the shrinker look again at once.
    pub fn set_writeback(&self, group: &Group, on: bool) {
        match group.parent {
            None => self.store.set_writeback(on),
            Some(_) => self.store.set_account_writeback(&group.account, on),
        }
        self.groups.forget_told_dry();
        let line = match on {
            true => "pages may be written to the swap file from now on",
            false => "no page is written to the swap file from now on",
        };
        self.log.note_of(self, group, Kind::Set, line.to_owned());
        self.ask_shrinker(0);
        self.sampler.ring();
        self.reclaim.ring();
    }

    /// Moves how many of a group's pages may be out.
    fn set_swap_max(&self, group: &Group, limit: Limit) {
        group.account.set_swap_max(limit);
        self.note_limit(group, "swap.max", limit);
    }

    /// Moves how much of the pool a group may have. Pages above that are written to the swap file, if they may be.
    fn set_zswap_max(&self, group: &Group, limit: Limit) {
        group.account.set_zswap_max(limit);
        self.note_limit(group, "zswap.max", limit);
        self.ask_shrinker(RELIEF);
    }

    /// Tells of a limit that was moved. What was in vain before may not be now.
    fn note_limit(&self, group: &Group, which: &str, limit: Limit) {
        self.groups.forget_told_dry();
        let line = format!("memory.{which} is {limit} from now on");
        self.log.note_of(self, group, Kind::Set, line);
        self.sampler.ring();
        self.reclaim.ring();
    }

    /// Moves the share of time that threads of a group may wait before an event is told of it, in percent; 0: none is.
    fn set_pressure(&self, group: &Group, percent: u8) {
        group.stalls.set_threshold(percent);
        let line = match percent {
            0 => "no event is told of pressure from now on".to_owned(),
            _ => format!("pressure above {percent} % is an event from now on"),
        };
        self.log.note_of(self, group, Kind::Set, line);
    }

    /// Has memory leave processes that have done nothing for so long; 0: not any more.
    pub fn change_idle(self: &Arc<Self>, group: &Group, period: Nanos) {
        self.set_idle(group, period);
        let line = match period.0 {
            0 => "memory of idle processes stays from now on".to_owned(),
            nanos => format!(
                "memory of processes that were idle for {:?} leaves from now on",
                Duration::from_nanos(nanos)
            ),
        };
        self.log.note_of(self, group, Kind::Set, line);
    }

    fn fit_pool(&self) {
        if self.options.pool_beside {
            return; // it is no share of the limit
        }
        let share = Share::percent(self.pool_percent.load(Relaxed));
        let most = share.of(self.meter.limit().0);
        let most = self.store.set_pool_max(Bytes(most).whole_pages());
        if self.store.pool_bytes().whole_pages() > most && !matches!(self.options.swap, Swap::Off) {
            self.ask_shrinker(0);
        }
    }

    /// Moves the limit of a job of the service.
    pub fn set_max(&self, group: &Group, limit: Bytes) {
        group.meter.set_limit(limit);
        self.groups.forget_told_dry();
        let line = format!("the limit is {} from now on", group.meter.limit());
        self.log.note_of(self, group, Kind::Set, line);
        self.sampler.ring();
    }

    /// Moves what protects a job of the service from the others.
    pub fn protect(&self, group: &Group, which: &str, limit: Limit) {
        let place = if which == "low" {
            &group.low
        } else {
            &group.min
        };
        place.store(limit);
        let line = format!("memory.{which} is {limit} from now on");
        self.log.note_of(self, group, Kind::Set, line);
    }

    /// What was set, and what it has come to.
    pub(super) fn settings(&self, group: &Group) -> Value {
        let writeback = match group.parent {
            None => self.store.writeback(),
            Some(_) => group.account.writeback(),
        };
        let account = &group.account;
        let (limit, usage) = (group.meter.limit(), group.meter.usage());
        let limited = group.meter.is_limited().then_some(limit);
        json!({
            "memory.max": limit_of(limited.into()),
            "memory.high": limit_of(group.meter.high()),
            "memory.low": limit_of(group.low.load()),
            "memory.min": limit_of(group.min.load()),
            "swap.max": limit_of(account.swap_max()),
            "zswap.max": limit_of(account.zswap_max()),
            "zswap.max_pool_percent": self.pool_percent.load(Relaxed),
            "zswap.writeback": u64::from(writeback),
            "idle": group.idle().as_millis(),
            "memory.pressure": group.stalls.threshold(),
            "pool_max_bytes": self.store.pool_max().bytes().0,
            "current_bytes": usage,
            "over_bytes": usage.saturating_sub(limit.0),
        })
    }

    /// Has memory registered before it is taken.
    pub fn foresee_reclaim(&self) {
        self.flags.foreseen.store(true, Relaxed);
        self.sampler.ring();
    }

    pub(super) fn all_registered(&self) -> bool {
        let spaces = self.spaces();
        let mut living = spaces
            .iter()
            .filter(|space| space.body.get().is_some() && !space.is_dead());
        living.all(|space| !matches!(space.standing.phase(), Phase::Due | Phase::Looking))
    }
}

impl Errand {
    fn new(id: u64, task: Task, group: Arc<Group>) -> Self {
        let now = neap_sys::monotonic_nanos();
        Self {
            id,
            task,
            started: now,
            progress: now,
            lowest: group.meter.usage(),
            group,
        }
    }

    pub fn shrink(id: u64, group: Arc<Group>) -> Self {
        Self::new(id, Task::Shrink, group)
    }

    pub fn reclaim(id: u64, wanted: u64, job: &Job, group: Arc<Group>) -> Self {
        job.foresee_reclaim();
        let from = group.meter.usage();
        let begun = false;
        let task = Task::Reclaim {
            wanted,
            from,
            begun,
        };
        Self::new(id, task, group)
    }

    pub fn freeze(id: u64, to_disk: bool, job: &Job, group: Arc<Group>) -> Result<Self, Refused> {
        let freezing = Freezing::begin(job, group.clone(), to_disk)?;
        Ok(Self::new(id, Task::Freeze(freezing), group))
    }

    pub fn thaw(id: u64, prefetch: Arc<Prefetch>, group: Arc<Group>) -> Self {
        Self::new(id, Task::Thaw(Thawing(prefetch)), group)
    }

    /// Whether it is this group's.
    pub fn is_for(&self, group: &Group) -> bool {
        self.group.number == group.number
    }

    /// Whether it goes on though whoever asked is gone: a job is not left frozen in part.
    pub fn goes_on_alone(&self) -> bool {
        matches!(self.task, Task::Freeze(_))
    }

    /// Whoever asked is gone, or has its answer.
    pub fn end(&self) {
        if let Task::Reclaim { .. } = self.task {
            self.group.meter.ask_for(Limit::Max);
        }
    }

    /// Whether nothing has come for long.
    fn is_in_vain(&mut self, usage: u64) -> bool {
        let now = neap_sys::monotonic_nanos();
        if usage + TUNING.control.progress.0 <= self.lowest {
            (self.lowest, self.progress) = (usage, now);
        }
        now > self.progress + TUNING.control.vain.0 || now > self.started + TUNING.control.longest.0
    }

    /// Looks how it stands.
    pub fn look(&mut self, job: &Arc<Job>) -> Outcome {
        let usage = self.group.meter.usage();
        match self.task {
            Task::Freeze(ref mut freezing) => freezing.look(job),
            Task::Thaw(ref thawing) => thawing.look(),
            Task::Shrink if usage <= self.group.meter.limit().0 => {
                Outcome::Done(job.settings(&self.group))
            }
            Task::Shrink => {
                if !self.is_in_vain(usage) {
                    return Outcome::UnderWay;
                }
                let mut settings = job.settings(&self.group);
                settings["held"] = Inventory::take(job, &self.group).words().into();
                Outcome::Done(settings)
            }
            Task::Reclaim {
                wanted,
                from,
                begun,
            } => {
                if !begun {
                    self.begin(wanted, job);
                    return Outcome::UnderWay;
                }
                let got = from.saturating_sub(usage);
                if got >= wanted {
                    return Outcome::Done(reclaimed(wanted, got));
                }
                if !self.is_in_vain(usage) {
                    return Outcome::UnderWay;
                }
                let (got, wanted) = (Bytes(from.saturating_sub(self.lowest)), Bytes(wanted));
                let line = format!("{got} of {wanted} could be reclaimed");
                Outcome::Short(line, reclaimed(wanted.0, got.0))
            }
        }
    }

    /// Asks for it, once memory is registered.
    fn begin(&mut self, wanted: u64, job: &Job) {
        let now = neap_sys::monotonic_nanos();
        if !job.all_registered() && now < self.started + TUNING.control.register.0 {
            return;
        }
        let from = self.group.meter.usage();
        let left = Bytes(from.saturating_sub(wanted));
        self.group.meter.ask_for(Limit::Bytes(left));
        job.reclaim.ring();
        (self.progress, self.lowest) = (now, from);
        let begun = true;
        self.task = Task::Reclaim {
            wanted,
            from,
            begun,
        };
    }
}

/// A limit, as the files of a memory cgroup show it.
pub(super) fn limit_of(limit: Limit) -> Value {
    match limit {
        Limit::Max => "max".into(),
        Limit::Bytes(bytes) => bytes.0.into(),
    }
}

fn reclaimed(wanted: u64, got: u64) -> Value {
    json!({"requested_bytes": wanted, "reclaimed_bytes": got})
}
