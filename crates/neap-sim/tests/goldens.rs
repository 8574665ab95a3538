//! Scaled-down experiments against checked-in results: a change of any number is a change of behaviour
//! and wants a reason. `NEAP_BLESS=1 cargo test -p neap-sim --test goldens` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};

use neap_sim::{Options, find_experiment, run_experiment};

fn options(seeds: u64, scale: f64, sets: &[&str], threads: usize) -> Options {
    Options {
        seeds,
        seed: 1,
        scale: Some(scale),
        sets: sets.iter().map(|&set| set.to_owned()).collect(),
        threads,
        kept: None,
    }
}

fn path(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    dir.join(format!("{name}.txt"))
}

/// Every row on a line of its own, so that a change shows what changed.
fn rows(name: &str, options: &Options) -> String {
    let experiment = find_experiment(name).unwrap();
    let outcome = run_experiment(experiment, options, &|_, _| {}).unwrap();
    let line = |row: &neap_sim::Row| {
        let (metric, config) = (&row.metric, &row.config);
        format!(
            "{metric} {config} {} {} {}\n",
            row.simulated, row.low, row.high
        )
    };
    outcome.rows.iter().map(line).collect()
}

fn golden(name: &str, experiment: &str, scale: f64, sets: &[&str]) -> String {
    let got = rows(experiment, &options(2, scale, sets, 2));
    if std::env::var_os("NEAP_BLESS").is_some() {
        fs::write(path(name), &got).unwrap();
        return got;
    }
    let wanted = fs::read_to_string(path(name)).unwrap_or_default();
    let pairs = got.lines().zip(wanted.lines());
    let first = pairs.into_iter().find(|(got, wanted)| got != wanted);
    assert!(
        got == wanted,
        "{name} gives other numbers than its golden; first: {first:?}"
    );
    got
}

#[test]
fn memcg_lru_6_12_gives_its_golden_numbers() {
    golden(
        "memcg-lru-6.12",
        "memcg-lru-6.12",
        0.25,
        &["writes=8", "warm_up=4"],
    );
}

#[test]
fn memcg_lru_gives_its_golden_numbers() {
    let sets = ["writes=20", "warm_up=10", "cgroups=32"];
    golden("memcg-lru", "memcg-lru", 1.0 / 512.0, &sets);
}

/// Pages drawn anew at each touch.
#[test]
fn memcg_lru_in_independent_order_gives_its_golden_numbers() {
    let sets = ["writes=20", "warm_up=10", "cgroups=32", "order=independent"];
    golden("memcg-lru-independent", "memcg-lru", 1.0 / 512.0, &sets);
}

/// With what the experiment runs by default: a serial part at the end, and a compiler's own pages.
#[test]
fn second_chance_with_a_serial_part_and_real_pages_gives_its_golden_numbers() {
    let sets = ["units=180", "user=260", "serial=20", "memory=7"];
    golden("second-chance-serial", "second-chance", 1.0 / 18.0, &sets);
}

/// A CPU's own compressor behind swap, an SSD, and each way a folio takes.
#[test]
fn mthp_store_gives_its_golden_numbers() {
    golden(
        "mthp-store",
        "mthp-store",
        1.0 / 256.0,
        &["processes=20", "high=11000"],
    );
    golden(
        "mthp-store-v10",
        "mthp-store-v10",
        1.0 / 500.0,
        &["processes=8", "high=40960"],
    );
}

/// What is random, dirty or not to be used again.
#[test]
fn hints_give_their_golden_numbers() {
    golden("recency", "recency", 1.0 / 1024.0, &["seconds=1"]);
    golden("noreuse", "noreuse", 1.0 / 512.0, &["frames=100"]);
}

#[test]
fn second_chance_gives_its_golden_numbers() {
    let machine = [
        "serial=0",
        "compressor=fixed",
        "memory=7",
        "swap_iops=12000",
    ];
    let sets = [&machine[..], &["units=180", "user=260"]].concat();
    let got = golden("second-chance", "second-chance", 1.0 / 18.0, &sets);
    // Numbers that are the same by either rule of counting would not show that a rule is broken.
    let of = |config: &str| {
        let start = format!("swapins {config} ");
        got.lines().find_map(|line| line.strip_prefix(&start))
    };
    for scheme in ["old", "second-chance"] {
        assert_ne!(of(scheme), of(&format!("{scheme}+disk-swapins")));
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let sets = ["writes=4", "warm_up=2"];
    let one = rows("memcg-lru-6.12", &options(5, 0.1, &sets, 1));
    let three = rows("memcg-lru-6.12", &options(5, 0.1, &sets, 3));
    assert_eq!(one, three);
    assert!(!one.is_empty());
}
