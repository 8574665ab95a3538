//! What becomes of interrupts: each is one, unless escalation was asked for.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::{Neap, Need, Run, require};
use rustix::process::{Pid, Signal, kill_process};

/// Generous: these runs are about signals, not about memory.
fn neap() -> Neap {
    Neap::limit("512M")
}

/// A command that counts interrupts in `file`. It ends with 7 at the third, with 3 at TERM.
fn counts_interrupts(file: &Path) -> Run {
    let script = format!(
        "n=0; trap 'n=$((n+1)); echo $n >{0}' INT; trap 'exit 3' TERM; echo 0 >{0}; i=0; \
         while [ $n -lt 3 ] && [ $i -lt 600 ]; do sleep 0.05; i=$((i+1)); done; exit 7",
        file.display()
    );
    Run::new(["sh", "-c", &script]).limit(Duration::from_secs(60))
}

/// Interrupts neap once the command has counted `before`.
fn interrupt(neap: u32, file: &Path, before: u32) {
    let counted = || std::fs::read_to_string(file).ok()?.trim().parse().ok();
    let end = Instant::now() + Duration::from_secs(30);
    while counted().is_none_or(|n: u32| n < before) {
        assert!(Instant::now() < end, "interrupt {before} never came");
        sleep(Duration::from_millis(2));
    }
    let neap = i32::try_from(neap).ok().and_then(Pid::from_raw);
    kill_process(neap.expect("a process id"), Signal::INT).expect("our own child");
}

#[test]
fn each_interrupt_reaches_the_command_as_an_interrupt() {
    if !require(
        "each_interrupt_reaches_the_command_as_an_interrupt",
        &[Need::Neap],
    ) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("count");
    let run = neap().run_with(&counts_interrupts(&file), |pid| {
        (0..3).for_each(|before| interrupt(pid, &file, before));
    });
    run.must_exit(7);
}

#[test]
fn interrupts_escalate_where_that_is_asked_for() {
    if !require("interrupts_escalate_where_that_is_asked_for", &[Need::Neap]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("count");
    let neap = neap().option("--escalate");
    let run = neap.run_with(&counts_interrupts(&file), |pid| {
        (0..2).for_each(|before| interrupt(pid, &file, before));
    });
    run.must_exit(3);
}
