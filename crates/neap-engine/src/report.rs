//! What the engine tells about a job: the numbers of `--stats`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;
use serde::Serialize;
use serde_json::Value;

use crate::group::Group;
use crate::history::GenerationsReport;
use crate::job::Job;
use crate::metrics::part_of;
use crate::stalls::PressureReport;

/// All bytes; peaks are sampled from the kernel's accounting.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MemoryReport {
    /// The limit.
    pub limit_bytes: u64,
    /// What anonymous memory, pool and neap itself take together, now.
    pub current_bytes: u64,
    /// What the programs have resident, as looked at last.
    pub resident_bytes: u64,
    /// What neap takes beside the pool, as looked at last.
    pub own_bytes: u64,
    /// Most that anonymous memory, pool and neap itself took together.
    pub peak_bytes: u64,
    /// Most that the programs had resident.
    pub peak_resident_bytes: u64,
    /// Most that the pool took.
    pub peak_pool_bytes: u64,
    /// Program bytes that the pool held when it was largest, those of same-filled pages left out.
    pub pool_held_bytes: u64,
    /// What they were compressed to.
    pub pool_compressed_bytes: u64,
    /// Most that neap took beside the pool.
    pub overhead_bytes: u64,
    /// Page table of neap, now.
    pub metadata_bytes: u64,
    /// Size of the pages that are out, compressed or on disk.
    pub swap_current_bytes: u64,
    /// What the compressed ones in memory take.
    pub zswap_current_bytes: u64,
}

/// How the sampler came to its work, in microseconds: what a limit was exceeded by may have come meanwhile.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SamplerReport {
    /// Latest that it woke up after it had meant to.
    pub latest_us: u64,
    /// Usage at which memory was first to be registered, in bytes.
    pub armed_bytes: u64,
    /// By how much the look was late that found that.
    pub armed_late_us: u64,
    /// Time since the look before.
    pub armed_after_us: u64,
    /// Longest that registering the memory of a process took, at first.
    pub armed_took_us: u64,
    /// Usage at the look after the first that found some registered, in bytes.
    pub registered_bytes: u64,
}

/// One process that was managed.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessReport {
    /// Its number.
    pub pid: i32,
    /// That of its group.
    #[serde(skip)]
    pub group: u64,
    /// Its command name, when it attached.
    pub comm: String,
    /// Anonymous memory that it has resident, as looked at last, in bytes.
    pub resident_bytes: u64,
    /// Most anonymous memory it had resident, in bytes.
    pub peak_resident_bytes: u64,
    /// Time for which some of its threads waited for memory, as looked at last.
    pub stalled_seconds: f64,
    /// Processor time of neap's thread in it, when it was last seen.
    pub agent_seconds: f64,
    /// Of a job that runs: what the pool has of it, in bytes.
    pub pool_bytes: u64,
    /// The same of the swap file.
    pub swap_used_bytes: u64,
    /// Of a service: the job that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

impl ProcessReport {
    pub(crate) fn new(pid: i32, group: u64) -> Self {
        Self {
            pid,
            group,
            comm: neap_sys::comm(pid).unwrap_or_default(),
            resident_bytes: 0,
            peak_resident_bytes: 0,
            stalled_seconds: 0.0,
            agent_seconds: 0.0,
            pool_bytes: 0,
            swap_used_bytes: 0,
            job: None,
        }
    }
}

/// The processes that attached: a job that starts one after another takes no more of neap's memory than so many records.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    /// The first of them.
    pub listed: Vec<ProcessReport>,
    /// How many there were.
    pub attached: usize,
    /// Where the latest record of each number is.
    latest: HashMap<i32, usize>,
}

impl Roll {
    pub fn add(&mut self, process: ProcessReport) {
        self.attached += 1;
        if self.listed.len() < TUNING.report.processes {
            self.latest.insert(process.pid, self.listed.len());
            self.listed.push(process);
        }
    }

    /// The latest record of a process with this number: those before it are gone, or were another program before an exec.
    pub fn latest(&mut self, pid: i32) -> Option<&mut ProcessReport> {
        self.listed.get_mut(*self.latest.get(&pid)?)
    }
}

/// Everything the engine knows of a job.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Sizes.
    pub memory: MemoryReport,
    /// Time that threads waited for memory, by the kernel's names.
    pub pressure: PressureReport,
    /// Event counters with the kernel's names, in pages or events as there.
    pub vmstat: BTreeMap<&'static str, u64>,
    /// State and counters of the compressed pool, with the kernel's names.
    pub zswap: BTreeMap<&'static str, u64>,
    /// `memory.events`, by the kernel's names.
    pub memory_events: BTreeMap<&'static str, u64>,
    /// How often each kind of event has come.
    pub events: BTreeMap<&'static str, u64>,
    /// Counters that only neap has.
    pub neap: BTreeMap<&'static str, u64>,
    /// Resident pages by generation.
    pub generations: GenerationsReport,
    /// The sampler's punctuality.
    pub sampler: SamplerReport,
    /// The processes that attached, the first 4,096 of them.
    pub processes: Vec<ProcessReport>,
    /// What went to stderr.
    pub warnings: Vec<String>,
    /// The run over time, of one that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Value>,
}

impl Report {
    /// The part that has counters of this kind.
    pub(crate) fn table(&mut self, part: &str) -> &mut BTreeMap<&'static str, u64> {
        match part {
            "vmstat" => &mut self.vmstat,
            "zswap" => &mut self.zswap,
            "memory_events" => &mut self.memory_events,
            _ => &mut self.neap,
        }
    }
}

impl Job {
    /// All figures, and the run over time: at the end.
    pub(crate) fn last_report(&self) -> Report {
        Report {
            series: Some(self.told_series(self.groups.top())),
            ..self.report()
        }
    }

    /// The same of a job that leaves a service.
    pub(crate) fn last_report_of(&self, group: &Arc<Group>) -> Report {
        Report {
            series: Some(self.told_series(group)),
            ..self.report_of(group)
        }
    }

    pub(crate) fn report(&self) -> Report {
        let (peak, peaks) = self.meter.peaks();
        let (resident, own) = self.meter.now();
        let pressure = self.groups.top().stalls.report(); // no other lock of its place is held
        let generations = self.generations(self.groups.top());
        let account = &self.groups.top().account;
        let core = self.core();
        let metadata = core.metadata_bytes().0;
        let vmstat = core.vmstat().named();
        drop(core);
        let roll = self.processes.lock();
        let mut report = Report {
            memory: MemoryReport {
                limit_bytes: self.meter.limit().0,
                current_bytes: self.meter.usage(),
                resident_bytes: resident,
                own_bytes: own,
                peak_bytes: peak,
                peak_resident_bytes: peaks.resident,
                peak_pool_bytes: peaks.pool.bytes,
                pool_held_bytes: peaks.pool.held,
                pool_compressed_bytes: peaks.pool.compressed,
                overhead_bytes: peaks.own,
                metadata_bytes: metadata + self.store.metadata_bytes().0,
                swap_current_bytes: account.swap() * PAGE_SIZE as u64,
                zswap_current_bytes: account.zswap(),
            },
            vmstat: vmstat.into_iter().collect(),
            sampler: SamplerReport {
                armed_took_us: self.longest_look.load(Relaxed),
                ..*self.sampling.lock()
            },
            processes: roll.listed.clone(),
            warnings: self.warnings.all(),
            events: self.groups.top().seen.counts(),
            pressure,
            generations,
            ..Report::default()
        };
        report.neap.insert("attached", roll.attached as u64);
        drop(roll);
        let frozen = u64::from(self.groups.top().freeze.is_frozen());
        report.neap.insert("frozen", frozen);
        for (metric, value) in self.store.stats().iter() {
            report
                .table(part_of(metric.group))
                .insert(metric.name, value);
        }
        for (part, name, value) in Self::counted(&self.groups.top().events) {
            report.table(part).insert(name, value);
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_many_processes_has_a_bounded_list_and_an_exact_count() {
        let mut roll = Roll::default();
        for pid in 1..=TUNING.report.processes as i32 + 10 {
            roll.add(ProcessReport::new(pid, 0));
        }
        roll.add(ProcessReport::new(1, 7));
        assert_eq!(
            roll.latest(1).map(|latest| latest.group),
            Some(0),
            "there is no room for another"
        );
        assert_eq!(roll.listed.len(), TUNING.report.processes);
        assert_eq!(roll.attached, TUNING.report.processes + 11);
        assert!(roll.latest(1).is_some());
        assert!(roll.latest(TUNING.report.processes as i32 + 1).is_none());
    }

    #[test]
    fn of_a_process_that_became_another_the_latest_record_is_found() {
        let mut roll = Roll::default();
        for (pid, group) in [(1, 0), (2, 0), (1, 7)] {
            roll.add(ProcessReport::new(pid, group));
        }
        assert_eq!(roll.latest(1).map(|latest| latest.group), Some(7));
    }
}
