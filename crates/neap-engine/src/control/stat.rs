//! The figures of a job, or of all jobs of a service, while it runs.

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
            settings: self.settings(group),
            report,
        }
    }

    /// Numbers of the processes of a group that live, in order.
    fn living(&self, group: &Group) -> Vec<i32> {
        let spaces = self.spaces_of(group);
        let bodies = spaces.iter().filter(|space| !space.is_dead());
        let bodies = bodies.filter_map(|space| space.body.get());
        let mut living: Vec<i32> = bodies
            .filter(|body| !body.is_left())
            .map(|body| body.pid)
            .collect();
        living.sort_unstable();
        living.dedup();
        living
    }

    fn keep_living(&self, group: &Group, report: &mut Report) {
        let mut living = self.living(group);
        report.neap.insert("processes", living.len() as u64);
        // Of a process that has execed there is one record more each time; the last is of what it is.
        report.processes.reverse();
        report.processes.retain(|process| {
            let at = living.binary_search(&process.pid);
            at.is_ok_and(|at| living.remove(at) == process.pid)
        });
        report.processes.reverse();
        report.processes.truncate(TUNING.control.processes);
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
        report.zswap.insert("compressed_bytes", group.meter.pool());
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
                "pool_bytes": group.meter.pool(),
                "swap_current_bytes": group.account.swap() * PAGE_SIZE as u64,
                "peak_bytes": group.meter.peaks().0,
                "frozen": group.freeze.is_frozen(),
                "pressure": group.stalls.report(),
            })
        };
        below.iter().map(line).collect()
    }
}
