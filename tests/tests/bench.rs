//! `neap bench` on the machine itself: what it measures, what it says of what it cannot, and that it leaves
//! nothing behind, however it ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::{
    LIMIT, MIB, Need, OrdinaryUser, Outcome, PATIENCE, Run, SWAPPING, allowed, bench, disk,
    exclusive, json, leavings, names, paging, program, require, skip,
};
use serde_json::Value;
use tempfile::TempDir;

/// Everything a bench may change, as it is now.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    settings: BTreeMap<PathBuf, String>,
    zrams: Vec<String>,
}

impl Machine {
    fn now() -> Self {
        let mut settings = BTreeMap::new();
        for dir in ["/sys/module/zswap/parameters", "/proc/sys/vm"] {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    settings.insert(entry.path(), text);
                }
            }
        }
        // The kernel counts in this one.
        settings.remove(Path::new("/proc/sys/vm/stat_refresh"));
        Machine {
            settings,
            zrams: names("/sys/block", "zram"),
        }
    }
}

fn hog(rounds: &str) -> Vec<OsString> {
    vec![program("hog").into(), MIB.into(), rounds.into()]
}

fn lines_of<'a>(outcome: &'a str, start: &str) -> Vec<&'a str> {
    outcome.lines().filter(|l| l.starts_with(start)).collect()
}

#[test]
fn every_contender_is_measured_or_named_and_nothing_is_left() {
    let name = "every_contender_is_measured_or_named_and_nothing_is_left";
    if !require(
        name,
        &[Need::Neap, Need::Userfaultfd, Need::Root, Need::Cgroup],
    ) {
        return;
    }
    let _alone = exclusive();
    let (dir, before) = (disk(), Machine::now());
    let outcome = bench(&dir, &["--runs", "1"], &hog("1")).go();
    outcome.must_exit(0);
    assert_eq!(Machine::now(), before);
    assert_eq!(leavings(dir.path()), Vec::<String>::new());
    let report = json(&dir);
    assert_eq!(report["schema"], "neap.bench/1");
    assert_eq!(report["output"]["equal"], true, "{report}");
    let absent = report["unavailable"].as_array().expect("a list");
    for contender in ["plain", "neap", "zswap", "swap", "zram"] {
        let named = absent.iter().any(|a| a["contender"] == contender);
        let runs = report["raw"].as_array().expect("runs");
        let measured = runs.iter().any(|r| r["contender"] == contender);
        assert!(named || measured, "{contender} is passed over: {report}");
        if named {
            skip(name, &format!("{contender} is not to be had here"));
        }
    }
    assert_real(&report);
    let text = outcome.text();
    for part in [
        "(a) equal resident memory",
        "(b) equal resident memory and pool",
        "wall time",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// Whoever has a limit moved pages, and took no more memory than it may.
fn assert_real(report: &Value) {
    for run in report["raw"].as_array().expect("runs") {
        let number = |name: &str| run[name].as_u64().unwrap_or(0);
        assert!(number("samples") > 0, "{run}");
        assert_eq!(run["ending"], "exited 0", "{run}");
        let Some(limit) = run["limit_bytes"].as_u64() else {
            assert!(number("peak_memory_bytes") > 40 << 20, "{run}");
            continue;
        };
        assert!(
            number("pages_out") > 1000 && number("pages_in") > 1000,
            "{run}"
        );
        assert!(number("major_faults") > 0, "{run}");
        assert!(number("peak_resident_bytes") <= allowed(limit), "{run}");
        if run["contender"] == "swap" {
            let written = number("disk_written_bytes");
            assert!(written >= number("pages_out") * 4096, "{run}");
        } else {
            assert!(number("peak_pool_bytes") > 0, "{run}");
        }
    }
    let neap = report["contenders"].as_array().expect("a list").iter();
    let labels: Vec<&str> = neap
        .filter(|c| c["contender"] == "neap")
        .filter_map(|c| c["resident"].as_str())
        .collect();
    assert_eq!(labels.len(), 1, "{report}");
    assert!(labels[0].contains("its pool beside it"), "{labels:?}");
}

/// Waits until the kernel swaps to a file of the bench.
fn wait_for_swap() {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        if swaps.contains("neap-bench") {
            // Into the run itself.
            return sleep(Duration::from_millis(100));
        }
        sleep(Duration::from_millis(5));
    }
}

fn signal(pid: u32, number: i32) {
    let number = format!("-{number}");
    let sent = std::process::Command::new("kill")
        .args([number, pid.to_string()])
        .status();
    assert!(sent.expect("kill").success());
}

fn interrupted(dir: &TempDir, number: i32) -> Outcome {
    let run = bench(dir, &["--runs", "3", "--against", "zswap"], &hog("60"));
    run.may_leave_processes().go_with(|pid| {
        wait_for_swap();
        signal(pid, number);
    })
}

#[test]
fn a_bench_that_is_interrupted_leaves_nothing() {
    let name = "a_bench_that_is_interrupted_leaves_nothing";
    if !require(name, &[Need::Neap, Need::Root, Need::Cgroup]) {
        return;
    }
    let _alone = exclusive();
    for number in [2, 15, 10, 14] {
        let (dir, before) = (disk(), Machine::now());
        let outcome = interrupted(&dir, number);
        outcome.must_exit(128 + number);
        assert!(
            outcome.stderr.contains("everything is as it was"),
            "{}",
            outcome.stderr
        );
        assert_eq!(Machine::now(), before);
        assert_eq!(leavings(dir.path()), Vec::<String>::new());
    }
}

#[test]
fn what_a_killed_bench_leaves_the_next_one_removes() {
    let name = "what_a_killed_bench_leaves_the_next_one_removes";
    if !require(name, &[Need::Neap, Need::Root, Need::Cgroup]) {
        return;
    }
    let _alone = exclusive();
    let (dir, before) = (disk(), Machine::now());
    let killed = interrupted(&dir, 9);
    killed.must_exit(128 + 9);
    assert!(
        leavings(dir.path()).len() >= 3,
        "{:?}",
        leavings(dir.path())
    );
    let next = bench(
        &dir,
        &["--runs", "1", "--against", "neap"],
        &["true".into()],
    )
    .go();
    assert!(
        next.stderr.contains("an earlier bench had left"),
        "{}",
        next.stderr
    );
    assert_eq!(Machine::now(), before);
    assert_eq!(leavings(dir.path()), Vec::<String>::new());
}

/// A command that takes `seconds` with a child of its own where `when` says so, and none at all elsewhere.
fn sleeper(when: &str, seconds: u32) -> [OsString; 3] {
    let script =
        format!("if {when}; then sleep {seconds} & sleep {seconds}; fi; echo what it found");
    ["sh", "-c", &script].map(OsString::from)
}

fn runs_of<'a>(report: &'a Value, contender: &str) -> Vec<&'a Value> {
    let runs = report["raw"].as_array().expect("runs").iter();
    runs.filter(|run| run["contender"] == contender).collect()
}

#[test]
fn a_contender_that_takes_too_long_is_given_up_and_the_others_are_compared() {
    let name = "a_contender_that_takes_too_long_is_given_up_and_the_others_are_compared";
    if !require(
        name,
        &[Need::Neap, Need::Userfaultfd, Need::Root, Need::Cgroup],
    ) {
        return;
    }
    let _alone = exclusive();
    let (dir, before) = (disk(), Machine::now());
    let options = ["--runs", "2", "--against", "neap,swap", "--patience", "4"];
    let outcome = bench(&dir, &options, &sleeper(SWAPPING, 500)).go();
    outcome.must_exit(0);
    assert_eq!(Machine::now(), before);
    assert_eq!(leavings(dir.path()), Vec::<String>::new());
    let report = json(&dir);
    assert_eq!(report["patience_seconds"], 4);
    let swap = runs_of(&report, "swap");
    assert_eq!(swap.len(), 1, "not again: {report}");
    assert_eq!(swap[0]["given_up_after_seconds"], 4);
    assert!(swap[0]["wall_seconds"].as_f64() >= Some(4.0), "{report}");
    assert_eq!(runs_of(&report, "neap").len(), 3, "{report}");
    let contenders = report["contenders"].as_array().expect("a list").iter();
    for contender in contenders {
        let given_up = contender["given_up_after_seconds"] == 4;
        assert_eq!(given_up, contender["contender"] == "swap", "{contender}");
        let wall = &contender["measures"]["wall_seconds"];
        assert_eq!(given_up, wall.is_null(), "{contender}");
    }
    let text = outcome.text();
    for part in ["its first run did not end within 4 s", "> 4.000 s"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_counted_run_that_takes_too_long_has_failed() {
    let name = "a_counted_run_that_takes_too_long_has_failed";
    if !require(name, &[Need::Neap, Need::Root, Need::Cgroup]) {
        return;
    }
    let _alone = exclusive();
    let (dir, before) = (disk(), Machine::now());
    let count = dir.path().join("count");
    let second = format!(
        "{SWAPPING} && echo >> {0} && [ $(wc -l < {0}) = 2 ]",
        count.display()
    );
    let options = ["--runs", "3", "--against", "swap", "--patience", "4"];
    let outcome = bench(&dir, &options, &sleeper(&second, 500)).go();
    outcome.must_exit(1);
    assert_eq!(Machine::now(), before);
    assert_eq!(leavings(dir.path()), Vec::<String>::new());
    let report = json(&dir);
    assert_eq!(runs_of(&report, "swap").len(), 2, "not again: {report}");
    assert_eq!(runs_of(&report, "plain").len(), 4, "{report}");
    let swap = &report["contenders"][1];
    assert_eq!((&swap["runs"], &swap["failed"]), (&1.into(), &1.into()));
    let text = outcome.text();
    for part in [
        "1 of 1 failed: did not end within 4 s",
        "FAILED: swap in turn 1 did not end within 4 s, plain exited 0",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn neap_tells_of_its_pool_also_when_its_run_takes_too_long() {
    let name = "neap_tells_of_its_pool_also_when_its_run_takes_too_long";
    let Some(_alone) = paging(name) else {
        return;
    };
    let dir = disk();
    let hog = program("hog").to_string_lossy().into_owned();
    let script = format!("{hog} {MIB} ${{NEAP_SOCKET:+1000000}}");
    let command = ["sh", "-c", &script].map(OsString::from);
    let options = ["--runs", "1", "--against", "neap", "--patience", "4"];
    bench(&dir, &options, &command).go().must_exit(1);
    let report = json(&dir);
    let first = runs_of(&report, "neap")[0];
    assert_eq!(first["given_up_after_seconds"], 4, "{report}");
    assert!(first["peak_pool_bytes"].as_u64() > Some(0), "{first}");
    let contenders = report["contenders"].as_array().expect("a list").iter();
    let of = |accounting: &str| {
        contenders
            .clone()
            .find(|c| c["contender"] == "neap" && !c[accounting].is_null())
            .unwrap_or_else(|| panic!("no neap by {accounting}: {report}"))
    };
    assert_eq!(of("pooled")["runs"], 0, "not again: {report}");
    assert_eq!(of("resident")["runs"], 1, "with another limit: {report}");
}

#[test]
fn a_command_that_takes_too_long_plainly_is_compared_with_nothing() {
    let name = "a_command_that_takes_too_long_plainly_is_compared_with_nothing";
    if !require(name, &[Need::Neap]) {
        return;
    }
    let _alone = exclusive();
    let dir = disk();
    let outcome = bench(&dir, &["--patience", "1"], &sleeper("true", 500)).go();
    outcome.must_exit(1);
    assert_eq!(leavings(dir.path()), Vec::<String>::new());
    assert_eq!(json(&dir)["raw"].as_array().map(Vec::len), Some(1));
    let text = outcome.text();
    assert!(
        text.contains("fails even plainly: did not end within 1 s"),
        "{text}"
    );
    assert!(text.contains("output: not compared"), "{text}");
}

#[test]
fn an_ordinary_user_compares_plain_and_neap_and_hears_what_root_would_add() {
    let name = "an_ordinary_user_compares_plain_and_neap_and_hears_what_root_would_add";
    let Some((user, device)) = OrdinaryUser::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let mut words = user.words();
    words.extend([
        user.neap().into(),
        "bench".into(),
        "-m".into(),
        LIMIT.into(),
    ]);
    let theirs = user.dir().join("bench.json");
    fs::write(&theirs, "earlier").expect("a file");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o666)).expect("its mode");
    words.extend(["--runs", "1", "--json"].map(OsString::from));
    words.extend([theirs.clone().into(), "--".into()]);
    words.extend([user.copy(&program("hog")).into(), MIB.into()]);
    let outcome = Run::new(words)
        .env("NEAP_UFFD_DEVICE", device)
        .dir(user.dir())
        .limit(PATIENCE)
        .go();
    outcome.must_exit(0);
    let text = outcome.text();
    let missing = lines_of(&text, "not measured: ");
    assert_eq!(missing.len(), 3, "{text}");
    for line in missing {
        assert!(
            line.contains("only root") && line.ends_with("try: run neap bench as root"),
            "{line}"
        );
    }
    assert!(text.contains("the same in all 5 runs"), "{text}");
    // Written where it is: it stays its owner's.
    assert_eq!(fs::metadata(&theirs).expect("facts").uid(), 0);
    let report = fs::read_to_string(&theirs).expect("a report");
    assert!(report.ends_with("}\n"), "{report}");
}

#[test]
fn what_cannot_start_has_the_houses_statuses() {
    if !require("what_cannot_start_has_the_houses_statuses", &[Need::Neap]) {
        return;
    }
    let dir = disk();
    bench(&dir, &[], &["no-such-command".into()])
        .go()
        .must_exit(127);
    bench(&dir, &[], &[dir.path().into()]).go().must_exit(126);
    bench(&dir, &["--runs", "none"], &["true".into()])
        .go()
        .must_exit(2);
    bench(&dir, &["--against", "other"], &["true".into()])
        .go()
        .must_exit(2);
    let nowhere = bench(&dir, &["--json", "/no/such/dir/x"], &["true".into()]).go();
    // Given twice, which is a wrong flag.
    nowhere.must_exit(2);
}
