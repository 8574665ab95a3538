//! Each way in which a private page comes to be, with three times the memory that the limit has (docs/design/limit.md).

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use neap_tests::{Neap, OrdinaryUser, Run, allowed, exclusive, paging, peak_of, program};

const LIMIT: &str = "64M";
const MIB: &str = "192";
const LIMIT_BYTES: u64 = 64 << 20;

/// Memory that is read before it is written.
const READ_FIRST: [&str; 7] = [
    "populated_for_reading",
    "read_then_written",
    "read_and_written_in_turn",
    "read_once_registered",
    "read_in_huge_pages",
    "read_and_moved",
    "read_by_many",
];

/// Memory that the kernel fills.
const KERNEL: [&str; 6] = [
    "mapped_populated",
    "populated_for_writing",
    "read_from_a_file",
    "read_directly",
    "read_by_a_ring",
    "received_from_a_pipe",
];

/// Mappings that come, grow or change.
const MAPPINGS: [&str; 6] = [
    "grown_by_mremap",
    "grown_by_brk",
    "on_the_stack",
    "in_huge_pages",
    "in_the_data_segment",
    "mapped_over",
];

/// One new mapping after another. Each waits for nothing until it is found. Of those that come to where a registered mapping was
/// the kernel tells, and of a heap that grows the library.
const ANEW: [&str; 3] = [
    "committed_in_steps",
    "mapped_into_a_reserve",
    "grown_by_brk_in_steps",
];

/// What a forked child copies before its pages are looked for, which is not done for one that copies next to nothing.
const UNSEEN_IN_CHILD: u64 = 4 << 20;

/// Those that fork.
const FORKS: [&str; 2] = ["read_and_forked", "written_by_another"];

/// Runs each, within what is allowed. One look at the kernel's accounting that comes late may cost some MiB; not twice.
fn each(ways: &[&str], program: &Path, dir: &Path, neap: impl Fn() -> Neap) {
    each_within(allowed(LIMIT_BYTES), ways, program, dir, neap);
}

fn each_within(most: u64, ways: &[&str], program: &Path, dir: &Path, neap: impl Fn() -> Neap) {
    for way in ways {
        let words = [program.as_os_str(), way.as_ref(), MIB.as_ref()];
        let run = Run::new(words.map(OsString::from))
            .limit(Duration::from_secs(120))
            .dir(dir);
        let mut peaks = Vec::new();
        while peaks.last().is_none_or(|&peak| peak > most) {
            assert!(peaks.len() < 2, "{way}: {peaks:?} bytes of {LIMIT}");
            let (managed, peak) = peak_of(neap(), &run);
            assert_eq!(managed.text(), "0 wrong\n", "{way}: {}", managed.stderr);
            peaks.push(peak);
        }
    }
}

fn as_superuser(name: &str, ways: &[&str]) {
    let Some(_alone) = paging(name) else {
        return;
    };
    each(ways, &program("ways"), &std::env::temp_dir(), || {
        Neap::limit(LIMIT)
    });
}

#[test]
fn memory_that_is_read_first_stays_within_the_limit() {
    as_superuser(
        "memory_that_is_read_first_stays_within_the_limit",
        &READ_FIRST,
    );
}

#[test]
fn memory_that_the_kernel_fills_stays_within_the_limit() {
    as_superuser(
        "memory_that_the_kernel_fills_stays_within_the_limit",
        &KERNEL,
    );
}

#[test]
fn mappings_that_come_and_grow_stay_within_the_limit() {
    as_superuser(
        "mappings_that_come_and_grow_stay_within_the_limit",
        &MAPPINGS,
    );
}

#[test]
fn mappings_that_come_one_by_one_stay_near_the_limit() {
    let Some(_alone) = paging("mappings_that_come_one_by_one_stay_near_the_limit") else {
        return;
    };
    let dir = std::env::temp_dir();
    let neap = || Neap::limit(LIMIT);
    each(&ANEW, &program("ways"), &dir, neap);
}

#[test]
fn what_is_read_or_written_across_a_fork_stays_near_the_limit() {
    let Some(_alone) = paging("what_is_read_or_written_across_a_fork_stays_near_the_limit") else {
        return;
    };
    let most = allowed(LIMIT_BYTES) + UNSEEN_IN_CHILD;
    let neap = || Neap::limit(LIMIT);
    each_within(most, &FORKS, &program("ways"), &std::env::temp_dir(), neap);
}

#[test]
fn the_limit_holds_for_an_ordinary_user_in_each_way() {
    let name = "the_limit_holds_for_an_ordinary_user_in_each_way";
    let Some((user, device)) = OrdinaryUser::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let ways = user.copy(&program("ways"));
    for all in [&READ_FIRST[..], &KERNEL, &MAPPINGS] {
        each(all, &ways, user.dir(), || user.run(LIMIT, &device, &[]));
    }
}

/// Runs each once, whatever it takes.
fn each_is_right(ways: &[&str], neap: &Neap) {
    for way in ways {
        let words: [OsString; 3] = [program("ways").into(), way.into(), MIB.into()];
        let run = neap.run(&Run::new(words).limit(Duration::from_secs(120)));
        run.must_have_paged();
        assert_eq!(run.text(), "0 wrong\n", "{way}: {}", run.stderr);
    }
}

/// It fits, so that there is no reason to kill it; the kernel's pages of zeros are no memory.
#[test]
fn a_job_that_fits_is_not_killed_however_its_memory_comes_to_be() {
    let name = "a_job_that_fits_is_not_killed_however_its_memory_comes_to_be";
    let Some(_alone) = paging(name) else {
        return;
    };
    let neap = Neap::limit(LIMIT).option("--no-swap");
    let neap = neap.option("--on-exhausted").option("kill");
    for ways in [&READ_FIRST[..], &FORKS, &KERNEL, &MAPPINGS, &ANEW] {
        each_is_right(ways, &neap);
    }
}

/// The kernel fills it in one go, or copies it where no userfaultfd can be: the job goes over, its bytes are right, and neap says
/// so.
#[test]
fn memory_that_cannot_be_held_back_is_told_of() {
    let name = "memory_that_cannot_be_held_back_is_told_of";
    let Some(_alone) = paging(name) else {
        return;
    };
    for way in ["mapped_populated_past_libc", "in_a_mapping_of_a_file"] {
        let words: [OsString; 3] = [program("ways").into(), way.into(), MIB.into()];
        let run = Neap::limit(LIMIT).run(&Run::new(words).limit(Duration::from_secs(120)));
        run.must_exit(0);
        assert_eq!(run.text(), "0 wrong\n", "{way}: {}", run.stderr);
        assert!(run.stderr.contains("limit"), "{way}: {}", run.stderr);
    }
}
