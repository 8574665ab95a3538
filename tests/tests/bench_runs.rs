//! What `neap bench` makes of single runs: their input, their output, what they leave, and how they fail.

use std::ffi::OsString;
use std::fs;

use neap_tests::{
    LIMIT_BYTES, MIB, Need, PATIENCE, Run, SWAPPING, allowed, bench, disk, exclusive, json,
    leavings, names, paging, program, require,
};
use serde_json::Value;

/// Options of most benches here.
const ONCE: [&str; 4] = ["--runs", "1", "--against", "neap"];

fn shell(script: &str) -> [OsString; 3] {
    ["sh", "-c", script].map(OsString::from)
}

#[test]
fn a_run_of_which_the_kernel_killed_a_process_has_failed_whatever_its_status() {
    let name = "a_run_of_which_the_kernel_killed_a_process_has_failed_whatever_its_status";
    if !require(name, &[Need::Neap, Need::Root, Need::Cgroup]) {
        return;
    }
    let _alone = exclusive();
    let (dir, count) = (disk(), disk());
    // The first run under swap is spared, so that there are counted ones.
    let script = format!(
        "{SWAPPING} && echo >> {0} && [ $(wc -l < {0}) -gt 1 ] && {1} {MIB}; echo ok",
        count.path().join("count").display(),
        program("locked").display()
    );
    let once = ["--runs", "1", "--against", "swap"];
    let outcome = bench(&dir, &once, &shell(&script)).go();
    outcome.must_exit(1);
    assert_eq!(leavings(dir.path()), Vec::<String>::new());
    let report = json(&dir);
    let swap = &report["contenders"][1];
    assert_eq!((&swap["runs"], &swap["failed"]), (&1.into(), &1.into()));
    assert!(swap["measures"]["wall_seconds"].is_null(), "{swap}");
    let text = outcome.text();
    for part in [
        "1 of 1 failed: exited 0, 1 killed for want of memory",
        "FAILED: swap in turn 1 exited 0, plain exited 0; the kernel killed 1",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn every_run_reads_the_same_file_from_the_same_place() {
    let name = "every_run_reads_the_same_file_from_the_same_place";
    let Some(_alone) = paging(name) else {
        return;
    };
    let dir = disk();
    let twice = ["--runs", "2", "--against", "neap"];
    let run = bench(&dir, &twice, &["cat".into()]);
    run.stdin(*b"some text").go().must_exit(0);
    let report = json(&dir);
    assert_eq!(report["output"]["equal"], true);
    assert_eq!(report["raw"][5]["stdout_bytes"], 9, "{report}");
}

#[test]
fn every_run_reads_all_of_a_pipe() {
    let name = "every_run_reads_all_of_a_pipe";
    let Some(_alone) = paging(name) else {
        return;
    };
    let dir = disk();
    let run = bench(&dir, &ONCE, &["cat".into()]);
    let words = run.argv().to_vec();
    let piped = shell("echo some text | \"$@\"").into_iter();
    Run::new(piped.chain(["sh".into()]).chain(words))
        .limit(PATIENCE)
        .go()
        .must_exit(0);
    let report = json(&dir);
    for run in report["raw"].as_array().expect("runs") {
        assert_eq!(run["stdout_bytes"], 10, "{report}");
    }
}

#[test]
fn what_a_command_left_running_is_named_when_neap_waits_for_it() {
    let name = "what_a_command_left_running_is_named_when_neap_waits_for_it";
    let Some(_alone) = paging(name) else {
        return;
    };
    let dir = disk();
    let options = ["--runs", "1", "--against", "neap", "--patience", "2"];
    let command = shell("setsid sleep 777 & echo hi");
    let text = bench(&dir, &options, &command).go().text();
    assert!(text.contains("left processes behind"), "{text}");
    assert!(!text.contains("longer --patience"), "{text}");
}

#[test]
fn a_bench_that_fails_leaves_the_earlier_report() {
    let name = "a_bench_that_fails_leaves_the_earlier_report";
    if !require(name, &[Need::Neap]) {
        return;
    }
    let _alone = exclusive();
    let dir = disk();
    let file = dir.path().join("bench.json");
    fs::write(&file, "earlier").expect("a file");
    let mut words = bench(&dir, &ONCE, &["true".into()]).argv().to_vec();
    let full = shell("exec \"$@\" > /dev/full").into_iter();
    let full = full.chain(["sh".into()]).chain(words.clone());
    Run::new(full).go().must_exit(125);
    assert_eq!(json(&dir)["schema"], "neap.bench/1");
    fs::write(&file, "earlier").expect("a file");
    *words.last_mut().expect("a command") = "no-such-command".into();
    Run::new(words).go().must_exit(127);
    assert_eq!(fs::read_to_string(&file).expect("a file"), "earlier");
    assert_eq!(names(&dir.path().to_string_lossy(), "").len(), 1);
}

#[test]
fn a_report_that_can_go_nowhere_is_told_of_every_place() {
    let name = "a_report_that_can_go_nowhere_is_told_of_every_place";
    if !require(name, &[Need::Neap]) {
        return;
    }
    let _alone = exclusive();
    let dir = disk();
    let own = dir.path().join("bench.json");
    let words = bench(&dir, &ONCE, &["true".into()]).argv().to_vec();
    let words = words.into_iter().map(|word| match word == own {
        true => "/dev/full".into(),
        false => word,
    });
    let full = shell("exec \"$@\" > /dev/full").into_iter();
    let outcome = Run::new(full.chain(["sh".into()]).chain(words)).go();
    outcome.must_exit(125);
    for part in ["--json /dev/full: ", "standard output: "] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

#[test]
fn outputs_that_differ_are_named() {
    let name = "outputs_that_differ_are_named";
    let Some(_alone) = paging(name) else {
        return;
    };
    let dir = disk();
    let command = shell("echo ${NEAP_SOCKET:+under neap}");
    let outcome = bench(&dir, &ONCE, &command).go();
    outcome.must_exit(1);
    let text = outcome.text();
    assert!(
        text.contains("output: DIFFERS\n  neap in its first run: 11 bytes"),
        "{text}"
    );
    assert_eq!(json(&dir)["output"]["equal"], false);
}

/// The pool is beside the limit in the one table and within it in the other.
#[test]
fn neap_has_its_limit_for_resident_memory_where_the_pool_is_nobodys() {
    let name = "neap_has_its_limit_for_resident_memory_where_the_pool_is_nobodys";
    let Some(_alone) = paging(name) else {
        return;
    };
    let dir = disk();
    // A quarter is noise, so that the pool is larger than what limits may be exceeded by.
    let hog = [program("hog").into(), MIB.into(), "3".into(), "2".into()];
    let outcome = bench(&dir, &ONCE, &hog).go();
    outcome.must_exit(0);
    let report = json(&dir);
    let runs = report["raw"].as_array().expect("runs");
    let run = |beside: bool| {
        let wanted = |run: &&Value| {
            run["contender"] == "neap" && run["turn"] == 1 && run["pool_beside"] == beside
        };
        let run = runs.iter().find(wanted).expect("one of each");
        assert!(run["peak_pool_bytes"].as_u64() > Some(1 << 20), "{run}");
        assert_eq!(run["limit_bytes"], LIMIT_BYTES);
        assert_eq!(run["neap"]["config"]["pool_beside"], beside, "{run}");
        let peak = |name: &str| run[name].as_u64().expect("bytes");
        (peak("peak_resident_bytes"), peak("peak_memory_bytes"))
    };
    let ((beside, with_pool), (_, together)) = (run(true), run(false));
    let allowed = allowed(LIMIT_BYTES);
    assert!(beside <= allowed && together <= allowed, "{report}");
    // Not so if the limit held the pool after all.
    assert!(with_pool > allowed, "{report}");
}
