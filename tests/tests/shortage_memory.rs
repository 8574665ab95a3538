//! What neap itself lacks: addresses, memory, and /proc. A job runs as it should, perhaps unmanaged, or ends with a line
//! that says why; and no program reads a wrong byte.

use std::ffi::OsString;
use std::time::Duration;

use neap_tests::{
    MemoryGroup, Neap, Need, OrdinaryUser, Run, exclusive, judge, paging, program, require, skip,
    tool,
};

/// A program that checks each byte of 16 MiB, after `words`.
fn errands(words: &[&str]) -> Run {
    let words = words.iter().map(OsString::from);
    let own = [program("errands").into(), "16".into()];
    Run::new(words.chain(own)).limit(Duration::from_secs(60))
}

fn limited(option: &str) -> [OsString; 2] {
    ["prlimit".into(), option.into()]
}

/// The pool's addresses are had at the start. Below what they take neap cannot begin; just above, all else lacks
/// addresses.
#[test]
fn few_addresses_leave_a_job_managed_or_say_why_not() {
    let test = "few_addresses_leave_a_job_managed_or_say_why_not";
    let Some(_alone) = paging(test) else { return };
    let (mut managed, mut told) = (0, 0);
    for mib in [40u64, 1000, 1120, 1160, 1400] {
        let few = limited(&format!("--as={}:unlimited", mib << 20));
        let run = Neap::limit("10M")
            .wrapped(few)
            .run(&errands(&["prlimit", "--as=unlimited"]));
        judge(&run).unwrap_or_else(|fault| panic!("{mib} MiB of addresses: {fault}"));
        if run.stderr.is_empty() {
            managed += usize::from(run.pages_out() > 0);
        } else {
            told += 1;
        }
    }
    assert!(managed > 0 && told > 0, "{managed} managed, {told} told of");
}

#[test]
fn little_data_leaves_a_job_managed_or_says_why_not() {
    let test = "little_data_leaves_a_job_managed_or_says_why_not";
    let Some(_alone) = paging(test) else { return };
    for mib in [2u64, 64, 1040, 1100] {
        let little = limited(&format!("--data={}:unlimited", mib << 20));
        let run = Neap::limit("10M")
            .wrapped(little)
            .run(&errands(&["prlimit", "--data=unlimited"]));
        judge(&run).unwrap_or_else(|fault| panic!("{mib} MiB of data: {fault}"));
    }
}

#[test]
fn a_user_who_may_lock_nothing_has_his_job_managed() {
    let test = "a_user_who_may_lock_nothing_has_his_job_managed";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let copy = user.copy(&program("errands"));
    let words = ["prlimit", "--memlock=0:0"];
    let run = Run::new([copy.as_os_str(), "16".as_ref()]).dir(user.dir());
    let run = user.run("10M", &device, &words).run(&run);
    run.must_have_paged();
}

/// The kernel may kill neap itself where a group has too little for both.
#[test]
fn a_group_that_is_too_small_for_neap_and_its_job_shows_no_wrong_byte() {
    let test = "a_group_that_is_too_small_for_neap_and_its_job_shows_no_wrong_byte";
    if !require(test, &[Need::Neap, Need::Userfaultfd, Need::Cgroup]) {
        return;
    }
    let _alone = exclusive();
    for mib in [6u64, 10, 14, 24] {
        let group = match MemoryGroup::new(mib << 20) {
            Ok(group) => group,
            Err(why) => return skip(test, &why),
        };
        let neap = Neap::limit("12M").wrapped(group.enter());
        let run = neap.command(&errands(&[]), None).go();
        let killed = run.code() == 128 + libc::SIGKILL; // by the kernel, which needs no line
        if !killed {
            judge(&run).unwrap_or_else(|fault| panic!("{mib} MiB: {fault}"));
        }
        assert!(
            run.hung.is_none() && !run.stderr.contains("WRONG"),
            "{mib} MiB"
        );
    }
}

#[test]
fn without_proc_a_program_runs_and_it_is_said_that_it_is_not_managed() {
    let test = "without_proc_a_program_runs_and_it_is_said_that_it_is_not_managed";
    let needs = [Need::Neap, Need::Userfaultfd, Need::Root];
    if !require(test, &needs) || tool("unshare").is_none() {
        return;
    }
    let hide = "mount -t tmpfs none /proc && exec \"$@\"";
    let words = ["unshare", "-m", "sh", "-c", hide, "sh"].map(OsString::from);
    let run = Neap::limit("10M")
        .wrapped(words)
        .command(&errands(&[]), None)
        .go();
    run.must_exit(0);
    assert_eq!(run.text(), "errands: ok\n");
    assert!(run.stderr.starts_with("neap: warning: "), "{}", run.stderr);
}

/// Others' processes are not seen there (`hidepid`), one's own are.
#[test]
fn where_other_users_processes_are_hidden_a_job_is_managed() {
    let test = "where_other_users_processes_are_hidden_a_job_is_managed";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let copy = user.copy(&program("errands"));
    let hide = "mount -t proc -o hidepid=2 proc /proc && exec \"$@\"";
    let words = ["unshare", "-m", "sh", "-c", hide, "sh"].map(OsString::from);
    let run = Run::new([copy.as_os_str(), "16".as_ref()]).dir(user.dir());
    let neap = user.run("10M", &device, &[]);
    let run = neap.command(&run, None).wrapped(words).go();
    run.must_exit(0);
    assert_eq!(run.text(), "errands: ok\n");
    assert!(!run.stderr.contains("managed"), "{}", run.stderr);
}
