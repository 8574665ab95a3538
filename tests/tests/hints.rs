//! What a program says of its memory (madvise) shows in what is resident, and in nothing else. Each as root, and as an ordinary
//! user with a device.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use neap_tests::{Managed, Neap, OrdinaryUser, Run, paging, program};

const LIMIT: &str = "64M";

/// Somebody who runs programs.
struct Who {
    user: Option<(OrdinaryUser, PathBuf)>,
    program: PathBuf,
}

impl Who {
    /// Root, and an ordinary user where there can be one.
    fn all(test: &str) -> Vec<Self> {
        let own = program("hints").to_path_buf();
        let user = OrdinaryUser::with_device(test).map(|(user, device)| Self {
            program: user.copy(&own),
            user: Some((user, device)),
        });
        let root = Self {
            user: None,
            program: own,
        };
        [root].into_iter().chain(user).collect()
    }

    fn words(&self, words: &[&str]) -> Run {
        let words = words.iter().map(OsString::from);
        let run = Run::new(
            [self.program.clone().into_os_string()]
                .into_iter()
                .chain(words),
        );
        run.limit(Duration::from_secs(180))
    }

    fn run(&self, words: &[&str]) -> Managed {
        let neap = match &self.user {
            Some((user, device)) => user.run(LIMIT, device, &[]),
            None => Neap::limit(LIMIT),
        };
        let run = neap.run(&self.words(words));
        run.must_exit(0);
        run
    }
}

/// A number that the program printed.
#[track_caller]
fn said(run: &Managed, name: &str) -> u64 {
    let text = run.text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = line.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no {name} in {text}\nstderr: {}", run.stderr))
}

/// What was touched once and lies beside a walk stays if the walk has no recency, and leaves if it has.
#[test]
fn memory_that_is_walked_through_pushes_nothing_out_if_the_program_says_so() {
    let test = "memory_that_is_walked_through_pushes_nothing_out_if_the_program_says_so";
    let Some(_alone) = paging(test) else { return };
    for who in Who::all(test) {
        let plain = who.run(&["walk", "normal"]);
        assert!(said(&plain, "kept") < 60, "{}", plain.text());
        for how in ["sequential", "random", "posix", "late"] {
            let run = who.run(&["walk", how]);
            let text = run.text();
            assert!(said(&run, "kept") > 90, "{how}: {text}");
            assert!(said(&run, "kept-later") > 90, "{how}: {text}");
            assert!(said(&run, "walked") < 60, "{how}: {text}");
            // Once it says that this is over, the walk is as any other.
            assert!(said(&run, "kept-at-last") <= 60, "{how}: {text}");
            run.must_be_within_limit();
        }
    }
}

/// Advice by a system call of the program's own shows in the flags of the mapping alone.
#[test]
fn so_it_is_with_advice_by_a_raw_system_call() {
    let test = "so_it_is_with_advice_by_a_raw_system_call";
    let Some(_alone) = paging(test) else { return };
    for who in Who::all(test) {
        let run = who.run(&["walk", "raw"]);
        assert!(said(&run, "kept") > 90, "{}", run.text());
        assert!(said(&run, "kept-later") > 90, "{}", run.text());
    }
}

#[test]
fn cold_memory_leaves_before_what_came_before_it() {
    let test = "cold_memory_leaves_before_what_came_before_it";
    let Some(_alone) = paging(test) else { return };
    for who in Who::all(test) {
        let plain = who.run(&["cold", "raw"]);
        let run = who.run(&["cold", "libc"]);
        let text = format!("{} {}", plain.text(), run.text());
        assert!(said(&plain, "used") < said(&plain, "cold"), "{text}");
        assert!(said(&run, "used") > 95, "{text}");
        assert!(said(&run, "cold") < 75, "{text}");
        assert!(run.number("/vmstat/pgdeactivate") > 0, "{}", run.stats);
    }
}

#[test]
fn memory_is_taken_out_when_the_program_says_so_and_the_rest_stays() {
    let test = "memory_is_taken_out_when_the_program_says_so_and_the_rest_stays";
    let Some(_alone) = paging(test) else { return };
    for who in Who::all(test) {
        for how in ["libc", "process", "stepwise"] {
            let run = who.run(&["pageout", how]);
            // Of hints that come faster than they are carried out some are forgotten.
            let left = if how == "stepwise" { 25 } else { 5 };
            assert!(said(&run, "taken") <= left, "{how}: {}", run.text());
            assert!(said(&run, "kept") > 95, "{how}: {}", run.text());
        }
    }
}

#[test]
fn memory_comes_back_when_the_program_says_that_it_will_need_it() {
    let test = "memory_comes_back_when_the_program_says_that_it_will_need_it";
    let Some(_alone) = paging(test) else { return };
    for who in Who::all(test) {
        let plain = who.run(&["willneed", "none"]);
        assert!(said(&plain, "back") <= 5, "{}", plain.text());
        for how in ["libc", "posix"] {
            let run = who.run(&["willneed", how]);
            assert!(said(&run, "taken") <= 5, "{how}: {}", run.text());
            assert!(said(&run, "back") >= 95, "{how}: {}", run.text());
            // It came before it was touched.
            let faults = |run: &Managed| run.number("/vmstat/pgmajfault");
            assert!(
                2 * faults(&run) < faults(&plain),
                "{how}: {} of {}",
                faults(&run),
                faults(&plain)
            );
        }
    }
}

#[test]
fn what_a_child_has_too_is_not_taken_out() {
    let test = "what_a_child_has_too_is_not_taken_out";
    let Some(_alone) = paging(test) else { return };
    for who in Who::all(test) {
        let run = who.run(&["shared"]);
        assert!(said(&run, "shared") > 95, "{}", run.text());
        assert_eq!(said(&run, "child"), 0);
    }
}

#[test]
fn the_calls_return_what_they_return_without_neap() {
    let test = "the_calls_return_what_they_return_without_neap";
    let Some(_alone) = paging(test) else { return };
    for who in Who::all(test) {
        let plain = who.words(&["answers"]).go();
        assert_eq!(who.run(&["answers"]).text(), plain.text());
    }
}

#[test]
fn a_million_hints_leave_every_byte_as_it_was() {
    let test = "a_million_hints_leave_every_byte_as_it_was";
    let Some(_alone) = paging(test) else { return };
    for who in Who::all(test) {
        let run = who.run(&["flood", "200000"]);
        assert_eq!(said(&run, "calls"), 1_000_000);
        run.must_be_within_limit();
    }
}
