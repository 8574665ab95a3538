//! Processes of the jobs that `neap top` shows.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde_json::Value;

use crate::job::show::{Row, clean};

/// A process of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Its number.
    pub pid: u64,
    /// What it calls itself.
    pub name: String,
    /// Bytes that it has resident.
    pub resident: u64,
    /// In the pool.
    pub pool: u64,
    /// In the swap file.
    pub disk: u64,
    /// Seconds for which threads of it waited.
    pub waited: f64,
}

impl Process {
    fn of(process: &Value) -> Self {
        let number = |name: &str| process[name].as_u64().unwrap_or(0);
        Self {
            pid: number("pid"),
            name: clean(process["comm"].as_str().unwrap_or_default()),
            resident: number("resident_bytes"),
            pool: number("pool_bytes"),
            disk: number("swap_used_bytes"),
            waited: process["stalled_seconds"].as_f64().unwrap_or(0.0),
        }
    }
}

/// The processes of each row, the largest first: its own, and those of the runs within it. A service has those of all its jobs.
#[must_use]
pub fn processes(stat: &Value, rows: &[Row]) -> Vec<Vec<Process>> {
    let all = stat["processes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut by_job: HashMap<&str, Vec<&Value>> = HashMap::new();
    for process in all {
        let job = process["job"].as_str().unwrap_or_default();
        by_job.entry(job).or_default().push(process);
    }
    let of_row = |(at, row): (usize, &Row)| {
        // Runs within a job follow it, and are deeper.
        let within = rows[at + 1..]
            .iter()
            .take_while(|other| other.depth > row.depth);
        let jobs = std::iter::once(row).chain(within);
        let its = jobs.filter_map(|job| by_job.get(&*job.name)).flatten();
        let mut its: Vec<Process> = match row.depth {
            0 => all.iter().map(Process::of).collect(),
            _ => its.map(|process| Process::of(process)).collect(),
        };
        its.sort_by_key(|process| {
            let size = process.resident + process.pool + process.disk;
            (Reverse(size), process.pid)
        });
        its
    };
    rows.iter().enumerate().map(of_row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_has_the_processes_of_the_runs_within_it() {
        let jobs = json!([{"name": "one"}, {"name": "in", "within": "one"}, {"name": "two"},
            {"name": "deep", "within": "in"}]);
        let its =
            json!([{"pid": 7, "job": "deep"}, {"pid": 8, "job": "in"}, {"pid": 9, "job": "two"}]);
        let stat = json!({"name": "all", "jobs": jobs, "processes": its});
        let rows = Row::with_jobs(&stat);
        let names: Vec<_> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["all", "one", "in", "deep", "two"]);
        let pids = |all: Vec<Process>| all.iter().map(|process| process.pid).collect::<Vec<_>>();
        let all: Vec<_> = processes(&stat, &rows).into_iter().map(pids).collect();
        assert_eq!(
            all,
            [vec![7, 8, 9], vec![7, 8], vec![7, 8], vec![7], vec![9]]
        );
    }
}
