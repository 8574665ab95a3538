//! The agent is no part of the program: what a program sees of it, what others may do to either, and that it goes when
//! its process does. The modes are those of `programs/beside`, under a limit far below what it writes.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::{
    Managed, Neap, Need, Run, paging, program, program_with, require, skip, static_program,
};

const SKIPPED: i32 = 77;
const LIMIT: &str = "32M";
const MIB: &str = "96";

fn beside(mode: &str, more: &[&str]) -> Run {
    let mut words: Vec<OsString> = vec![program("beside").into(), mode.into(), MIB.into()];
    words.extend(more.iter().map(OsString::from));
    Run::new(words).limit(Duration::from_secs(120))
}

/// Runs a mode; `None`: it was skipped.
fn passes(test: &str, mode: &str, more: &[&str]) -> Option<Managed> {
    let _alone = paging(test)?;
    let run = Neap::limit(LIMIT)
        .env("NEAP_CHECK", "1")
        .run(&beside(mode, more));
    if run.code() == SKIPPED {
        skip(test, "the machine does not let the program try");
        return None;
    }
    run.must_have_paged();
    all_were_managed(&run);
    Some(run)
}

/// Near the limit neap may have something to say; not of agents.
fn all_were_managed(run: &Managed) {
    let said = &run.stderr;
    assert!(
        !said.contains("agent") && !said.contains("unmanaged"),
        "{said}"
    );
}

#[test]
fn a_program_has_the_threads_children_and_descriptors_that_it_made() {
    let test = "a_program_has_the_threads_children_and_descriptors_that_it_made";
    if let Some(run) = passes(test, "alone", &[]) {
        let plain = beside("alone", &[]).go();
        assert_eq!(run.text(), plain.text());
        assert!(
            run.text().starts_with("1 thread, no child"),
            "{}",
            run.text()
        );
    }
}

#[test]
fn a_program_enters_the_user_namespace_of_another() {
    let test = "a_program_enters_the_user_namespace_of_another";
    passes(test, "enters", &[]);
}

#[test]
fn a_program_that_takes_orphans_in_waits_until_it_has_no_children() {
    let test = "a_program_that_takes_orphans_in_waits_until_it_has_no_children";
    if let Some(run) = passes(test, "adopts", &[]) {
        assert_eq!(run.text(), "all ended, 0 wrong\n");
    }
}

#[test]
fn the_first_process_of_a_pid_namespace_waits_until_it_has_no_children() {
    let test = "the_first_process_of_a_pid_namespace_waits_until_it_has_no_children";
    let Some(_alone) = paging(test) else { return };
    let inside = ["unshare", "-p", "-f", "--kill-child"].map(OsString::from);
    let run = beside("adopts", &[]).wrapped(inside);
    if run.go().code() != 0 {
        return skip(test, "no pid namespace may be made here");
    }
    let run = Neap::limit(LIMIT).run(&run);
    run.must_have_paged();
    assert_eq!(run.text(), "all ended, 0 wrong\n");
    all_were_managed(&run);
}

#[test]
fn what_a_process_was_before_an_exec_goes_at_once() {
    let test = "what_a_process_was_before_an_exec_goes_at_once";
    let Some(run) = passes(test, "execs", &["6"]) else {
        return;
    };
    // The new program waits until the agent of the former has gone, but not for long where that gets no cpu.
    let peak = run.number("/memory/peak_bytes");
    assert!(peak <= 48 << 20, "{peak} bytes of 32 MiB");
    assert_eq!(run.number("/memory/limit_bytes"), 32 << 20);
}

/// A static program does not tell that it has taken the place of another.
#[test]
fn what_a_process_was_goes_also_where_the_library_does_not_come_along() {
    let test = "what_a_process_was_goes_also_where_the_library_does_not_come_along";
    let Some(_alone) = paging(test) else { return };
    let Some(looks) = static_program("beside") else {
        return skip(test, "no static C library");
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (words, path) = (looks.to_string_lossy().into_owned(), file.path().to_owned());
    let more = [&words, "looks", "1", path.to_str().expect("a path")];
    let run = Neap::limit(LIMIT).run_with(&beside("leaves", &more), |neap| {
        until("static program runs", || {
            children(neap).iter().any(|pid| is_static(*pid))
        });
        until("agent is gone", || agents(neap).is_empty());
        fs::remove_file(&path).expect("our own file");
    });
    run.must_exit(0);
    assert_eq!(run.text(), "ready\n0 wrong\n");
}

#[test]
fn processes_that_end_leave_nothing_behind() {
    let test = "processes_that_end_leave_nothing_behind";
    if let Some(run) = passes(test, "starts", &["400"]) {
        assert_eq!(run.text(), "0 of 400 failed\n");
        // The program has 96 MiB. Children come as fast as they can beside it: 37.1 MiB of 32 were seen on a busy machine.
        let peak = run.number("/memory/peak_bytes");
        assert!(peak <= 40 << 20, "{peak}");
    }
}

#[test]
fn a_group_that_is_stopped_and_continued_goes_on() {
    passes(
        "a_group_that_is_stopped_and_continued_goes_on",
        "stops",
        &[],
    );
}

#[test]
fn who_stops_all_threads_and_reads_their_memory_finds_all_of_it() {
    let test = "who_stops_all_threads_and_reads_their_memory_finds_all_of_it";
    for _ in 0..4 {
        passes(test, "traced", &[]);
    }
}

/// LeakSanitizer stops all threads at the end, and then reads all of their memory.
#[test]
fn a_leak_checker_finds_what_it_finds_without_neap() {
    let test = "a_leak_checker_finds_what_it_finds_without_neap";
    let Some(_alone) = paging(test) else { return };
    let Some(leak) = program_with("leak", &["-fsanitize=leak"]) else {
        return skip(test, "the compiler has no LeakSanitizer");
    };
    for leaks in ["0", "1"] {
        let run = Run::new([leak.as_os_str(), "40000".as_ref(), leaks.as_ref()]);
        let run = run.limit(Duration::from_secs(120));
        let plain = run.go();
        let managed = Neap::limit("48M").run(&run);
        assert!(managed.pages_out() > 0, "{}", managed.stats);
        managed.must_exit(plain.code());
        assert_eq!(managed.text(), plain.text());
    }
}

/// What happens to the agent happens to it alone: the program goes on with all of its memory.
fn goes_on_after(test: &str, signal: &str, said: &str) {
    let Some(_alone) = paging(test) else { return };
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_owned();
    let more = [path.to_str().expect("a path")];
    let run = Neap::limit(LIMIT).run_with(&beside("looks", &more), |neap| {
        until("pages leave", || {
            agents(neap).iter().any(|pid| is_at_work(*pid))
        });
        for pid in agents(neap) {
            let words = ["-c", "kill -$1 $2", "sh", signal, &pid.to_string()];
            let _ = Command::new("sh").args(words).status();
        }
        until("agent is gone", || agents(neap).is_empty());
        sleep(Duration::from_secs(3)); // it looks at its memory, and neap makes sure that it lives on
        fs::remove_file(&path).expect("our own file");
    });
    run.must_have_paged();
    assert_eq!(run.text(), "ready\n0 wrong\n");
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

#[test]
fn a_program_whose_agent_is_killed_keeps_its_memory() {
    let test = "a_program_whose_agent_is_killed_keeps_its_memory";
    goes_on_after(test, "KILL", "its agent (mm-agent) was killed");
}

/// A stopped agent is ended, as it would keep pages from coming home.
#[test]
fn a_program_whose_agent_is_stopped_keeps_its_memory() {
    let test = "a_program_whose_agent_is_stopped_keeps_its_memory";
    goes_on_after(test, "STOP", "its agent (mm-agent) was stopped");
}

#[test]
fn a_signal_to_all_that_are_called_like_neap_does_not_reach_the_agents() {
    let test = "a_signal_to_all_that_are_called_like_neap_does_not_reach_the_agents";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_owned();
    let more = [path.to_str().expect("a path")];
    let run = Neap::limit(LIMIT).run_with(&beside("looks", &more), |neap| {
        until("agent is there", || !agents(neap).is_empty());
        assert!(agents(neap).iter().all(|pid| !name(*pid).contains("neap")));
        fs::remove_file(&path).expect("our own file");
    });
    run.must_exit(0);
}

/// The agent keeps the user that the program had; it can end it all the same, and do nothing else for it.
#[test]
fn a_program_that_gives_up_its_user_leaves_the_agent_no_rights() {
    let test = "a_program_that_gives_up_its_user_leaves_the_agent_no_rights";
    if !require(test, &[Need::Root]) {
        return;
    }
    let Some(_alone) = paging(test) else { return };
    let file = tempfile::NamedTempFile::new().expect("a file");
    let more = [file.path().to_str().expect("a path")];
    let run = Neap::limit(LIMIT).run_with(&beside("drops", &more), |neap| {
        until("other user", || {
            fs::metadata(file.path()).is_ok_and(|it| it.len() > 0)
        });
        let agents = agents(neap);
        assert!(!agents.is_empty());
        for pid in agents {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
            let has = |line: &str| assert!(status.contains(line), "{line}: {status}");
            has("\nCapPrm:\t0000000000000020\n"); // CAP_KILL
            has("\nCapEff:\t0000000000000020\n");
            has("\nNoNewPrivs:\t1\n");
            has("\nSeccomp:\t2\n");
        }
        let killed = Command::new("kill")
            .args(["-KILL", &neap.to_string()])
            .status();
        assert!(killed.is_ok_and(|status| status.success()));
    });
    assert_eq!(run.text(), "", "{}", run.stderr);
    assert!(
        run.stderr.contains("the program is killed rather than"),
        "{}",
        run.stderr
    );
}

fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "no {what}");
        sleep(Duration::from_millis(5));
    }
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}

/// The children of a process that have not ended.
fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let all = lists.iter().flat_map(|list| list.split_whitespace());
    all.filter_map(|pid| pid.parse().ok())
        .filter(|pid| !has_ended(*pid))
        .collect()
}

fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
}

fn agents(neap: u32) -> Vec<u32> {
    children(neap)
        .into_iter()
        .filter(|pid| name(*pid) == "mm-agent\n")
        .collect()
}

/// Whether the agent has moved pages: that takes time.
fn is_at_work(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let times = stat.rsplit(')').next().unwrap_or_default();
    let mut times = times.split_whitespace().skip(11).take(2);
    times.any(|ticks| ticks != "0")
}

fn is_static(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let file = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    !maps.is_empty() && file.ends_with(Path::new("beside-static"))
}
