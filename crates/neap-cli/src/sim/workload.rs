//! `neap sim run FILE.toml`.

use std::fs;
use std::path::Path;

use neap_sim::{Align, MemcgId, Table, Trace, Workload, WorkloadRun, count, number};
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::flags::RunFileArgs;
use super::{print, record};
use crate::talk;

/// Reads a trace.
pub fn read_trace(path: &Path) -> Result<Trace, Failure> {
    if record::is_record(path) {
        return record::as_trace(path);
    }
    let bytes = fs::read(path).map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })?;
    Trace::decode(&bytes).map_err(|source| Failure::Trace {
        path: path.to_owned(),
        source,
    })
}

/// Runs a workload file.
pub fn run(args: &RunFileArgs) -> Result<(), Failure> {
    let text = fs::read_to_string(&args.file).map_err(|source| Failure::Read {
        path: args.file.clone(),
        source,
    })?;
    let beside = args.file.parent().unwrap_or(Path::new(""));
    let open = |path: &Path| {
        // The key's fault names the path already.
        read_trace(&beside.join(path)).map_err(|failure| match failure {
            Failure::Read { source, .. } => source.to_string(),
            Failure::Trace { source, .. } => source.to_string(),
            other => other.to_string(),
        })
    };
    let mut workload = Workload::parse(&text, open).map_err(|source| Failure::Workload {
        path: args.file.clone(),
        source,
    })?;
    if let Some(seed) = args.seed {
        workload.kernel.seed = seed;
    }
    let mut run = workload.run();
    if !run.finished {
        talk::warn("tasks were not over when the duration was: give a longer duration");
    }
    if args.json {
        print(format!("{}\n", as_json(&mut run)))
    } else {
        print(as_text(&mut run))
    }
}

/// Order of the largest folio: 2 MiB.
const MOST_ORDER: u8 = 9;

fn seconds(nanos: neap_sim::Nanos) -> f64 {
    nanos.0 as f64 / 1e9
}

/// The counters that are not zero, of the machine and each cgroup.
fn counters(run: &mut WorkloadRun) -> Vec<(String, Vec<(&'static str, u64)>)> {
    let mut all = vec![("/".to_owned(), MemcgId::ROOT)];
    all.extend(run.groups.iter().cloned());
    let kernel = run.machine.kernel();
    let of = |(name, id): (String, MemcgId)| {
        let values = kernel.vmstat(id).iter().filter(|(_, value)| *value > 0);
        (
            name,
            values
                .map(|(counter, value)| (counter.name(), value))
                .collect(),
        )
    };
    all.into_iter().map(of).collect()
}

/// Folios of each order that zswap took, or the device, or that were split first (kernel: hugepages-*kB/stats);
/// only orders of which any went out.
fn orders(run: &mut WorkloadRun) -> Vec<(u8, [(&'static str, u64); 3])> {
    let kernel = run.machine.kernel();
    let of = |order: u8| {
        let stats = kernel.order_stats(order)?;
        let counts = [
            ("zswpout", stats.zswpout),
            ("swpout", stats.swpout),
            ("swpout_fallback", stats.swpout_fallback),
        ];
        let any = counts.iter().any(|(_, count)| *count > 0);
        any.then_some((order, counts))
    };
    (0..=MOST_ORDER).filter_map(of).collect()
}

/// KiB of a folio.
fn kib(order: u8) -> u64 {
    4 << order
}

/// What a run gave, as one object.
pub fn as_json(run: &mut WorkloadRun) -> Value {
    let task = |(name, times): (&str, neap_sim::TaskTimes)| {
        json!({
            "name": name,
            "started_seconds": seconds(times.started),
            "ended_seconds": times.ended.map(seconds),
            "user_seconds": seconds(times.times.user),
            "system_seconds": seconds(times.times.system),
            "stalled_seconds": seconds(times.times.stalled),
            "oom_kills": times.kills,
        })
    };
    let tasks: Vec<Value> = run.times().into_iter().map(task).collect();
    let wall = seconds(run.machine.now());
    let mut groups = Map::new();
    for (name, values) in counters(run) {
        let values: Map<String, Value> = values
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        groups.insert(name, values.into());
    }
    let hugepages: Map<String, Value> = orders(run)
        .into_iter()
        .map(|(order, counts)| {
            let counts = counts.map(|(name, count)| (name.to_owned(), count.into()));
            (kib(order).to_string(), Map::from_iter(counts).into())
        })
        .collect();
    json!({
        "schema": "neap.sim-run/1",
        "version": env!("CARGO_PKG_VERSION"),
        "finished": run.finished,
        "wall_seconds": wall,
        "tasks": tasks,
        "vmstat": groups,
        "folios_kb": hugepages,
    })
}

fn as_text(run: &mut WorkloadRun) -> String {
    let right = Align::Right;
    let mut tasks = Table::new(&[
        ("task", Align::Left),
        ("from s", right),
        ("to s", right),
        ("user s", right),
        ("system s", right),
        ("stalled s", right),
        ("killed", right),
    ]);
    for (name, times) in run.times() {
        let ended = times
            .ended
            .map_or_else(|| "-".to_owned(), |end| number(seconds(end)));
        tasks.row(vec![
            name.to_owned(),
            number(seconds(times.started)),
            ended,
            number(seconds(times.times.user)),
            number(seconds(times.times.system)),
            number(seconds(times.times.stalled)),
            times.kills.to_string(),
        ]);
    }
    let mut table = Table::new(&[
        ("cgroup", Align::Left),
        ("counter", Align::Left),
        ("value", right),
    ]);
    for (name, values) in counters(run) {
        for (counter, value) in values {
            table.row(vec![name.clone(), counter.to_owned(), count(value)]);
        }
    }
    let mut folios = Table::new(&[
        ("folios of", Align::Left),
        ("counter", Align::Left),
        ("value", right),
    ]);
    let orders = orders(run);
    for (order, counts) in &orders {
        for (name, value) in counts {
            folios.row(vec![
                format!("{}kB", kib(*order)),
                (*name).to_owned(),
                count(*value),
            ]);
        }
    }
    let folios = match orders.is_empty() {
        true => String::new(),
        false => format!("\n{}", folios.text()),
    };
    format!("{}\n{}{folios}", tasks.text(), table.text())
}
