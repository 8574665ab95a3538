//! What has once cost a page, a process or the limit, and must not again. Each is a mode of
//! `programs/survive`, run under a limit far below what it writes.

use std::ffi::OsString;
use std::time::Duration;

use neap_tests::{Managed, Neap, Need, Run, paging, program, require, skip, tool};

/// What a mode ends with if the machine cannot do it.
const SKIPPED: i32 = 77;

fn survive(mode: &str, mib: &str) -> Run {
    let words: [OsString; 3] = [program("survive").into(), mode.into(), mib.into()];
    Run::new(words).limit(Duration::from_secs(180))
}

/// Runs a mode that looks after `mib` MiB under `limit`; `None`: it was skipped.
fn survives(test: &str, mode: &str, mib: &str, limit: &str) -> Option<Managed> {
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return None;
    }
    let run = Neap::limit(limit)
        .env("NEAP_CHECK", "1")
        .run(&survive(mode, mib).sampled());
    if run.code() == SKIPPED {
        skip(test, run.stderr.trim());
        return None;
    }
    run.must_exit(0);
    assert!(run.text().starts_with("0 of "), "{}", run.text());
    Some(run)
}

#[test]
fn a_program_whose_filter_kills_the_agent_keeps_its_memory() {
    survives(
        "a_program_whose_filter_kills_the_agent_keeps_its_memory",
        "sandbox-kill",
        "96",
        "32M",
    );
}

#[test]
fn a_program_whose_filter_stops_the_agent_keeps_its_memory() {
    survives(
        "a_program_whose_filter_stops_the_agent_keeps_its_memory",
        "sandbox-errno",
        "96",
        "32M",
    );
}

#[test]
fn memory_shared_by_vfork_outlives_the_process_it_came_from() {
    survives(
        "memory_shared_by_vfork_outlives_the_process_it_came_from",
        "vforked",
        "96",
        "32M",
    );
}

#[test]
fn threads_may_move_mappings_into_each_others_places() {
    survives(
        "threads_may_move_mappings_into_each_others_places",
        "moves",
        "24",
        "16M",
    );
}

#[test]
fn a_forked_child_finds_wiped_what_a_mapping_grew_by() {
    survives(
        "a_forked_child_finds_wiped_what_a_mapping_grew_by",
        "wiped",
        "48",
        "32M",
    );
}

#[test]
fn locked_memory_may_grow_where_it_must_move() {
    survives(
        "locked_memory_may_grow_where_it_must_move",
        "grows-locked",
        "48",
        "32M",
    );
}

#[test]
fn each_process_may_fork_the_next_and_end() {
    survives(
        "each_process_may_fork_the_next_and_end",
        "orphans",
        "24",
        "12M",
    );
}

#[test]
fn what_comes_where_a_mapping_stayed_behind_is_new_memory() {
    survives(
        "what_comes_where_a_mapping_stayed_behind_is_new_memory",
        "husks",
        "48",
        "24M",
    );
}

#[test]
fn what_stayed_behind_may_be_covered_by_another_that_moves() {
    survives(
        "what_stayed_behind_may_be_covered_by_another_that_moves",
        "covered",
        "48",
        "24M",
    );
}

#[test]
fn a_child_finds_new_memory_new_where_its_parent_keeps_some_to_itself() {
    survives(
        "a_child_finds_new_memory_new_where_its_parent_keeps_some_to_itself",
        "holes",
        "96",
        "48M",
    );
}

#[test]
fn what_a_child_makes_of_a_place_that_its_parent_keeps_to_itself_is_new() {
    survives(
        "what_a_child_makes_of_a_place_that_its_parent_keeps_to_itself_is_new",
        "kept",
        "64",
        "32M",
    );
}

/// 256 of 19,200 pages were lost.
#[test]
fn memory_that_moves_to_where_children_are_to_find_nothing_keeps_its_bytes() {
    survives(
        "memory_that_moves_to_where_children_are_to_find_nothing_keeps_its_bytes",
        "advised",
        "64",
        "32M",
    );
}

#[test]
fn addresses_that_came_and_went_are_managed_again() {
    let test = "addresses_that_came_and_went_are_managed_again";
    if let Some(run) = survives(test, "churn", "64", "48M") {
        // It writes 192 MiB in all, the last 128 in one burst. What a burst may cost is tested elsewhere.
        let (limit, peak) = (
            run.number("/memory/limit_bytes"),
            run.number("/memory/peak_bytes"),
        );
        assert!(
            peak < 2 * limit,
            "peak {peak}, limit {limit}: {}",
            run.stats
        );
    }
}

#[test]
fn many_children_at_once_read_what_their_parent_wrote() {
    survives(
        "many_children_at_once_read_what_their_parent_wrote",
        "children",
        "16",
        "12M",
    );
}

#[test]
fn descriptors_for_many_processes_are_found_where_few_are_allowed() {
    let test = "descriptors_for_many_processes_are_found_where_few_are_allowed";
    let Some(_alone) = paging(test) else {
        return;
    };
    let script = format!(
        "ulimit -n; exec {} children 16",
        program("survive").display()
    );
    let few: [OsString; 4] = [
        "sh".into(),
        "-c".into(),
        "ulimit -Sn 100; exec \"$@\"".into(),
        "sh".into(),
    ];
    let run = Neap::limit("12M")
        .wrapped(few)
        .run(&Run::new(["sh", "-c", &script]).limit(Duration::from_secs(180)));
    run.must_exit(0);
    assert_eq!(run.text(), "100\n0 of 24 pages wrong\n");
}

#[test]
fn what_a_parent_asked_to_be_wiped_is_wiped_in_the_children_of_its_children() {
    let run = survives(
        "what_a_parent_asked_to_be_wiped_is_wiped_in_the_children_of_its_children",
        "heirs",
        "96",
        "48M",
    );
    if let Some(run) = run {
        run.must_have_paged();
    }
}

/// As a job of a container without privileges does.
#[test]
fn a_job_in_namespaces_of_its_own_is_managed() {
    let test = "a_job_in_namespaces_of_its_own_is_managed";
    let Some(_alone) = paging(test) else { return };
    let inside = ["unshare", "-U", "-r", "-n", "-f"];
    let plain = tool("unshare").map(|_| Run::new(inside.iter().chain(&["true"])).go());
    if plain.is_none_or(|plain| plain.code() != 0) {
        return skip(test, "user namespaces are not allowed here");
    }
    let hog = Run::new([program("hog").as_os_str(), "96".as_ref(), "2".as_ref()]);
    let run = Neap::limit("48M")
        .wrapped(inside.map(OsString::from))
        .run(&hog);
    run.must_have_paged().must_be_within_limit();
    assert_eq!(run.stderr, "");
}

#[test]
fn a_new_user_namespace_may_be_entered() {
    let test = "a_new_user_namespace_may_be_entered";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let words = ["unshare", "-U", "echo", "inside"];
    let plain = tool("unshare").map(|_| Run::new(words).go());
    if plain.is_none_or(|plain| plain.code() != 0) {
        return skip(test, "user namespaces are not allowed here");
    }
    let run = Neap::limit("64M").run(&Run::new(words));
    run.must_exit(0);
    assert_eq!((run.text().as_str(), run.stderr.as_str()), ("inside\n", ""));
}

#[test]
fn a_page_that_vanished_without_a_word_is_not_read_as_zeros() {
    let name = "a_page_that_vanished_without_a_word_is_not_read_as_zeros";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let run = Run::new([program("vanish").as_os_str(), "64".as_ref()]);
    if run.go().code() == 3 {
        return skip(name, "no guard regions: Linux 6.13 or later");
    }
    let run = Neap::limit("32M").run(&run);
    run.must_exit(128 + libc::SIGKILL);
    assert!(
        run.stderr.contains("is lost (it is neither"),
        "{}",
        run.stderr
    );
}

#[test]
fn memory_declared_free_before_it_was_found_reads_as_zeros() {
    let name = "memory_declared_free_before_it_was_found_reads_as_zeros";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let run = Run::new([program("latefree").as_os_str(), "96".as_ref()]);
    if matches!(run.go().code(), 3 | 4) {
        return skip(name, "the kernel drops nothing when it is asked to");
    }
    let run = Neap::limit("40M").run(&run);
    assert_eq!(run.text(), "0 wrong\n", "{}", run.stderr);
    run.must_have_paged();
}

#[test]
fn guard_regions_stay_where_their_neighbours_are_filled() {
    let name = "guard_regions_stay_where_their_neighbours_are_filled";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let run = Run::new([program("guards").as_os_str(), "64".as_ref()]);
    if run.go().code() == 3 {
        return skip(name, "no guard regions: Linux 6.13 or later");
    }
    let run = Neap::limit("40M").run(&run);
    assert_eq!(run.text(), "0 of 2457 guards open, 0 wrong\n");
    run.must_have_paged();
}

#[test]
fn mappings_beside_each_other_leave_together() {
    let name = "mappings_beside_each_other_leave_together";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let run = Neap::limit("32M").run(&Run::new([program("patched").as_os_str(), "96".as_ref()]));
    run.must_have_paged();
    // Pages that would not move.
    let busy = run.number("/neap/busy");
    assert!(busy < run.pages_out() / 10, "{}", run.stats);
}

#[test]
fn what_is_written_right_after_each_of_many_forks_is_kept() {
    let name = "what_is_written_right_after_each_of_many_forks_is_kept";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let words = [program("hotfork").into(), OsString::from("32"), "6".into()];
    let run = Neap::limit("24M").run(&Run::new(words));
    run.must_have_paged();
    assert_eq!(run.text(), "0 wrong\n");
}

/// Several threads change mappings at the same time, so that what one tells of it can be read after what another
/// has done with the place.
#[test]
fn threads_that_change_mappings_at_the_same_time_keep_what_is_theirs() {
    let test = "threads_that_change_mappings_at_the_same_time_keep_what_is_theirs";
    for _ in 0..2 {
        survives(test, "shuffle", "80", "24M");
    }
}

/// Changes of mappings wait for each other, but not for a thread that has jumped out of one or ended in it, and not
/// for one that a forked child does not have.
#[test]
fn a_turn_to_change_mappings_is_not_lost() {
    survives(
        "a_turn_to_change_mappings_is_not_lost",
        "turns",
        "40",
        "20M",
    );
}

/// What is registered of a mapping that has just gone may be a part of the one that has come, and splits it for a
/// moment.
#[test]
fn memory_may_be_moved_while_a_part_of_it_is_registered() {
    let test = "memory_may_be_moved_while_a_part_of_it_is_registered";
    survives(test, "cut", "40", "20M");
}

/// A walk through memory is filled ahead of, but not into what the program may register with a userfaultfd of its
/// own.
#[test]
fn a_program_with_a_userfaultfd_of_its_own_is_asked_for_every_page() {
    let test = "a_program_with_a_userfaultfd_of_its_own_is_asked_for_every_page";
    survives(test, "trapped", "40", "20M");
}

/// All that it moved read as zeros.
#[test]
fn a_program_with_a_userfaultfd_of_its_own_moves_pages_that_are_out() {
    let test = "a_program_with_a_userfaultfd_of_its_own_moves_pages_that_are_out";
    survives(test, "carried", "64", "24M");
}

/// What is mapped anew in the middle of registered memory is another mapping to the kernel; mremap moves one.
#[test]
fn memory_of_which_parts_were_mapped_anew_can_be_moved() {
    let test = "memory_of_which_parts_were_mapped_anew_can_be_moved";
    survives(test, "pieced", "40", "20M");
}

/// The ground that the engine stands on where it looks for a page that is said not to have moved.
#[test]
fn a_page_that_moves_is_in_one_place_whatever_the_kernel_says() {
    let name = "a_page_that_moves_is_in_one_place_whatever_the_kernel_says";
    for mover in ["moved", "moved_pair"] {
        let run = Run::new([program(mover).as_os_str(), "3".as_ref()]).go();
        if run.code() == SKIPPED {
            return skip(name, "no UFFDIO_MOVE for this user");
        }
        run.must_exit(0);
        assert_eq!(run.text(), "0 astray\n", "{}", run.stderr);
    }
}

#[test]
fn a_program_and_its_tracer_do_not_wait_for_each_other() {
    let name = "a_program_and_its_tracer_do_not_wait_for_each_other";
    let needs = [Need::Neap, Need::Userfaultfd, Need::Tool("strace")];
    if !require(name, &needs) {
        return;
    }
    let traced = |mib: &str| {
        let strace = ["strace", "-f", "-o", "/dev/null"].map(OsString::from);
        Run::new(
            strace
                .into_iter()
                .chain([program("traced").into(), mib.into()]),
        )
    };
    if traced("1").go().code() != 0 {
        return skip(name, "strace may not trace");
    }
    // The tracer reads what the program writes, from pages that are out.
    let run = Neap::limit("24M").run(&traced("40"));
    run.must_exit(0);
    assert_eq!(run.text(), "ok\n");
    run.must_have_paged();
}

/// More at once than the engine speaks with: those that wait for their turn get an answer, too.
#[test]
fn many_that_speak_at_once_are_answered() {
    let test = "many_that_speak_at_once_are_answered";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let chorus = program("chorus");
    let words = [chorus.as_os_str()].into_iter();
    let words = words.chain(["8", "60", "20"].map(AsRef::as_ref));
    let run = Neap::limit("64M").run(&Run::new(words).limit(Duration::from_secs(120)));
    run.must_exit(0);
    assert!(run.text().contains("chorus: ok"), "{}", run.stderr);
}
