//! What Linux promises a program about its memory, point by point, kept while the memory is out.
//! Each point is a mode of `programs/kernel`, run under a limit far below what it writes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use neap_tests::{Managed, Neap, Need, Run, exclusive, program, require, skip};

/// MiB the mode looks after, and MiB it writes to push them out; the limit lies between.
const SIZES: [&str; 2] = ["12", "40"];
const LIMIT: &str = "22M";
/// What a mode ends with if the machine cannot do it.
const SKIPPED: i32 = 77;

fn mode(name: &str) -> Run {
    let path = program("kernel");
    let words: [OsString; 4] = [path.into(), name.into(), SIZES[0].into(), SIZES[1].into()];
    Run::new(words).limit(Duration::from_secs(180))
}

fn passes(test: &str, name: &str) {
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let run: Managed = Neap::limit(LIMIT).run(&mode(name));
    if run.code() == SKIPPED {
        skip(test, run.text().trim());
        return;
    }
    run.must_have_paged();
    assert!(
        run.text().ends_with(&format!("kernel {name}: ok\n")),
        "{}",
        run.text()
    );
}

macro_rules! points {
    ($($sentence:ident: $mode:literal,)*) => {
        const COVERED: &[&str] = &[$($mode),*];
        $(#[test] fn $sentence() {
            passes(stringify!($sentence), $mode);
        })*
    };
}

points! {
    discarded_pages_read_zero: "dontneed",
    discarding_races_with_eviction: "dontneed-race",
    cold_pages_are_discarded_under_the_evictor: "dontneed-cold",
    freed_pages_are_old_or_zero_until_rewritten: "madv-free",
    protections_hold_and_pages_keep_their_bytes: "protections",
    mappings_grow_shrink_and_move_with_their_pages_out: "mremap",
    a_part_of_a_mapping_moves: "mremap-part",
    realloc_moves_large_blocks: "realloc",
    new_mappings_over_old_ones_read_zero: "map-fixed",
    locked_memory_stays_resident: "mlock",
    locking_everything_brings_everything_in: "mlockall",
    huge_pages_go_out_in_parts: "huge",
    sparse_mappings_keep_their_few_pages: "sparse",
    bss_data_and_heap_are_like_any_other_memory: "bss-heap",
    private_and_shared_file_mappings_stay_right: "file-mappings",
    a_forked_child_reads_what_was_out: "fork-reads",
    a_child_of_a_fork_without_handlers_reads_what_was_out: "fork-bare",
    a_forked_child_writes_its_own: "fork-writes",
    pages_shared_after_a_fork_go_out: "fork-shared",
    children_of_children_read_what_was_out: "fork-chain",
    many_children_read_at_once: "fork-many",
    dontfork_and_wipeonfork_hold_for_pages_that_are_out: "fork-advice",
    executed_children_are_managed_anew: "exec",
    a_child_of_vfork_writes_in_its_parents_memory: "vfork",
    a_process_that_shares_our_memory_is_served: "clone",
    a_daemon_without_descriptors_is_served: "daemon",
    closing_every_descriptor_closes_none_of_neaps: "close-range",
    processes_killed_in_faults_end: "exit-in-faults",
    a_debugger_gets_right_bytes_or_an_error: "ptrace",
    an_abort_with_a_core_ends_the_process: "core-dump",
    write_and_read_work_on_pages_that_are_out: "write-read",
    message_headers_may_be_out: "messages",
    references_in_a_pipe_keep_their_bytes: "vmsplice",
    reads_through_proc_are_right_or_refused: "by-others",
    direct_io_works_on_pages_that_are_out: "direct",
    registered_buffers_stay_where_they_are: "uring-registered",
    a_userfaultfd_of_the_program_gets_its_own_faults: "own-userfaultfd",
    questions_about_memory_do_not_change_it: "asks",
    stacks_go_out_and_come_back: "stacks",
    coroutine_stacks_go_out_and_come_back: "coroutines",
    locks_in_pages_that_are_out_work: "locks",
    futexes_in_pages_that_are_out_wake: "futexes",
    signal_handlers_run_on_stacks_that_are_out: "signals",
    a_program_that_lives_on_segv_sees_only_its_own: "segv-barrier",
    several_threads_want_the_same_page: "same-pages",
    no_atomic_addition_is_lost: "counters",
    threads_come_and_go_by_the_hundred: "many-threads",
    the_lowest_page_is_the_programs_in_a_child_too: "lowest-page",
    a_change_ends_while_another_thread_tells_of_more: "told-all-the-time",
    a_change_ends_while_two_others_tell_of_more: "told-by-two",
    threads_that_wait_for_each_other_are_both_served: "in-step",
    the_end_of_a_husk_is_not_the_end_of_its_move: "husk-beside-tellers",
}

#[test]
fn every_mode_has_a_test_and_passes_plainly() {
    let _alone = exclusive();
    let listed = Run::new([program("kernel")]).go();
    let modes: BTreeSet<String> = listed
        .text()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let covered: BTreeSet<String> = COVERED.iter().map(|m| (*m).to_owned()).collect();
    assert_eq!(modes, covered);
    for name in modes {
        let run = mode(&name).go();
        if run.code() == SKIPPED {
            skip(&format!("plain {name}"), run.text().trim());
        } else {
            run.must_exit(0);
        }
    }
}
