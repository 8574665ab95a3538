//! What freezing and thawing a job asks for, step by step: the control thread looks now and then how it stands.

use std::sync::Arc;

use neap_control::{failure, success};
use neap_tuning::TUNING;
use neap_units::{Limit, PAGE_SIZE, Pages};
use serde_json::{Value, json};

use super::steer::{Errand, Outcome};
use super::{Desk, Kind};
use crate::freeze::Round;
use crate::group::Group;
use crate::job::Job;
use crate::options::Swap;
use crate::prefetch::Prefetch;
use crate::reclaim::Inventory;
use crate::writeback::RELIEF;

/// What is being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Processes are stopped.
    Stop,
    /// Memory is registered.
    Register,
    /// Pages leave the programs.
    Take,
    /// The pool goes to the swap file.
    Write,
}

/// A job on its way to be frozen.
pub(super) struct Freezing {
    group: Arc<Group>,
    to_disk: bool,
    /// It was frozen before, and only goes on to disk.
    again: bool,
    phase: Phase,
    /// When this step began, or got on, in nanoseconds, and the fewest pages that were left to take.
    progress: u64,
    least: u64,
    /// Usage before.
    before: u64,
}

/// Why a job is not frozen: the error as errno(3) names it, and words.
pub(super) type Refused = (&'static str, &'static str);

impl Freezing {
    /// Begins.
    pub fn begin(job: &Job, group: Arc<Group>, to_disk: bool) -> Result<Self, Refused> {
        if group.root.is_none() {
            let line = "it is a service; name one of its jobs";
            return Err(("EOPNOTSUPP", line));
        }
        if to_disk && matches!(job.options.swap, Swap::Off) {
            return Err((
                "EINVAL",
                "the job has no swap file, and nothing can go to disk",
            ));
        }
        if to_disk && !(job.store.writeback() && group.account.writes()) {
            let line = "zswap.writeback is 0, and nothing can go to disk; set it to 1 first";
            return Err(("EINVAL", line));
        }
        let first = group.freeze.begin();
        let goes_on = to_disk && group.account.pooled() > 0;
        if !(first || goes_on) {
            return Err(("EALREADY", "the job is frozen already"));
        }
        Ok(Self {
            to_disk,
            again: !first,
            phase: Phase::Stop,
            progress: neap_sys::monotonic_nanos(),
            least: u64::MAX,
            before: group.meter.usage(),
            group,
        })
    }

    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        (self.progress, self.least) = (neap_sys::monotonic_nanos(), u64::MAX);
    }

    /// Whether nothing is left, or nothing has come for long.
    fn is_over(&mut self, left: u64) -> bool {
        let now = neap_sys::monotonic_nanos();
        if self.least == u64::MAX || left + TUNING.freeze.progress.0 <= self.least {
            (self.least, self.progress) = (left, now);
        }
        left == 0 || now > self.progress + TUNING.control.vain.0
    }

    pub fn look(&mut self, job: &Arc<Job>) -> Outcome {
        if !self.group.freeze.is_frozen() {
            let line = "the job was thawed meanwhile".to_owned();
            return Outcome::Short(line, self.result(job));
        }
        let over = match self.phase {
            Phase::Stop | Phase::Register => false,
            Phase::Take => {
                self.is_over(job.pages_in_memory(&self.group)) || self.group.freeze.is_in_vain()
            }
            Phase::Write => self.is_over(self.group.account.pooled()),
        };
        match self.phase {
            Phase::Stop => self.stop(job),
            Phase::Register => self.register(job),
            Phase::Take if over => {
                self.group.freeze.set_empties(false);
                self.group.meter.ask_for(Limit::Max);
                if !self.to_disk {
                    return self.end(job);
                }
                if job.groups.writes() {
                    return Outcome::UnderWay; // one after the other, as the shrinker does it
                }
                self.group.freeze.set_writes(true);
                job.ask_shrinker(RELIEF);
                self.turn(Phase::Write);
            }
            Phase::Write if over => {
                self.group.freeze.set_writes(false);
                return self.end(job);
            }
            Phase::Take => job.reclaim.ring(),
            Phase::Write => job.ask_shrinker(RELIEF),
        }
        Outcome::UnderWay
    }

    fn stop(&mut self, job: &Job) {
        let root = self.group.root.as_ref();
        if root.is_some_and(|root| self.group.freeze.round(job, root) != Round::Settled) {
            return;
        }
        if !self.again {
            let who = self.group.who();
            let line = match self.group.freeze.tell().0 {
                1 => format!("{who} is frozen: its process is stopped"),
                many => format!("{who} is frozen: its {many} processes are stopped"),
            };
            job.log.note_of(job, &self.group, Kind::Freeze, line);
        }
        job.foresee_reclaim();
        self.turn(Phase::Register);
    }

    /// Once all memory is registered, also what came since the last look, it is asked for.
    fn register(&mut self, job: &Job) {
        let now = neap_sys::monotonic_nanos();
        if !job.all_registered() && now < self.progress + TUNING.control.register.0 {
            return;
        }
        let spaces = job.spaces_of(&self.group);
        for space in spaces.iter().filter(|space| space.is_managed()) {
            space.discover(job);
        }
        self.group.freeze.note_pages(job, &self.group);
        // From here on: before, nobody may have looked for long.
        self.before = self.group.meter.usage();
        self.group.freeze.set_empties(true);
        self.group.meter.ask_for(Limit::ZERO);
        job.reclaim.ring();
        self.turn(Phase::Take);
    }

    fn end(&self, job: &Job) -> Outcome {
        let (_, running, named) = self.group.freeze.tell();
        let result = self.result(job);
        if running == 0 {
            return Outcome::Done(result);
        }
        let line = format!(
            "{running} of the job's processes could not be stopped and run on: {}",
            named.join(", ")
        );
        Outcome::Short(line, result)
    }

    fn result(&self, job: &Job) -> Value {
        let (stopped, running, _) = self.group.freeze.tell();
        let (anonymous, programs) = job.anonymous(&self.group);
        let (pool, disk) = match self.group.parent {
            None => {
                let stats = job.store.stats();
                (stats.pool_bytes, stats.swap_used_bytes)
            }
            Some(_) => (self.group.account.zswap(), self.group.account.disk()),
        };
        let mut result = json!({
            "stopped_processes": stopped,
            "running_processes": running,
            "reclaimed_bytes": self.before.saturating_sub(self.group.meter.usage()),
            "resident_bytes": anonymous,
            "pool_bytes": pool,
            "swap_used_bytes": disk,
        });
        if anonymous > TUNING.freeze.kept.0 * programs as u64 {
            result["held"] = Inventory::take(job, &self.group).words_of_programs().into();
        }
        let left = self.group.account.pooled();
        if self.to_disk && left > 0 {
            let switched_off = || "zswap.writeback is 0 for a run within it".to_owned();
            let why = job.store.swap_trouble().unwrap_or_else(switched_off);
            let pool = Pages(left).bytes();
            result["not_written"] = format!("{pool} of pages stay in the pool; {why}").into();
        }
        result
    }
}

/// A job that was thawed, and what comes back before it is touched.
pub(super) struct Thawing(pub Arc<Prefetch>);

impl Thawing {
    pub fn look(&self) -> Outcome {
        let bytes = self.0.loaded() * PAGE_SIZE as u64;
        match self.0.is_over() {
            true => Outcome::Done(json!({"prefetched_bytes": bytes})),
            false => Outcome::UnderWay,
        }
    }
}

impl Desk {
    /// Stops all processes of a job, and takes its memory out.
    pub(super) fn freeze(
        &mut self,
        at: usize,
        group: &Arc<Group>,
        to_disk: bool,
    ) -> Option<String> {
        let (id, job) = (self.peers[at].id, self.job.clone());
        self.begin(at, group, || {
            Errand::freeze(id, to_disk, &job, group.clone())
        })
    }

    /// Lets the job go on, also while it is being frozen: who asked for that is told.
    pub(super) fn thaw(&mut self, at: usize, group: &Arc<Group>, prefetch: bool) -> Option<String> {
        let Some(had) = self.job.unfreeze(group) else {
            let line = "the job is not frozen";
            return Some(failure("EALREADY", line, &json!(null)));
        };
        self.look_at_errands(neap_sys::monotonic_nanos());
        if !prefetch || self.is_at(group) {
            return Some(success(&json!({"prefetched_bytes": 0})));
        }
        let (id, job) = (self.peers[at].id, self.job.clone());
        self.begin(at, group, || {
            let prefetch = Prefetch::begin(&job, group.clone(), had);
            Ok(Errand::thaw(id, prefetch, group.clone()))
        })
    }
}
