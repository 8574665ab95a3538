//! Children that a program makes itself, by libc's `syscall` and `clone`: they have what their parent has, also where the kernel
//! announces no forks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neap_tests::{
    Managed, Neap, Need, OrdinaryUser, Run, exclusive, library, musl_program, paging, program,
    program_with, require, skip,
};

/// Ways in which a child is given what is out.
const PASSED_ON: [&str; 7] = [
    "clone",
    "fork",
    "clone3",
    "function",
    "jump",
    "sibling",
    "namespaces",
];
/// Ways for which all pages come back.
const BROUGHT_BACK: [&str; 2] = ["vfork", "files"];
/// Both of them, and a thread that makes children while others change mappings.
const OTHERS: [&str; 3] = ["stack", "function-alone", "threads"];

fn run(neap: &Neap, apart: &Path, mode: &str, dir: Option<&Path>) -> Managed {
    let words = [
        apart.as_os_str(),
        mode.as_ref(),
        "24".as_ref(),
        "3".as_ref(),
    ];
    let run = Run::new(words.map(OsString::from)).limit(Duration::from_secs(180));
    let run = dir.iter().fold(run, |run, dir| run.dir(dir));
    let run = neap.run(&run);
    assert_eq!(run.text(), format!("{mode}: 0 wrong\n"), "{}", run.stderr);
    run.must_have_paged();
    run
}

fn came_back(run: &Managed) -> bool {
    run.stderr.contains("all pages come back")
}

#[test]
fn children_that_an_ordinary_user_makes_by_clone_have_what_is_out() {
    let test = "children_that_an_ordinary_user_makes_by_clone_have_what_is_out";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let apart = user.copy(&program("apart"));
    let neap = user.run("16M", &device, &[]);
    let x86 = cfg!(target_arch = "x86_64");
    for mode in PASSED_ON {
        let run = run(&neap, &apart, mode, Some(user.dir()));
        assert_eq!(came_back(&run), !x86, "{mode}: {}", run.stderr);
    }
    for mode in BROUGHT_BACK {
        let run = run(&neap, &apart, mode, Some(user.dir()));
        assert!(came_back(&run), "{mode}: {}", run.stderr);
    }
    for mode in OTHERS.iter().filter(|&&mode| x86 || mode != "stack") {
        run(&neap, &apart, mode, Some(user.dir()));
    }
}

/// Nothing comes back for them, so that the limit holds.
#[test]
fn children_that_an_ordinary_user_makes_by_clone_stay_within_the_limit() {
    let test = "children_that_an_ordinary_user_makes_by_clone_stay_within_the_limit";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    if cfg!(not(target_arch = "x86_64")) {
        return skip(test, "pages are passed on to such children on x86-64 only");
    }
    let _alone = exclusive();
    let apart = user.copy(&program("apart"));
    let neap = user.run("16M", &device, &[]);
    for mode in ["clone", "function"] {
        run(&neap, &apart, mode, Some(user.dir())).must_be_within_limit();
    }
}

#[test]
fn children_that_root_makes_by_clone_have_what_is_out() {
    let test = "children_that_root_makes_by_clone_have_what_is_out";
    if !require(test, &[Need::Root]) {
        return;
    }
    let Some(_alone) = paging(test) else { return };
    let (neap, apart) = (Neap::limit("16M"), program("apart"));
    let all = [&PASSED_ON[..], &BROUGHT_BACK, &OTHERS].concat();
    for mode in all {
        let run = run(&neap, &apart, mode, None);
        assert!(!came_back(&run), "{mode}: {}", run.stderr);
    }
}

/// musl's `clone` does more than the system call, so that it is left to that, and all pages come back before.
#[test]
fn children_that_a_musl_program_makes_by_clone_have_what_is_out() {
    let test = "children_that_a_musl_program_makes_by_clone_have_what_is_out";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let Some(apart) = musl_program("apart") else {
        return skip(test, "musl-gcc is not installed");
    };
    let _alone = exclusive();
    let apart = user.copy(&apart);
    let neap = user.run("16M", &device, &[]);
    for mode in ["clone", "clone3", "function", "jump", "vfork", "threads"] {
        run(&neap, &apart, mode, Some(user.dir()));
    }
}

/// A library that stands before neap's, and makes its calls before neap's has begun.
#[test]
fn calls_that_are_made_before_the_library_has_begun_are_made() {
    let test = "calls_that_are_made_before_the_library_has_begun_are_made";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let [apart, early] = [program("apart"), library("early")].map(|file| user.copy(&file));
    let neap = user.run("16M", &device, &[]);
    let script = "LD_PRELOAD=\"$0:$LD_PRELOAD\" exec \"$1\" clone 24 3";
    let run = scripted(&neap, script, [&early, &apart], user.dir());
    assert_eq!(
        run.text(),
        "early: 0 wrong\nclone: 0 wrong\n",
        "{}",
        run.stderr
    );
    run.must_have_paged();
}

/// A library of the program's may call a function of its own by one of these names, which neap's stands in front of.
#[test]
fn functions_of_a_library_that_are_called_so_are_its_own() {
    let test = "functions_of_a_library_that_are_called_so_are_its_own";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let [hog, namesake] = [program("hog"), library("namesake")].map(|file| user.copy(&file));
    let neap = user.run("16M", &device, &[]);
    let plain = Run::new([hog.as_os_str(), "64".as_ref(), "2".as_ref()]).go();
    for order in ["$LD_PRELOAD:$0", "$0:$LD_PRELOAD"] {
        let script = format!("LD_PRELOAD=\"{order}\" exec \"$1\" 64 2");
        let run = scripted(&neap, &script, [&namesake, &hog], user.dir());
        let answers = "5012 56007 57008\n";
        let expected = format!("{answers}{answers}{}", plain.text());
        assert_eq!(run.text(), expected, "{order}: {}", run.stderr);
        run.must_have_paged();
    }
}

fn scripted(neap: &Neap, script: &str, files: [&PathBuf; 2], dir: &Path) -> Managed {
    let words = ["sh", "-c", script].map(OsString::from);
    let files = files.map(|file| file.clone().into_os_string());
    let run = Run::new(words.into_iter().chain(files)).dir(dir);
    neap.run(&run.limit(Duration::from_secs(180)))
}

/// Whom neap's own code calls by that name must not be the program's.
#[test]
fn a_program_with_a_clone_of_its_own_may_use_libcs_by_its_other_name() {
    let test = "a_program_with_a_clone_of_its_own_may_use_libcs_by_its_other_name";
    let Some(_alone) = paging(test) else { return };
    let Some(program) = program_with("ownclone", &["-rdynamic"]) else {
        return skip(test, "cc knows no -rdynamic");
    };
    let run = Neap::limit("16M").run(&Run::new([program]));
    assert_eq!(run.text(), "3004 7\n", "{}", run.stderr);
}
