//! What the figures of a job are: one table, from which the report has its names and `neap metrics` its help.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use neap_policy::Vmstat;
use neap_store::{Group, MetricKind, StoreStats};

use crate::group::Counters;
use crate::job::Job;

/// One figure of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The part of the report that has it.
    pub part: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// It only grows.
    pub grows: bool,
    /// What it counts; nothing, of events that have no unit.
    pub unit: &'static str,
    /// What it is.
    pub help: &'static str,
}

/// A counter of the engine: its part, name, unit and meaning, and where it is.
type Event = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    fn(&Counters) -> &AtomicU64,
);

const EVENTS: [Event; 17] = [
    ("vmstat", "pgfault", "faults", "Fault served", |c| {
        &c.pgfault
    }),
    (
        "vmstat",
        "pgmajfault",
        "faults",
        "Fault that needed decompression or the swap file",
        |c| &c.pgmajfault,
    ),
    (
        "vmstat",
        "swap_ra",
        "pages",
        "Page loaded ahead of a fault",
        |c| &c.swap_ra,
    ),
    (
        "neap",
        "staged",
        "pages",
        "Page moved out of a program, not yet compressed",
        |c| &c.staged,
    ),
    (
        "neap",
        "returned",
        "pages",
        "Page moved back before it was compressed",
        |c| &c.returned,
    ),
    (
        "neap",
        "fresh",
        "pages",
        "Page filled for the first time",
        |c| &c.fresh,
    ),
    (
        "neap",
        "held",
        "faults",
        "Fault that waited for room",
        |c| &c.held,
    ),
    (
        "neap",
        "clean",
        "pages",
        "Page that left with the compressed copy it had",
        |c| &c.clean,
    ),
    (
        "neap",
        "low",
        "visits",
        "Visit of reclaim to a job below its memory.low",
        |c| &c.low,
    ),
    (
        "neap",
        "high",
        "events",
        "Thread that took memory while its job was above memory.high",
        |c| &c.high,
    ),
    (
        "memory_events",
        "low",
        "",
        "Visit of reclaim to a job below its memory.low",
        |c| &c.low,
    ),
    (
        "memory_events",
        "high",
        "",
        "Thread that took memory while its job was above memory.high",
        |c| &c.high,
    ),
    (
        "memory_events",
        "max",
        "",
        "Fault that was about to take the job over memory.max",
        |c| &c.max,
    ),
    (
        "memory_events",
        "oom",
        "",
        "Time that nothing more could be reclaimed",
        |c| &c.oom,
    ),
    (
        "memory_events",
        "oom_kill",
        "",
        "Process killed since nothing more could be reclaimed",
        |c| &c.oom_kill,
    ),
    (
        "neap",
        "idle",
        "pages",
        "Page taken out of an idle process (--idle)",
        |c| &c.idle,
    ),
    (
        "neap",
        "busy",
        "pages",
        "Page that the kernel refused to move",
        |c| &c.busy,
    ),
];

/// Figures that are no counters of events.
const STATES: [(&str, &str, &str, &str); 15] = [
    ("memory", "limit_bytes", "bytes", "The limit"),
    (
        "memory",
        "current_bytes",
        "bytes",
        "Anonymous memory, pool and neap's own memory together",
    ),
    (
        "memory",
        "resident_bytes",
        "bytes",
        "Anonymous memory of the managed processes",
    ),
    (
        "memory",
        "own_bytes",
        "bytes",
        "Neap's own memory beside the pool",
    ),
    ("memory", "peak_bytes", "bytes", "Highest sum so far"),
    (
        "memory",
        "peak_resident_bytes",
        "bytes",
        "Highest anonymous memory so far",
    ),
    ("memory", "peak_pool_bytes", "bytes", "Largest pool so far"),
    (
        "memory",
        "pool_held_bytes",
        "bytes",
        "Size of the pages that the pool held when it was largest",
    ),
    (
        "memory",
        "pool_compressed_bytes",
        "bytes",
        "What they were compressed to",
    ),
    (
        "memory",
        "overhead_bytes",
        "bytes",
        "Most that neap took beside the pool so far",
    ),
    (
        "memory",
        "metadata_bytes",
        "bytes",
        "Page table and tables of the store",
    ),
    (
        "memory",
        "swap_current_bytes",
        "bytes",
        "Pages that are out, compressed or on disk",
    ),
    (
        "memory",
        "zswap_current_bytes",
        "bytes",
        "What the compressed ones in memory take",
    ),
    (
        "neap",
        "processes",
        "processes",
        "Managed processes that live",
    ),
    (
        "neap",
        "frozen",
        "jobs",
        "1 while neap freeze holds the job",
    ),
];

/// All figures that are single numbers, by part.
#[must_use]
pub fn metrics() -> Vec<Metric> {
    let state = |(part, name, unit, help)| Metric {
        part,
        name,
        grows: false,
        unit,
        help,
    };
    let event = |(part, name, unit, help, _): Event| Metric {
        part,
        name,
        grows: true,
        unit,
        help,
    };
    let stored = StoreStats::METRICS.iter().map(|metric| Metric {
        part: part_of(metric.group),
        name: metric.name,
        grows: metric.kind == MetricKind::Counter,
        unit: metric.unit,
        help: metric.help,
    });
    let policy = Vmstat::MEANINGS.iter().map(|&(name, help)| Metric {
        part: "vmstat",
        name,
        grows: true,
        unit: if name == "aged_generations" {
            "generations"
        } else {
            "pages"
        },
        help,
    });
    let states = STATES.into_iter().map(state);
    let events = EVENTS.into_iter().map(event);
    states.chain(policy).chain(events).chain(stored).collect()
}

/// The part of the report that has a number of the store.
pub(crate) fn part_of(group: Group) -> &'static str {
    match group {
        Group::Vmstat => "vmstat",
        Group::Zswap => "zswap",
    }
}

impl Job {
    /// The engine's own counters: part, name and value, of one group.
    pub(crate) fn counted(
        events: &Counters,
    ) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let value = |(part, name, _, _, of): Event| (part, name, of(events).load(Relaxed));
        EVENTS.into_iter().map(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_figure_has_one_name_and_a_line_of_help() {
        let all = metrics();
        let names: BTreeSet<_> = all
            .iter()
            .map(|metric| (metric.part, metric.name))
            .collect();
        assert_eq!(names.len(), all.len());
        for metric in all {
            assert!(
                !metric.help.trim().is_empty() && !metric.help.contains('\n'),
                "{metric:?}"
            );
        }
    }
}
