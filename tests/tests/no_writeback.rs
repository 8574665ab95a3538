//! memory.zswap.writeback: a job that writes nothing to its swap file, and one that is told so while it runs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::{
    Neap, Need, OrdinaryUser, Run, allowed, exclusive, neap_binary, paging, peak_of, program,
    require,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Longest that anything here is waited for.
const LONGEST: Duration = Duration::from_secs(60);

#[test]
fn what_compresses_leaves_within_the_limit_and_what_does_not_stays() {
    let test = "what_compresses_leaves_within_the_limit_and_what_does_not_stays";
    let Some(_alone) = paging(test) else {
        return;
    };
    let limit = || Neap::limit("48M").option("--swap-size").option("1G");
    let hog = program("hog");
    let hog = Run::new([hog.as_os_str(), "64".as_ref(), "1".as_ref()]);
    let (run, peak) = peak_of(limit().option("--no-writeback"), &hog);
    assert!(peak <= allowed(48 * MIB), "{peak}");
    assert_eq!(run.number("/vmstat/pswpout"), 0);
    assert_eq!(run.stats["config"]["writeback"], false);

    let noise = program("incompressible");
    let noise = Run::new([noise.as_os_str(), "64".as_ref()]);
    let run = limit().option("--no-writeback").run(&noise);
    run.must_exit(0);
    assert_eq!(run.number("/vmstat/pswpout"), 0);
    assert!(run.number("/zswap/reject_compress_poor") > 0);
    let most = run.number("/memory/peak_bytes");
    assert!(most > 60 * MIB, "all of it stays: {most}");
    assert!(limit().run(&noise).number("/vmstat/pswpout") > 1000);
}

/// A command of neap's on the jobs of `dir`. What it printed.
fn must(dir: &Path, words: &[&str]) -> String {
    let mut command = Command::new(neap_binary().expect("the binary of neap"));
    let output = command.args(words).env("XDG_RUNTIME_DIR", dir).output();
    let output = output.expect("neap runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn written(dir: &Path) -> u64 {
    let stat: Value = serde_json::from_str(&must(dir, &["stat", "--json"])).expect("an object");
    stat["vmstat"]["pswpout"].as_u64().expect("a counter")
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "waited in vain: {what}");
        sleep(Duration::from_millis(50));
    }
}

/// Runs a program that touches its memory all the time, with a pool for a part of it only. Switches write-back on and
/// off again meanwhile.
fn switched(neap: Neap, dir: &Path) {
    let (stop, ready) = (dir.join("stop"), dir.join("stop.ready"));
    let program = program("waits");
    let run = [
        program.as_os_str(),
        "48".as_ref(),
        stop.as_os_str(),
        "busy".as_ref(),
    ];
    let run = Run::new(run).limit(3 * LONGEST);
    let small = neap.option("--pool-max").option("1");
    let neap = small.option("--no-writeback").env("XDG_RUNTIME_DIR", dir);
    let run = neap.run_with(&run, |_| {
        wait_until("the program waits", || ready.exists());
        assert_eq!(written(dir), 0);
        must(dir, &["set", "waits", "zswap.writeback=1"]);
        wait_until("pages are written", || written(dir) > 1000);
        must(dir, &["set", "waits", "zswap.writeback=0"]);
        let mut before = written(dir);
        wait_until("what was begun is written", || {
            sleep(Duration::from_millis(200));
            std::mem::replace(&mut before, written(dir)) == before
        });
        let so_far = before;
        must(dir, &["set", "waits", "memory.max=16M"]); // it would write now
        assert_eq!(written(dir), so_far);
        fs::write(&stop, "").expect("a file");
    });
    run.must_exit(0);
    assert_eq!(run.text(), "whole\n");
    assert_eq!(run.stats["events"]["set"], 3);
}

#[test]
fn writeback_is_switched_while_a_job_runs() {
    let test = "writeback_is_switched_while_a_job_runs";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a folder");
    switched(Neap::limit("24M"), dir.path());
}

#[test]
fn an_ordinary_user_runs_a_job_that_writes_nothing() {
    let test = "an_ordinary_user_runs_a_job_that_writes_nothing";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let hog = user.copy(&program("hog"));
    let hog = Run::new([hog.as_os_str(), "64".as_ref(), "1".as_ref()]);
    let run = user.run("48M", &device, &[]).option("--no-writeback");
    let run = run.run(&hog);
    run.must_have_paged();
    assert_eq!(run.number("/vmstat/pswpout"), 0);
    let peak = run.number("/memory/peak_bytes");
    assert!(peak <= allowed(48 * MIB), "{peak}");
}
