//! `large-store-limit` (SPEC 9.8): what becomes of a large folio that zswap's pool has no room for.

use neap_policy::{Counter, LargeStore, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::build::effect;
use super::cost::costs;
use super::{ANY_SCALE, Experiment, ExperimentFault, Measure, Parameter, Run, Setup};
use crate::clock::{Clockwork, Machine};
use crate::compress::PageModel;
use crate::kernel::{Area, KernelConfig, Limits, MemcgId, SwapConfig, ZswapConfig};
use crate::workload::{Load, Pattern, Walker};

/// Pages compressed at once where a configuration says so. Chosen: the accelerator of S1 has eight engines.
const BATCH: u64 = 8;

/// Order, rule and batch that a configuration's name says.
fn case(config: &str) -> (u8, LargeStore, u64) {
    let (size, rule) = config.split_once('/').unwrap_or((config, ""));
    let order = if size == "64K" { 4 } else { 9 };
    match rule {
        "by-page" => (order, LargeStore::V6KnobOn, 1),
        "prefix" => (order, LargeStore::Prefix, 1),
        "merged+batch" => (order, LargeStore::Merged, BATCH),
        "prefix+batch" => (order, LargeStore::Prefix, BATCH),
        _ => (order, LargeStore::Merged, 1),
    }
}

fn bytes(setup: &Setup<'_>, key: &str) -> Bytes {
    Bytes((setup.number(key) * setup.scale * 1048576.0) as u64)
}

fn kernel(setup: &Setup<'_>) -> KernelConfig {
    let (_, large_store, compress_batch) = case(setup.config);
    let micros = |key| Nanos((setup.number(key) * 1e3) as u64);
    let size = (4096.0 / setup.number("ratio").max(1.0)) as u16;
    KernelConfig {
        ram: bytes(setup, "ram"),
        cpus: setup.number("cpus") as u32,
        switches: Switches {
            large_store,
            ..Switches::of_kernel((6, 13), false)
        },
        swap: Some(SwapConfig {
            size: bytes(setup, "swap"),
            latency: micros("swap_latency"),
            synchronous: false,
        }),
        zswap: Some(ZswapConfig {
            max_pool_percent: setup.number("pool") as u8,
            accept_threshold_percent: 90,
            shrinker: setup.word("shrinker") == "on",
        }),
        contents: vec![PageModel::fixed(
            size,
            micros("compress"),
            micros("decompress"),
        )],
        compress_batch,
        seed: setup.seed,
        costs: costs(setup),
        ..KernelConfig::default()
    }
}

fn run(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    const HOURS: u64 = 2;
    let mut machine = Machine::new(&kernel(setup), Clockwork::default());
    let kernel = machine.kernel();
    let memcg = kernel.create_memcg(MemcgId::ROOT, "usemem");
    let limits = Limits {
        high: Some(bytes(setup, "high").whole_pages()),
        ..Limits::default()
    };
    kernel.set_limits(memcg, limits);
    let pages = bytes(setup, "each").whole_pages().0.next_multiple_of(512);
    let processes = setup.number("processes") as u64;
    for _ in 0..processes {
        let area = Area {
            folio_order: case(setup.config).0,
            ..Area::anon(Pages(pages))
        };
        let load = Load {
            populate: true,
            touches: setup.scaled("touches", 16),
            ..Load::new(
                memcg,
                area,
                Walker::new(Pattern::Zipf(setup.number("exponent")), pages),
            )
        };
        machine.spawn(load.program(), Nanos::ZERO, true);
    }
    if !machine.finish(Nanos(HOURS * 3_600_000_000_000)) {
        return Err(ExperimentFault::Endless {
            config: setup.config,
            seed: setup.seed,
            hours: HOURS,
            advice: "give a larger high, or fewer processes",
        });
    }
    Ok(measures(setup, &mut machine, memcg).into())
}

fn measures(setup: &Setup<'_>, machine: &mut Machine, memcg: MemcgId) -> Vec<Measure> {
    let measure = |metric, unit, value| Measure {
        metric,
        unit,
        value,
    };
    let real = machine.now().0 as f64 / 1e9;
    let system = machine.total().system.0 as f64 / 1e9 / setup.scale;
    let compressions = machine.kernel().compressions();
    let counters = machine.kernel().vmstat(memcg);
    let count = |counter| counters[counter] as f64 / setup.scale;
    let wasted = compressions.saturating_sub(counters[Counter::Zswpout]);
    vec![
        measure("real_seconds", "s", real),
        measure("sys_seconds", "s", system),
        measure("pswpin", "pages", count(Counter::Pswpin)),
        measure("pswpout", "pages", count(Counter::Pswpout)),
        measure("zswpin", "pages", count(Counter::Zswpin)),
        measure("zswpout", "pages", count(Counter::Zswpout)),
        measure("zswpwb", "pages", count(Counter::Zswpwb)),
        measure("compressed_in_vain", "pages", wasted as f64 / setup.scale),
    ]
}

/// All or nothing, or as much as there is room for.
pub(super) const LARGE_STORE_LIMIT: Experiment = Experiment {
    name: "large-store-limit",
    title: "a large folio at the limit of zswap's pool: all or nothing, or the pages there is room for",
    source: "SPEC 9.8",
    mails: &[],
    configs: &[
        "64K/merged",
        "64K/by-page",
        "64K/prefix",
        "64K/merged+batch",
        "64K/prefix+batch",
        "2M/merged",
        "2M/by-page",
        "2M/prefix",
        "2M/merged+batch",
        "2M/prefix+batch",
    ],
    parameters: &[
        Parameter::chosen(
            "processes",
            "16",
            "processes",
            "enough that they reclaim at once",
            &["10", "16", "24"],
        ),
        Parameter::chosen(
            "each",
            "4096",
            "MiB",
            "written once by each, then touched",
            &["2048", "8192"],
        ),
        Parameter::chosen(
            "high",
            "32768",
            "MiB",
            "half of what all need",
            &["16384", "49152"],
        ),
        Parameter::chosen(
            "ram",
            "65536",
            "MiB",
            "as much as all need",
            &["49152", "98304"],
        ),
        Parameter::chosen("swap", "131072", "MiB", "never full", &["98304"]),
        Parameter::chosen("cpus", "16", "CPUs", "one for each process", &["8", "32"]),
        Parameter::chosen(
            "pool",
            "8",
            "% of memory",
            "less than what goes out compresses to",
            &["4", "8", "20"],
        ),
        Parameter::word(
            "shrinker",
            "off",
            "off, as the kernel's default",
            &["off", "on"],
        ),
        Parameter::chosen(
            "ratio",
            "3.0",
            "",
            "as of iaa in mthp-store",
            &["2.0", "3.0", "5.1"],
        ),
        Parameter::chosen(
            "compress",
            "25",
            "us",
            "as of zstd in mthp-store",
            &["5", "25"],
        ),
        Parameter::chosen("decompress", "6", "us", "as in mthp-store", &["3", "12"]),
        Parameter::chosen("swap_latency", "100", "us", "an SSD", &["20", "100", "500"]),
        Parameter::chosen(
            "touches",
            "400000",
            "touches",
            "of each process, after it has written",
            &["100000", "400000"],
        ),
        Parameter::chosen(
            "exponent",
            "0.8",
            "",
            "how unevenly the memory is used",
            &["0.5", "0.8", "1.0"],
        ),
    ],
    reported: &[],
    effects: &[
        effect("real_change", "real_seconds", "64K/by-page", "64K/merged"),
        effect("real_change", "real_seconds", "64K/prefix", "64K/merged"),
        effect(
            "real_change",
            "real_seconds",
            "64K/merged+batch",
            "64K/merged",
        ),
        effect(
            "real_change",
            "real_seconds",
            "64K/prefix+batch",
            "64K/merged",
        ),
        effect("real_change", "real_seconds", "2M/by-page", "2M/merged"),
        effect("real_change", "real_seconds", "2M/prefix", "2M/merged"),
        effect(
            "real_change",
            "real_seconds",
            "2M/merged+batch",
            "2M/merged",
        ),
        effect(
            "real_change",
            "real_seconds",
            "2M/prefix+batch",
            "2M/merged",
        ),
        effect("sys_change", "sys_seconds", "64K/prefix", "64K/merged"),
        effect("sys_change", "sys_seconds", "2M/prefix", "2M/merged"),
    ],
    headline: &["real_seconds", "sys_seconds", "compressed_in_vain"],
    scale: 1.0 / 64.0,
    scales: ANY_SCALE,
    seconds: 1,
    notes: &[
        "The seed documents give no number for this: the question is the SPEC's, the remedy ours.",
        "merged: the limit is looked at once for each folio. by-page: before each page, and a folio that fails \
         goes to the device whole. prefix: before each page, and only the pages from there on go. batch: eight \
         pages are compressed in the time of one.",
        "Scale divides memory and touches; counts and CPU times shown are divided by it.",
    ],
    run,
};
