//! The figures of a job, or of all jobs of a service, while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_control::Name;
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;
use serde::Serialize;
use serde_json::{Value, json};

use super::steer::limit_of;
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
            let processes = self.living(group).len();
            line_of(group, processes, self.idle_seconds(group))
        };
        below.iter().map(line).collect()
    }
}

/// The line of a job in the figures of its service.
fn line_of(group: &Group, processes: usize, idle_seconds: f64) -> Value {
    let parent = group.parent.as_ref();
    let within = parent.and_then(|parent| parent.name.as_ref());
    let (resident, _) = group.meter.now();
    let own = group.meter.is_limited().then(|| group.meter.limit().0);
    json!({
        "name": group.name.as_ref().map(Name::as_str),
        "within": within.map(Name::as_str),
        "pid": group.pid(),
        "command": group.command,
        "processes": processes,
        "limit_bytes": own,
        "low_bytes": limit_of(group.low.load()),
        "min_bytes": limit_of(group.min.load()),
        "writeback": group.account.writeback(),
        "current_bytes": group.meter.usage(),
        "resident_bytes": resident,
        "pool_bytes": group.account.zswap(),
        "swap_current_bytes": group.account.swap() * PAGE_SIZE as u64,
        "zswap": stored(group),
        "pgmajfault": group.events.pgmajfault.load(Relaxed),
        "idle_seconds": idle_seconds,
        "peak_bytes": group.meter.peaks().0,
        "frozen": group.freeze.is_frozen(),
        "pressure": group.stalls.report(),
    })
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

#[cfg(test)]
mod tests {
    use neap_control::LONGEST;
    use neap_units::{Bytes, Limit};

    use super::*;
    use crate::meter::Meter;

    fn a_job(command: Vec<String>) -> Group {
        let meter = Arc::new(Meter::new(Bytes::mib(64), true));
        let group = Group::top(None, false, meter);
        let mut group = Arc::into_inner(group).expect("nobody else has it");
        group.name = Name::new(&"n".repeat(48)).ok();
        group.command = command;
        group
    }

    /// A command comes in a request, which bounds its length as it is written.
    #[test]
    fn the_figures_of_a_full_service_are_fewer_than_may_be_unread() {
        const NUMBERS: usize = 40;
        const DIGITS: usize = 24;
        let control = &TUNING.control;
        let mut job = a_job(vec!["\u{1}".repeat(LONGEST / 6)]);
        job.parent = Some(Arc::new(a_job(Vec::new())));
        let line = line_of(&job, 0, 0.0).to_string().len() + NUMBERS * DIGITS;
        let process = ProcessReport {
            comm: "\u{1}".repeat(15),
            job: job.name.as_ref().map(Name::to_string),
            ..ProcessReport::new(i32::MAX, 0)
        };
        let process = serde_json::to_string(&process).expect("it is plain").len();
        let process = process + NUMBERS * DIGITS;
        let most = control.members * line + control.processes * process;
        assert!(most as u64 <= control.unread.0, "{line} {process} {most}");
        assert!(control.unread <= control.answer_most);
    }

    #[test]
    fn all_that_a_job_has_is_protected_by_the_same_word_as_in_its_settings() {
        let job = a_job(Vec::new());
        job.low.store(Limit::Max);
        job.min.store(Limit::Bytes(Bytes(5)));
        let line = line_of(&job, 0, 0.0);
        assert_eq!(
            (&line["low_bytes"], &line["min_bytes"]),
            (&json!("max"), &json!(5))
        );
    }
}
