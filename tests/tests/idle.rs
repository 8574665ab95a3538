//! Memory of processes that do nothing leaves before any limit is met, where that is asked for, and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::service::{Place, path};
use neap_tests::{
    Managed, Neap, Need, OrdinaryUser, Run, exclusive, neap_binary, program, require,
};
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Longest that anything here is waited for.
const LONGEST: Duration = Duration::from_secs(60);

struct Case {
    dir: TempDir,
    name: String,
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "waited in vain: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// A job of programs that take so many MiB each, and touch them all the time (`busy`) or wait.
fn job(waits: &Path, dir: &Path, programs: &[(u64, bool)]) -> Run {
    let mut script = String::new();
    for (at, (mib, busy)) in programs.iter().enumerate() {
        let (waits, dir) = (waits.display(), dir.display());
        let busy = if *busy { " busy" } else { "" };
        // Each has a file of its own that says it is ready, and all wait for one.
        script += &format!("ln -s {dir}/stop {dir}/{at}; {waits} {mib} {dir}/{at}{busy} & ");
    }
    script += "wait";
    Run::new(["sh", "-c", &script]).limit(2 * LONGEST)
}

fn are_ready(dir: &Path, count: usize) -> bool {
    (0..count).all(|at| dir.join(format!("{at}.ready")).exists())
}

/// Resident bytes of each of the job's programs, the largest first.
fn resident(stat: &Value) -> Vec<u64> {
    let all = stat["processes"].as_array().expect("a list").iter();
    let its = all.filter(|process| process["comm"] == "waits");
    let mut bytes: Vec<u64> = its
        .filter_map(|one| one["resident_bytes"].as_u64())
        .collect();
    bytes.sort_unstable_by(|a, b| b.cmp(a));
    bytes
}

impl Case {
    fn of(test: &str) -> Option<Self> {
        require(test, &[Need::Neap, Need::Userfaultfd]).then(|| Self {
            dir: tempfile::tempdir().expect("a folder"),
            name: format!("idle-{}", std::process::id()),
        })
    }

    fn run(&self, idle: &[&str], programs: &[(u64, bool)], meanwhile: impl FnOnce()) -> Managed {
        let neap = Neap::limit("1G").option("--name").option(&self.name);
        let neap = idle.iter().fold(neap, |neap, word| neap.option(word));
        let run = job(&program("waits"), self.dir.path(), programs);
        let neap = neap.env("XDG_RUNTIME_DIR", self.dir.path());
        let run = neap.run_with(&run, |_| {
            until("all are ready", || {
                are_ready(self.dir.path(), programs.len())
            });
            meanwhile();
            fs::write(self.stop(), "").expect("a file");
        });
        run.must_exit(0);
        let whole = run.text().lines().filter(|line| *line == "whole").count();
        assert_eq!(whole, programs.len(), "{}", run.text());
        run
    }

    fn stop(&self) -> PathBuf {
        self.dir.path().join("stop")
    }

    fn must(&self, words: &[&str]) -> String {
        let output = Command::new(neap_binary().expect("the binary of neap"))
            .args(words)
            .env("XDG_RUNTIME_DIR", self.dir.path())
            .output()
            .expect("neap runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn stat(&self) -> Value {
        let text = self.must(&["stat", &self.name, "--json"]);
        serde_json::from_str(&text).expect("an object")
    }

    fn taken(&self) -> u64 {
        self.stat()["neap"]["idle"].as_u64().expect("a number")
    }
}

#[test]
fn memory_leaves_a_process_that_does_nothing_and_stays_in_one_at_work() {
    let test = "memory_leaves_a_process_that_does_nothing_and_stays_in_one_at_work";
    let Some(case) = Case::of(test) else {
        return;
    };
    let _alone = exclusive();
    let programs = [(64, false), (48, true)];
    let run = case.run(&["--idle", "400ms"], &programs, || {
        until("it has left, and the other has not", || {
            let resident = resident(&case.stat());
            resident[0] > 44 * MIB && resident[1] < 2 * MIB
        });
        let stat = case.stat();
        assert_eq!(stat["vmstat"]["zswpwb"], 0, "nothing goes to disk for that");
    });
    assert!(run.number("/neap/idle") >= 62 * MIB / 4096);
}

#[test]
fn idle_memory_stays_until_somebody_asks_for_it_and_after_he_asks_no_more() {
    let test = "idle_memory_stays_until_somebody_asks_for_it_and_after_he_asks_no_more";
    let Some(case) = Case::of(test) else {
        return;
    };
    let _alone = exclusive();
    case.run(&[], &[(64, false)], || {
        sleep(Duration::from_secs(1));
        let stat = case.stat();
        assert_eq!(
            (&stat["neap"]["idle"], &stat["vmstat"]["zswpout"]),
            (&0.into(), &0.into())
        );
        assert!(resident(&stat)[0] > 60 * MIB, "{stat}");
        case.must(&["set", &case.name, "idle=300ms"]);
        until("some has left", || case.taken() > 0);
        case.must(&["set", &case.name, "idle=off"]);
        sleep(Duration::from_millis(300));
        let taken = case.taken();
        sleep(Duration::from_secs(1));
        assert_eq!(case.taken(), taken, "nothing leaves any more");
        case.must(&["set", &case.name, "idle=200ms"]);
        until("all has left", || resident(&case.stat())[0] < 2 * MIB);
        // Also of one that is frozen and thawed again.
        case.must(&["freeze", &case.name]);
        case.must(&["thaw", &case.name, "--prefetch"]);
        until("all has left", || resident(&case.stat())[0] < 2 * MIB);
    });
}

/// It takes next to no processor time, but all of its memory is in use.
#[test]
fn a_process_whose_memory_comes_back_keeps_most_of_it() {
    let test = "a_process_whose_memory_comes_back_keeps_most_of_it";
    let Some(case) = Case::of(test) else {
        return;
    };
    let _alone = exclusive();
    case.run(&["--idle", "200ms"], &[(4, true)], || {
        let looks = (0..80).map(|_| {
            sleep(Duration::from_millis(50));
            resident(&case.stat())[0]
        });
        let there = looks.filter(|&bytes| bytes > 3 * MIB).count();
        assert!(there > 60, "{there} of 80 looks");
        assert!(case.taken() < 4 * 1024, "again and again: {}", case.taken());
    });
}

/// What it used comes back in windows: it does not wait for each page.
#[test]
fn a_member_of_a_service_that_wakes_gets_its_memory_back_in_windows() {
    let test = "a_member_of_a_service_that_wakes_gets_its_memory_back_in_windows";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let place = Place::own();
    let _service = place.serve(&["-m", "256M"]);
    let busy = place.job("busy", 32, &[], true);
    let stats = place.file("stats");
    let options = ["--idle", "300ms", "--stats", path(&stats)];
    let idle = place.job("idle", 64, &options, false);
    until("all has left", || {
        place.number("idle", "/memory/resident_bytes") < 2 * MIB
    });
    assert_eq!(place.number("busy", "/neap/idle"), 0);
    place.end("idle", idle); // it wakes, and reads all of it
    place.end("busy", busy);
    let stats: Value = serde_json::from_slice(&fs::read(&stats).expect("a file")).expect("JSON");
    let number = |at: &str| stats.pointer(at).and_then(Value::as_u64);
    let number = |at: &str| number(at).unwrap_or_else(|| panic!("{at}: {stats}"));
    let (pages, faults) = (number("/vmstat/zswpin"), number("/vmstat/pgmajfault"));
    assert!(pages >= 60 * MIB / 4096, "{pages} pages came back");
    assert!(
        faults > 0 && pages >= 6 * faults,
        "{pages} pages by {faults} faults"
    );
}

#[test]
fn idle_memory_of_an_ordinary_user_leaves_too() {
    let test = "idle_memory_of_an_ordinary_user_leaves_too";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let run = job(&user.copy(&program("waits")), user.dir(), &[(48, false)]);
    let run = run.without("XDG_RUNTIME_DIR");
    let neap = user
        .run("1G", &device, &[])
        .option("--idle")
        .option("300ms");
    let neap = neap.option("--name").option("idle-of-user");
    let managed = neap.run_with(&run, |_| {
        until("it is ready", || are_ready(user.dir(), 1));
        until("it has left", || {
            let mut all = user.words();
            all.push(user.neap().into());
            all.extend(["stat", "idle-of-user", "--json"].map(Into::into));
            let stat = Run::new(all).without("XDG_RUNTIME_DIR").limit(LONGEST).go();
            let stat: Value = serde_json::from_str(&stat.text()).expect("an object");
            stat["neap"]["idle"].as_u64() > Some(0) && resident(&stat)[0] < 2 * MIB
        });
        fs::write(user.dir().join("stop"), "").expect("a file");
    });
    managed.must_exit(0);
    assert_eq!(managed.text(), "whole\n");
}
