//! Programs for musl are managed as those for glibc: neap's library needs neither.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use neap_tests::{Managed, Neap, OrdinaryUser, Program, Run, musl_program, paging, skip};

/// One of the test programs for musl, or the reason why there is none, said aloud.
fn built(test: &str, name: &str) -> Option<Program> {
    let program = musl_program(name);
    if program.is_none() {
        skip(test, "musl-gcc is not installed");
    }
    program
}

fn run(program: &Path, words: &[&str]) -> Run {
    let words = words.iter().map(OsString::from);
    let all = std::iter::once(program.as_os_str().to_owned()).chain(words);
    Run::new(all).limit(Duration::from_secs(180))
}

/// Runs a mode of `survive`, which counts what is wrong. How many pages it looks at may depend on time.
fn survives(neap: &Neap, run: &Run) {
    let managed = neap.run(run);
    managed.must_exit(0);
    assert!(managed.text().starts_with("0 of "), "{}", managed.text());
    assert_eq!(managed.stats["managed"], true, "{}", managed.stats);
}

/// Runs it with and without neap, and compares.
fn same(neap: &Neap, run: &Run) -> Managed {
    let plain = run.go();
    let managed = neap.run(run);
    managed.must_have_paged();
    assert_eq!(managed.text(), plain.text());
    assert!(
        !managed.stderr.contains("without a limit"),
        "{}",
        managed.stderr
    );
    managed
}

#[test]
fn memory_threads_and_forks_of_musl_programs_are_managed() {
    let test = "memory_threads_and_forks_of_musl_programs_are_managed";
    let Some(_alone) = paging(test) else {
        return;
    };
    let Some(hog) = built(test, "hog") else {
        return;
    };
    let neap = Neap::limit("48M").option("--require");
    same(&neap, &run(&hog, &["96", "2"]));
    let survive = built(test, "survive").expect("musl is there");
    for mode in ["children", "shuffle", "churn", "heirs", "vforked", "wiped"] {
        survives(&neap, &run(&survive, &[mode, "80"]));
    }
}

#[test]
fn an_ordinary_users_musl_programs_are_managed() {
    let test = "an_ordinary_users_musl_programs_are_managed";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let Some(hog) = built(test, "hog") else {
        return;
    };
    let survive = built(test, "survive").expect("musl is there");
    let _alone = neap_tests::exclusive();
    let neap = user.run("48M", &device, &[]);
    let (hog, survive) = (user.copy(&hog), user.copy(&survive));
    same(&neap, &run(&hog, &["96", "2"]).dir(user.dir()));
    for mode in ["children", "vforked"] {
        survives(&neap, &run(&survive, &[mode, "80"]).dir(user.dir()));
    }
}
