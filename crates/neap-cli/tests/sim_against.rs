//! `neap sim experiment --against`: what the lab measured stands beside what is simulated.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn neap(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.arg("sim").args(line.split_whitespace());
    command.current_dir(dir).output().unwrap()
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

fn row(metric: &str, unit: &str, measured: f64) -> Value {
    json!({
        "metric": metric, "config": "memcg-lru", "unit": unit, "measured": measured, "low": measured, "high": measured,
    })
}

/// As tools/lab writes it.
fn lab() -> Value {
    let parameters = json!({
        "kernel": {"value": "6.12"}, "cgroups": {"value": 4}, "writes": {"value": 2}, "warm_up": {"value": 1},
    });
    json!([{
        "schema": "neap.lab/1", "name": "lab-fairness", "kernel": "6.12.117+deb13-amd64", "seeds": 1,
        "parameters": parameters,
        "rows": [
            row("pgsteal_sum_over_requested", "ratio", 1.0),
            row("workingset_refault_anon", "pages", 1e9),
            row("system_per_stolen", "us", 25.0),
        ],
    }])
}

#[test]
fn measured_and_simulated_stand_side_by_side_with_their_ratio() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("lab.json"), lab().to_string()).unwrap();
    let line = "experiment lab-fairness --against lab.json --seeds 1 --json both.json";
    let output = neap(dir, line);
    assert!(output.status.success(), "{}", said(&output));
    let told = said(&output);
    for words in [
        "on Linux 6.12.117+deb13-amd64",
        "cgroups=4",
        "1 of 2 counts are within 20 %",
    ] {
        assert!(told.contains(words), "{told}");
    }
    let end_of = |metric: &str| {
        let line = told.lines().find(|line| line.starts_with(metric));
        line.unwrap().trim_end().to_owned()
    };
    assert!(end_of("pgsteal_sum_over_requested").ends_with(" yes"));
    assert!(end_of("workingset_refault_anon").ends_with(" no"));
    assert!(end_of("system_per_stolen").ends_with(" not compared"));
    let both: Value =
        serde_json::from_str(&fs::read_to_string(dir.join("both.json")).unwrap()).unwrap();
    let rows = both[0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    let simulated = rows[0]["simulated"][0].as_f64().unwrap();
    assert_eq!(rows[0]["ratio"].as_f64(), Some(simulated), "1 was measured");
    assert_eq!(both[0]["simulated"]["parameters"]["writes"]["value"], 2.0);
    // What the user sets counts, as the file's own values do.
    let set = line.replace("--seeds 1", "--seeds 1 --set writes=3");
    assert!(said(&neap(dir, &set)).contains("1 of 2 counts"));
}

#[test]
fn another_file_is_refused_with_the_way_to_make_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("lab.json"), lab().to_string()).unwrap();
    fs::write(dir.join("other.json"), "{}").unwrap();
    let other = neap(dir, "experiment all --against other.json");
    let told = said(&other);
    assert!(
        told.contains("E0210") && told.contains("make lab"),
        "{told}"
    );
    let told = said(&neap(dir, "experiment lab-hints --against lab.json"));
    assert!(
        told.contains("has nothing of lab-hints, but of lab-fairness"),
        "{told}"
    );
    let output = neap(dir, "experiment all --against lab.json --sweep slow");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
