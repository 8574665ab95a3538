//! What neap says when nothing more can be reclaimed: one line that names what there is.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use neap_tests::service::{Place, path, wait_until};
use neap_tests::{Managed, Neap, Need, Run, exclusive, paging, program, require, skip};

fn words(arguments: &[&str]) -> Run {
    let path = OsString::from(program("stays"));
    let arguments = arguments.iter().map(OsString::from);
    Run::new([path].into_iter().chain(arguments)).limit(Duration::from_secs(60))
}

/// The line on stderr, which names this reason.
fn names(reason: &str, run: &Managed) {
    let lines: Vec<&str> = run.stderr.lines().collect();
    let told = |line: &&&str| line.starts_with("neap: nothing more can be reclaimed (");
    let told: Vec<_> = lines.iter().filter(told).collect();
    assert_eq!(told.len(), 1, "{}", run.stderr);
    assert!(told[0].contains(reason), "not {reason}: {}", run.stderr);
    assert!(told[0].contains("give a larger -m"), "{}", run.stderr);
}

/// No swap file takes such memory, so none is advised.
fn goes_over_whatever_the_swap_file(kind: &str, reason: &str) {
    let run = goes_over(kind, reason);
    assert!(!run.stderr.contains("--swap-size"), "{}", run.stderr);
}

fn goes_over(kind: &str, reason: &str) -> Managed {
    let run = Neap::limit("32M").run(&words(&[kind, "96"]));
    run.must_exit(0);
    assert_eq!(run.text(), "right\n");
    names(reason, &run);
    run
}

/// A collector that write-protects its heap has such memory: pages do not move between mappings of different rights.
#[test]
fn memory_that_is_read_only_is_named() {
    let Some(_alone) = paging("memory_that_is_read_only_is_named") else {
        return;
    };
    goes_over_whatever_the_swap_file("readonly", "read-only");
}

#[test]
fn memory_that_is_executable_is_named() {
    let Some(_alone) = paging("memory_that_is_executable_is_named") else {
        return;
    };
    goes_over_whatever_the_swap_file("executable", "executable");
}

#[test]
fn what_was_written_to_a_file_s_mapping_is_named() {
    let Some(_alone) = paging("what_was_written_to_a_file_s_mapping_is_named") else {
        return;
    };
    goes_over("file", "of files");
}

#[test]
fn memory_that_is_locked_is_named() {
    let name = "memory_that_is_locked_is_named";
    if !require(name, &[Need::Neap, Need::Userfaultfd, Need::Root]) {
        return;
    }
    let _alone = exclusive();
    goes_over("locked", "locked");
}

/// It is named before the job is killed, while there is something to be looked at.
#[test]
fn a_job_that_is_killed_is_told_why() {
    let Some(_alone) = paging("a_job_that_is_killed_is_told_why") else {
        return;
    };
    let neap = Neap::limit("32M").option("--on-exhausted").option("kill");
    let run = neap.run(&words(&["readonly", "96"]));
    run.must_exit(137);
    names("read-only", &run);
    assert!(run.stderr.contains("killed, as asked"), "{}", run.stderr);
}

/// What is compressible and not yet managed when reclaim finds nothing left is found before anybody is killed.
#[test]
fn a_job_that_fits_is_not_killed_for_memory_that_was_not_found_yet() {
    let Some(_alone) = paging("a_job_that_fits_is_not_killed_for_memory_that_was_not_found_yet")
    else {
        return;
    };
    let stacks = OsString::from(program("fibers"));
    let run = Run::new([stacks, "8000".into(), "2".into()]).limit(Duration::from_secs(120));
    let neap = Neap::limit("70M").option("--on-exhausted").option("kill");
    neap.run(&run).must_exit(0);
}

/// What neap has to say waits for who reads standard error, and the job does not.
#[test]
fn a_job_goes_on_though_nobody_reads_standard_error() {
    let Some(_alone) = paging("a_job_goes_on_though_nobody_reads_standard_error") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let full = "mkfifo pipe && exec 2<>pipe && \
        dd if=/dev/zero of=pipe bs=1k count=10k oflag=nonblock 2>/dev/null; exec \"$@\"";
    let shell = ["sh", "-c", full, "sh"].map(OsString::from);
    let run = words(&["readonly", "96"]).dir(dir.path());
    let run = Neap::limit("32M").around(shell).run(&run);
    run.must_exit(0);
    assert_eq!(run.text(), "right\n");
}

/// Runs a job that has so many MiB which do not compress, and is killed. What its client said.
fn killed_noise(place: &Place, mib: &str) -> String {
    let noise = program("incompressible");
    let words = ["run", "--in", "all", "--name", "noise", "--"];
    let words = words.into_iter().chain([path(&noise), mib]);
    let words: Vec<&str> = words.collect();
    let (status, out, err) = place.start(&words).wait();
    assert_eq!(status.signal(), Some(9), "{out} {err}");
    err
}

/// What two of them have fits: the third, which cannot be compressed and has most, is ended, and is told why. No other is.
#[test]
fn of_a_service_one_job_is_killed_and_the_others_go_on() {
    let Some(_alone) = paging("of_a_service_one_job_is_killed_and_the_others_go_on") else {
        return;
    };
    let place = Place::own();
    let _service = place.serve(&["-m", "64M", "--no-swap", "--on-exhausted", "kill"]);
    let names = ["one", "two"];
    let jobs = names.map(|name| (name, place.job(name, 24, &[], true)));
    let err = killed_noise(&place, "96");
    assert!(
        err.contains("noise: nothing more can be reclaimed"),
        "{err}"
    );
    assert!(err.contains("the job is killed, as asked"), "{err}");
    for (name, job) in jobs {
        let said = place.end(name, job);
        assert!(!said.contains("killed"), "{name}: {said}");
    }
}

/// What is protected counts for nothing: the job that has less, and nothing protected, is ended.
#[test]
fn a_job_that_is_protected_is_not_the_one_that_is_killed() {
    let Some(_alone) = paging("a_job_that_is_protected_is_not_the_one_that_is_killed") else {
        return;
    };
    let place = Place::own();
    let _service = place.serve(&["-m", "96M", "--no-swap", "--on-exhausted", "kill"]);
    let kept = place.job("kept", 64, &["--min", "96M"], true);
    killed_noise(&place, "48");
    // It is looked at again, and others may come.
    wait_until("it is gone", || {
        place.stat("all")["jobs"].as_array().map(Vec::len) == Some(1)
    });
    let other = place.job("other", 8, &[], false);
    place.end("other", other);
    place.end("kept", kept);
}

/// The limit that cannot be met is the job's own: no other is looked at.
#[test]
fn a_job_over_its_own_limit_is_the_only_one_killed() {
    let Some(_alone) = paging("a_job_over_its_own_limit_is_the_only_one_killed") else {
        return;
    };
    let place = Place::own();
    let _service = place.serve(&["-m", "256M", "--no-swap", "--on-exhausted", "kill"]);
    let large = place.job("large", 96, &[], false);
    let noise = program("incompressible");
    let run = ["run", "--in", "all", "--name", "noise", "-m", "32M", "--"];
    let (status, out, err) = place
        .start(&[&run[..], &[path(&noise), "64"]].concat())
        .wait();
    assert_eq!(status.signal(), Some(9), "{out} {err}");
    assert!(
        err.contains("noise: nothing more can be reclaimed"),
        "{err}"
    );
    place.end("large", large);
}

/// A freezer cgroup of the first version: in it even SIGKILL waits.
struct Freezer(PathBuf);

impl Freezer {
    fn new() -> Option<Self> {
        let dir =
            Path::new("/sys/fs/cgroup/freezer").join(format!("neap-test-{}", std::process::id()));
        fs::create_dir(&dir).ok().map(|()| Self(dir))
    }

    fn set(&self, state: &str) {
        fs::write(self.0.join("freezer.state"), state).expect("the kernel takes it");
    }

    fn freeze(&self, process: u64) {
        fs::write(self.0.join("cgroup.procs"), process.to_string()).expect("the kernel takes it");
        self.set("FROZEN");
        let state = || fs::read_to_string(self.0.join("freezer.state")).expect("a state");
        wait_until("it is frozen", || state().trim() == "FROZEN");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
        // It takes its pending signal, and the folder can go once it is gone.
        for _ in 0..500 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
    }
}

/// The job that is killed first stands still and keeps its memory: after a while another is killed, and those that wait go on.
#[test]
fn a_killed_job_that_does_not_die_is_not_waited_for_for_ever() {
    let test = "a_killed_job_that_does_not_die_is_not_waited_for_for_ever";
    if !require(test, &[Need::Root]) {
        return;
    }
    let Some(_alone) = paging(test) else { return };
    let Some(freezer) = Freezer::new() else {
        skip(test, "no freezer cgroup of the first version is mounted");
        return;
    };
    let place = Place::own();
    let _service = place.serve(&["-m", "64M", "--no-swap", "--on-exhausted", "kill"]);
    let small = place.job("small", 4, &[], true);
    let noise = program("incompressible");
    let words = ["run", "--in", "all", "--name", "stuck", "--", path(&noise)];
    let stuck = place.start(&[&words[..], &["40", "waits"]].concat());
    let ready = || {
        let stat = place.stat("all");
        let jobs = stat["jobs"].as_array().expect("its jobs");
        let there = jobs.iter().any(|job| job["name"] == "stuck");
        there && place.number("stuck", "/memory/resident_bytes") >= 40 << 20
    };
    wait_until("it has its memory", ready);
    freezer.freeze(place.number("stuck", "/processes/0/pid"));
    let err = killed_noise(&place, "60");
    assert!(err.contains("the job is killed, as asked"), "{err}");
    assert!(place.number("stuck", "/memory/resident_bytes") >= 40 << 20);
    drop(freezer);
    let (status, _, err) = stuck.wait();
    assert_eq!(status.signal(), Some(9), "{err}");
    assert!(
        err.contains("stuck: nothing more can be reclaimed"),
        "it was killed first: {err}"
    );
    place.end("small", small);
}
