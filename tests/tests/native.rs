//! The test programs themselves, run plainly: what they say under neap means something only if they
//! pass without it, and find what is wrong when something is.

use std::time::Duration;

use neap_tests::{Run, exclusive, program};

fn torture(arguments: &[&str]) -> Run {
    let path = program("torture");
    Run::new(
        [path.as_os_str()]
            .into_iter()
            .chain(arguments.iter().map(AsRef::as_ref)),
    )
    .limit(Duration::from_secs(120))
}

#[test]
fn torture_passes_plainly_with_several_seeds() {
    let _alone = exclusive();
    for seed in ["1", "2", "3"] {
        let run = torture(&[
            "--seed",
            seed,
            "--count",
            "400",
            "--threads",
            "4",
            "--memory",
            "96M",
        ])
        .go();
        run.must_exit(0);
        assert!(
            run.text().starts_with(&format!("torture: ok seed={seed} ")),
            "{}",
            run.text()
        );
    }
}

#[test]
fn torture_finds_one_wrong_bit_and_says_how_to_replay_it() {
    let run = torture(&[
        "--seed",
        "7",
        "--count",
        "5000",
        "--threads",
        "2",
        "--memory",
        "32M",
        "--ops",
        "write,sweep,sabotage",
    ])
    .go();
    run.must_exit(1);
    for needle in [
        "FAIL wrong bytes",
        "--seed 7 --threads 2",
        "1 of 512 words differ",
        "expected",
        "found",
        "last operations",
    ] {
        assert!(
            run.stderr.contains(needle),
            "no {needle:?} in {}",
            run.stderr
        );
    }
}

#[test]
fn torture_chooses_the_same_operations_for_the_same_seed() {
    let arguments = [
        "--seed",
        "9",
        "--count",
        "300",
        "--threads",
        "2",
        "--memory",
        "32M",
        "--verbose",
        "--ops",
        "map,write,poke,verify,malloc",
    ];
    let counts = || {
        let run = torture(&arguments).go();
        run.must_exit(0);
        run.stderr
    };
    assert_eq!(counts(), counts());
}

#[test]
fn every_operation_of_torture_passes_alone() {
    let _alone = exclusive();
    let refused = torture(&["--op", "nothing-of-the-kind"]).go();
    refused.must_exit(2);
    let names = refused
        .stderr
        .lines()
        .next()
        .unwrap_or_default()
        .split("there are:")
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    assert!(names.split_whitespace().count() > 30, "{names}");
    for name in names.split_whitespace().filter(|n| *n != "sabotage") {
        torture(&[
            "--seed",
            "5",
            "--count",
            "60",
            "--threads",
            "2",
            "--memory",
            "16M",
            "--op",
            name,
        ])
        .go()
        .must_exit(0);
    }
}

#[test]
fn hog_prints_the_same_digest_each_time() {
    let hog = program("hog");
    let digest = || {
        let run = Run::new([hog.as_os_str(), "32".as_ref(), "2".as_ref()]).go();
        run.must_exit(0);
        run.text()
    };
    let first = digest();
    assert!(
        first.starts_with("hog: ok mib=32 rounds=2 digest="),
        "{first}"
    );
    assert_eq!(first, digest());
}

#[test]
fn burst_verifies_what_it_wrote() {
    let burst = program("burst");
    for fill in ["same", "text"] {
        let run = Run::new([
            burst.as_os_str(),
            "64".as_ref(),
            "2".as_ref(),
            fill.as_ref(),
        ])
        .go();
        run.must_exit(0);
        assert_eq!(
            run.text(),
            format!("burst: ok mib=64 threads=2 fill={fill}\n")
        );
    }
}
