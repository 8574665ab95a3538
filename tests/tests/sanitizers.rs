//! Programs that are built with a sanitizer run under neap as they do without.

use std::time::Duration;

use neap_tests::{Neap, Program, Run, paging, program_with, skip};

/// What gcc offers, by flag; the last has its runtime built in.
const SANITIZERS: [&[&str]; 5] = [
    &["-fsanitize=address"],
    &["-fsanitize=thread"],
    &["-fsanitize=undefined"],
    &["-fsanitize=leak"],
    &["-fsanitize=address", "-static-libasan"],
];

fn each(test: &str, mut check: impl FnMut(&Program)) {
    let Some(_alone) = paging(test) else {
        return;
    };
    for flags in SANITIZERS {
        match program_with("hog", flags) {
            Some(hog) => check(&hog),
            None => skip(test, &format!("the compiler has no {}", flags.join(" "))),
        }
    }
}

/// Its memory leaves and comes back, and none of its own functions stands in the way. Leaks are not looked for: the
/// search stops all threads and reads all memory.
#[test]
fn programs_with_a_sanitizer_may_be_larger_than_their_limit() {
    each(
        "programs_with_a_sanitizer_may_be_larger_than_their_limit",
        |hog| {
            let run = Run::new([hog.as_os_str(), "96".as_ref()]).limit(Duration::from_secs(180));
            let run = run.env("ASAN_OPTIONS", "detect_leaks=0");
            let run = run.env("LSAN_OPTIONS", "detect_leaks=0");
            let plain = run.go();
            let managed = Neap::limit("64M").option("--require").run(&run);
            managed.must_have_paged();
            assert_eq!(managed.text(), plain.text());
        },
    );
}

/// AddressSanitizer ends a program in which another library comes before its own.
#[test]
fn programs_with_a_sanitizer_run_and_are_managed() {
    each("programs_with_a_sanitizer_run_and_are_managed", |hog| {
        let run = Run::new([hog.as_os_str(), "16".as_ref()]).limit(Duration::from_secs(120));
        let plain = run.go();
        let managed = Neap::limit("2G").option("--require").run(&run);
        managed.must_exit(0);
        assert_eq!(managed.text(), plain.text());
        assert_eq!(managed.stderr, plain.stderr);
        assert_eq!(managed.stats["managed"], true, "{}", managed.stats);
    });
}
