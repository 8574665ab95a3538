//! Reports of results made by hand.

use serde_json::json;

use super::*;
use crate::drive::{Measured, RowIndex};
use crate::rows::ROWS;

/// A report of `neap bench` with medians of wall time.
fn bench(neap: f64, zswap: f64, zram: f64) -> Value {
    let entry = |contender: &str, limit: u64, wall: f64, memory: u64, pool: u64| {
        json!({
            "contender": contender, "limit_bytes": limit, "resident": "a", "pooled": "b", "runs": 1, "failed": 0,
            "measures": {
                "wall_seconds": {"median": wall}, "cpu_user_seconds": {"median": wall},
                "cpu_system_seconds": {"median": 0.0}, "cpu_neap_seconds": {"median": 0.0},
                "disk_written_bytes": {"median": 3 << 20}, "pages_out": {"median": 77},
                "peak_memory_bytes": {"median": memory}, "peak_pool_bytes": {"median": pool},
                "pool_held_bytes": {"median": 900 - memory + pool},
            },
        })
    };
    let own = json!({
        "turn": 1, "contender": "neap", "limit_bytes": 9,
        "neap": {"memory": {"peak_pool_bytes": 150, "pool_compressed_bytes": 120}},
    });
    json!({
        "machine": {"cpu": "a cpu", "cpus": 2, "ram_bytes": 1 << 30, "cgroup_version": 1, "swap_filesystem": "ext4"},
        "contenders": [
            entry("plain", 0, 1.0, 900, 0), entry("neap", 9, neap, 500, 100), entry("zswap", 8, zswap, 600, 200),
            entry("zram", 8, zram, 500, 125),
        ],
        "unavailable": [{"contender": "swap", "accounting": null, "reason": "no swap here"}],
        "output": {"equal": true, "differences": []},
        "warnings": [],
        "raw": [own],
    })
}

/// A directory with results of some rows.
fn results(rows: &[(&str, Value)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut index = Index {
        schema: "neap.suite/1".into(),
        date: "2030-01-02".into(),
        machine: "box".into(),
        kernel: "6.18".into(),
        commit: "abc".into(),
        runs: 3,
        scale: 100,
        percents: vec![50],
        rows: Vec::new(),
    };
    for (name, value) in rows {
        let row = ROWS.iter().find(|row| row.name == *name).unwrap();
        let mut found = RowIndex::new(row);
        let file = format!("{name}-50.json");
        fs::write(dir.path().join(&file), value.to_string()).unwrap();
        found.results.push(Measured {
            percent: 50,
            file,
            fault: None,
            seconds: 1.0,
            load_before: "0.5 0 0".into(),
            load_after: "1 0 0".into(),
        });
        index.rows.push(found);
    }
    let without = RowIndex::new(&ROWS[17]).without("java is not installed".to_owned());
    index.rows.push(without);
    index.write(dir.path()).unwrap();
    dir
}

#[test]
fn a_row_has_its_ratios_its_target_and_its_verdict() {
    let dir = results(&[
        ("seq-read", bench(2.0, 10.0, 8.0)),
        ("zipf", bench(4.0, 5.0, 8.0)),
        ("random", bench(6.0, 5.0, 8.0)),
    ]);
    let text = of(dir.path()).unwrap();
    for row in [
        "| seq-read | 1.00 s | 2.00 | 10.00 | 8.00 | - | 0.20 | 0.25 | 0.2 / 0.35 | met | 0.20 |",
        "| zipf | 1.00 s | 4.00 | 5.00 | 8.00 | - | 0.80 | 0.80 | 0.45 / 0.6 | win | 0.80 |",
        "| random | 1.00 s | 6.00 | 5.00 | 8.00 | - | 1.20 | 1.20 | 0.45 / 0.6 | LOSS | 1.20 |",
        "neap wins 2 of 3 rows against zswap and 2 of 3 against the best of the kernel's; geometric means 0.58 and 0.62.",
        "| seq-read | 5.00 | 2.50 | 4.20 | 2.00 | 20.0 % |",
        "| seq-read | 3 | 3 | - | 77 | 77 | - |",
        "* seq-read at 50 %, swap: no swap here",
        "* java: java is not installed",
        "a cpu, 2 cpus, 1024 MiB, Linux 6.18, cgroup v1, swap on ext4; commit abc; 3 counted runs",
    ] {
        assert!(text.contains(row), "{row}\nis not in\n{text}");
    }
}

#[test]
fn real_programs_have_one_target_together() {
    let dir = results(&[
        ("gcc", bench(4.0, 8.0, 8.0)),
        ("sort", bench(9.0, 8.0, 4.5)),
    ]);
    let text = of(dir.path()).unwrap();
    assert!(text.contains("| 0.50 | 0.50 | - | win |"), "{text}");
    let all = "Real programs: 0.75 and 1.00, the worst 2.00 (target 0.6 / 0.75, none above 1).";
    assert!(text.contains(all), "{text}");
}

#[test]
fn what_failed_has_no_figures_and_is_told() {
    let mut value = bench(2.0, 4.0, 4.0);
    value["contenders"][2]["measures"]["wall_seconds"] = Value::Null;
    value["contenders"][3]["failed"] = json!(1);
    value["output"] = json!({
        "equal": false, "differences": ["neap in turn 2: 3 bytes"], "failures": ["zswap in turn 1 ended by SIGKILL"],
    });
    let text = of(results(&[("fresh", value)]).path()).unwrap();
    let row = "| fresh | 1.00 s | 2.00 | - | 4.00 * | - | - | 0.50 | 0.5 / 0.6 | win | - |";
    assert!(text.contains(row), "{text}");
    for line in [
        "* fresh at 50 %: neap in turn 2: 3 bytes",
        "* fresh at 50 %: zswap in turn 1 ended by SIGKILL",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// Ended for the time it took in its first run.
fn give_up(bench: &mut Value, contender: usize, seconds: u64) {
    let entry = &mut bench["contenders"][contender];
    (entry["given_up_after_seconds"], entry["runs"]) = (json!(seconds), json!(0));
    for measure in entry["measures"].as_object_mut().unwrap().values_mut() {
        *measure = Value::Null;
    }
}

#[test]
fn who_did_not_end_in_time_is_a_bound_and_in_no_mean() {
    let (mut python, mut sort, mut java) = (
        bench(6.0, 0.0, 8.0),
        bench(6.0, 0.0, 0.0),
        bench(0.0, 3.0, 4.0),
    );
    give_up(&mut python, 2, 60);
    give_up(&mut sort, 2, 60);
    give_up(&mut sort, 3, 60);
    give_up(&mut java, 1, 60);
    let rows = [
        ("python", python),
        ("sort", sort),
        ("java", java),
        ("gcc", bench(4.0, 8.0, 8.0)),
    ];
    let text = of(results(&rows).path()).unwrap();
    for part in [
        "| python | 1.00 s | 6.00 | > 60.00 | 8.00 | - | < 0.10 | 0.75 | - | win | - |",
        "| sort | 1.00 s | 6.00 | > 60.00 | > 60.00 | - | < 0.10 | < 0.10 | - | win | - |",
        "| java | 1.00 s | > 60.00 | 3.00 | 4.00 | - | > 20.00 | > 20.00 | - | LOSS | - |",
        "neap wins 3 of 4 rows against zswap and 3 of 4 against the best of the kernel's; geometric means 0.50 and 0.61.",
        "Real programs: 0.50 and 0.61, the worst > 20.00",
        " Not in the means: 3 rows against zswap and 2 against the best, of which only a bound is known.",
        "`>` and `<` are bounds",
        "* python at 50 %, zswap: did not end within 60 s in its first run",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn a_run_that_took_too_long_is_the_longest_of_all() {
    let mut value = bench(2.0, 8.0, 8.0);
    let run = |turn: u64, late: Option<u64>| json!({"turn": turn, "contender": "zswap", "limit_bytes": 8, "ending": if late.is_some() { "ended by SIGKILL" } else { "exited 0" }, "wall_seconds": 6 + turn, "given_up_after_seconds": late});
    value["raw"] = json!([
        run(0, Some(9)),
        run(1, None),
        run(2, Some(9)),
        run(3, Some(9))
    ]);
    let wall = |value: &Value| {
        let side = result::Side::of(value, "zswap", Accounting::Resident).unwrap();
        (side.wall(), side.at_least())
    };
    assert_eq!(wall(&value), (None, Some(9.0)));
    value["raw"][3]["given_up_after_seconds"] = Value::Null;
    value["raw"][3]["ending"] = json!("exited 0");
    assert_eq!(
        wall(&value),
        (Some(9.0), None),
        "the middle of 7, 9 and a long one"
    );
    value["raw"][1]["turn"] = json!(0);
    assert_eq!(wall(&value), (None, Some(9.0)), "one of two");
}

#[test]
fn a_run_is_good_that_ended_as_plain_did() {
    let mut value = bench(2.0, 8.0, 8.0);
    let run = |who: &str, turn: u64, kills: u64, late: Option<u64>| {
        json!({"turn": turn, "contender": who, "limit_bytes": 8, "ending": "exited 3", "kills": kills,
            "wall_seconds": 6 + turn, "given_up_after_seconds": late})
    };
    let late = run("zswap", 3, 0, Some(9));
    value["raw"] = json!([
        run("plain", 0, 1, None),
        run("zswap", 1, 1, None),
        run("zswap", 2, 2, None),
        late
    ]);
    let wall = |value: &Value| {
        let side = result::Side::of(value, "zswap", Accounting::Resident).unwrap();
        side.wall()
    };
    // Of a good one and a late one nothing is in the middle; the one that lost a process more is none of them.
    assert_eq!(wall(&value), None);
    value["raw"][2]["kills"] = json!(1);
    assert_eq!(wall(&value), Some(8.0));
    value["raw"][0]["ending"] = json!("exited 0");
    assert_eq!(wall(&value), None);
}

#[test]
fn a_directory_without_results_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let fault = of(dir.path()).unwrap_err();
    assert!(fault.contains("suite.json"), "{fault}");
}

#[test]
fn middles_and_means() {
    assert_eq!(result::median(vec![3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(result::median(vec![4.0, 1.0]), Some(2.5));
    assert_eq!(result::median(vec![]), None);
    let mean = result::geometric_mean(&[0.5, 2.0]).unwrap();
    assert!((mean - 1.0).abs() < 1e-12);
}
