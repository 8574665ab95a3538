//! Children that a program makes by an instruction of its own, which neither the kernel nor the library tells of: such a child is ended
//! once it is found, and no other process is. It may have read zeros before: those here wait first.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use neap_tests::{Managed, Neap, Need, OrdinaryUser, Run, exclusive, paging, program, require};

/// What neap says of a child that it ends.
const SAID: &str = "made by an instruction of its program's own";

/// The child waits for so many seconds before it looks at its memory.
fn run(neap: &Neap, program: &Path, mode: &str, seconds: &str) -> Managed {
    let words = [
        program.as_os_str(),
        mode.as_ref(),
        "48".as_ref(),
        seconds.as_ref(),
    ];
    let run = Run::new(words.map(OsString::from)).limit(Duration::from_secs(120));
    let run = neap.run(&run);
    run.must_exit(0);
    run.must_have_paged();
    run
}

#[test]
fn a_child_by_an_instruction_of_a_users_program_is_ended_and_never_reads_zeros() {
    let test = "a_child_by_an_instruction_of_a_users_program_is_ended_and_never_reads_zeros";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let raw = user.copy(&program("raw"));
    let neap = user.run("24M", &device, &[]);
    for mode in ["clone", "clone3"] {
        let run = run(&neap, &raw, mode, "60");
        let expected = format!("{mode}: signal 9, 0 wrong here\n");
        assert_eq!(run.text(), expected, "{}", run.stderr);
        let said = run.stderr.lines().filter(|line| line.contains(SAID));
        let said: Vec<_> = said.collect();
        assert_eq!(said.len(), 1, "{}", run.stderr);
        assert!(said[0].contains("CAP_SYS_PTRACE"), "{}", said[0]);
    }
    let run = run(&neap, &raw, "orphan", "60");
    assert_eq!(
        run.text(),
        "ended; orphan: 0 wrong, 0 wrong here\n",
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains(SAID), "{}", run.stderr);
}

/// Nobody can tell what it is.
#[test]
fn a_child_that_may_not_be_looked_at_is_named_and_not_ended() {
    let test = "a_child_that_may_not_be_looked_at_is_named_and_not_ended";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let raw = user.copy(&program("raw"));
    let run = run(&user.run("24M", &device, &[]), &raw, "hidden", "5");
    assert!(!run.text().contains("signal 9"), "{}", run.text());
    assert!(
        run.stderr.contains("cannot be looked at") && run.stderr.contains("CAP_SYS_PTRACE"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains(SAID), "{}", run.stderr);
}

/// Such a child lacks nothing if its parent had all of its memory then. Others are given what is out, or share their parent's memory, or
/// have executed a program, which may be the same at the same addresses.
#[test]
fn no_child_of_a_users_program_that_lacks_nothing_is_ended() {
    let test = "no_child_of_a_users_program_that_lacks_nothing_is_ended";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let raw = user.copy(&program("raw"));
    let neap = user.run("24M", &device, &[]);
    for mode in ["early", "home", "stopped", "vfork", "spawn", "exec"] {
        let run = run(&neap, &raw, mode, "2");
        let expected = format!("{mode}: 0 wrong, 0 wrong here\n");
        assert_eq!(run.text(), expected, "{}", run.stderr);
        assert!(!run.stderr.contains(SAID), "{mode}: {}", run.stderr);
    }
}

/// The kernel announces such children.
#[test]
fn a_child_by_an_instruction_of_roots_program_has_what_is_out() {
    let test = "a_child_by_an_instruction_of_roots_program_has_what_is_out";
    if !require(test, &[Need::Root]) {
        return;
    }
    let Some(_alone) = paging(test) else { return };
    for mode in ["clone", "clone3", "early"] {
        let run = run(&Neap::limit("24M"), &program("raw"), mode, "1");
        let expected = format!("{mode}: 0 wrong, 0 wrong here\n");
        assert_eq!(run.text(), expected, "{}", run.stderr);
    }
}
