//! The figures of a job, or of all jobs of a service, while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_control::Name;
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;
use serde::Serialize;
use serde_json::{Value, json};

use crate::group::Group;
use crate::job::Job;
use crate::report::{MemoryReport, ProcessReport, Report};
use crate::space::Space;

/// All figures of a running job. Fields are only added while the schema stays.
#[derive(Clone, Debug, Serialize)]
pub struct Stat {
    schema: &'static str,
    version: &'static str,
    /// What the job is called.
    pub name: String,
    /// The process `neap run`, or the service.
    pub pid: u32,
    /// The command.
    pub command: Vec<String>,
    /// Since the engine started, or the job joined the service.
    pub uptime_seconds: f64,
    /// The service that the job is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Of a service: its jobs. Of a job: runs within it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<Value>>,
    /// For how long none of its processes has done anything, as far as is known.
    pub idle_seconds: f64,
    /// The settings, as they are.
    pub settings: Value,
    /// As in `--stats`, but the processes are those that live.
    #[serde(flatten)]
    pub report: Report,
}

impl Job {
    /// All figures as they are now.
    pub fn stat(&self) -> Stat {
        self.stat_of(self.groups.top())
    }

    /// The same of a group. Below the top it has what is counted for each.
    pub fn stat_of(&self, group: &Arc<Group>) -> Stat {
        let is_top = group.parent.is_none();
        self.look_for_quiet(&self.spaces_of(group));
        let mut report = match is_top {
            true => self.report(),
            false => self.report_of(group),
        };
        self.keep_living(group, &mut report);
        let control = self.options.control.as_ref();
        let service = self.called.get().map(Name::to_string);
        let now = neap_sys::monotonic_nanos();
        let (name, pid, command, began) = match is_top {
            true => {
                let command = control.map_or(&[][..], |control| &control.command);
                let pid = std::process::id();
                (service.clone(), pid, command, self.started)
            }
            false => {
                let name = group.name.as_ref().map(Name::to_string);
                let pid = group.pid().cast_unsigned();
                (name, pid, &group.command[..], group.started)
            }
        };
        Stat {
            schema: "neap.stat/1",
            version: env!("CARGO_PKG_VERSION"),
            name: name.unwrap_or_default(),
            pid,
            command: command.to_vec(),
            uptime_seconds: (now - began) as f64 / 1e9,
            service: service.filter(|_| !is_top),
            jobs: is_top
                .then(|| self.jobs())
                .filter(|jobs| self.options.serves || !jobs.is_empty()),
            idle_seconds: self.idle_seconds(group),
            settings: self.settings(group),
            report,
        }
    }

    fn idle_seconds(&self, group: &Group) -> f64 {
        self.idle_for(group).duration().as_secs_f64()
    }

    /// The processes of a group that live, with their spaces, in order of their numbers.
    fn living(&self, group: &Group) -> Vec<(i32, Arc<Space>)> {
        let spaces = self.spaces_of(group);
        let pid = |space: &Arc<Space>| {
            let body = space.body.get().filter(|body| !body.is_left())?;
            Some((body.pid, space.clone()))
        };
        let live = spaces.iter().filter(|space| !space.is_dead());
        let mut living: Vec<_> = live.filter_map(pid).collect();
        living.sort_unstable_by_key(|(pid, _)| *pid);
        living.dedup_by_key(|(pid, _)| *pid);
        living
    }

    fn keep_living(&self, group: &Group, report: &mut Report) {
        let mut living = self.living(group);
        report.neap.insert("processes", living.len() as u64);
        // Of a process that has execed there is one record more each time; the last is of what it is.
        let mut kept = Vec::new();
        for mut process in std::mem::take(&mut report.processes).into_iter().rev() {
            if let Ok(at) = living.binary_search_by_key(&process.pid, |(pid, _)| *pid) {
                let (_, space) = living.remove(at);
                process.job = space.group.name.as_ref().map(Name::to_string);
                kept.push((process, space.id));
            }
        }
        let places = self.store.places_of(kept.iter().map(|(_, id)| *id));
        for ((process, _), (pool, disk)) in kept.iter_mut().zip(places) {
            (process.pool_bytes, process.swap_used_bytes) = (pool.0, disk.0);
        }
        let kept = kept.into_iter().rev().map(|(process, _)| process);
        report.processes = kept.take(TUNING.control.processes).collect();
    }

    /// Everything that the engine knows of a group below the top.
    pub fn report_of(&self, group: &Group) -> Report {
        let (peak, peaks) = group.meter.peaks();
        let (resident, _) = group.meter.now();
        let limit = group.meter.limit().min(self.meter.limit());
        let mut report = Report {
            memory: MemoryReport {
                limit_bytes: limit.0,
                current_bytes: group.meter.usage(),
                resident_bytes: resident,
                peak_bytes: peak,
                peak_resident_bytes: peaks.resident,
                peak_pool_bytes: peaks.pool.bytes,
                swap_current_bytes: group.account.swap() * PAGE_SIZE as u64,
                zswap_current_bytes: group.account.zswap(),
                ..MemoryReport::default()
            },
            processes: self.processes_of(group),
            vmstat: self.counts_of(group),
            generations: self.generations(group),
            pressure: group.stalls.report(),
            ..Report::default()
        };
        report.zswap = stored(group);
        report.events = group.seen.counts();
        for (part, name, value) in Self::counted(&group.events) {
            report.table(part).insert(name, value);
        }
        let frozen = u64::from(group.freeze.is_frozen());
        report.neap.insert("frozen", frozen);
        let attached = group.attached.load(Relaxed);
        report.neap.insert("attached", attached);
        report.neap.insert("met", group.met.load(Relaxed).into());
        report
    }

    fn processes_of(&self, group: &Group) -> Vec<ProcessReport> {
        let roll = self.processes.lock();
        let its = roll.listed.iter();
        let its = its.filter(|process| process.group == group.number);
        its.cloned().collect()
    }

    /// The jobs of a service, in short.
    fn jobs(&self) -> Vec<Value> {
        let below = self.groups.below();
        let line = |group: &Arc<Group>| {
            let (resident, _) = group.meter.now();
            let own = group.meter.is_limited().then(|| group.meter.limit().0);
            json!({
                "name": group.name.as_ref().map(Name::as_str),
                "within": group.parent.as_ref().and_then(|parent| parent.name.as_ref()).map(Name::as_str),
                "pid": group.pid(),
                "command": group.command,
                "processes": self.living(group).len(),
                "limit_bytes": own,
                "low_bytes": group.low.load(Relaxed),
                "min_bytes": group.min.load(Relaxed),
                "writeback": group.account.writeback(),
                "current_bytes": group.meter.usage(),
                "resident_bytes": resident,
                "pool_bytes": group.account.zswap(),
                "swap_current_bytes": group.account.swap() * PAGE_SIZE as u64,
                "zswap": stored(group),
                "pgmajfault": group.events.pgmajfault.load(Relaxed),
                "idle_seconds": self.idle_seconds(group),
                "peak_bytes": group.meter.peaks().0,
                "frozen": group.freeze.is_frozen(),
                "pressure": group.stalls.report(),
            })
        };
        below.iter().map(line).collect()
    }
}

/// What the pool and the swap file have of a group below the top, by the names of the whole store. The pool is shared: its part is
/// what its compressed pages take.
fn stored(group: &Group) -> BTreeMap<&'static str, u64> {
    let account = &group.account;
    let same = account.same_filled();
    BTreeMap::from([
        ("stored_pages", account.pooled() + same),
        ("same_filled_pages", same),
        ("compressed_bytes", account.zswap()),
        ("pool_bytes", account.zswap()),
        ("swapped_pages", account.written()),
        ("swap_used_bytes", account.disk()),
    ])
}
