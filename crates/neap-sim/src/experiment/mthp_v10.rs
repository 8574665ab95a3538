//! `mthp-store-v10` (S1, as merged): the tenth posting, whose processes keep their memory for a while, and whose swap
//! is a partition of a solid-state drive.

use neap_policy::LargeStore;
use neap_units::{Bytes, Nanos};

use super::build::{effect, reported};
use super::mail::MTHP_V10 as MAIL;
use super::mthp::{
    Base, CPUS, Case, IAA_COMPRESS, IAA_DECOMPRESS, IAA_RATIO, PACE, ZSTD_COMPRESS,
    ZSTD_DECOMPRESS, ZSTD_RATIO, case, usemem,
};
use super::{Experiment, ExperimentFault, MOST_SCALE, Measure, Parameter, Reported, Run, Setup};
use crate::swap::DeviceConfig;

fn run(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let of_v6 = case(setup.config);
    let case = Case {
        store: match of_v6.store {
            LargeStore::Reject => LargeStore::Reject,
            _ => LargeStore::Merged,
        },
        ..of_v6
    };
    let base = Base {
        version: (6, 12),
        device: DeviceConfig {
            bandwidth: Bytes((setup.number("ssd_write") * 1048576.0) as u64),
            ..DeviceConfig::ssd()
        },
        hold: Nanos((setup.number("hold") * setup.scale * 1e9) as u64),
    };
    let run = usemem(setup, &case, &base)?;
    let measure = |metric, unit, value| Measure {
        metric,
        unit,
        value,
    };
    let total = measure("total_throughput", "KB/s", run.rates.iter().sum());
    let elapsed = run.elapsed.0 as f64 / 1e9 / setup.scale;
    let elapsed = measure("elapsed_seconds", "s", elapsed);
    Ok([vec![total, elapsed], run.measures].concat().into())
}

/// Reported numbers, in the order of the mail's tables.
macro_rules! table {
    ($($config:literal: $total:literal $elapsed:literal $sys:literal $high:literal $fail:literal
        $zswpout:literal $pswpout:literal $thp:literal $stored:literal $written:literal,)+) => {
        &[$(
            reported("total_throughput", $config, $total),
            reported("elapsed_seconds", $config, $elapsed),
            reported("sys_seconds", $config, $sys),
            reported("memcg_high", $config, $high),
            reported("memcg_swap_fail", $config, $fail),
            reported("zswpout", $config, $zswpout),
            reported("pswpout", $config, $pswpout),
            reported("thp_swpout", $config, $thp),
            reported("zswpout_folios", $config, $stored),
            reported("swpout_folios", $config, $written),
        )+]
    };
}

const REPORTED: &[Reported] = table!(
    "64K/case1-before/zstd": 5_222_213.0 120.5 2930.33 416_773.0 3_192_906.0 48_931_583.0 0.0 0.0 0.0 0.0,
    "64K/case1-before/iaa": 5_652_608.0 102.9 2246.86 576_104.0 4_016_117.0 61_163_423.0 0.0 0.0 0.0 0.0,
    "64K/case2-before/zstd": 1_076_611.0 347.16 248.16 552_200.0 1_293.0 20_903.0 40_778_448.0 0.0 0.0 2_548_653.0,
    "64K/case2-before/iaa": 1_089_180.0 343.35 213.53 502_907.0 1_407.0 22_444.0 40_862_080.0 0.0 0.0 2_553_880.0,
    "64K/after/zstd": 6_159_776.0 108.33 2549.65 465_874.0 1_012.0 48_931_218.0 0.0 0.0 3_057_173.0 0.0,
    "64K/after/iaa": 7_189_778.0 87.05 1864.16 642_083.0 1_478.0 57_798_716.0 0.0 0.0 3_611_032.0 0.0,
    "2M/case1-before/zstd": 5_895_500.0 108.77 2657.14 64_200.0 101_182.0 48_931_499.0 0.0 0.0 0.0 0.0,
    "2M/case1-before/iaa": 6_286_587.0 96.19 2141.44 99_253.0 129_074.0 61_312_794.0 0.0 0.0 0.0 0.0,
    "2M/case2-before/zstd": 1_109_694.0 334.28 94.88 66_316.0 70.0 36_507.0 40_166_400.0 78_450.0 0.0 78_450.0,
    "2M/case2-before/iaa": 1_126_785.0 333.03 99.96 64_666.0 53.0 28_321.0 40_048_128.0 78_219.0 0.0 78_219.0,
    "2M/after/zstd": 6_484_224.0 106.33 2376.13 56_898.0 27.0 48_890_640.0 0.0 0.0 95_459.0 0.0,
    "2M/after/iaa": 7_073_464.0 85.79 1826.67 79_718.0 165.0 56_045_120.0 0.0 0.0 109_229.0 0.0,
);

/// The rows with single pages have no counters of large folios.
const SINGLE: &[Reported] = &[
    reported("total_throughput", "4K/before/zstd", 4_793_363.0),
    reported("elapsed_seconds", "4K/before/zstd", 130.14),
    reported("sys_seconds", "4K/before/zstd", 3135.53),
    reported("memcg_high", "4K/before/zstd", 446_826.0),
    reported("zswpout", "4K/before/zstd", 48_932_107.0),
    reported("total_throughput", "4K/after/zstd", 4_853_074.0),
    reported("elapsed_seconds", "4K/after/zstd", 126.29),
    reported("sys_seconds", "4K/after/zstd", 3083.18),
    reported("memcg_high", "4K/after/zstd", 452_930.0),
    reported("zswpout", "4K/after/zstd", 48_931_820.0),
];

const ROWS: usize = REPORTED.len() + SINGLE.len();
const ALL: [Reported; ROWS] = {
    let mut all = [SINGLE[0]; ROWS];
    let mut at = 0;
    while at < ROWS {
        all[at] = if at < SINGLE.len() {
            SINGLE[at]
        } else {
            REPORTED[at - SINGLE.len()]
        };
        at += 1;
    }
    all
};

/// Changes of each size and compressor.
macro_rules! changes {
    ($($name:literal: $metric:literal $before:literal,)+) => {
        &[
            effect("regression_change", "total_throughput", "4K/after/zstd", "4K/before/zstd"),
            $(
            effect($name, $metric, "64K/after/zstd", concat!("64K/", $before, "/zstd")),
            effect($name, $metric, "64K/after/iaa", concat!("64K/", $before, "/iaa")),
            effect($name, $metric, "2M/after/zstd", concat!("2M/", $before, "/zstd")),
            effect($name, $metric, "2M/after/iaa", concat!("2M/", $before, "/iaa")),
        )+]
    };
}

const USEMEM: &str = "usemem --init-time -w -O -s 10 -n 30 10g";

/// Large folios stored whole, as merged.
pub(super) const MTHP_STORE_V10: Experiment = Experiment {
    name: "mthp-store-v10",
    title: "the same as merged: 30 processes of 10 GiB that stay for 10 s, against splitting and against an SSD",
    source: "S1, v10",
    mails: &[&MAIL],
    configs: &[
        "4K/before/zstd",
        "4K/after/zstd",
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
    ],
    parameters: &[
        Parameter::posted("processes", "30", "processes", &MAIL, USEMEM),
        Parameter::posted("each", "10240", "MiB", &MAIL, USEMEM),
        Parameter::posted(
            "hold",
            "10",
            "s",
            &MAIL,
            "sleeping for 10 sec before exiting",
        ),
        Parameter::posted(
            "high",
            "153600",
            "MiB",
            &MAIL,
            "memory.high was fixed at 150G",
        ),
        Parameter::posted("ram", "515072", "MiB", &MAIL, "503 GiB RAM"),
        Parameter::posted(
            "swap",
            "537600",
            "MiB",
            &MAIL,
            "525G SSD disk partition swap",
        ),
        CPUS,
        Parameter::posted("page_cluster", "2", "", &MAIL, "vm.page-cluster : 2"),
        Parameter {
            sweep: &["235", "940"],
            ..Parameter::derived(
                "ssd_write",
                "470",
                "MiB/s",
                "2M/case2-before/iaa wrote 40,048,128 pages in 333.03 s, so that the elapsed time of case 2's \
                 before rows is no prediction",
            )
        },
        ZSTD_RATIO,
        IAA_RATIO,
        ZSTD_COMPRESS,
        ZSTD_DECOMPRESS,
        IAA_COMPRESS,
        IAA_DECOMPRESS,
        PACE,
    ],
    reported: &ALL,
    effects: changes!(
        "case1_throughput_change": "total_throughput" "case1-before",
        "case2_throughput_change": "total_throughput" "case2-before",
        "case1_sys_change": "sys_seconds" "case1-before",
        "case2_sys_change": "sys_seconds" "case2-before",
    ),
    headline: &["total_throughput", "sys_seconds", "elapsed_seconds"],
    scale: 1.0 / 256.0,
    scales: (0.002, MOST_SCALE),
    seconds: 4,
    notes: &[
        "Scale divides the memory of the machine and of each process, and the time it stays; counts and times shown \
         are divided by it.",
        "Compression ratios are derived from the pages that these runs stored: zswpout is no prediction.",
    ],
    run,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_has_reported_numbers_and_they_are_of_one() {
        for config in MTHP_STORE_V10.configs {
            assert!(ALL.iter().any(|row| row.config == *config), "{config}");
        }
        let known = |row: &Reported| MTHP_STORE_V10.configs.contains(&row.config);
        assert!(ALL.iter().all(known));
    }

    /// Pages are folios over again, but for single pages.
    #[test]
    fn reported_folios_are_reported_pages() {
        let of = |metric: &str, config: &str| {
            let found = ALL
                .iter()
                .find(|row| (row.metric, row.config) == (metric, config));
            found.map_or(0.0, |row| row.value)
        };
        for config in MTHP_STORE_V10.configs {
            let pages = f64::from(1 << case(config).order);
            for (metric, whole) in [("zswpout", "zswpout_folios"), ("pswpout", "swpout_folios")] {
                let folios = of(whole, config);
                let single = of(metric, config) - folios * pages;
                assert!(
                    folios == 0.0 || (0.0..200_000.0).contains(&single),
                    "{config}: {single}"
                );
            }
        }
    }
}
