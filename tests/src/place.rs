//! A place in which neap is run, rebuilt from filters, capabilities, namespaces, mounts and device modes.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::{OrdinaryUser, Outcome, Run, library, program, skip};

/// What docker gives a container, and no more.
const DOCKER: &str = "--bounding-set=-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,\
    +net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";
/// Everything is read-only but one folder, the run's temporary one. `$0` is the place's.
const READ_ONLY: &str = "mount --make-rprivate / && mkdir -p \"$0/tmp\" && mount -t tmpfs -o mode=1777 none \"$0/tmp\" && \
    mount -o remount,bind,ro / && exec env TMPDIR=\"$0/tmp\" \"$@\"";

/// Everything is read-only but `/dev/shm`, which may hold no code; or that is, too.
const NO_CODE: &str =
    "mount --make-rprivate / && mount -t tmpfs -o mode=1777,noexec none /dev/shm && NOWHERE";
const NOWHERE: &str = "mount --make-rprivate / && mount -t tmpfs -o ro none /dev/shm && NOWHERE";
const ALL_READ_ONLY: &str = "for at in /tmp /var/tmp /run; do if mountpoint -q $at; then mount -o remount,bind,ro $at; fi; done; \
    mount -o remount,bind,ro / && exec env -u TMPDIR -u XDG_RUNTIME_DIR HOME=/ \"$@\"";

/// Only processes are in /proc, and others' are not seen.
const HIDDEN_PROC: &str = "mount -t proc -o subset=pid,hidepid=invisible proc /proc && exec \"$@\"";

/// The words that lead into it, and a device node that is its own.
#[derive(Debug)]
pub struct Place {
    user: OrdinaryUser,
    neap: PathBuf,
    household: PathBuf,
    words: Vec<OsString>,
    device: PathBuf,
}

/// What doctor says of one check.
#[derive(Debug)]
pub struct Said {
    /// `ok`, `limited` or `missing`.
    pub verdict: String,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    pub remedy: String,
}

/// A program with threads and forks, and a limit of half of what it wants.
const PROGRAM: &str = "32";
const LIMIT: &str = "16M";
/// It comes to 34 MiB plainly, and to 17 with that limit; once, with less to do, 6 MiB more for a moment.
const MOST_MIB: f64 = 26.0;
/// What it is to be called that nobody serves there.
const SERVICE: &str = "place-without-userfaultfd";

impl Place {
    /// `into`: words before neap. `USER` stands for those that give up root, `USER-OF-GROUP` also for a group of his,
    /// `PROFILE` for the program that puts a filter before system calls, `DOCKER` for the capabilities of a container
    /// (`DOCKER-WITH-MORE`: and two more), `READ-ONLY` for a view of the machine that only a temporary folder may be written
    /// in, `NO-CODE` and `NOWHERE` for one with no such folder for code, or for anything. `PROCESSES` stands for process numbers of its own, `HIDDEN-PROC` for a
    /// /proc that shows little, and `LIBRARY` for the library that has calls fail.
    ///
    /// `None`: the machine cannot build it, which was said.
    ///
    /// # Panics
    /// If a file of the tests cannot be copied.
    #[must_use]
    pub fn new(test: &str, into: &[&str]) -> Option<Self> {
        let user = OrdinaryUser::for_test(test)?;
        let filter = user.copy(&program("profile"));
        let neap = user.neap();
        let mut words: Vec<OsString> = Vec::new();
        for word in into {
            match *word {
                "USER" => words.extend(user.words()),
                "USER-OF-GROUP" => {
                    words.extend(
                        user.words()
                            .into_iter()
                            .filter(|word| word != "--clear-groups"),
                    );
                    words.push(format!("--groups={GROUP}").into());
                }
                "PROFILE" => words.push(filter.clone().into()),
                "DOCKER" => {
                    words.extend(["setpriv", DOCKER, "--inh-caps=-all"].map(OsString::from))
                }
                "DOCKER-WITH-MORE" => {
                    let more = format!("{DOCKER},+sys_ptrace,+sys_nice");
                    words.extend(["setpriv", &more, "--inh-caps=-all"].map(OsString::from));
                }
                "READ-ONLY" => {
                    words.extend(["unshare", "--mount", "sh", "-c", READ_ONLY].map(OsString::from));
                    words.push(user.dir().into());
                }
                "NO-CODE" | "NOWHERE" => {
                    let script = if *word == "NOWHERE" { NOWHERE } else { NO_CODE };
                    let script = script.replace("NOWHERE", ALL_READ_ONLY);
                    let into = ["unshare", "--mount", "sh", "-c", &script, "sh"];
                    words.extend(into.map(OsString::from));
                }
                "PROCESSES" => {
                    let own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
                    words.extend(own.map(OsString::from));
                }
                "HIDDEN-PROC" => {
                    let hide = ["unshare", "--mount", "sh", "-c", HIDDEN_PROC, "sh"];
                    words.extend(hide.map(OsString::from));
                }
                "LIBRARY" => {
                    let mut preload = OsString::from("LD_PRELOAD=");
                    preload.push(library("failing"));
                    let mut fails_in = OsString::from("NEAP_FAIL_IN=");
                    fails_in.push(&neap);
                    words.extend([preload, fails_in]);
                }
                word => words.push(word.into()),
            }
        }
        let household = user.copy(&program("household"));
        let device = user.dir().join("userfaultfd");
        let place = Self {
            user,
            neap,
            household,
            words,
            device,
        };
        let there = place.run(["true"]);
        if there.code() != 0 {
            skip(
                test,
                &format!(
                    "this machine cannot build the place: {}",
                    there.stderr.trim()
                ),
            );
            return None;
        }
        Some(place)
    }

    /// The words that lead into it.
    #[must_use]
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Its copy of neap.
    #[must_use]
    pub fn neap(&self) -> &Path {
        &self.neap
    }

    /// A command there.
    #[must_use]
    pub fn run(&self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Outcome {
        let words = words.into_iter().map(Into::into);
        let all: Vec<OsString> = self.words.iter().cloned().chain(words).collect();
        let run = Run::new(all).env("NEAP_UFFD_DEVICE", &self.device);
        run.limit(Duration::from_secs(120)).go()
    }

    /// What `neap doctor` says; it must end with `status`.
    ///
    /// # Panics
    /// If it does not, or prints no object.
    #[must_use]
    pub fn report(&self, status: i32) -> Value {
        let neap = self.neap.as_os_str();
        let run = self.run([neap, "doctor".as_ref(), "--json".as_ref()]);
        run.must_exit(status);
        serde_json::from_slice(&run.stdout).expect("an object")
    }

    /// What it says of the check `name`.
    ///
    /// # Panics
    /// If there is no such check.
    #[must_use]
    pub fn doctor(&self, status: i32, name: &str) -> Said {
        Said::of(&self.report(status), name)
    }

    fn household(&self, options: &[&str]) -> Outcome {
        let words = ["run", "--summary"].iter().chain(options).chain(&["--"]);
        let neap = std::iter::once(self.neap.clone().into());
        let program = [self.household.clone().into(), OsString::from(PROGRAM)];
        self.run(neap.chain(words.map(OsString::from)).chain(program))
    }

    /// Doctor blames `why` and says `remedy`, and the program runs without a limit, in words that say so.
    ///
    /// # Panics
    /// If not.
    pub fn must_refuse(&self, why: &str, remedy: &str) {
        self.must_refuse_by("userfaultfd", why, remedy);
    }

    /// The same by the check `name`.
    ///
    /// # Panics
    /// If not.
    pub fn must_refuse_by(&self, name: &str, why: &str, remedy: &str) {
        let said = self.doctor(1, name);
        assert_eq!(said.verdict, "missing");
        assert!(said.detail.contains(why), "{} has no {why}", said.detail);
        assert!(
            said.remedy.contains(remedy),
            "{} has no {remedy}",
            said.remedy
        );
        let budget = format!("{}:{LIMIT}", SERVICE);
        for limit in [["-m", LIMIT], ["--budget", &budget]] {
            let run = self.household(&limit);
            run.must_exit(0);
            let line = run.stderr.lines().next().unwrap_or_default();
            assert!(line.contains("runs without a limit: "), "{}", run.stderr);
            assert!(line.contains(why), "{}", run.stderr);
            assert!(line.contains(&said.remedy), "{}", run.stderr);
            let [flag, size] = limit;
            self.household(&["--require", flag, size]).must_exit(125);
        }
    }

    /// Doctor is content, and so is the program. `forks`: `ok` where the kernel announces them, else `limited`. Says what
    /// doctor said.
    ///
    /// # Panics
    /// If not.
    pub fn must_manage(&self, forks: &str) -> Value {
        let report = self.report(0);
        assert_eq!(Said::of(&report, "userfaultfd").verdict, "ok");
        assert_eq!(Said::of(&report, "fork events").verdict, forks);
        assert_eq!(Said::of(&report, "a program").verdict, "ok");
        let fate = Said::of(&report, "forks");
        let known = cfg!(target_arch = "x86_64");
        let (verdict, word) = match forks {
            "ok" => ("ok", "announced"),
            _ if known => ("ok", "passed on"),
            _ => ("limited", "not known"),
        };
        assert_eq!(fate.verdict, verdict, "{}", fate.detail);
        assert!(fate.detail.contains(word), "{}", fate.detail);
        let plain = Run::new([self.household.as_os_str(), PROGRAM.as_ref()]).go();
        let run = self.household(&["--require", "-m", LIMIT]);
        run.must_exit(0);
        assert_eq!(run.text(), plain.text());
        assert!(run.stderr.contains("pages out: "), "{}", run.stderr);
        assert!(!run.stderr.contains("pages out: 0 "), "{}", run.stderr);
        assert!(!run.stderr.contains("without a limit"), "{}", run.stderr);
        // Where forks are not known all pages come back for each.
        assert!(
            fate.verdict != "ok" || peak_mib(&run.stderr) < MOST_MIB,
            "{}",
            run.stderr
        );
        report
    }

    /// The remedy `--device`: the node, with the owner and mode that it has on the host.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn add_device(&self) {
        self.user.device().expect("a device of our own");
        self.set_mode(0o600);
    }

    /// The remedy `chmod`.
    ///
    /// # Panics
    /// If it is not there.
    pub fn set_mode(&self, mode: u32) {
        fs::set_permissions(&self.device, Permissions::from_mode(mode)).expect("our own node");
    }

    /// What the udev rule does.
    ///
    /// # Panics
    /// If it is not there.
    pub fn give_to_group(&self) {
        std::os::unix::fs::chown(&self.device, Some(0), Some(GROUP)).expect("our own node");
        self.set_mode(0o660);
    }
}

/// What a summary says of the peak.
fn peak_mib(summary: &str) -> f64 {
    let number = summary
        .split_once("memory: peak ")
        .and_then(|(_, rest)| rest.split_once("MiB")?.0.parse().ok());
    number.unwrap_or_else(|| panic!("no peak in {summary}"))
}

/// A group that nobody else is in.
const GROUP: u32 = 60_001;

impl Said {
    /// What a report says of the check `name`.
    ///
    /// # Panics
    /// If there is no such check.
    #[must_use]
    pub fn of(report: &Value, name: &str) -> Self {
        let checks = report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no {name} in {report}"));
        let text = |field| check[field].as_str().unwrap_or_default().to_owned();
        Self {
            verdict: text("verdict"),
            detail: text("detail"),
            remedy: text("remedy"),
        }
    }
}
