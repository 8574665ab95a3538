//! `mthp-store` (S1): zswap that takes large folios whole, against splitting them (case 1) and against
//! writing them whole to zram (case 2).

use neap_policy::{Counter, LargeStore, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::build::effect;
use super::cost::costs;
use super::mail::MTHP_V6 as MAIL;
use super::mthp_reported::REPORTED;
use super::{Experiment, ExperimentFault, MOST_SCALE, Measure, Parameter, Run, Setup};
use crate::clock::{Clockwork, Machine};
use crate::compress::PageModel;
use crate::kernel::{Area, KernelConfig, Limits, MemcgId, SwapConfig, ZswapConfig};
use crate::swap::{DeviceConfig, InMemory};
use crate::workload::{Load, Pattern, Walker};

/// What a configuration's name says.
pub(super) struct Case {
    /// Order of the folios.
    pub(super) order: u8,
    /// Whether large folios get runs of slots (CONFIG_THP_SWAP).
    pub(super) thp_swap: bool,
    /// Whether zswap takes them.
    pub(super) store: LargeStore,
    /// Whether the cgroup is charged for zswap's pool.
    pub(super) charged: bool,
    /// Name of the compressor in parameters.
    pub(super) compressor: &'static str,
}

/// The kernel and the swap device of a posting.
pub(super) struct Base {
    /// Version.
    pub(super) version: (u32, u32),
    /// What swap lies on.
    pub(super) device: DeviceConfig,
    /// How long a process keeps its memory after the last write.
    pub(super) hold: Nanos,
}

pub(super) fn case(config: &str) -> Case {
    let mut parts = config.split('/');
    let order = match parts.next() {
        Some("64K") => 4,
        Some("2M") => 9,
        _ => 0,
    };
    let which = parts.next().unwrap_or("after");
    // "CONFIG_ZSWAP_STORE_THP_DEFAULT_ON is not set" in the runs with single pages.
    let knob = match order {
        0 => LargeStore::V6KnobOff,
        _ => LargeStore::V6KnobOn,
    };
    Case {
        order,
        thp_swap: which != "case1-before",
        store: match which {
            "after" | "after-uncharged" => knob,
            _ => LargeStore::Reject,
        },
        charged: which != "after-uncharged",
        compressor: match parts.next() {
            Some("iaa") => "iaa",
            _ => "zstd",
        },
    }
}

fn model(setup: &Setup<'_>, compressor: &str) -> PageModel {
    let get = |what: &str| setup.number(&format!("{compressor}_{what}"));
    let bytes = (4096.0 / get("ratio").max(1.0)) as u16;
    let micros = |what: &str| Nanos((get(what) * 1e3) as u64);
    PageModel::fixed(bytes, micros("compress"), micros("decompress"))
}

fn bytes(setup: &Setup<'_>, key: &str) -> Bytes {
    Bytes((setup.number(key) * setup.scale * 1048576.0) as u64)
}

/// zram: each page is compressed by the CPU that swaps, and is charged to nobody.
fn zram(setup: &Setup<'_>) -> DeviceConfig {
    let micros = |what: &str| Nanos((setup.number(what) * 1e3) as u64);
    DeviceConfig::in_memory(InMemory {
        write: micros("zram_compress"),
        read: micros("zram_decompress"),
        bytes: (4096.0 / setup.number("zram_ratio").max(1.0)) as u16,
    })
}

fn kernel(setup: &Setup<'_>, case: &Case, base: &Base) -> KernelConfig {
    KernelConfig {
        ram: bytes(setup, "ram"),
        cpus: setup.number("cpus") as u32,
        switches: Switches {
            large_store: case.store,
            ..Switches::of_kernel(base.version, false)
        },
        page_cluster: setup.number("page_cluster") as u32,
        swap: Some(SwapConfig {
            size: bytes(setup, "swap"),
            latency: Nanos::ZERO,
            synchronous: base.device.synchronous,
        }),
        swap_device: Some(base.device),
        thp_swap: case.thp_swap,
        zswap: Some(ZswapConfig {
            max_pool_percent: 20,
            accept_threshold_percent: 90,
            shrinker: false,
        }),
        zswap_charged: case.charged,
        contents: vec![model(setup, case.compressor)],
        seed: setup.seed,
        costs: costs(setup),
        ..KernelConfig::default()
    }
}

fn run(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let base = Base {
        version: (6, 11),
        device: zram(setup),
        hold: Nanos::ZERO,
    };
    let run = usemem(setup, &case(setup.config), &base)?;
    let processes = run.rates.len().max(1) as f64;
    let throughput = Measure {
        metric: "throughput",
        unit: "KB/s",
        value: run.rates.iter().sum::<f64>() / processes,
    };
    Ok([vec![throughput], run.measures].concat().into())
}

/// What a run of usemem came to.
pub(super) struct Usemem {
    /// KiB a second that each process wrote.
    pub(super) rates: Vec<f64>,
    /// From the first start to the last exit.
    pub(super) elapsed: Nanos,
    pub(super) measures: Vec<Measure>,
}

/// vm-scalability's usemem: processes that write their memory once.
pub(super) fn usemem(
    setup: &Setup<'_>,
    case: &Case,
    base: &Base,
) -> Result<Usemem, ExperimentFault> {
    let mut machine = Machine::new(&kernel(setup, case, base), Clockwork::default());
    let kernel = machine.kernel();
    let memcg = kernel.create_memcg(MemcgId::ROOT, "usemem");
    let limits = Limits {
        high: Some(bytes(setup, "high").whole_pages()),
        ..Limits::default()
    };
    kernel.set_limits(memcg, limits);
    let pages = bytes(setup, "each").whole_pages().0.next_multiple_of(512);
    let mut tasks = Vec::new();
    for _ in 0..setup.number("processes") as u64 {
        let area = Area {
            folio_order: case.order,
            ..Area::anon(Pages(pages))
        };
        let load = Load {
            populate: true,
            touches: 0,
            pace: Nanos(setup.number("pace") as u64),
            hold: base.hold,
            ..Load::new(memcg, area, Walker::new(Pattern::Sequential, pages))
        };
        tasks.push(machine.spawn(load.program(), Nanos::ZERO, true));
    }
    const HOURS: u64 = 2;
    if !machine.finish(Nanos(HOURS * 3_600_000_000_000)) {
        return Err(ExperimentFault::Endless {
            config: setup.config,
            seed: setup.seed,
            hours: HOURS,
            advice: "give a larger high, or fewer processes",
        });
    }
    let rate = |&task: &crate::kernel::TaskId| {
        let times = machine.times(task);
        let ended = times.ended.unwrap_or(machine.now());
        let span = ended
            .saturating_sub(times.started)
            .saturating_sub(base.hold);
        pages as f64 * 4.0 / (span.0.max(1) as f64 / 1e9)
    };
    let rates = tasks.iter().map(rate).collect();
    let elapsed = machine.now();
    let mut measures = measures(setup, &mut machine, memcg);
    measures.extend(folios(setup, &mut machine, case.order));
    Ok(Usemem {
        rates,
        elapsed,
        measures,
    })
}

fn measures(setup: &Setup<'_>, machine: &mut Machine, memcg: MemcgId) -> Vec<Measure> {
    let measure = |metric, unit, value| Measure {
        metric,
        unit,
        value,
    };
    let system = machine.total().system.0 as f64 / 1e9 / setup.scale;
    let stalled = machine.total().stalled.0 as f64 / 1e9 / setup.scale;
    let counters = machine.kernel().vmstat(memcg);
    let count = |counter| counters[counter] as f64 / setup.scale;
    vec![
        measure("sys_seconds", "s", system),
        measure("throttled_seconds", "s", stalled),
        measure("memcg_high", "events", count(Counter::MemcgHigh)),
        measure("memcg_swap_high", "events", count(Counter::MemcgSwapHigh)),
        measure("memcg_swap_fail", "events", count(Counter::MemcgSwapFail)),
        measure("zswpout", "pages", count(Counter::Zswpout)),
        measure("zswpin", "pages", count(Counter::Zswpin)),
        measure("pswpin", "pages", count(Counter::Pswpin)),
        measure("pgmajfault", "faults", count(Counter::Pgmajfault)),
        measure("pswpout", "pages", count(Counter::Pswpout)),
        measure("thp_swpout", "folios", count(Counter::ThpSwpout)),
        measure(
            "thp_swpout_fallback",
            "folios",
            count(Counter::ThpSwpoutFallback),
        ),
    ]
}

/// Folios of a case's order that went out whole, or were split first (hugepages-*kB/stats; of single
/// pages: those pages).
fn folios(setup: &Setup<'_>, machine: &mut Machine, order: u8) -> Vec<Measure> {
    let Some(stats) = machine.kernel().order_stats(order) else {
        return Vec::new();
    };
    let folios = |metric, value: u64| Measure {
        metric,
        unit: "folios",
        value: value as f64 / setup.scale,
    };
    vec![
        folios("zswpout_folios", stats.zswpout),
        folios("swpout_folios", stats.swpout),
        folios("swpout_fallback_folios", stats.swpout_fallback),
    ]
}

/// Changes between two configurations, of each size and compressor.
macro_rules! changes {
    ($($name:literal: $metric:literal $after:literal $before:literal,)+) => {
        &[$(
            changes!($name $metric $after $before "64K/" "/zstd"),
            changes!($name $metric $after $before "64K/" "/iaa"),
            changes!($name $metric $after $before "2M/" "/zstd"),
            changes!($name $metric $after $before "2M/" "/iaa"),
        )+]
    };
    ($name:literal $metric:literal $after:literal $before:literal $size:literal $compressor:literal) => {
        effect($name, $metric, concat!($size, $after, $compressor), concat!($size, $before, $compressor))
    };
}

const USEMEM: &str = "usemem --init-time -w -O -n 70 1g";
pub(super) const CPUS: Parameter = Parameter::posted(
    "cpus",
    "112",
    "CPUs",
    &MAIL,
    "dual-socket 56 cores per socket",
);
pub(super) const ZSTD_RATIO: Parameter = Parameter {
    sweep: &["3.0", "5.1", "8.0"],
    ..Parameter::derived(
        "zstd_ratio",
        "5.1",
        "",
        "from what v10 stored with zstd, 48.9 million pages, to bring 300 GiB under 150 GiB",
    )
};
pub(super) const IAA_RATIO: Parameter = Parameter {
    sweep: &["2.5", "3.0", "3.5"],
    ..Parameter::derived(
        "iaa_ratio",
        "3.0",
        "",
        "from what v10 stored with deflate-iaa, 56.0 to 61.3 million pages, to bring 300 GiB under 150 GiB: 2.8 to 3.35",
    )
};
pub(super) const ZSTD_COMPRESS: Parameter = Parameter::chosen(
    "zstd_compress",
    "25",
    "us",
    "a 4 KiB page at 2.5 GHz",
    &["15", "25", "40"],
);
pub(super) const ZSTD_DECOMPRESS: Parameter = Parameter::chosen(
    "zstd_decompress",
    "6",
    "us",
    "a 4 KiB page at 2.5 GHz",
    &["3", "12"],
);
pub(super) const IAA_COMPRESS: Parameter = Parameter::chosen(
    "iaa_compress",
    "12",
    "us",
    "the accelerator, waited for, and the decompression that verifies",
    &["6", "12", "20"],
);
pub(super) const IAA_DECOMPRESS: Parameter = Parameter::chosen(
    "iaa_decompress",
    "4",
    "us",
    "the accelerator, waited for",
    &["2", "8"],
);
pub(super) const PACE: Parameter = Parameter::chosen(
    "pace",
    "100",
    "ns",
    "writing a page besides its faults",
    &["50", "100", "500"],
);

/// Large folios stored whole.
pub(super) const MTHP_STORE: Experiment = Experiment {
    name: "mthp-store",
    title: "zswap stores large folios whole: against splitting (case 1) and against zram (case 2)",
    source: "S1",
    mails: &[&MAIL],
    configs: &[
        "4K/before/zstd",
        "4K/before/iaa",
        "4K/after/zstd",
        "4K/after/iaa",
        "64K/case1-before/zstd",
        "64K/case1-before/iaa",
        "64K/case2-before/zstd",
        "64K/case2-before/iaa",
        "64K/after/zstd",
        "64K/after/iaa",
        "2M/case1-before/zstd",
        "2M/case1-before/iaa",
        "2M/case2-before/zstd",
        "2M/case2-before/iaa",
        "2M/after/zstd",
        "2M/after/iaa",
        "64K/after-uncharged/zstd",
        "64K/after-uncharged/iaa",
        "2M/after-uncharged/zstd",
        "2M/after-uncharged/iaa",
    ],
    parameters: &[
        Parameter::posted("processes", "70", "processes", &MAIL, USEMEM),
        Parameter::posted("each", "1024", "MiB", &MAIL, USEMEM),
        Parameter::posted(
            "high",
            "40960",
            "MiB",
            &MAIL,
            "memory.high was fixed at 40G",
        ),
        Parameter::posted("ram", "515072", "MiB", &MAIL, "503 GiB RAM"),
        Parameter::posted(
            "swap",
            "180224",
            "MiB",
            &MAIL,
            "176GiB ZRAM (35% of available RAM)",
        ),
        CPUS,
        Parameter::posted("page_cluster", "2", "", &MAIL, "SWAP page-cluster : 2"),
        Parameter::chosen(
            "zram_compress",
            "25",
            "us",
            "as zstd_compress: \"zstd is configured as the ZRAM compressor\", on the same CPU",
            &["15", "25", "40"],
        ),
        Parameter::chosen(
            "zram_decompress",
            "6",
            "us",
            "as zstd_decompress",
            &["3", "12"],
        ),
        Parameter::chosen("zram_ratio", "5.1", "", "as zstd_ratio", &["3.0", "8.0"]),
        ZSTD_RATIO,
        IAA_RATIO,
        ZSTD_COMPRESS,
        ZSTD_DECOMPRESS,
        IAA_COMPRESS,
        IAA_DECOMPRESS,
        PACE,
    ],
    reported: REPORTED,
    effects: changes!(
        "case1_throughput_change": "throughput" "after" "case1-before",
        "case2_throughput_change": "throughput" "after" "case2-before",
        "case1_sys_change": "sys_seconds" "after" "case1-before",
        "case2_sys_change": "sys_seconds" "after" "case2-before",
        "case2_uncharged_throughput_change": "throughput" "after-uncharged" "case2-before",
        "case2_uncharged_sys_change": "sys_seconds" "after-uncharged" "case2-before",
    ),
    headline: &["throughput", "sys_seconds", "memcg_high"],
    scale: 1.0 / 64.0,
    scales: (0.002, MOST_SCALE),
    seconds: 1,
    notes: &[
        "After is one set of runs, compared with both cases, as in the seed.",
        "Scale divides the memory of the machine and of each process; counts and CPU times shown are \
         divided by it. Each process writes whole multiples of 2 MiB, so that below 0.002 \
         it would not get smaller with the rest.",
        "After-uncharged is no row of the seed: as after, but nobody is charged for zswap's pool, as nobody is for \
         zram's. What is left of case 2's change there is not the charge.",
        "In case 2 the device is zram with zstd, whatever the compressor of zswap is called.",
        "4K/after has the sixth posting's way through a store, with its knob off; what it does in between is equal, \
         and so are the rows as long as no rule of it differs.",
    ],
    run,
};

#[cfg(test)]
mod tests {
    use super::super::Reported;
    use super::*;

    #[test]
    fn names_say_what_runs() {
        let all = MTHP_STORE.configs.iter();
        assert!(all.clone().all(|config| config.split('/').count() == 3));
        let split = case("2M/case1-before/iaa");
        assert_eq!((split.order, split.thp_swap), (9, false));
        assert_eq!((split.store, split.compressor), (LargeStore::Reject, "iaa"));
        assert_eq!(case("64K/after/zstd").store, LargeStore::V6KnobOn);
        assert_eq!(case("4K/after/zstd").store, LargeStore::V6KnobOff);
        assert_eq!(case("4K/before/zstd").store, LargeStore::Reject);
    }

    /// A metric of the seed's tables has a number for each of their configurations.
    #[test]
    fn every_row_that_was_reported_has_its_number() {
        let per_folio = |metric: &str| metric.ends_with("_folios");
        let metrics: std::collections::BTreeSet<_> =
            REPORTED.iter().map(|row| row.metric).collect();
        let counted: Vec<_> = metrics.iter().filter(|metric| !per_folio(metric)).collect();
        assert_eq!(counted.len(), 12);
        let shown = MTHP_STORE.configs.iter();
        for config in shown.filter(|config| !config.contains("uncharged")) {
            for metric in &counted {
                let of = |row: &&Reported| row.metric == **metric && row.config == *config;
                assert_eq!(REPORTED.iter().filter(of).count(), 1, "{metric} {config}");
            }
        }
    }

    /// What the seed's tables say of folios and of pages agrees, but for a few single pages;
    /// averages of runs are rounded, folios as well as pages.
    #[test]
    fn reported_folios_are_reported_pages() {
        let of = |metric: &str, config: &str| {
            let mut rows = REPORTED.iter();
            let row = rows.find(|row| (row.metric, row.config) == (metric, config));
            row.expect("reported").value
        };
        let folios = REPORTED
            .iter()
            .filter(|row| row.metric.ends_with("_folios"));
        for row in folios {
            let pages = match row.metric {
                "zswpout_folios" => "zswpout",
                _ => "pswpout",
            };
            let single = of(pages, row.config) - row.value * f64::from(1 << case(row.config).order);
            assert!(
                (-16.0..5000.0).contains(&single),
                "{}: {single}",
                row.config
            );
        }
    }
}
