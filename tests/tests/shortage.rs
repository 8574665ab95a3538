//! What runs out: descriptors and threads, neap's own or the program's. A job runs as it should, or does not
//! begin; and no program reads a wrong byte.

use std::ffi::OsString;
use std::time::Duration;

use neap_tests::{Neap, Need, OrdinaryUser, Run, exclusive, neap_binary, paging, program, require};

fn shell(script: &str) -> Run {
    Run::new(["sh", "-c", script]).limit(Duration::from_secs(60))
}

fn ready(name: &str) -> bool {
    require(name, &[Need::Neap, Need::Userfaultfd])
}

/// neap goes on in memory where the swap file takes no more, and says why.
#[test]
fn a_swap_file_that_may_not_grow_is_named() {
    if !ready("a_swap_file_that_may_not_grow_is_named") {
        return;
    }
    let neap = neap_binary().expect("the binary of neap");
    let hog = program("incompressible");
    let run = shell(&format!(
        "ulimit -f 4096; {} run -m 20M -- {} 40",
        neap.display(),
        hog.display()
    ))
    .go();
    assert_eq!(
        (run.code(), run.text()),
        (0, "incompressible: ok mib=40\n".into())
    );
    assert!(
        run.stderr
            .contains("the swap file cannot be written: File too large"),
        "{}",
        run.stderr
    );
}

/// The kernel counts the threads of a user, so it needs one that is nobody else.
#[test]
fn few_threads_never_leave_a_job_half_way() {
    let Some((user, device)) = OrdinaryUser::with_device("few_threads_never_leave_a_job_half_way")
    else {
        return;
    };
    let _alone = exclusive();
    let (mut ran, mut refused) = (0, 0);
    for count in 2..=16 {
        let limit = format!("--nproc={count}:{count}");
        let neap = user.run("64M", &device, &["prlimit", &limit]);
        let run = neap.run(&shell("echo a"));
        assert!(!run.stderr.contains("panicked"), "{count}: {}", run.stderr);
        match (run.code(), run.text().as_str()) {
            (0, "a\n") => ran += 1,
            (125, "") => refused += 1,
            other => panic!("{count} threads: {other:?}, {}", run.stderr),
        }
        assert!(run.stderr.lines().count() <= 3, "{}", run.stderr);
    }
    assert!(ran > 0, "{refused} of them were refused");
}

#[test]
fn few_threads_may_end_a_record_but_no_job() {
    let Some((user, device)) = OrdinaryUser::with_device("few_threads_may_end_a_record_but_no_job")
    else {
        return;
    };
    let _alone = exclusive();
    for count in 2..=12 {
        let limit = format!("--nproc={count}:{count}");
        let neap = user.run("64M", &device, &["prlimit", &limit]);
        let neap = neap.option("--record").option(user.dir().join("record"));
        let run = neap.run(&shell("echo a"));
        assert!(!run.stderr.contains("panicked"), "{count}: {}", run.stderr);
        let output = (run.code(), run.text());
        let either = output == (0, "a\n".into()) || output == (125, "".into());
        assert!(either, "{count} threads: {output:?}, {}", run.stderr);
    }
}

/// The thread that serves a process is started when the limit comes near, unless it must be there: then before.
/// The program itself takes neap's threads away once it runs, and only then grows.
#[test]
fn what_is_required_to_be_managed_has_its_thread_before_it_runs() {
    let Some((user, device)) =
        OrdinaryUser::with_device("what_is_required_to_be_managed_has_its_thread_before_it_runs")
    else {
        return;
    };
    let _alone = exclusive();
    let grow = "prlimit --pid $PPID --nproc=1:1 || exit 3; x=0123456789abcdef; \
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21; do x=$x$x; done; echo ${#x}";
    let run = user.run("24M", &device, &[]).run(&shell(grow));
    run.must_exit(0);
    assert_eq!(run.text(), format!("{}\n", 32 << 20));
    assert!(run.stderr.contains("managed: no thread"), "{}", run.stderr);
    assert_eq!(run.pages_out(), 0, "{}", run.stderr);
    let required = user.run("24M", &device, &[]).option("--require");
    let run = required.run(&shell(grow));
    run.must_exit(0);
    assert_eq!(run.text(), format!("{}\n", 32 << 20));
    assert!(!run.stderr.contains("no thread"), "{}", run.stderr);
    assert!(run.pages_out() > 0, "{}", run.stderr);
}

/// With few threads for neap and the program together it runs, and where it must be managed that or not at all.
#[test]
fn a_program_that_few_threads_are_left_for_runs_managed_or_not_at_all_where_it_must_be() {
    let Some((user, device)) = OrdinaryUser::with_device(
        "a_program_that_few_threads_are_left_for_runs_managed_or_not_at_all_where_it_must_be",
    ) else {
        return;
    };
    let _alone = exclusive();
    let hog = user.copy(&program("hog"));
    // Two rounds: within one, all may be there before anyone has looked at a job that goes behind others.
    let two = format!("{} 48 2; exit $?", hog.display());
    let two = Run::new(["sh", "-c", &two]).dir(user.dir());
    let (mut managed, mut refused) = (0, 0);
    for count in 10..=20 {
        let limit = format!("--nproc={count}:{count}");
        let neap = user.run("24M", &device, &["prlimit", &limit]);
        let run = neap.run(&two);
        if run.stderr.contains("fork") {
            continue; // the shell's own end
        }
        run.must_exit(0);
        assert!(run.text().starts_with("hog: ok"), "{}", run.text());
        if run.pages_out() == 0 {
            assert!(run.stderr.contains("managed: no thread"), "{}", run.stderr);
        }
        let run = neap.option("--require").run(&two);
        match run.code() {
            0 => {
                assert!(run.pages_out() > 0, "{count}: {}", run.stderr);
                managed += 1;
            }
            125 => refused += 1,
            _ if run.stderr.contains("fork") => {}
            other => panic!("{count} threads: {other}, {}", run.stderr),
        }
    }
    assert!(managed > 0 && refused > 0, "{managed} and {refused}");
}

/// A process that may start no thread has no agent, and runs all the same.
#[test]
fn a_process_that_may_start_no_thread_runs_unmanaged() {
    let Some((user, device)) =
        OrdinaryUser::with_device("a_process_that_may_start_no_thread_runs_unmanaged")
    else {
        return;
    };
    let _alone = exclusive();
    let words = ["prlimit", "--nproc=1:1", "echo", "a"];
    let run = user.run("64M", &device, &[]).run(&Run::new(words));
    assert_eq!(
        (run.code(), run.text().as_str()),
        (0, "a\n"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("stays unmanaged: no thread"),
        "{}",
        run.stderr
    );
    let required = user.run("64M", &device, &[]).option("--require");
    let run = required.run(&Run::new(words));
    assert_eq!(
        (run.code(), run.text().as_str()),
        (125, ""),
        "{}",
        run.stderr
    );
}

/// The same of a child that is forked while pages are elsewhere: what it says is heard.
#[test]
fn a_child_that_may_start_no_thread_is_looked_after() {
    let Some(_alone) = paging("a_child_that_may_start_no_thread_is_looked_after") else {
        return;
    };
    let words = [program("agentless").into(), OsString::from("96")];
    let run = Neap::limit("48M").run(&Run::new(words));
    assert_eq!(run.text(), "right\n", "{}", run.stderr);
    run.must_have_paged();
}

/// The engine that was not told of it keeps nothing of the program.
#[test]
fn what_is_to_be_wiped_is_wiped_though_the_engine_could_not_be_told() {
    let name = "what_is_to_be_wiped_is_wiped_though_the_engine_could_not_be_told";
    let Some(_alone) = paging(name) else {
        return;
    };
    let crowded = program("crowded");
    let words = ["prlimit", "--nofile=64"].map(OsString::from);
    let words = words
        .into_iter()
        .chain([crowded.into(), "96".into(), "wiped".into()]);
    let run = Neap::limit("48M").run(&Run::new(words.collect::<Vec<_>>()));
    assert_eq!(run.text(), "filled\nright\n", "{}", run.stderr);
    assert_eq!(run.number("/vmstat/zswpout"), 0, "{}", run.stats);
}

/// A process that keeps all of its pages is left to the kernel, which is said, and the others go on being paged.
#[test]
fn what_the_engine_could_not_be_told_of_costs_the_rest_of_the_job_nothing() {
    let name = "what_the_engine_could_not_be_told_of_costs_the_rest_of_the_job_nothing";
    let Some(_alone) = paging(name) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let script = format!(
        ": > said; {{ until grep -q filled said; do sleep 0.1; done; {} 96 2; }} \
         | prlimit --nofile=64 {} 24 wiped > said; cat said",
        program("hog").display(),
        program("crowded").display()
    );
    let run = Neap::limit("64M").run(&shell(&script).dir(dir.path()));
    run.must_have_paged().must_be_within_limit();
    let lines: Vec<String> = run.text().lines().map(String::from).collect();
    assert_eq!((&*lines[0], &*lines[2]), ("filled", "right"), "{lines:?}");
    assert!(lines[1].starts_with("hog: ok"), "{lines:?}");
    let told =
        "stays unmanaged: neap could not be told of memory that its children are to find empty";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

/// The engine must be told of a fork that the kernel does not announce. Where it cannot be, no child may read
/// what is not its parent's.
#[test]
fn a_fork_that_the_engine_cannot_be_told_of_shows_no_wrong_byte() {
    let name = "a_fork_that_the_engine_cannot_be_told_of_shows_no_wrong_byte";
    let Some((user, device)) = OrdinaryUser::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let crowded = user.copy(&program("crowded"));
    let words: Vec<OsString> = vec![
        "prlimit".into(),
        "--nofile=64".into(),
        crowded.into(),
        "96".into(),
    ];
    let run = user
        .run("48M", &device, &[])
        .run(&Run::new(words).dir(user.dir()));
    assert_eq!(run.text(), "", "it is killed before it forks");
    let line = "neap: the engine could not be told of a fork";
    assert!(run.stderr.contains(line), "{}", run.stderr);
}

/// Its pages came back for the fork, and stay for all that the engine knows.
#[test]
fn a_fork_whose_end_the_engine_cannot_be_told_of_is_said() {
    let name = "a_fork_whose_end_the_engine_cannot_be_told_of_is_said";
    let Some((user, device)) = OrdinaryUser::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let crowded = user.copy(&program("crowded"));
    let words: Vec<OsString> = vec![crowded.into(), "96".into(), "later".into()];
    let run = user
        .run("48M", &device, &[])
        .run(&Run::new(words).dir(user.dir()));
    run.must_have_paged();
    assert_eq!(run.text(), "right\n", "{}", run.stderr);
    let line = "neap: the engine could not be told that a fork is over";
    // The child may have had all that it needs by then.
    let came_back = run.stderr.contains("all pages come back");
    let said = run.stderr.matches(line).count();
    assert!(said == 1 || said == 0 && !came_back, "{}", run.stderr);
}

#[test]
fn what_is_required_to_be_managed_does_not_run_otherwise() {
    if !ready("what_is_required_to_be_managed_does_not_run_otherwise") {
        return;
    }
    let neap = neap_binary().expect("a binary, as required");
    let dir = tempfile::tempdir().expect("a directory");
    let stats = dir.path().join("stats");
    let (mut ran, mut refused) = (0, 0);
    for count in 8..=32 {
        let script = format!(
            "ulimit -n {count}; exec {} run --require --stats {} -m 64M -- /bin/echo a",
            neap.display(),
            stats.display()
        );
        let run = shell(&script).go();
        match (run.code(), run.text().as_str()) {
            (0, "a\n") => {
                let stats = std::fs::read_to_string(&stats).expect("statistics");
                assert!(stats.contains("\"managed\":true"), "{count}: {stats}");
                ran += 1;
            }
            (125, "") => {
                assert!(!run.stderr.contains("did not load"), "{}", run.stderr);
                assert!(run.stderr.contains("descriptor") || run.stderr.contains("open files"));
                refused += 1;
            }
            other => panic!("ulimit -n {count}: {other:?}, {}", run.stderr),
        }
    }
    assert!(ran > 0 && refused > 0, "{ran} ran, {refused} were refused");
}

/// It is said by the library, which alone can say it.
#[test]
fn what_is_required_to_be_managed_does_not_run_where_it_cannot_reach_the_engine() {
    let name = "what_is_required_to_be_managed_does_not_run_where_it_cannot_reach_the_engine";
    let needs = [
        Need::Neap,
        Need::Userfaultfd,
        Need::Root,
        Need::Tool("unshare"),
    ];
    if !require(name, &needs) {
        return;
    }
    let hidden = "mount -t tmpfs none ${NEAP_SOCKET%/*/*/*} && exec echo a";
    let elsewhere = Run::new(["unshare", "--mount", "sh", "-c", hidden]);
    let run = Neap::limit("64M").run(&elsewhere);
    assert_eq!((run.code(), run.text().as_str()), (0, "a\n"));
    let run = Neap::limit("64M").option("--require").run(&elsewhere);
    assert_eq!((run.code(), run.text().as_str()), (125, ""));
    let line = "neap: a program ends because it could not be managed, as --require asks\n";
    assert_eq!(run.stderr, line);
}

/// The engine hears of each, and says why: no descriptor for a userfaultfd, for the device, or for its own files.
#[test]
fn a_program_that_has_few_descriptors_itself_runs_unmanaged_or_not_at_all() {
    if !ready("a_program_that_has_few_descriptors_itself_runs_unmanaged_or_not_at_all") {
        return;
    }
    let mut unmanaged = 0;
    for count in 4..=10 {
        let inner = shell(&format!("ulimit -n {count}; exec /bin/echo a"));
        let run = Neap::limit("64M").run(&inner);
        let output = (run.code(), run.text());
        assert_eq!(output, (0, "a\n".into()), "{count}: {}", run.stderr);
        assert!(run.stderr.lines().count() <= 1, "{count}: {}", run.stderr);
        let told = run.stderr.contains("a process stays unmanaged: ");
        let required = Neap::limit("64M").option("--require").run(&inner);
        let output = (required.code(), required.text());
        let expected = if told { (125, "") } else { (0, "a\n") };
        assert_eq!(output, (expected.0, expected.1.into()), "{count}");
        unmanaged += usize::from(told);
    }
    assert!(unmanaged > 0);
}

/// A user may have only so many descriptors on their way between sockets; root may have any number.
#[test]
fn a_program_that_may_send_no_descriptors_runs_unmanaged_or_not_at_all() {
    let name = "a_program_that_may_send_no_descriptors_runs_unmanaged_or_not_at_all";
    let Some((user, device)) = OrdinaryUser::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let inflight = user.copy(&program("inflight"));
    let inner = Run::new([inflight.as_os_str(), "echo".as_ref(), "a".as_ref()]).dir(user.dir());
    let run = user.run("64M", &device, &[]).run(&inner);
    assert_eq!(
        (run.code(), run.text()),
        (0, "a\n".into()),
        "{}",
        run.stderr
    );
    let told = "stays unmanaged: its descriptors could not be sent";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    let required = user.run("64M", &device, &[]).option("--require");
    let run = required.run(&inner);
    assert_eq!(
        (run.code(), run.text()),
        (125, String::new()),
        "{}",
        run.stderr
    );
}

/// With few descriptors a job runs, unmanaged perhaps, or does not begin: it never stands still, and 125 means
/// that the command did not run.
#[test]
fn few_descriptors_never_leave_a_job_half_way() {
    if !ready("few_descriptors_never_leave_a_job_half_way") {
        return;
    }
    let neap = neap_binary().expect("a binary, as required");
    for count in 8..=24 {
        let script = format!(
            "ulimit -n {count}; exec {} run -m 64M -- sh -c 'echo a; /bin/true; echo b; exit 5'",
            neap.display()
        );
        let run = shell(&script).go();
        let output = (run.code(), run.text());
        assert!(
            output == (5, "a\nb\n".into()) || output == (125, "".into()),
            "ulimit -n {count}: {output:?}, {}",
            run.stderr
        );
    }
}

/// Neap looks at what it has taken on also when it has no descriptor left.
#[test]
fn what_is_required_to_be_managed_is_seen_also_with_few_descriptors() {
    if !ready("what_is_required_to_be_managed_is_seen_also_with_few_descriptors") {
        return;
    }
    let neap = neap_binary().expect("a binary, as required");
    let dir = tempfile::tempdir().expect("a directory");
    let (hog, stats) = (program("incompressible"), dir.path().join("stats"));
    let mut managed = 0;
    for count in 14..=40 {
        let script = format!(
            "ulimit -n {count}; exec {} run -m 12M --require --stats {} -- {} 20",
            neap.display(),
            stats.display(),
            hog.display()
        );
        let run = shell(&script).go();
        match (run.code(), run.text().as_str()) {
            (0, "incompressible: ok mib=20\n") => {
                let stats = std::fs::read_to_string(&stats).expect("statistics");
                assert!(!stats.contains("\"armed_bytes\":0"), "{count}: {stats}");
                managed += 1;
            }
            (125, "") => {}
            other => panic!("ulimit -n {count}: {other:?}, {}", run.stderr),
        }
    }
    assert!(managed > 0);
}

/// A child needs a descriptor, and no more than that.
#[test]
fn a_child_is_served_with_the_last_descriptor() {
    if !ready("a_child_is_served_with_the_last_descriptor") {
        return;
    }
    let neap = neap_binary().expect("a binary, as required");
    let survive = program("survive");
    for count in [24, 28, 40] {
        let script = format!(
            "ulimit -n {count}; exec {} run -m 16M -- {} children 40",
            neap.display(),
            survive.display()
        );
        let run = shell(&script).go();
        assert_eq!(run.code(), 0, "ulimit -n {count}: {}", run.stderr);
    }
}
