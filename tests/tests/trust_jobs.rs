//! Jobs of one service beside hostile ones: what a member of one job can do to another by neap's own socket, and what another user
//! can do to all of them. A process of the same user may steer them by the control socket, and trace and kill them without neap: that is
//! by design.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::Duration;

use neap_tests::service::{Place, Running, path, places, wait_until};
use neap_tests::{Need, OrdinaryUser, Outcome, Run, paging, program, require};
use serde_json::Value;

/// Longest that one hostile client takes.
const LONGEST: Duration = Duration::from_secs(200);

/// A job that others are to leave alone.
struct Kept<'a> {
    place: &'a Place,
    job: Running,
    /// What is counted of it once it sleeps.
    counted: Value,
}

/// All that may change of a job whose one process sleeps only if somebody touches it.
fn counted(place: &Place) -> Value {
    let stat = place.stat("kept");
    let processes = stat["processes"].as_array().expect("a list");
    let pids: Vec<&Value> = processes.iter().map(|process| &process["pid"]).collect();
    let named = |name: &str| stat["memory"][name].clone();
    let memory = ["limit_bytes", "resident_bytes", "swap_current_bytes"].map(named);
    serde_json::json!([stat["vmstat"], stat["neap"], stat["settings"], memory, pids])
}

impl<'a> Kept<'a> {
    /// It has 24 MiB, of which a half is out.
    fn new(place: &'a Place) -> Self {
        let job = place.job("kept", 24, &["--idle", "off"], false);
        let got = place.ask(&["reclaim", "kept", "12M"]);
        assert!(got.status.success(), "{got:?}");
        let mut last = counted(place);
        wait_until("it sleeps", || {
            sleep(Duration::from_millis(300));
            let now = counted(place);
            std::mem::replace(&mut last, now.clone()) == now
        });
        Self {
            place,
            job,
            counted: last,
        }
    }

    fn pid(&self) -> String {
        let stat = self.place.stat("kept");
        stat["processes"][0]["pid"].to_string()
    }

    fn must_be_untouched(&self, by: &str) {
        assert_eq!(counted(self.place), self.counted, "after {by}");
    }

    /// Every word of its memory is as it was.
    fn end(self) {
        self.place.end("kept", self.job);
    }
}

/// It has the library's socket, and finds the number of the other's space where it may read that. The engine answers a process for
/// itself only.
#[test]
fn a_hostile_member_of_a_job_does_nothing_to_another_job() {
    let test = "a_hostile_member_of_a_job_does_nothing_to_another_job";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let _service = place.serve(&["-m", "128M"]);
        let kept = Kept::new(&place);
        let stranger = place.copy(&program("stranger"));
        let nobody = ["setpriv", "--reuid=65534", "--clear-groups"];
        let users: &[&[&str]] = match place.is_of_user() {
            true => &[&[]],
            false => &[&[], &nobody],
        };
        for as_user in users {
            let pid = kept.pid();
            let member = ["run", "--in", "all", "--name", "hostile", "--"];
            let words = [path(&stranger), "neighbour", &pid];
            let hostile = place.start(&[&member[..], as_user, &words].concat());
            let (status, said, err) = hostile.wait();
            assert!(status.success(), "{status} {said} {err}");
            // The superuser's may read the other's memory; of an ordinary user's the machine may think otherwise (Yama).
            let named = !said.contains(" 0 names");
            assert!(named || !as_user.is_empty() || place.is_of_user(), "{said}");
            kept.must_be_untouched(&format!("{as_user:?} {said} {err}"));
        }
        // The service answers others, and brings all back.
        assert_eq!(place.stat("all")["jobs"].as_array().map(Vec::len), Some(1));
        kept.end();
    }
}

/// Whoever floods the engine, or keeps it waiting, costs its own job only.
#[test]
fn a_job_that_floods_its_service_costs_no_other_job() {
    let test = "a_job_that_floods_its_service_costs_no_other_job";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "128M"]);
    let kept = Kept::new(&place);
    let stranger = program("stranger");
    for mode in ["lie", "sink", "stall", "crowd"] {
        let words = ["run", "--in", "all", "--name", "hostile", "--"];
        let hostile = place.start(&[&words[..], &[path(&stranger), mode]].concat());
        let (status, said, err) = hostile.wait();
        assert!(status.success(), "{mode}: {status} {said} {err}");
        kept.must_be_untouched(mode);
    }
    kept.end();
}

/// As another user, who may enter the folder above that of the sockets.
struct Outsider<'a> {
    place: &'a Place,
    user: OrdinaryUser,
}

impl Outsider<'_> {
    fn run(&self, words: &[&str]) -> Outcome {
        let all = self.user.words().into_iter();
        let run = Run::new(all.chain(words.iter().map(Into::into))).limit(LONGEST);
        run.env("XDG_RUNTIME_DIR", self.place.dir.path()).go()
    }

    fn neap(&self, words: &[&str]) -> Outcome {
        let neap = self.user.neap();
        self.run(&[&[path(&neap)][..], words].concat())
    }
}

#[test]
fn another_user_neither_sees_nor_steers_nor_joins_nor_disturbs_a_service() {
    let test = "another_user_neither_sees_nor_steers_nor_joins_nor_disturbs_a_service";
    let Some(_alone) = paging(test) else { return };
    if !require(test, &[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let Some(user) = OrdinaryUser::for_test(test) else {
        return;
    };
    let place = Place::own();
    let _service = place.serve(&["-m", "128M"]);
    set_permissions(place.dir.path(), Permissions::from_mode(0o755)).expect("our own folder");
    let kept = Kept::new(&place);
    let outsider = Outsider {
        place: &place,
        user,
    };
    for words in [&["ps"][..], &["metrics"]] {
        let outcome = outsider.neap(words);
        let (out, err) = (outcome.text(), &outcome.stderr);
        let shown = ["kept", "waits"].map(|name| out.contains(name) || err.contains(name));
        assert_eq!(shown, [false; 2], "{out} {err}");
    }
    let refused: [&[&str]; 10] = [
        &["stat", "kept"],
        &["stat", "all", "--json"],
        &["set", "kept", "memory.max=8M"],
        &["set", "all", "memory.max=32M"],
        &["freeze", "kept"],
        &["thaw", "kept"],
        &["reclaim", "kept", "8M"],
        &["events", "kept"],
        &["run", "--in", "all", "--", "true"],
        &["run", "--in", "all", "--require", "--", "true"],
    ];
    for words in refused {
        let outcome = outsider.neap(words);
        assert_ne!(outcome.code(), 0, "{words:?}: {}", outcome.text());
        kept.must_be_untouched(&format!("{words:?}"));
    }
    // The path of the library's socket tells it nothing either.
    let told = place.ask(&[
        "run",
        "--in",
        "all",
        "--",
        "sh",
        "-c",
        "printf %s \"$NEAP_SOCKET\"",
    ]);
    let socket = String::from_utf8(told.stdout).expect("a path");
    assert!(socket.starts_with('/'), "{socket}");
    let stranger = outsider.user.copy(&program("stranger"));
    for mode in ["look", "ask"] {
        let outcome = outsider.run(&[path(&stranger), mode, &socket]);
        outcome.must_exit(0);
    }
    kept.must_be_untouched("a stranger");
    kept.end();
}
