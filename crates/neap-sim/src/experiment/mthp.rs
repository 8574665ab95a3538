//! `mthp-store` (S1): zswap that takes large folios whole, against splitting them (case 1) and against
//! writing them whole to zram (case 2).

use neap_policy::{Counter, LargeStore, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::build::{effect, reported};
use super::cost::costs;
use super::{Experiment, ExperimentFault, MOST_SCALE, Measure, Parameter, Reported, Setup};
use crate::clock::{Clockwork, Machine};
use crate::compress::PageModel;
use crate::kernel::{Area, KernelConfig, Limits, MemcgId, SwapConfig, ZswapConfig};
use crate::swap::DeviceConfig;
use crate::workload::{Load, Pattern, Walker};

/// What a configuration's name says.
struct Case {
    /// Order of the folios.
    order: u8,
    /// Whether large folios get runs of slots (CONFIG_THP_SWAP).
    thp_swap: bool,
    /// Whether zswap takes them.
    store: LargeStore,
    /// Whether the cgroup is charged for zswap's pool.
    charged: bool,
    /// Name of the compressor in parameters.
    compressor: &'static str,
}

fn case(config: &str) -> Case {
    let mut parts = config.split('/');
    let order = match parts.next() {
        Some("64K") => 4,
        Some("2M") => 9,
        _ => 0,
    };
    let which = parts.next().unwrap_or("after");
    Case {
        order,
        thp_swap: which != "case1-before",
        store: match which {
            "after" | "after-uncharged" => LargeStore::V6KnobOn,
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

fn kernel(setup: &Setup<'_>, case: &Case) -> KernelConfig {
    KernelConfig {
        ram: bytes(setup, "ram"),
        cpus: setup.number("cpus") as u32,
        switches: Switches {
            large_store: case.store,
            ..Switches::of_kernel((6, 11), false)
        },
        page_cluster: setup.number("page_cluster") as u32,
        swap: Some(SwapConfig {
            size: bytes(setup, "swap"),
            latency: Nanos(500),
            synchronous: true,
        }),
        swap_device: Some(DeviceConfig::zram()),
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

fn run(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    let case = case(setup.config);
    let mut machine = Machine::new(&kernel(setup, &case), Clockwork::default());
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
        let span = times
            .ended
            .unwrap_or(machine.now())
            .saturating_sub(times.started);
        pages as f64 * 4.0 / (span.0.max(1) as f64 / 1e9)
    };
    let throughput = tasks.iter().map(rate).sum::<f64>() / tasks.len().max(1) as f64;
    let mut measures = measures(setup, &mut machine, memcg, throughput);
    measures.extend(folios(setup, &mut machine, case.order));
    Ok(measures)
}

fn measures(
    setup: &Setup<'_>,
    machine: &mut Machine,
    memcg: MemcgId,
    throughput: f64,
) -> Vec<Measure> {
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
        measure("throughput", "KB/s", throughput),
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

/// Reported numbers: of each configuration in the order of the seed's tables.
macro_rules! table {
    ($($config:literal: $throughput:literal $sys:literal $high:literal $swap_high:literal $fail:literal
        $pswpin:literal $pswpout:literal $zswpin:literal $zswpout:literal
        $thp:literal $fallback:literal $major:literal,)+
     $(folios $metric:literal: $of:literal $folios:literal,)+) => {
        &[$(reported($metric, $of, $folios),)+ $(
            reported("throughput", $config, $throughput),
            reported("sys_seconds", $config, $sys),
            reported("memcg_high", $config, $high),
            reported("memcg_swap_high", $config, $swap_high),
            reported("memcg_swap_fail", $config, $fail),
            reported("pswpin", $config, $pswpin),
            reported("pswpout", $config, $pswpout),
            reported("zswpin", $config, $zswpin),
            reported("zswpout", $config, $zswpout),
            reported("thp_swpout", $config, $thp),
            reported("thp_swpout_fallback", $config, $fallback),
            reported("pgmajfault", $config, $major),
        )+]
    };
}

const REPORTED: &[Reported] = table!(
    "4K/before/zstd": 110_775.0 1141.72 140_500.0 0.0 0.0 0.0 0.0 675.0 9_552_298.0 0.0 0.0 3_453.0,
    "4K/before/iaa": 113_010.0 954.87 153_737.0 0.0 0.0 0.0 0.0 690.0 10_603_271.0 0.0 0.0 3_468.0,
    "4K/after/zstd": 111_550.0 1131.95 139_772.0 0.0 0.0 0.0 0.0 682.0 9_566_392.0 0.0 0.0 3_841.0,
    "4K/after/iaa": 121_937.0 828.47 134_129.0 0.0 0.0 0.0 0.0 684.0 9_267_213.0 0.0 0.0 3_487.0,
    "64K/case1-before/zstd": 136_113.0 986.78 124_183.0 0.0 619_020.0 0.0 0.0 656.0 9_413_603.0 0.0 0.0 3_470.0,
    "64K/case1-before/iaa": 140_044.0 951.95 127_513.0 0.0 751_099.0 0.0 0.0 569.0 11_284_812.0 0.0 0.0 3_382.0,
    "64K/case2-before/zstd": 161_496.0 771.68 111_223.0 0.0 0.0 16.0 7_471_472.0 635.0 1_509.0 0.0 0.0 3_616.0,
    "64K/case2-before/iaa": 156_343.0 802.08 110_889.0 0.0 0.0 16.0 7_527_963.0 605.0 1_478.0 0.0 0.0 3_430.0,
    "64K/after/zstd": 140_363.0 954.85 138_651.0 0.0 0.0 0.0 0.0 624.0 9_453_761.0 0.0 0.0 4_633.0,
    "64K/after/iaa": 151_938.0 735.47 133_884.0 0.0 0.0 0.0 0.0 639.0 9_385_910.0 0.0 0.0 3_611.0,
    "2M/case1-before/zstd": 164_220.0 855.76 14_628.0 0.0 18_698.0 0.0 0.0 663.0 8_419_458.0 0.0 18_697.0 3_439.0,
    "2M/case1-before/iaa": 172_523.0 686.94 16_247.0 0.0 21_114.0 0.0 0.0 665.0 8_992_065.0 0.0 21_113.0 3_496.0,
    "2M/case2-before/zstd": 192_164.0 823.55 16_054.0 0.0 0.0 0.0 8_629_248.0 560.0 1_416.0 16_854.0 0.0 3_341.0,
    "2M/case2-before/iaa": 194_643.0 830.42 15_936.0 0.0 0.0 0.0 8_628_907.0 645.0 1_503.0 16_853.0 0.0 3_574.0,
    "2M/after/zstd": 165_005.0 801.72 14_951.0 0.0 0.0 0.0 0.0 5_333.0 8_546_895.0 0.0 0.0 8_139.0,
    "2M/after/iaa": 174_536.0 676.65 16_096.0 0.0 0.0 0.0 0.0 781.0 9_355_760.0 0.0 0.0 3_582.0,
    folios "zswpout_folios": "64K/after/zstd" 590_768.0,
    folios "zswpout_folios": "64K/after/iaa" 586_521.0,
    folios "zswpout_folios": "2M/after/zstd" 16_684.0,
    folios "zswpout_folios": "2M/after/iaa" 18_270.0,
    folios "swpout_folios": "64K/case1-before/zstd" 0.0,
    folios "swpout_folios": "64K/case1-before/iaa" 0.0,
    folios "swpout_folios": "64K/case2-before/zstd" 466_967.0,
    folios "swpout_folios": "64K/case2-before/iaa" 470_498.0,
    folios "swpout_folios": "64K/after/zstd" 0.0,
    folios "swpout_folios": "64K/after/iaa" 0.0,
    folios "swpout_folios": "2M/case1-before/zstd" 0.0,
    folios "swpout_folios": "2M/case1-before/iaa" 0.0,
    folios "swpout_folios": "2M/case2-before/zstd" 16_854.0,
    folios "swpout_folios": "2M/case2-before/iaa" 16_853.0,
    folios "swpout_folios": "2M/after/zstd" 0.0,
    folios "swpout_folios": "2M/after/iaa" 0.0,
);

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

/// Large folios stored whole.
pub(super) const MTHP_STORE: Experiment = Experiment {
    name: "mthp-store",
    title: "zswap stores large folios whole: against splitting (case 1) and against zram (case 2)",
    source: "S1",
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
        Parameter::seed("processes", "70", "processes", "S1"),
        Parameter::seed(
            "each",
            "1024",
            "MiB",
            "S1: written once by each process, which then exits",
        ),
        Parameter::seed("high", "40960", "MiB", "S1: memory.high"),
        Parameter::seed("ram", "515072", "MiB", "S1"),
        Parameter::seed("swap", "180224", "MiB", "S1: zram with zstd"),
        Parameter::seed("cpus", "112", "CPUs", "S1: 2 x 56"),
        Parameter::seed("page_cluster", "2", "", "S1"),
        Parameter::chosen(
            "zstd_ratio",
            "5.1",
            "",
            "from the later v10 runs, not from the runs shown here",
            &["3.0", "5.1", "8.0"],
        ),
        Parameter::chosen(
            "iaa_ratio",
            "3.0",
            "",
            "from the later v10 runs (2.8 to 3.35), not from the runs shown here",
            &["2.5", "3.0", "3.5"],
        ),
        Parameter::chosen(
            "zstd_compress",
            "25",
            "us",
            "a 4 KiB page at 2.5 GHz",
            &["15", "25", "40"],
        ),
        Parameter::chosen("zstd_decompress", "6", "us", "a 4 KiB page at 2.5 GHz", &[]),
        Parameter::chosen(
            "iaa_compress",
            "12",
            "us",
            "the accelerator, waited for, and the decompression that verifies",
            &["6", "12", "20"],
        ),
        Parameter::chosen(
            "iaa_decompress",
            "4",
            "us",
            "the accelerator, waited for",
            &[],
        ),
        Parameter::chosen(
            "pace",
            "100",
            "ns",
            "writing a page besides its faults",
            &["50", "100", "500"],
        ),
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
        "In case 2 the device is zram whatever the compressor of zswap is called.",
    ],
    run,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_runs() {
        let all = MTHP_STORE.configs.iter();
        assert!(all.clone().all(|config| config.split('/').count() == 3));
        let split = case("2M/case1-before/iaa");
        assert_eq!((split.order, split.thp_swap), (9, false));
        assert_eq!((split.store, split.compressor), (LargeStore::Reject, "iaa"));
        assert_eq!(case("64K/after/zstd").store, LargeStore::V6KnobOn);
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
