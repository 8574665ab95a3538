//! Each call that neap makes fails, once or again and again: the job goes on and each byte is right, or it ends with a
//! line that says why. It never hangs, and nothing is left waiting.
//!
//! `NEAP_FAILING=all` tries every error at several places (`make failing`); `NEAP_FAILING=CALL` those of one call.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use neap_tests::{
    Calls, End, Failing, Failure, Neap, Need, OrdinaryUser, exclusive, judge, require,
};

/// Errors that a kind of call may meet, the likeliest first. See docs/design/failing-calls.md.
const ERRORS: &[(&str, &[&str])] = &[
    ("uffdio_api", &["ENOMEM", "EINVAL"]),
    ("uffdio_register", &["ENOMEM", "EINTR", "EINVAL"]),
    ("uffdio_unregister", &["ENOMEM", "EINTR"]),
    ("uffdio_wake", &["EINTR", "ENOMEM"]),
    (
        "uffdio_copy",
        &["EAGAIN", "ESRCH", "short", "EINTR", "ENOMEM", "EFAULT"],
    ),
    ("uffdio_zeropage", &["EAGAIN", "ESRCH", "EINTR", "ENOMEM"]),
    (
        "uffdio_writeprotect",
        &["ENOMEM", "EAGAIN", "EINTR", "ESRCH"],
    ),
    ("uffdio_poison", &["EINVAL"]),
    ("userfaultfd_new", &["EMFILE", "ENOMEM"]),
    ("pagemap_scan", &["EINTR", "ENOMEM", "EFAULT"]),
    ("procmap_query", &["EINTR", "ENOMEM", "ESRCH"]),
    (
        "read_events",
        &["ENOMEM", "EMFILE", "EINTR", "EAGAIN", "ESRCH"],
    ),
    ("read_waker", &["EINTR", "EAGAIN"]),
    ("read", &["EINTR", "ENOMEM", "EIO", "ESRCH"]),
    (
        "pread",
        &["EIO", "EINTR", "ENOMEM", "ESRCH", "EAGAIN", "short"],
    ),
    ("pwrite", &["ENOSPC", "EIO", "EINTR", "EDQUOT", "short"]),
    ("write_waker", &["EINTR", "EAGAIN"]),
    ("write", &["EIO", "EPIPE"]),
    ("poll", &["ENOMEM", "EINTR"]),
    ("ppoll", &["ENOMEM", "EINTR", "EINVAL"]),
    (
        "sendmsg",
        &[
            "ENOBUFS",
            "EAGAIN",
            "ENOMEM",
            "EINTR",
            "EPIPE",
            "ETOOMANYREFS",
        ],
    ),
    ("recvmsg", &["ENOMEM", "EINTR", "EAGAIN", "ENOBUFS"]),
    (
        "accept",
        &["EMFILE", "ECONNABORTED", "EINTR", "ENFILE", "ENOMEM"],
    ),
    ("socket", &["EMFILE", "ENOBUFS"]),
    ("bind", &["ENOMEM"]),
    ("listen", &["ENOMEM"]),
    ("getsockopt", &["ENOBUFS"]),
    ("setsockopt", &["ENOMEM"]),
    ("eventfd", &["EMFILE", "ENOMEM"]),
    ("epoll_create1", &["EMFILE", "ENOMEM"]),
    ("epoll_ctl", &["ENOSPC", "ENOMEM"]),
    ("epoll_wait", &["EINTR"]),
    ("fallocate", &["ENOSPC", "EINTR", "EIO"]),
    ("ftruncate", &["EIO"]),
    ("mmap", &["ENOMEM"]),
    ("munmap", &["ENOMEM"]),
    ("mprotect", &["ENOMEM"]),
    ("madvise", &["ENOMEM", "EAGAIN"]),
    ("sigaltstack", &["ENOMEM"]),
    ("pthread_create", &["EAGAIN"]),
    ("open", &["EMFILE", "ENOMEM", "EINTR", "ENOENT", "EACCES"]),
    ("opendir", &["EMFILE", "ENOMEM"]),
    ("closedir", &["EIO", "EINTR"]),
    ("close", &["EIO", "EINTR"]),
    ("kill", &["EPERM"]),
    ("pidfd_open", &["EMFILE", "ENOMEM"]),
    ("pidfd_send_signal", &["EPERM"]),
    ("get_robust_list", &["EPERM", "ESRCH"]),
    ("sched_setattr", &["EPERM"]),
    ("futex", &["EINTR"]),
    ("io_uring_setup", &["ENOMEM", "EPERM"]),
    ("io_uring_enter", &["ENOMEM", "EINTR", "EAGAIN", "EBUSY"]),
    ("io_uring_register", &["EINVAL"]),
    ("getdents64", &["EIO"]),
    ("sched_setaffinity", &["EINVAL", "EPERM", "ESRCH"]),
    ("sched_getaffinity", &["ESRCH"]),
    ("sched_setscheduler", &["EPERM"]),
    ("setpriority", &["EACCES"]),
    ("getrandom", &["ENOSYS", "EINTR"]),
    ("malloc", &["ENOMEM"]),
    ("clock_nanosleep", &["EINTR"]),
    ("fcntl", &["EINVAL"]),
    ("statx", &["ENOSYS", "EACCES"]),
];

/// What is tried: of every call, or each `step`th, one error at one place. More and of all if the user asks.
fn plan(base: &BTreeMap<String, Calls>, step: usize) -> Vec<Failure> {
    let asked = std::env::var("NEAP_FAILING").unwrap_or_default();
    let mut plan = Vec::new();
    let step = if asked.is_empty() { step } else { 1 };
    for (call, errors) in ERRORS.iter().step_by(step) {
        let made = base.get(*call).map_or(0, |calls| calls.made);
        let whole = asked == "all" || asked == *call;
        let errors = if whole { errors } else { &errors[..1] };
        for error in errors.iter().filter(|_| made > 0) {
            let mut places = vec![(1, 0)];
            if made > 4 {
                places = vec![(made / 2, 0), (1, 0), (2, (made / 60).max(2))];
            } else if made > 1 {
                places.push((made, 0));
            }
            // The language's own start, before ours, does without none of these.
            if ["mmap", "mprotect", "sigaltstack"].contains(call) {
                places.retain(|(first, _)| *first > 1);
            }
            places.truncate(if whole { places.len() } else { 1 });
            plan.extend(places.into_iter().map(|(first, every)| Failure {
                call: (*call).to_owned(),
                error: (*error).to_owned(),
                first,
                every,
            }));
        }
    }
    plan
}

/// Tries what is planned, and says how it went.
fn try_all(failing: &Failing, plan: impl FnOnce(&BTreeMap<String, Calls>) -> Vec<Failure>) {
    let (run, base) = failing.run(None);
    assert_eq!(judge(&run), Ok(End::WentOn));
    let plan = Mutex::new(plan(&base.into_iter().collect()).into_iter());
    let sums = Mutex::new((0, 0, 0, String::new()));
    let work = || {
        let next = || plan.lock().expect("the plan").next();
        while let Some(failure) = next() {
            let (run, counts) = failing.run(Some(&failure));
            let failed = counts.iter().map(|(_, calls)| calls.failed).sum::<u64>();
            let (went_on, told, calls, faults) = &mut *sums.lock().expect("the sums");
            *calls += failed;
            match judge(&run) {
                _ if failed == 0 => {} // it was not made so often
                Ok(End::WentOn) => *went_on += 1,
                Ok(End::Told) => *told += 1,
                Err(fault) => {
                    let _ = writeln!(faults, "{}: {fault}", failure.text());
                }
            }
        }
    };
    // Most of a run is waiting.
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let (went_on, told, calls, faults) = sums.into_inner().expect("the sums");
    let sum = format!("{calls} calls failed: {went_on} jobs went on, {told} ended with a line\n");
    let _ = std::io::stderr().lock().write_all(sum.as_bytes());
    assert!(faults.is_empty(), "{faults}");
    assert!(went_on > 0);
}

#[test]
fn no_failing_call_leaves_a_job_waiting() {
    let test = "no_failing_call_leaves_a_job_waiting";
    if require(test, &[Need::Neap, Need::Userfaultfd]) {
        let _alone = exclusive();
        // The time for all of them is that of `make failing`.
        try_all(&Failing::new(Neap::limit("10M")), |base| plan(base, 12));
    }
}

/// Where the language's own functions panic: its readers of a folder if the last close fails, its threads if there is no stack for
/// signals. neap uses neither. The first of those stacks is that of the language's own start.
#[test]
fn neap_uses_nothing_that_panics_on_an_error() {
    let test = "neap_uses_nothing_that_panics_on_an_error";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let failing = Failing::new(Neap::limit("10M"));
    for (call, error, first) in [("closedir", "EIO", 1), ("sigaltstack", "ENOMEM", 2)] {
        let failure = Failure {
            call: call.into(),
            error: error.into(),
            first,
            every: 1,
        };
        let (run, _) = failing.run(Some(&failure));
        assert_eq!(judge(&run), Ok(End::WentOn), "{call}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{call}: {}", run.stderr);
    }
}

/// Without CAP_SYS_PTRACE forks take another way, and threads have no priority.
#[test]
fn no_failing_call_leaves_a_job_of_an_ordinary_user_waiting() {
    let test = "no_failing_call_leaves_a_job_of_an_ordinary_user_waiting";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let failing = Failing::new(user.run("10M", &device, &[]));
    try_all(&failing, |base| {
        let mut failures = plan(base, 1);
        let whole = std::env::var_os("NEAP_FAILING").is_some();
        let some = [
            "uffdio_copy",
            "uffdio_zeropage",
            "ppoll",
            "sendmsg",
            "recvmsg",
            "malloc",
        ];
        failures.retain(|failure| whole || some.contains(&&*failure.call));
        failures
    });
}

/// A thread of the engine that cannot go on takes the job with it: here one whose memory runs out.
#[test]
fn an_engine_that_lacks_memory_ends_its_job_with_a_line() {
    let test = "an_engine_that_lacks_memory_ends_its_job_with_a_line";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let failing = Failing::new(Neap::limit("10M"));
    let made = |counts: &[(String, Calls)]| {
        let malloc = counts.iter().find(|(name, _)| name == "malloc");
        malloc.map_or(0, |(_, calls)| calls.made)
    };
    let all = made(&failing.run(None).1);
    let mut ended = 0;
    for part in 1..8 {
        let failure = Failure {
            call: "malloc".into(),
            error: "ENOMEM".into(),
            first: all * part / 8,
            every: 1,
        };
        let (run, _) = failing.run(Some(&failure));
        match judge(&run) {
            Ok(End::Told) => {
                let line = "neap: neap itself has failed, and its job is killed";
                assert_eq!(run.stderr.matches(line).count(), 1, "{}", run.stderr);
                ended += 1;
            }
            Ok(End::WentOn) => {} // so much was not needed
            Err(fault) => panic!("{}: {fault}", failure.text()),
        }
    }
    assert!(ended > 0, "of {all} allocations none was missed");
}

/// What the code calls by `libc::` is in the first column of docs/design/failing-calls.md, as are its ioctls.
#[test]
fn every_call_is_in_the_table() {
    /// No system calls, or what a test alone does.
    const NONE: &[&str] = &[
        "sigfillset",
        "mallopt",
        "pthread_self",
        "fork",
        "waitpid",
        "pause",
        "mincore",
        "mlock",
        "syscall",
        "ioctl",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = fs::read_to_string(root.join("docs/design/failing-calls.md")).expect("the table");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let listed: Vec<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let mut missing = Vec::new();
    let mut code = Vec::new();
    sources(&root.join("crates/neap-sys/src"), &mut code);
    for text in &code {
        for word in text.split("libc::").skip(1) {
            let end = word.find(|c: char| !c.is_alphanumeric() && c != '_');
            let (name, rest) = word.split_at(end.unwrap_or(word.len()));
            let name = match name.strip_prefix("SYS_") {
                Some(number) => number,
                None if rest.starts_with('(') && !name.starts_with(char::is_uppercase) => name,
                None => continue,
            };
            if !NONE.contains(&name) && name != "exit" && name != "mremap" {
                missing.push(name.to_owned());
            }
        }
        for name in ["UFFDIO_", "PAGEMAP_SCAN", "PROCMAP_QUERY"] {
            let quoted = text.split('"').filter(|word| word.starts_with(name));
            missing.extend(quoted.map(str::to_owned));
        }
    }
    missing.retain(|name| !listed.contains(&&**name));
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}

/// The text of all files of a folder, without their tests.
fn sources(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of ours").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("a file of ours");
            into.push(
                text.split("#[cfg(test)]")
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
    }
}
