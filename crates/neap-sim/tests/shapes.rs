//! Signs and order of what was reported (SPEC 10), in experiments that are scaled down. Where a sign
//! is not that of the report, the experiment's page says so, and no test here claims it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use neap_sim::{Options, find_experiment, run_experiment};

/// Medians, by metric and configuration.
struct Medians(BTreeMap<(String, String), f64>);

impl Medians {
    fn of(name: &str, seeds: u64, scale: f64, sets: &[&str]) -> Medians {
        let options = Options {
            seeds,
            seed: 1,
            scale: Some(scale),
            sets: sets.iter().map(|&set| set.to_owned()).collect(),
            threads: 2,
            kept: None,
        };
        let outcome = run_experiment(find_experiment(name).unwrap(), &options, &|_, _| {}).unwrap();
        let rows = outcome.rows.iter();
        let median = |row: &neap_sim::Row| {
            let key = (row.metric.to_string(), row.config.to_string());
            (key, row.simulated)
        };
        Medians(rows.map(median).collect())
    }

    fn get(&self, metric: &str, config: &str) -> f64 {
        self.0[&(metric.to_owned(), config.to_owned())]
    }
}

/// Nothing in it is random: one seed says all.
fn mthp_store() -> &'static Medians {
    static ONCE: OnceLock<Medians> = OnceLock::new();
    ONCE.get_or_init(|| Medians::of("mthp-store", 1, 1.0 / 64.0, &[]))
}

const BOTH: &str = "second-chance+disk-swapins";

#[test]
fn a_second_chance_reads_less_from_disk_than_the_old_scheme() {
    // Few jobs press seldom: with the memory and the device that a build of four was given.
    let small = [
        "serial=0",
        "compressor=fixed",
        "memory=6",
        "swap_iops=12000",
    ];
    let sets = [&small[..], &["units=360", "user=520"]].concat();
    let found = Medians::of("second-chance", 4, 1.0 / 18.0, &sets);
    let swapins = |config| found.get("swapins", config);
    assert!(swapins("old") > swapins("second-chance"));
    assert!(swapins("old") > swapins(BOTH));
}

#[test]
fn large_folios_stored_whole_gain_against_splitting_and_the_charge_costs_against_zram() {
    let found = mthp_store();
    let throughput = |config: String| found.get("throughput", &config);
    for size in ["64K", "2M"] {
        for compressor in ["zstd", "iaa"] {
            let of = |which| throughput(format!("{size}/{which}/{compressor}"));
            assert!(
                of("after") >= of("case1-before"),
                "case 1: {size} {compressor}"
            );
            assert!(of("after-uncharged") > of("after"), "{size} {compressor}");
        }
    }
}

/// The identities of counters that the reported tables keep (SPEC 6).
#[test]
fn folios_stored_or_written_whole_are_pages_over_pages_of_a_folio() {
    let found = mthp_store();
    let sum = |pages, folios, config: &str, order: f64| {
        let (pages, folios) = (found.get(pages, config), found.get(folios, config));
        assert!(folios > 0.0, "{config}");
        assert!(
            (pages - folios * order).abs() < pages / 1000.0,
            "{config}: {pages} {folios}"
        );
    };
    for (size, order) in [("64K", 16.0), ("2M", 512.0)] {
        for compressor in ["zstd", "iaa"] {
            let after = format!("{size}/after/{compressor}");
            sum("zswpout", "zswpout_folios", &after, order);
            let before = format!("{size}/case2-before/{compressor}");
            sum("pswpout", "swpout_folios", &before, order);
        }
    }
}

/// zram compresses with zstd on the CPU that swaps, as zswap does; what is left between them is who pays for the pool.
#[test]
fn without_the_charge_zstd_in_zswap_is_as_fast_as_in_zram() {
    let found = mthp_store();
    for size in ["64K", "2M"] {
        let of = |which| found.get("throughput", &format!("{size}/{which}/zstd"));
        let (free, zram) = (of("after-uncharged"), of("case2-before"));
        assert!((free / zram - 1.0).abs() < 0.02, "{size}: {free} {zram}");
        assert!(of("after") < 0.98 * zram, "{size}: the charge costs");
    }
}

#[test]
fn the_proposed_rotation_refaults_less_and_takes_less_system_time() {
    // Few jobs press seldom, and need no memory of their own for it.
    let sets = ["units=500", "user=300", "memory=5"];
    let found = Medians::of("writeback-rotation", 2, 1.0 / 36.0, &sets);
    for metric in ["workingset_refault_anon", "sys_seconds"] {
        assert!(
            found.get(metric, "rfc004") < found.get(metric, "mainline"),
            "{metric}"
        );
    }
}
