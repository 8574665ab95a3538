//! Programs that neap cannot manage: they run unharmed, with one warning.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use neap_tests::{Managed, Neap, Need, Run, install, program, require, skip, static_program, tool};

/// Generous: these runs are about manners, not about memory.
fn neap() -> Neap {
    Neap::limit("512M")
}

fn ready(name: &str) -> bool {
    require(name, &[Need::Neap])
}

#[test]
fn a_static_program_runs_unmanaged_with_one_warning() {
    if !ready("a_static_program_runs_unmanaged_with_one_warning") {
        return;
    }
    let Some(hog) = static_program("hog") else {
        return skip(
            "a_static_program_runs_unmanaged_with_one_warning",
            "no static C library",
        );
    };
    let hog = Run::new([hog.as_os_str(), "64".as_ref()]);
    let plain = hog.go();
    let run = Neap::limit("32M").run(&hog);
    run.must_exit(0);
    assert_eq!(run.text(), plain.text());
    one_warning(&run, "static");
    Neap::limit("32M")
        .option("--require")
        .run(&hog)
        .must_exit(125);
}

fn one_warning(run: &Managed, word: &str) {
    assert_eq!(
        run.stderr.lines().count(),
        1,
        "one line of warning, not: {}",
        run.stderr
    );
    assert!(
        run.stderr.starts_with("neap: ") && run.stderr.contains(word),
        "{}",
        run.stderr
    );
    assert_eq!(run.pages_out(), 0);
}

#[test]
fn a_setuid_program_runs_unmanaged_with_one_warning() {
    let name = "a_setuid_program_runs_unmanaged_with_one_warning";
    if !require(
        name,
        &[
            Need::Neap,
            Need::Root,
            Need::Tool("id"),
            Need::Tool("chown"),
        ],
    ) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755))
        .expect("our own folder");
    let copy = dir.path().join("id");
    install(Path::new("/usr/bin/id"), &copy, "755");
    let owned = Command::new("chown").arg("65534").arg(&copy).status();
    assert!(owned.is_ok_and(|s| s.success()));
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).expect("our own file");
    let run = neap().run(&Run::new([copy.as_os_str(), "-u".as_ref()]));
    run.must_exit(0);
    assert_eq!(
        run.text(),
        "65534\n",
        "the bit must take effect as without neap"
    );
    one_warning(&run, "setuid");
}

/// What is started without the library is named once it takes a sixteenth of the limit.
#[test]
fn a_program_that_was_started_without_the_library_is_named() {
    if !require(
        "a_program_that_was_started_without_the_library_is_named",
        &[Need::Neap, Need::Userfaultfd],
    ) {
        return;
    }
    let holds = "x=$(head -c 20000000 /dev/zero | tr '\\0' a); sleep 4; echo ${#x}";
    for (words, named) in [("LD_PRELOAD= sh -c", true), ("sh -c", false)] {
        let script = format!("{words} \"$0\"; true");
        let run = Neap::limit("128M").run(&Run::new(["sh", "-c", &script, holds]));
        run.must_exit(0);
        assert_eq!(run.text(), "20000000\n");
        let expected = usize::from(named);
        assert_eq!(run.stderr.lines().count(), expected, "{}", run.stderr);
        assert_eq!(run.stderr.contains("without neap's library"), named);
    }
}

#[test]
fn a_program_that_valgrind_runs_is_left_alone() {
    let name = "a_program_that_valgrind_runs_is_left_alone";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let Some(valgrind) = tool("valgrind") else {
        return skip(name, "no valgrind");
    };
    let hog = program("hog");
    let words = [valgrind.as_os_str(), "--tool=none".as_ref(), "-q".as_ref()];
    let run = Run::new(words.into_iter().chain([hog.as_os_str(), "4".as_ref()]));
    let neap = Neap::limit("64M");
    let managed = neap.run(&run);
    managed.must_exit(0);
    let line = "neap: a program that valgrind runs stays unmanaged: valgrind emulates no agent\n";
    assert_eq!(managed.stderr, line);
    let required = neap.option("--require").run(&run);
    required.must_exit(125);
}

/// It is managed with the emulator, whose memory its own is; only neap's library in the guest finds no userfaultfd.
#[test]
fn a_guest_of_a_managed_emulator_is_not_said_to_be_unmanaged() {
    let name = "a_guest_of_a_managed_emulator_is_not_said_to_be_unmanaged";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let Some(emulator) = tool(&format!("qemu-{}", std::env::consts::ARCH)) else {
        return skip(name, "no emulator of this machine's own kind (qemu-user)");
    };
    let hog = program("hog");
    let run = Run::new([emulator.as_os_str(), hog.as_os_str(), "96".as_ref()]);
    let plain = run.go();
    let managed = Neap::limit("64M").run(&run);
    managed.must_have_paged();
    assert_eq!(managed.text(), plain.text());
    assert_eq!(managed.stderr, "");
}

#[test]
fn a_program_that_is_held_before_it_has_said_who_it_is_is_managed_all_the_same() {
    let name = "a_program_that_is_held_before_it_has_said_who_it_is_is_managed_all_the_same";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let (held, hog) = (program("held"), program("hog"));
    for call in ["3", "4"] {
        let words = [held.as_os_str(), call.as_ref(), "3".as_ref()];
        let hog = [hog.as_os_str(), "64".as_ref()];
        let run = Neap::limit("32M").run(&Run::new(words.into_iter().chain(hog)));
        if run.code() == 77 {
            return skip(name, "no program may be traced");
        }
        run.must_have_paged();
        assert!(!run.stderr.contains("unmanaged"), "{}", run.stderr);
    }
}

#[test]
fn a_child_that_cannot_be_managed_for_want_of_descriptors_is_told_of() {
    let name = "a_child_that_cannot_be_managed_for_want_of_descriptors_is_told_of";
    if !require(name, &[Need::Neap, Need::Userfaultfd, Need::Root]) {
        return;
    }
    let starved = program("starved");
    for (left, why) in [
        ("0", "it could make no socket"),
        ("1", "not all of its descriptors came"),
        ("3", "not all of its descriptors came"),
        ("4", "its agent could not start"),
    ] {
        let words = [starved.as_os_str(), left.as_ref(), "32".as_ref()];
        let run = Neap::limit("16M").run(&Run::new(words));
        run.must_exit(0);
        assert!(run.stderr.contains(why), "{left} left: {}", run.stderr);
    }
}

#[test]
fn nothing_is_said_of_programs_that_end_while_they_are_taken_over() {
    let name = "nothing_is_said_of_programs_that_end_while_they_are_taken_over";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let hasty = program("hasty");
    let words = [hasty.as_os_str(), "400".as_ref()];
    let sleep = ["sleep".as_ref(), "100".as_ref()];
    let run = neap().run(&Run::new(words.into_iter().chain(sleep)));
    run.must_exit(0);
    assert_eq!(run.stderr, "");
}
