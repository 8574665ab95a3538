//! The suite of benchmarks, small: a row is measured through `neap bench`, kept and reported.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neap_tests::{Need, Run, exclusive, neap_binary, require, skip};
use serde_json::Value;

/// The program, which is built beside neap.
fn suite(name: &str) -> Option<PathBuf> {
    let path = neap_binary().ok()?.with_file_name("neap-suite");
    if !path.exists() {
        skip(
            name,
            "neap-suite is not built: cargo build --release -p neap-suite",
        );
        return None;
    }
    Some(path)
}

fn words(program: &Path, words: &[&str]) -> Vec<OsString> {
    let mut all = vec![program.into()];
    all.extend(words.iter().map(OsString::from));
    all
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

#[test]
fn a_row_is_measured_kept_and_reported() {
    let name = "a_row_is_measured_kept_and_reported";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let Some(suite) = suite(name) else { return };
    let _alone = exclusive();
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let (out, own) = (
        dir.path().join("runs"),
        dir.path().to_string_lossy().into_owned(),
    );
    let shape = [
        "run",
        "--scale",
        "10",
        "--runs",
        "1",
        "--at",
        "50",
        "--against",
        "neap",
    ];
    let place = [
        "--rows",
        "seq-read dead",
        "--dir",
        &own,
        "--out",
        &out.to_string_lossy(),
    ];
    let outcome = Run::new(words(&suite, &[&shape[..], &place].concat()))
        .limit(Duration::from_secs(300))
        .go();
    outcome.must_exit(0);
    let made = fs::read_dir(&out).expect("a directory of results").next();
    let made = made.expect("one run").expect("an entry").path();
    let index = json(&made.join("suite.json"));
    // Of 25 MiB, which a look between two others may have missed a part of.
    assert!(
        index["rows"][0]["plain_peak_bytes"].as_u64() > Some(12 << 20),
        "{index}"
    );
    for row in ["seq-read", "dead"] {
        let bench = json(&made.join(format!("{row}-50.json")));
        assert_eq!(bench["output"]["equal"], true, "{bench}");
        let report = fs::read_to_string(made.join("README.md")).expect("a report");
        assert!(report.contains(&format!("| {row} |")), "{report}");
        assert!(outcome.text().contains(&report), "{}", outcome.text());
    }
}

#[test]
fn what_the_suite_does_not_know_it_names_with_what_it_knows() {
    let name = "what_the_suite_does_not_know_it_names_with_what_it_knows";
    if !require(name, &[Need::Neap]) {
        return;
    }
    let Some(suite) = suite(name) else { return };
    let outcome = Run::new(words(&suite, &["run", "--rows", "zip"])).go();
    outcome.must_exit(1);
    assert!(
        outcome.stderr.contains("no row is called \"zip\""),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("hot-cold"), "{}", outcome.stderr);
}
