//! Services in trouble: many jobs at once, ends that come at the wrong moment, and groups that could get into each other's way.

use std::process::{Command, Stdio};

use neap_tests::service::{Place, Running, path, places, wait_until};
use neap_tests::{Need, pages, paging, program, require, skip, spawn_unmarked, static_program};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SIGHUP: u32 = 1;
const SIGINT: u32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

fn signal(pid: u64, signal: i32) {
    neap_sys::signal(i32::try_from(pid).expect("a number"), signal).expect("it lives");
}

#[test]
fn many_jobs_join_at_once() {
    let test = "many_jobs_join_at_once";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let _service = place.serve(&["-m", "256M"]);
        let engine = place.number("all", "/pid");
        // While it stands still all of them come to its door.
        signal(engine, SIGSTOP);
        let jobs: Vec<_> = (0..40)
            .map(|_| place.start(&["run", "--in", "all", "--", "echo", "here"]))
            .collect();
        wait_until("all call", || {
            let sockets = std::fs::read_to_string("/proc/net/unix").expect("a list");
            let socket = place.file("neap/all.sock");
            sockets
                .lines()
                .filter(|line| line.ends_with(path(&socket)))
                .count()
                > jobs.len()
        });
        signal(engine, SIGCONT);
        for job in jobs {
            let (status, out, err) = job.wait();
            assert!(status.success() && out == "here\n", "{status} {out} {err}");
        }
    }
}

/// Memory that is locked at once cannot leave, and its program ends before reclaim is sure of that.
#[test]
fn a_job_that_its_own_limit_cannot_hold_says_so_as_a_plain_run_does() {
    let test = "a_job_that_its_own_limit_cannot_hold_says_so_as_a_plain_run_does";
    let Some(_alone) = paging(test) else { return };
    if !require(test, &[Need::Root]) {
        return;
    }
    let place = Place::own();
    let service = place.serve(&["-m", "512M"]);
    let follower = place.start(&["events", "--json", "all"]);
    let locked = program("locked");
    let words = ["run", "--in", "all", "--name", "greedy", "-m", "48M", "--"];
    for _ in 0..2 {
        let job = place.start(&[&words[..], &[path(&locked), "160"]].concat());
        let (status, _, said) = job.wait();
        assert!(status.success(), "{status} {said}");
        let told = |text| said.contains(text);
        assert!(
            told("nothing more can be reclaimed") || told("more than its limit of 48MiB"),
            "{said}"
        );
        assert!(told("give a larger -m"), "{said}");
    }
    signal(place.number("all", "/pid"), SIGTERM);
    assert!(service.wait().0.success());
    let (_, out, _) = follower.wait();
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of_job = |kind: &str| {
        let its = |event: &&Value| event["event"] == kind && event["job"] == "greedy";
        events.iter().filter(its).count()
    };
    let told = of_job("warning") + of_job("exhausted");
    assert!(of_job("over") == 2 && told == 2, "{out}");
}

#[test]
fn nobody_joins_a_service_that_is_to_end() {
    let test = "nobody_joins_a_service_that_is_to_end";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let service = place.serve(&["-m", "64M"]);
        let (asked, stop) = (place.file("asked"), place.file("stop"));
        let script = format!(
            "trap ': >{}' TERM; : >{}.ready; until [ -e {} ]; do sleep 0.02; done",
            path(&asked),
            path(&stop),
            path(&stop)
        );
        let job = place.start(&["run", "--in", "all", "--", "sh", "-c", &script]);
        wait_until("the job waits", || place.file("stop.ready").exists());
        signal(place.number("all", "/pid"), SIGTERM);
        wait_until("the job is asked to end", || asked.exists());
        let late = place.refusal(&["run", "--in", "all", "--", "true"], 125);
        assert!(late.contains("it is about to end"), "{late}");
        std::fs::write(&stop, "").expect("a file");
        let (status, _, err) = job.wait();
        assert!(status.success(), "{status} {err}");
        let (status, ..) = service.wait();
        assert!(status.success(), "{status}");
    }
}

/// `nohup neap serve`, and `neap serve &` in a script that is interrupted.
#[test]
fn a_service_lives_through_signals_that_were_ignored_when_it_started() {
    let test = "a_service_lives_through_signals_that_were_ignored_when_it_started";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP INT; exec \"$0\" serve all -m 64M"]);
    shell
        .arg(&place.neap)
        .env("XDG_RUNTIME_DIR", place.dir.path());
    let service = Running(spawn_unmarked(shell.stderr(Stdio::null())).expect("sh"));
    wait_until("the service is there", || {
        place.file("neap/all.sock").exists()
    });
    let status = format!("/proc/{}/status", service.0.id());
    let ready = place.ask(&["run", "--in", "all", "--", "true"]);
    assert!(ready.status.success());
    let text = std::fs::read_to_string(status).expect("it lives");
    let set = |name: &str| {
        let mut lines = text.lines();
        let word = lines.find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(word.expect("a line").trim(), 16).expect("a set")
    };
    for number in [SIGHUP, SIGINT] {
        assert!(set("SigIgn:") >> (number - 1) & 1 == 1, "{number}: {text}");
    }
    assert!(set("SigCgt:") >> (SIGTERM - 1) & 1 == 1, "{text}");
}

#[test]
fn a_service_that_was_started_for_a_run_which_never_joins_ends() {
    let test = "a_service_that_was_started_for_a_run_which_never_joins_ends";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let sleep = spawn_unmarked(Command::new("sleep").arg("600")).expect("sleep");
        let mut run = Running(sleep);
        let starter = run.0.id().to_string();
        let words = ["-m", "64M", "--until-idle", "--starter", &starter];
        let service = place.serve(&words);
        assert_eq!(place.number("all", "/memory/limit_bytes"), 64 * MIB);
        run.0.kill().expect("it sleeps");
        let (status, _, err) = service.wait();
        assert!(status.success(), "{status} {err}");
    }
}

#[test]
fn what_is_protected_stays_in_a_job_that_does_nothing() {
    let test = "what_is_protected_stays_in_a_job_that_does_nothing";
    if !pages(test) {
        return;
    }
    for flag in ["--min", "--low"] {
        let place = Place::own();
        let _service = place.serve(&["-m", "512M", "--idle", "500ms"]);
        let kept = place.job("kept", 48, &[flag, "64M"], false);
        let part = place.job("part", 48, &[flag, "24M"], false);
        let free = place.job("free", 48, &[], false);
        let current = |name| place.number(name, "/memory/current_bytes");
        wait_until("what nothing protects leaves", || {
            current("free") < 16 * MIB && current("part") < 40 * MIB
        });
        let resident = place.number("kept", "/memory/resident_bytes");
        assert!(resident >= 48 * MIB, "{flag}: {resident}");
        assert!(current("part") >= 23 * MIB, "{flag}: {}", current("part"));
        let no_part = place.refusal(&["set", "kept", "zswap.max_pool_percent=10"], 1);
        assert!(
            no_part.contains("max_pool_percent is set for the service"),
            "{no_part}"
        );
        for (name, job) in [("kept", kept), ("part", part), ("free", free)] {
            place.end(name, job);
        }
    }
}

/// A program that neap does not manage, and that has lost who started it, in a job that is frozen.
fn frozen_orphan(place: &Place, waits: &str) -> (Running, u32) {
    let stop = place.file("stop");
    let script = format!("({waits} 4 {} &); sleep 600", path(&stop));
    let words = ["run", "--in", "all", "--name", "one", "--", "sh", "-c"];
    let job = place.start(&[&words[..], &[&script]].concat());
    wait_until("it waits", || place.file("stop.ready").exists());
    assert!(place.ask(&["freeze", "one"]).status.success());
    let all = std::fs::read_dir("/proc").expect("a list");
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|words| words.starts_with(format!("{waits}\0").as_bytes()))
    };
    let orphan = pids.filter(is_it).last().expect("it is there");
    assert!(is_stopped(orphan));
    (job, orphan)
}

fn is_stopped(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

#[test]
fn nothing_stays_stopped_when_who_froze_it_or_started_it_ends() {
    let test = "nothing_stays_stopped_when_who_froze_it_or_started_it_ends";
    if !pages(test) {
        return;
    }
    let Some(waits) = static_program("waits") else {
        return skip(test, "no static C library");
    };
    for place in places(test) {
        let waits = place.copy(&waits);
        let service = place.serve(&["-m", "64M"]);
        let engine = place.number("all", "/pid");
        let (job, orphan) = frozen_orphan(&place, path(&waits));
        signal(job.0.id().into(), SIGKILL);
        wait_until("it is gone", || {
            !std::path::Path::new(&format!("/proc/{orphan}/exe")).exists()
        });
        drop(job);
        std::fs::remove_file(place.file("stop.ready")).expect("a file");
        // What does not depend on a service goes on without it.
        let (job, orphan) = frozen_orphan(&place, path(&waits));
        signal(engine, SIGKILL);
        wait_until("it goes on", || !is_stopped(orphan));
        std::fs::write(place.file("stop"), "").expect("a file");
        let (_, out, err) = job.wait();
        assert!(out.contains("whole"), "{out} {err}");
        drop(service);
    }
}

/// A job that keeps within a limit of its own gets its pages while another is emptied.
#[test]
fn a_job_gets_on_while_another_is_frozen() {
    let test = "a_job_gets_on_while_another_is_frozen";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "1G"]);
    let large = place.job("large", 384, &[], false);
    let works = place.job("works", 48, &["-m", "24M"], true);
    let loads = || place.number("works", "/vmstat/zswpin");
    wait_until("it works", || loads() > 0);
    let mut freezes = place.start(&["freeze", "large"]);
    wait_until("memory leaves", || {
        place.number("large", "/memory/resident_bytes") < 352 * MIB
    });
    let before = loads();
    let mut after = before;
    loop {
        let now = loads();
        // What it has loaded by then was loaded while the other was emptied.
        if freezes.0.try_wait().expect("ours").is_some() {
            break;
        }
        after = now;
    }
    assert!(after - before >= 8 * MIB / 4096, "{before} to {after}");
    assert!(place.ask(&["thaw", "large"]).status.success());
    place.end("works", works);
    place.end("large", large);
}

#[test]
fn jobs_of_one_name_in_two_services_are_told_apart() {
    let test = "jobs_of_one_name_in_two_services_are_told_apart";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "64M"]);
    let _other = place.start(&["serve", "more", "-m", "48M"]);
    wait_until("the other is there", || {
        place.file("neap/more.sock").exists()
    });
    let job = place.job("same", 8, &[], false);
    assert_eq!(place.number("same", "/memory/limit_bytes"), 64 * MIB);
    let stop = place.file("other.stop");
    let words = ["run", "--in", "more", "--name", "same", "--"];
    let other = place.start(&[&words[..], &[path(&place.waits), "8", path(&stop)]].concat());
    wait_until("it waits", || place.file("other.stop.ready").exists());
    let told = place.refusal(&["freeze", "same"], 1);
    assert!(told.contains("all/same, more/same"), "{told}");
    assert_eq!(place.number("all/same", "/memory/limit_bytes"), 64 * MIB);
    assert_eq!(place.number("more/same", "/memory/limit_bytes"), 48 * MIB);
    let none = place.refusal(&["stat", "more/none"], 1);
    assert!(none.contains("no job none runs there"), "{none}");
    std::fs::write(&stop, "").expect("a file");
    assert!(other.wait().0.success());
    place.end("same", job);
}

#[test]
fn a_service_that_nobody_could_join_says_what_it_lacks() {
    let test = "a_service_that_nobody_could_join_says_what_it_lacks";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let mut shell = Command::new("sh");
    let script = "ulimit -n 64; exec \"$0\" run \"$@\" --budget all:64M -- true";
    shell.args(["-c", script]);
    shell
        .arg(&place.neap)
        .env("XDG_RUNTIME_DIR", place.dir.path());
    // Without a limit, or not at all.
    for status in [0, 125] {
        let output = shell.output().expect("sh");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(
            said.contains("too few descriptors; try: raise `ulimit -n`"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        shell.arg("--require");
    }
}

/// The service can open no device, and the program is behind a filter.
#[test]
fn a_member_that_may_make_no_userfaultfd_runs_without_a_limit_and_says_so() {
    let test = "a_member_that_may_make_no_userfaultfd_runs_without_a_limit_and_says_so";
    if !require(test, &[Need::Neap, Need::Userfaultfd, Need::Root]) {
        return;
    }
    let device = ["env", "NEAP_UFFD_DEVICE=/nonexistent"];
    let place = Place::own().within(device.map(Into::into).into());
    let _service = place.serve(&["-m", "64M"]);
    let [filter, hog] = ["profile", "hog"].map(program);
    let words = [path(&filter), "docker", path(&hog), "16"];
    for (option, status) in [("--summary", 0), ("--require", 125)] {
        let run = ["run", "--in", "all", option, "--"];
        let (ended, out, err) = place.start(&[&run[..], &words].concat()).wait();
        assert_eq!(ended.code(), Some(status), "{err}");
        assert_eq!(out.starts_with("hog: ok"), status == 0, "{out}");
        let says = ["runs without a limit", "could not be managed"][usize::from(status > 0)];
        assert!(err.contains(says), "{err}");
    }
}
