//! Places in which neap is run, rebuilt: what `neap doctor` blames there, whether its remedy helps, and whether the run
//! is managed exactly where doctor says so. docs/guide/permissions.md has a row for each.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use neap_tests::{Neap, OrdinaryUser, Outcome, Run, exclusive, library, program, skip, tool};
use serde_json::Value;

/// A place: the words that lead into it, and a device node that is its own.
struct Place {
    user: OrdinaryUser,
    neap: PathBuf,
    hog: PathBuf,
    words: Vec<OsString>,
    device: PathBuf,
}

/// What doctor says of one check.
struct Said {
    verdict: String,
    detail: String,
    remedy: String,
}

impl Place {
    /// `into`: words before neap; `USER` stands for those that give up root, `LIBRARY` for the one that has calls fail.
    fn new(test: &str, into: &[&str]) -> Option<Self> {
        let user = OrdinaryUser::for_test(test)?;
        let filter = user.copy(&program("profile"));
        let mut words: Vec<OsString> = Vec::new();
        for word in into {
            match *word {
                "USER" => words.extend(user.words()),
                "PROFILE" => words.push(filter.clone().into()),
                "LIBRARY" => {
                    let mut preload = OsString::from("LD_PRELOAD=");
                    preload.push(library("failing"));
                    words.push(preload);
                }
                word => words.push(word.into()),
            }
        }
        let hog = user.copy(&program("hog"));
        let device = user.dir().join("userfaultfd");
        let neap = user.neap();
        let place = Self {
            user,
            neap,
            hog,
            words,
            device,
        };
        if place.run(["true"]).code() != 0 {
            skip(test, "this machine cannot build the place");
            return None;
        }
        Some(place)
    }

    fn run(&self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Outcome {
        let words = words.into_iter().map(Into::into);
        let all: Vec<OsString> = self.words.iter().cloned().chain(words).collect();
        let run = Run::new(all).env("NEAP_UFFD_DEVICE", &self.device);
        run.limit(Duration::from_secs(120)).go()
    }

    /// What `neap doctor` says of `name`; it must end with `status`.
    fn doctor(&self, status: i32, name: &str) -> Said {
        let neap = self.neap.as_os_str();
        let run = self.run([neap, "doctor".as_ref(), "--json".as_ref()]);
        run.must_exit(status);
        let report: Value = serde_json::from_slice(&run.stdout).expect("an object");
        let checks = report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no {name} in {report}"));
        let text = |field| check[field].as_str().unwrap_or_default().to_owned();
        Said {
            verdict: text("verdict"),
            detail: text("detail"),
            remedy: text("remedy"),
        }
    }

    fn hog(&self, option: &str) -> Outcome {
        let words = ["run", option, "--summary", "-m", "32M", "--"].map(OsString::from);
        let neap = std::iter::once(self.neap.clone().into());
        let hog = [self.hog.clone().into(), OsString::from("64")];
        self.run(neap.chain(words).chain(hog))
    }

    /// Doctor blames `why` and says `remedy`, and the program runs without a limit, in words that say so.
    fn must_refuse(&self, why: &str, remedy: &str) {
        let said = self.doctor(1, "userfaultfd");
        assert_eq!(said.verdict, "missing");
        assert!(said.detail.contains(why), "{} has no {why}", said.detail);
        assert!(
            said.remedy.contains(remedy),
            "{} has no {remedy}",
            said.remedy
        );
        let run = self.hog("-v");
        run.must_exit(0);
        assert!(
            run.stderr.contains("runs without a limit: "),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains(why), "{}", run.stderr);
        assert!(run.stderr.contains(&said.remedy), "{}", run.stderr);
        self.hog("--require").must_exit(125);
    }

    /// Doctor is content, and so is the program.
    fn must_manage(&self, forks: &str) {
        assert_eq!(self.doctor(0, "userfaultfd").verdict, "ok");
        assert_eq!(self.doctor(0, "fork events").verdict, forks);
        assert_eq!(self.doctor(0, "a program").verdict, "ok");
        let run = self.hog("--require");
        run.must_exit(0);
        assert!(!run.stderr.contains("out: 0 compressed"), "{}", run.stderr);
        assert!(!run.stderr.contains("without a limit"), "{}", run.stderr);
    }

    /// The remedy `--device`: the node, with the owner and mode that it has on the host.
    fn add_device(&self) {
        self.user.device().expect("a device of our own");
        self.set_mode(0o600);
    }

    /// The remedy `chmod`.
    fn set_mode(&self, mode: u32) {
        fs::set_permissions(&self.device, Permissions::from_mode(mode)).expect("our own node");
    }
}

/// Its userfaultfd has everything but UFFDIO_MOVE.
#[test]
fn a_kernel_before_linux_6_8_is_named() {
    let test = "a_kernel_before_linux_6_8_is_named";
    let _alone = exclusive();
    let older = ["env", "NEAP_FAIL=uffdio_api:short:1:1", "LIBRARY"];
    let Some(place) = Place::new(test, &older) else {
        return;
    };
    place.must_refuse("cannot move pages", "Linux 6.8 or later");
}

/// No capability opens what a filter closes; the device does.
#[test]
fn behind_the_default_profile_of_a_container_the_device_is_the_way() {
    let test = "behind_the_default_profile_of_a_container_the_device_is_the_way";
    let _alone = exclusive();
    for answer in ["docker", "podman", "ENOSYS"] {
        let untraced = ["setpriv", "--bounding-set=-sys_ptrace"];
        for (into, forks) in [(&untraced[..], "limited"), (&[], "ok")] {
            let words: Vec<&str> = ["PROFILE", answer].iter().chain(into).copied().collect();
            let Some(place) = Place::new(test, &words) else {
                return;
            };
            place.must_refuse(
                "a seccomp filter refuses userfaultfd(2)",
                "--device /dev/userfaultfd",
            );
            place.add_device();
            place.must_manage(forks);
            if forks == "limited" {
                let remedy = place.doctor(0, "fork events").remedy;
                assert!(remedy.contains("--cap-add SYS_PTRACE"), "{remedy}");
            }
        }
    }
}

#[test]
fn a_users_container_needs_the_device_and_its_mode() {
    let test = "a_users_container_needs_the_device_and_its_mode";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["PROFILE", "docker", "USER", "--no-new-privs"]) else {
        return;
    };
    place.must_refuse("a seccomp filter refuses", "chmod 666");
    place.add_device();
    place.must_refuse("mode 600, owner 0:0", "chmod 666");
    place.set_mode(0o666);
    place.must_manage("limited");
    let remedy = place.doctor(0, "fork events").remedy;
    assert!(remedy.contains("without no_new_privs"), "{remedy}");
}

#[test]
fn a_user_of_a_host_needs_the_device() {
    let test = "a_user_of_a_host_needs_the_device";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["USER"]) else {
        return;
    };
    if fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").is_ok_and(|is| is.trim() == "1")
    {
        return skip(test, "vm.unprivileged_userfaultfd is 1");
    }
    place.must_refuse("takes CAP_SYS_PTRACE or", "vm.unprivileged_userfaultfd=1");
    place.add_device();
    place.must_refuse("mode 600, owner 0:0", "chmod 666");
    place.set_mode(0o666);
    place.must_manage("limited");
    let remedy = place.doctor(0, "fork events").remedy;
    assert!(remedy.contains("setcap cap_sys_ptrace+ep"), "{remedy}");
}

/// The program makes the userfaultfd, and a capability of neap's file is not the program's. With the device it brings
/// the news of forks.
#[test]
fn a_file_capability_alone_manages_nothing() {
    let test = "a_file_capability_alone_manages_nothing";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["USER"]) else {
        return;
    };
    let Some(setcap) = tool("setcap") else {
        return skip(test, "setcap is not installed");
    };
    let given = Command::new(setcap)
        .arg("cap_sys_ptrace+ep")
        .arg(&place.neap)
        .status();
    if !given.is_ok_and(|status| status.success()) {
        return skip(test, "files of this folder take no capabilities");
    }
    place.must_refuse("only neap may make a userfaultfd", "");
    place.add_device();
    place.set_mode(0o666);
    place.must_manage("ok");
}

#[test]
fn root_of_a_user_namespace_needs_the_device() {
    let test = "root_of_a_user_namespace_needs_the_device";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["USER", "unshare", "-Ur"]) else {
        return;
    };
    place.must_refuse("that of a user namespace does not count", "--device");
    place.add_device();
    place.set_mode(0o666);
    place.must_manage("limited");
    let remedy = place.doctor(0, "fork events").remedy;
    assert!(remedy.contains("outside of the user namespace"), "{remedy}");
}

/// What neither doctor nor the engine looked at: the trial shows it.
#[test]
fn what_no_check_knows_of_shows_when_doctor_runs_a_program() {
    let test = "what_no_check_knows_of_shows_when_doctor_runs_a_program";
    let Some(place) = Place::new(test, &["prlimit", "--data=50331648"]) else {
        return;
    };
    let run = place.run([place.neap.as_os_str(), "doctor".as_ref()]);
    let managed = Neap::limit("64M")
        .binary(place.neap.clone())
        .wrapped(place.words.clone());
    let managed = managed.option("--require").run(&Run::new(["true"]));
    assert_eq!(run.code() == 0, managed.code() == 0, "{}", run.text());
    assert!(run.text().contains("ulimit -d"), "{}", run.text());
}
