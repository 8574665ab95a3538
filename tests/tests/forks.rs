//! Several processes that fork as fast as they can: plainly that is thousands of times a second.

use std::time::Duration;

use neap_tests::{Managed, Neap, Need, OrdinaryUser, Run, exclusive, program, require};

const LIMIT: &str = "32M";
/// Eight processes with half as much again.
const WORDS: [&str; 3] = ["8", "6", "4"];

/// Each byte is right, and the job stays within its limit with what its processes copy: some pages each at a time.
fn must_be_right(name: &str, run: &Managed) {
    run.must_exit(0);
    run.must_have_paged();
    assert_eq!(run.text(), "0 wrong\n", "{}", run.stderr);
    run.must_be_within_limit();
    let forks = run.stderr.lines().find(|line| line.ends_with(" forks"));
    println!("{name}: {}", forks.unwrap_or("it does not say"));
}

#[test]
fn processes_that_fork_as_fast_as_they_can_are_right_and_stay_within_the_limit() {
    let name = "processes_that_fork_as_fast_as_they_can_are_right_and_stay_within_the_limit";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let copy = program("brood");
    let words = std::iter::once(copy.as_os_str()).chain(WORDS.map(AsRef::as_ref));
    let run = Neap::limit(LIMIT).run(&Run::new(words).limit(Duration::from_secs(120)));
    must_be_right(name, &run);
}

#[test]
fn those_of_an_ordinary_user_are_right_and_stay_within_the_limit() {
    let name = "those_of_an_ordinary_user_are_right_and_stay_within_the_limit";
    let Some((user, device)) = OrdinaryUser::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let copy = user.copy(&program("brood"));
    let words = std::iter::once(copy.as_os_str()).chain(WORDS.map(AsRef::as_ref));
    let run = Run::new(words).limit(Duration::from_secs(120));
    let neap = user.run(LIMIT, &device, &[]);
    let run = neap.run(&run.dir(user.dir()));
    must_be_right(name, &run);
    let back = "all pages come back";
    assert!(!run.stderr.contains(back), "{}", run.stderr);
}
