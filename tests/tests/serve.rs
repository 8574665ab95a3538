//! Many jobs within one limit: `neap serve`, `neap run --in` and `--budget`. In each test the programs look at the end whether
//! every word of their memory is as it was.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use neap_tests::service::{Place, path, places, wait_until};
use neap_tests::{allowed, paging};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Three jobs take turns at filling their memory and going through it. The most that all had together.
fn peak_of_three(place: &Place) -> u64 {
    let _service = place.serve(&["-m", "96M"]);
    let names = ["one", "two", "three"];
    let jobs = names.map(|name| place.job(name, 48, &[], name == "two"));
    let ps = place.ask(&["ps"]);
    let table = String::from_utf8_lossy(&ps.stdout).into_owned();
    let shown = |name: &&str| table.contains(&format!("  {name}"));
    assert!(names.iter().all(shown), "{table}");
    for (name, job) in names.into_iter().zip(jobs) {
        assert!(place.number(name, "/memory/current_bytes") > 0);
        place.end(name, job);
    }
    assert!(place.number("all", "/vmstat/zswpout") > 0);
    assert_eq!(place.stat("all")["jobs"], Value::Array(Vec::new()));
    place.number("all", "/memory/peak_bytes")
}

/// A job that joins fills its memory at once. Where others want both cpus a look at it comes late now and then, and one of many
/// services came to 106 MiB of 96, and another to 116: the middle of three is judged.
#[test]
fn jobs_of_a_service_share_its_limit() {
    let test = "jobs_of_a_service_share_its_limit";
    let Some(_alone) = paging(test) else { return };
    let rounds = [(); 3].map(|()| places(test).iter().map(peak_of_three).collect::<Vec<_>>());
    for user in 0..rounds[0].len() {
        let mut peaks = rounds.each_ref().map(|round| round[user]);
        peaks.sort_unstable();
        let [least, middle, most] = peaks;
        assert!(least > 64 * MIB && middle <= allowed(96 * MIB), "{peaks:?}");
        // Each of the three holds 48 MiB of its own: 144 plainly.
        assert!(most <= 128 * MIB, "{peaks:?}");
    }
}

#[test]
fn a_job_keeps_within_a_limit_of_its_own_and_its_neighbour_keeps_its_memory() {
    let test = "a_job_keeps_within_a_limit_of_its_own_and_its_neighbour_keeps_its_memory";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let _service = place.serve(&["-m", "256M"]);
        let rich = place.job("rich", 64, &[], false);
        let poor = place.job("poor", 96, &["-m", "48M"], true);
        let peak = place.number("poor", "/memory/peak_bytes");
        assert!(peak > 32 * MIB && peak <= allowed(48 * MIB), "{peak}");
        let waited = |name| place.number(name, "/pressure/some/total_us");
        let [rich_waited, poor_waited] = ["rich", "poor"].map(waited);
        assert!(
            poor_waited > 0 && rich_waited < poor_waited,
            "{rich_waited} {poor_waited}"
        );
        assert!(
            waited("all") >= poor_waited,
            "what a job waits its service does"
        );
        let kept = place.number("rich", "/memory/resident_bytes");
        assert!(kept >= 64 * MIB, "nothing is taken from it: {kept}");
        // A limit moves while the job runs, and gives memory back.
        let set = place.ask(&["set", "rich", "memory.max=32M"]);
        assert!(
            set.status.success(),
            "{}",
            String::from_utf8_lossy(&set.stderr)
        );
        let left = place.number("rich", "/memory/current_bytes");
        assert!(left <= allowed(32 * MIB), "{left}");
        let got = place.ask(&["reclaim", "rich", "8M"]);
        assert!(
            got.status.success(),
            "{}",
            String::from_utf8_lossy(&got.stderr)
        );
        place.end("poor", poor);
        place.end("rich", rich);
    }
}

/// A job with a limit of its own that joins where others are far from theirs.
#[test]
fn a_job_with_a_limit_that_joins_a_service_with_much_room_keeps_within_it() {
    let test = "a_job_with_a_limit_that_joins_a_service_with_much_room_keeps_within_it";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "6G", "--idle", "off"]);
    let idle = place.job("idle", 30, &[], false);
    for armed in [false, true] {
        for round in 0..5 {
            let name = format!("poor{armed}{round}");
            let poor = place.job(&name, 80, &["-m", "32M"], false);
            let peak = place.number(&name, "/memory/peak_bytes");
            assert!(peak > 16 * MIB && peak <= 48 * MIB, "{name}: {peak}");
            place.end(&name, poor);
        }
        let got = place.ask(&["reclaim", "all", "4M"]);
        assert!(
            got.status.success(),
            "memory is registered from now on: {got:?}"
        );
    }
    place.end("idle", idle);
}

/// Reclaim for the limit of all takes from each in turn, a share of what it has.
#[test]
fn each_job_gives_its_share_however_reclaim_walks() {
    let test = "each_job_gives_its_share_however_reclaim_walks";
    let Some(_alone) = paging(test) else { return };
    for walk in ["memcg-lru", "full", "cookie"] {
        let place = Place::own();
        let _service = place.serve(&["-m", "512M", "--walk", walk]);
        let names = ["a", "b", "c", "d"];
        let jobs = names.map(|name| place.job(name, 24, &[], false));
        for _ in 0..8 {
            assert!(place.ask(&["reclaim", "all", "4M"]).status.success());
        }
        let given = names.map(|name| place.number(name, "/vmstat/pgsteal"));
        let sum: u64 = given.iter().sum();
        assert!(sum * 4096 >= 32 * MIB, "{walk}: {given:?}");
        if walk == "memcg-lru" {
            let mean = sum / 4;
            assert!(
                given
                    .iter()
                    .all(|&pages| pages * 2 > mean && pages < mean * 2),
                "{given:?}"
            );
        }
        for (name, job) in names.into_iter().zip(jobs) {
            place.end(name, job);
        }
    }
}

#[test]
fn a_job_of_a_service_is_frozen_alone_and_goes_on_whole() {
    let test = "a_job_of_a_service_is_frozen_alone_and_goes_on_whole";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "256M"]);
        let frozen = place.job("frozen", 64, &[], true);
        let other = place.job("other", 32, &[], true);
        let no_job = place.refusal(&["freeze", "all"], 1);
        assert!(no_job.contains("name one of its jobs"), "{no_job}");
        let froze = place.ask(&["freeze", "frozen"]);
        assert!(
            froze.status.success(),
            "{}",
            String::from_utf8_lossy(&froze.stderr)
        );
        assert_eq!(place.number("frozen", "/neap/frozen"), 1);
        let left = place.number("frozen", "/memory/resident_bytes");
        assert!(left < 16 * MIB, "all that can leave has left: {left}");
        let kept = place.number("other", "/memory/resident_bytes");
        assert!(kept >= 32 * MIB, "{kept}");
        place.end("other", other);
        // A frozen job that is to end goes on first, and gets the signal.
        let thawed = place.ask(&["thaw", "frozen", "--prefetch"]);
        assert!(
            thawed.status.success(),
            "{}",
            String::from_utf8_lossy(&thawed.stderr)
        );
        place.end("frozen", frozen);
        let ends = place.job("ends", 16, &[], false);
        assert!(place.ask(&["freeze", "ends"]).status.success());
        neap_sys::signal(i32::try_from(ends.0.id()).expect("a number"), SIGTERM).expect("it lives");
        let (status, ..) = ends.wait();
        assert_eq!(status.signal(), Some(SIGTERM), "{status}");
        drop(service);
    }
}

#[test]
fn a_run_that_is_killed_takes_its_programs_with_it_and_no_others() {
    let test = "a_run_that_is_killed_takes_its_programs_with_it_and_no_others";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "64M"]);
        let victim = place.job("victim", 48, &[], true);
        let other = place.job("other", 48, &[], false);
        let of_victim = place.stat("victim")["processes"][0]["pid"]
            .as_u64()
            .expect("a process");
        let client = place.number("victim", "/pid");
        neap_sys::signal(i32::try_from(client).expect("a number"), SIGKILL).expect("it lives");
        let proc = PathBuf::from(format!("/proc/{of_victim}"));
        wait_until("its program is gone", || !proc.join("exe").exists());
        wait_until("it is forgotten", || {
            place.stat("all")["jobs"]
                .as_array()
                .is_some_and(|jobs| jobs.len() == 1)
        });
        place.end("other", other);
        drop((victim, service));
    }
}

#[test]
fn programs_end_with_their_service_and_a_message() {
    let test = "programs_end_with_their_service_and_a_message";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "48M"]);
        let job = place.job("one", 64, &[], true);
        let engine = place.number("all", "/pid");
        neap_sys::signal(i32::try_from(engine).expect("a number"), SIGKILL).expect("it lives");
        let (status, out, err) = job.wait();
        assert_eq!(
            (status.signal(), &*out),
            (Some(SIGKILL), ""),
            "{status} {err}"
        );
        assert!(err.contains("service all has ended"), "{err}");
        drop(service);
        let again = place.refusal(&["run", "--in", "all", "--", "true"], 125);
        assert!(
            again.contains("no service named all runs") && again.contains("try: neap serve"),
            "{again}"
        );
    }
}

#[test]
fn a_service_that_is_to_end_asks_its_jobs_first() {
    let test = "a_service_that_is_to_end_asks_its_jobs_first";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "48M"]);
        let job = place.job("one", 64, &[], false);
        let engine = place.number("all", "/pid");
        neap_sys::signal(i32::try_from(engine).expect("a number"), SIGTERM).expect("it lives");
        let (status, _, err) = job.wait();
        assert_eq!(status.signal(), Some(SIGTERM), "{status} {err}");
        let (status, ..) = service.wait();
        assert!(status.success(), "{status}");
        assert!(!place.file("neap/all.sock").exists());
    }
}

#[test]
fn a_budget_starts_its_service_and_that_ends_with_the_last_job() {
    let test = "a_budget_starts_its_service_and_that_ends_with_the_last_job";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let stop = place.file("stop");
        let words = [
            "run",
            "--budget",
            "all:64M",
            "--name",
            "first",
            "--",
            path(&place.waits),
            "48",
            path(&stop),
        ];
        let first = place.start(&words);
        wait_until("the first waits", || place.file("stop.ready").exists());
        // Another joins the same.
        let second = place.ask(&["run", "--budget", "all:1G", "--", "echo", "here"]);
        assert_eq!(String::from_utf8_lossy(&second.stdout), "here\n");
        assert_eq!(place.number("all", "/memory/limit_bytes"), 64 * MIB);
        fs::write(&stop, "").expect("a file");
        let (status, out, err) = first.wait();
        assert!(status.success() && out == "whole\n", "{status} {err}");
        wait_until("the service ends", || !place.file("neap/all.sock").exists());
    }
}

#[test]
fn who_may_not_join_is_told_so_in_one_line() {
    let test = "who_may_not_join_is_told_so_in_one_line";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let _service = place.serve(&["-m", "64M"]);
        let job = place.job("one", 8, &[], false);
        let taken = place.refusal(&["run", "--in", "all", "--name", "one", "--", "true"], 125);
        assert!(
            taken.contains("a job named one runs there already"),
            "{taken}"
        );
        let again = place.refusal(&["serve", "all", "-m", "64M"], 125);
        assert!(again.contains("a job named all runs already"), "{again}");
        let small = place.refusal(&["run", "--in", "all", "-m", "1K", "--", "true"], 125);
        assert!(small.contains("too small"), "{small}");
        let mixed = place.refusal(&["run", "--in", "all", "--no-swap", "--", "true"], 125);
        assert!(mixed.contains("cannot be used with"), "{mixed}");
        for said in [taken, again, small] {
            assert!(said.trim_end().lines().count() <= 2, "{said}");
        }
        place.end("one", job);
    }
}

/// Who follows one job of a service hears of that job, from its beginning to its end, and of no other.
#[test]
fn the_events_of_a_job_are_of_that_job_and_end_with_it() {
    let test = "the_events_of_a_job_are_of_that_job_and_end_with_it";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let _service = place.serve(&["-m", "256M"]);
        let other = place.job("other", 8, &[], false);
        let job = place.job("one", 8, &[], false);
        let events = place.start(&["events", "--json", "one"]);
        for name in ["other", "one"] {
            assert!(
                place
                    .ask(&["set", name, "memory.high=64M"])
                    .status
                    .success()
            );
        }
        assert!(
            place
                .ask(&["set", "all", "memory.max=128M"])
                .status
                .success()
        );
        place.end("one", job);
        let (status, out, err) = events.wait();
        assert!(status.success(), "{status} {err}");
        let events = out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let events: Vec<Value> = events.collect();
        assert!(events.iter().all(|event| event["job"] == "one"), "{out}");
        let kinds = events.iter().map(|event| event["event"].as_str());
        let kinds: Vec<_> = kinds.map(|kind| kind.expect("a kind")).collect();
        assert_eq!(kinds, ["join", "set", "leave"], "{out}");
        place.end("other", other);
    }
}

#[test]
fn no_other_user_sees_joins_or_steers_a_service() {
    let test = "no_other_user_sees_joins_or_steers_a_service";
    let Some(_alone) = paging(test) else { return };
    let Some(place) = Place::of_user(test) else {
        return;
    };
    let _service = place.serve(&["-m", "64M"]);
    let job = place.job("one", 48, &[], false);
    // Another ordinary user does not enter the folder; the superuser sees and steers, and does not join.
    let stranger = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=59999",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
        ]);
        command
            .arg(&place.neap)
            .args(words)
            .env("XDG_RUNTIME_DIR", place.dir.path());
        command.output().expect("neap runs")
    };
    for words in [
        &["stat", "all"][..],
        &["set", "one", "memory.max=16M"],
        &["reclaim", "all", "1M"],
        &["run", "--in", "all", "--", "true"],
        &["stat", path(&place.file("neap/all.sock"))],
    ] {
        let output = stranger(words);
        assert!(
            !output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let root = Command::new(&place.neap)
        .args(["stat", "--json", path(&place.file("neap/all.sock"))])
        .output()
        .expect("neap runs");
    assert!(root.status.success());
    let mut socket =
        std::os::unix::net::UnixStream::connect(place.file("neap/all.sock")).expect("a socket");
    std::io::Write::write_all(&mut socket, b"{\"v\":1,\"op\":\"join\"}\n").expect("room");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(socket), &mut line)
        .expect("an answer");
    assert!(line.contains("EPERM"), "{line}");
    place.end("one", job);
}

#[test]
fn a_process_of_no_job_is_not_answered() {
    let test = "a_process_of_no_job_is_not_answered";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "64M"]);
    let job = place.job("one", 48, &[], false);
    // It has all that a program of the job is given, and descends from nobody who joined.
    let pid = place.stat("one")["processes"][0]["pid"]
        .as_u64()
        .expect("a process");
    let environ = fs::read(format!("/proc/{pid}/environ")).expect("its variables");
    let variable = |name: &str| {
        let mut all = environ
            .split(|&byte| byte == 0)
            .filter_map(|line| std::str::from_utf8(line).ok());
        all.find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix('=')
                .map(str::to_owned)
        })
    };
    let mut stranger = Command::new(&place.waits);
    let stop = place.file("stranger.stop");
    fs::write(&stop, "").expect("a file");
    stranger.args([OsStr::new("8"), stop.as_os_str()]);
    for name in ["NEAP_SOCKET", "LD_PRELOAD"] {
        stranger.env(
            name,
            variable(name).unwrap_or_else(|| panic!("{name} is set")),
        );
    }
    let output = stranger.output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "whole\n",
        "it runs unmanaged"
    );
    assert_eq!(place.stat("one")["neap"]["attached"], 1);
    place.end("one", job);
}
