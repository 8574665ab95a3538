//! Programs under a neap with debug assertions, as cargo builds it for these tests: each lock is taken in the order that its
//! type says, no arithmetic overflows, and what the engine asserts of itself holds. The end-to-end tests of `tests/` run the
//! release binary, in which nothing of that is looked at.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::time::Duration;

use neap_tests::{Neap, Need, Run, exclusive, program, require, skip};

const NEEDS: [Need; 2] = [Need::Neap, Need::Userfaultfd];

fn must_hold(name: &str, neap: impl Fn() -> Neap, words: &[&[OsString]]) {
    if !cfg!(debug_assertions) {
        return skip(name, "it is built without debug assertions");
    }
    if !require(name, &NEEDS) {
        return;
    }
    let _alone = exclusive();
    for words in words {
        let run = Run::new(words.to_vec()).limit(Duration::from_secs(120));
        neap().run(&run).must_have_paged();
    }
}

fn asserting(limit: &str) -> Neap {
    Neap::limit(limit)
        .binary(env!("CARGO_BIN_EXE_neap").into())
        .env("NEAP_CHECK", "1")
}

fn words(name: &str, args: &[&str]) -> Vec<OsString> {
    let first = [program(name).into()].into_iter();
    first.chain(args.iter().map(OsString::from)).collect()
}

#[test]
fn assertions_hold_under_torture() {
    let torture = words(
        "torture",
        &[
            "--seed",
            "1",
            "--seconds",
            "4",
            "--threads",
            "4",
            "--memory",
            "256M",
            "--stall",
            "150",
        ],
    );
    let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let neap = || {
        let neap = asserting("64M").option("--swap-dir").option(dir.path());
        neap.option("--pool-max").option("30")
    };
    must_hold("assertions_hold_under_torture", neap, &[&torture]);
}

#[test]
fn assertions_hold_where_mappings_come_and_go() {
    let programs = [
        words("survive", &["churn", "64"]),
        words("ways", &["mapped_into_a_reserve", "128"]),
        words("heirs", &["24", "4", "4"]),
        words("fibers", &["2000", "2"]),
    ];
    let programs: Vec<&[OsString]> = programs.iter().map(Vec::as_slice).collect();
    let name = "assertions_hold_where_mappings_come_and_go";
    must_hold(name, || asserting("24M"), &programs);
}
