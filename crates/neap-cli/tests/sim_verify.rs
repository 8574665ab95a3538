//! `neap sim experiment --verify`: stored results are run again, and what differs is told.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn neap(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.arg("sim").args(line.split_whitespace());
    command.current_dir(dir).output().unwrap()
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

const FAST: &str =
    "experiment memcg-lru-6.12 --seeds 2 --scale 0.05 --set writes=2 --set warm_up=1";

#[test]
fn stored_results_are_verified_and_a_changed_number_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(
        neap(dir, &format!("{FAST} --json stored.json"))
            .status
            .success()
    );
    for name in ["memcg-lru-6.12", "all"] {
        let output = neap(dir, &format!("experiment {name} --verify stored.json"));
        assert!(output.status.success(), "{}", said(&output));
        let told = said(&output);
        assert!(
            told.starts_with("memcg-lru-6.12: 21 of 21 rows as stored by neap "),
            "{told}"
        );
    }
    let text = fs::read_to_string(dir.join("stored.json")).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["rows"][4]["simulated"] = 12345.5.into();
    let metric = value["rows"][4]["metric"].as_str().unwrap().to_owned();
    fs::write(dir.join("other.json"), value.to_string()).unwrap();
    let output = neap(dir, "experiment all --verify other.json");
    assert_eq!(output.status.code(), Some(1));
    let told = said(&output);
    assert!(
        told.contains("E0211") && told.contains("1 of 21 rows differ"),
        "{told}"
    );
    let row = |line: &&str| line.starts_with(&metric) && line.contains("12,346");
    assert_eq!(told.lines().filter(row).count(), 1, "{told}");
    // A sweep stores several.
    let sweep = FAST.replace("--set warm_up=1", "--sweep slow");
    assert!(
        neap(dir, &format!("{sweep} --json sweep.json"))
            .status
            .success()
    );
    let output = neap(dir, "experiment memcg-lru-6.12 --verify sweep.json");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 3);
}

#[test]
fn what_cannot_be_verified_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("no.json"), "{\"schema\": \"neap.fit/1\"}").unwrap();
    fs::write(dir.join("text"), "no JSON").unwrap();
    assert!(
        neap(dir, &format!("{FAST} --json stored.json"))
            .status
            .success()
    );
    for (line, code) in [
        ("experiment recency --verify missing.json", "E0202"),
        ("experiment recency --verify no.json", "E0210"),
        ("experiment recency --verify text", "E0210"),
        ("experiment recency --verify stored.json", "E0207"),
        (
            "experiment memcg-lru-6.12 --verify stored.json --seeds 3",
            "cannot be used with",
        ),
    ] {
        let output = neap(dir, line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(said(&output).contains(code), "{line}: {}", said(&output));
    }
}
