//! Who may speak to whom: strangers get no answer, members get nothing by lies, and whoever floods the engine costs only
//! itself. In each test a job runs beside the hostile client, and its results are right.

use std::ffi::OsString;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use neap_tests::{
    Managed, Neap, Need, OrdinaryUser, Outcome, Run, exclusive, program, require, skip,
};

/// Longest that one hostile client takes, and the job beside it.
const LONGEST: Duration = Duration::from_secs(200);

/// How often the job reads its memory.
const ROUNDS: &str = "6";

/// Words that turn the superuser into a user without rights.
const NOBODY: [&str; 5] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
];

struct Case {
    user: OrdinaryUser,
    hog: PathBuf,
    stranger: PathBuf,
}

impl Case {
    /// What the test needs, or nothing, which is said.
    fn of(test: &str) -> Option<Self> {
        let needs = [
            Need::Neap,
            Need::Root,
            Need::Userfaultfd,
            Need::Tool("setpriv"),
        ];
        if !require(test, &needs) {
            return None;
        }
        let user = OrdinaryUser::for_test(test)?;
        let (hog, stranger) = (user.copy(&program("hog")), user.copy(&program("stranger")));
        Some(Self {
            user,
            hog,
            stranger,
        })
    }

    /// The words of the client in a mode.
    fn client(&self, mode: &str, as_nobody: bool) -> Vec<OsString> {
        let who: &[&str] = if as_nobody { &NOBODY } else { &[] };
        let words = who.iter().map(OsString::from);
        words
            .chain([self.stranger.clone().into(), mode.into()])
            .collect()
    }

    /// A job that writes its socket's name to a file, and then needs more memory than it has.
    fn job(&self, named: &Path) -> Run {
        let script = "printf %s \"$NEAP_SOCKET\" >\"$1.new\" && mv \"$1.new\" \"$1\" && exec \"$2\" 96 \"$3\"";
        let words = ["sh", "-c", script, "sh"].map(OsString::from);
        let args = [named.into(), self.hog.clone().into(), ROUNDS.into()];
        Run::new(words.into_iter().chain(args)).limit(LONGEST)
    }

    /// A client from outside beside a job of the superuser; what came of it.
    fn beside(&self, mode: &str, as_nobody: bool) -> Outcome {
        let named = self.user.dir().join(format!("socket-{mode}-{as_nobody}"));
        let job = self.job(&named);
        let running = thread::spawn(move || Neap::limit("64M").env("NEAP_CHECK", "1").run(&job));
        let begun = Instant::now();
        while !named.exists() && begun.elapsed() < LONGEST && !running.is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        let socket = std::fs::read_to_string(&named).expect("the name of a socket");
        let mut words = self.client(mode, as_nobody);
        words.push(socket.into());
        let outcome = Run::new(words).limit(LONGEST).go();
        self.must_be_right(&running.join().expect("the job's thread"));
        outcome
    }

    /// A client that is a member of the job.
    fn within(&self, mode: &str, as_nobody: bool) -> Managed {
        self.beside_a_member(self.client(mode, as_nobody))
    }

    /// A job in which these words run as well.
    fn beside_a_member(&self, member: Vec<OsString>) -> Managed {
        let script = "hog=$1 rounds=$2; shift 2; \"$hog\" 96 $rounds & \"$@\" >&2; came=$?; wait $! && exit $came";
        let words = ["sh", "-c", script, "sh"].map(OsString::from);
        let hog = [self.hog.clone().into(), ROUNDS.into()];
        let all = words.into_iter().chain(hog).chain(member);
        let run = Neap::limit("64M")
            .env("NEAP_CHECK", "1")
            .run(&Run::new(all).limit(LONGEST));
        self.must_be_right(&run);
        run
    }

    fn must_be_right(&self, run: &Managed) {
        run.must_have_paged();
        let plain = Run::new([self.hog.as_os_str(), "96".as_ref(), ROUNDS.as_ref()]).go();
        assert_eq!(run.text(), plain.text());
    }
}

fn must_be_ok(outcome: &Outcome) {
    assert!(
        outcome.status.success(),
        "{}{}",
        String::from_utf8_lossy(&outcome.stdout),
        outcome.stderr
    );
}

#[test]
fn another_user_finds_no_socket() {
    let Some(case) = Case::of("another_user_finds_no_socket") else {
        return;
    };
    let _alone = exclusive();
    must_be_ok(&case.beside("look", true));
}

#[test]
fn strangers_get_no_answer_though_they_know_the_path() {
    let Some(case) = Case::of("strangers_get_no_answer_though_they_know_the_path") else {
        return;
    };
    let _alone = exclusive();
    for as_nobody in [true, false] {
        must_be_ok(&case.beside("ask", as_nobody));
    }
}

#[test]
fn members_are_believed_no_lie() {
    let Some(case) = Case::of("members_are_believed_no_lie") else {
        return;
    };
    let _alone = exclusive();
    for as_nobody in [true, false] {
        let run = case.within("lie", as_nobody);
        must_be_ok(&run);
        assert!(run.stderr.contains("lie: 0 believed"), "{}", run.stderr);
    }
}

#[test]
fn a_member_that_floods_the_engine_costs_only_itself() {
    let Some(case) = Case::of("a_member_that_floods_the_engine_costs_only_itself") else {
        return;
    };
    let _alone = exclusive();
    for mode in ["sink", "stall"] {
        let run = case.within(mode, true);
        must_be_ok(&run);
        let processes = run.stats["processes"].as_array().expect("processes");
        // It executes itself for that, as what /proc calls `exe`.
        let managed = |process: &serde_json::Value| {
            let peak = process["peak_resident_bytes"].as_u64();
            process["comm"] == "exe" && peak.is_some_and(|peak| peak > 4 << 20)
        };
        assert!(processes.iter().any(managed), "{mode}: {processes:?}");
    }
    for as_nobody in [true, false] {
        must_be_ok(&case.within("crowd", as_nobody));
    }
}

/// The loader leaves neap's library out of it, and what neap had of the process before is of no use.
#[test]
fn a_member_that_becomes_a_setuid_program_is_left_alone() {
    let test = "a_member_that_becomes_a_setuid_program_is_left_alone";
    let Some(case) = Case::of(test) else {
        return;
    };
    let _alone = exclusive();
    let becomes = case.user.copy(&program("becomes"));
    chown(&case.hog, Some(0), Some(0)).expect("its owner");
    set_permissions(&case.hog, Permissions::from_mode(0o4755)).expect("its rights");
    let hog = [case.hog.as_os_str(), "24".as_ref(), "2".as_ref()].map(OsString::from);
    let all = NOBODY.map(OsString::from).into_iter();
    let all = all.chain([becomes.into(), "96".into(), "3".into()]);
    let run = Neap::limit("64M")
        .env("NEAP_CHECK", "1")
        .run(&Run::new(all.chain(hog.clone())).limit(LONGEST));
    run.must_have_paged();
    let processes = run.stats["processes"].as_array().expect("processes");
    if processes.iter().any(|process| process["comm"] == "hog") {
        return skip(test, "the temporary folder takes no setuid programs");
    }
    let plain = Run::new(hog).go();
    let each = String::from_utf8_lossy(&plain.stdout);
    assert_eq!(run.text(), each.repeat(4), "{}", run.stderr);
}

/// Whoever listens where a killed engine did learns that there is a child, and is handed nothing.
#[test]
fn who_takes_the_place_of_a_dead_engine_is_handed_nothing() {
    let test = "who_takes_the_place_of_a_dead_engine_is_handed_nothing";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let client = Run::new([program("usurper").as_os_str()]).limit(LONGEST);
    let job = Neap::limit("64M").command(&client, None);
    let script = "\"$@\" | cat"; // its output ends with its last process
    let words = ["sh", "-c", script, "sh"].map(OsString::from);
    let outcome = job.wrapped(words).go();
    assert_eq!(
        outcome.text(),
        "4 calls, 0 descriptors\n",
        "{}",
        outcome.stderr
    );
}

/// A forked child without a name, whose pages nobody has, costs nobody else anything, and reads no wrong byte.
#[test]
fn a_member_that_forks_without_its_staging_area_ends_no_other() {
    let Some(case) = Case::of("a_member_that_forks_without_its_staging_area_ends_no_other") else {
        return;
    };
    let _alone = exclusive();
    let razed = case.user.copy(&program("razed"));
    let ends = ["sh", "-c", "\"$@\"; test $? -ne 3", "sh"]; // it may be killed
    let words = ends.iter().chain(&NOBODY).map(OsString::from);
    let words: Vec<OsString> = words.chain([razed.into()]).collect();
    for _ in 0..3 {
        let run = case.beside_a_member(words.clone());
        assert!(!run.stderr.contains("wrong\n"), "{}", run.stderr);
    }
}
