//! What `memory.low` and `memory.min` protect in a service, and what the limits of a service and of its jobs do to each other.

use std::os::unix::process::ExitStatusExt;
use std::thread::sleep;
use std::time::Duration;

use neap_tests::service::{Place, wait_until};
use neap_tests::{MemoryGroup, Need, allowed, paging, program, require};

const MIB: u64 = 1 << 20;
const SIGKILL: i32 = 9;

/// All three were killed, or the limit was passed by the half where that was allowed: what `memory.low` protects was given up only
/// after nothing more was to be had.
#[test]
fn what_low_protects_goes_once_nobody_else_has_any() {
    let test = "what_low_protects_goes_once_nobody_else_has_any";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "64M", "--on-exhausted", "kill"]);
    let sizes = [("one", 36, "40M"), ("two", 28, "30M"), ("three", 16, "0")];
    let jobs = sizes.map(|(name, mib, low)| (name, place.job(name, mib, &["--low", low], false)));
    let peak = place.number("all", "/memory/peak_bytes");
    assert!(peak <= allowed(64 * MIB), "{peak}");
    let got = place.ask(&["reclaim", "all", "16M"]);
    assert!(got.status.success(), "{got:?}");
    for (name, job) in jobs {
        place.end(name, job);
    }
    // One of whom all is protected, and that does not fit.
    let large = place.job("large", 80, &["--low", "1G"], true);
    place.end("large", large);
}

/// The verdict that nothing is left is put off for it once, and not for ever: the job waited for room and was never killed.
#[test]
fn what_low_protects_and_cannot_leave_keeps_nobody_waiting() {
    let test = "what_low_protects_and_cannot_leave_keeps_nobody_waiting";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "32M", "--no-swap", "--on-exhausted", "kill"]);
    let noise = program("incompressible");
    let noise = noise.to_str().expect("a path");
    let job = ["run", "--in", "all", "--low", "1G", "--", noise, "64"];
    let (status, _, err) = place.start(&job).wait();
    assert_eq!(status.signal(), Some(SIGKILL), "{err}");
    assert!(err.contains("nothing more can be reclaimed"), "{err}");
}

#[test]
fn what_is_protected_stays_while_others_have_memory() {
    let test = "what_is_protected_stays_while_others_have_memory";
    let Some(_alone) = paging(test) else { return };
    for flag in ["--min", "--low"] {
        let place = Place::own();
        let _service = place.serve(&["-m", "96M"]);
        let kept = place.job("kept", 48, &[flag, "56M"], false);
        let others = ["one", "two"].map(|name| (name, place.job(name, 48, &[], true)));
        let resident = |name| place.number(name, "/memory/resident_bytes");
        assert!(resident("kept") >= 47 * MIB, "{flag}: {}", resident("kept"));
        wait_until("the others pay", || {
            resident("one") + resident("two") < 64 * MIB
        });
        // Without protection it pays as the others do.
        let key = format!("memory.{}=0", flag.trim_start_matches('-'));
        assert!(place.ask(&["set", "kept", &key]).status.success());
        wait_until("it gives its share", || resident("kept") < 44 * MIB);
        place.end("kept", kept);
        for (name, job) in others {
            place.end(name, job);
        }
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "96M"]);
    let refused = place.refusal(&["set", "all", "memory.low=1M"], 1);
    assert!(refused.contains("only a job in a service"), "{refused}");
    let alone = place.refusal(&["run", "--low", "1M", "-m", "64M", "--", "true"], 125);
    assert!(alone.contains("--in"), "{alone}");
}

/// `memory.low` is given up where nobody else has anything, and `memory.min` is not: the service goes over its limit instead, and says so.
#[test]
fn what_min_protects_stays_also_where_nobody_else_has_any() {
    let test = "what_min_protects_stays_also_where_nobody_else_has_any";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "48M", "--idle", "off"]);
    let kept = place.job("kept", 72, &["--min", "1G"], true);
    let resident = || place.number("kept", "/memory/resident_bytes");
    let rest = || place.number("kept", "/vmstat/zswpout");
    wait_until("nothing else can be reclaimed", || {
        place.number("all", "/memory_events/oom") > 0
    });
    assert_eq!((resident() / (72 * MIB), rest()), (1, 0), "all is there");
    let low = ["set", "kept", "memory.min=0", "memory.low=1G"];
    let set = place.ask(&low);
    assert!(set.status.success(), "{set:?}");
    wait_until("low is given up", || resident() < 56 * MIB && rest() > 0);
    let said = place.end("kept", kept);
    assert!(said.contains("nothing more can be reclaimed"), "{said}");
}

/// Together they want 144 MiB. None is at its own limit, so only that of all is met: nobody is killed, the kernel's accounting stays
/// within it, and each job has its part.
#[test]
fn jobs_below_their_own_limits_share_that_of_the_service() {
    let test = "jobs_below_their_own_limits_share_that_of_the_service";
    if !require(test, &[Need::Root, Need::Cgroup]) {
        return;
    }
    let Some(_alone) = paging(test) else { return };
    // A wall for the kernel to kill at: what the jobs take plainly is above it, and what neap leaves is well below.
    let group = MemoryGroup::new(140 * MIB).expect("a cgroup, as required");
    let place = Place::own().within(group.enter());
    let _service = place.serve(&["-m", "96M", "--on-exhausted", "kill"]);
    let names = ["one", "two", "three"];
    let jobs = names.map(|name| place.job(name, 48, &["-m", "64M"], true));
    let (mut looks, mut parts) = (Vec::new(), [0; 3]);
    for _ in 0..21 {
        sleep(Duration::from_millis(200));
        looks.push(group.anonymous().expect("a figure"));
        for (part, name) in parts.iter_mut().zip(names) {
            *part += place.number(name, "/memory/current_bytes") / MIB;
        }
    }
    looks.sort_unstable();
    // Clients have memory of their own, about 2 MiB each, which is no part of the limit.
    assert!(looks[10] <= allowed(96 * MIB) + 8 * MIB, "{looks:?}");
    // Each has all of its memory now and then. Of 21 looks the mean is a third for each.
    assert!(parts.iter().all(|part| part / 21 >= 14), "{parts:?}");
    let limits = names.map(|name| place.number(name, "/memory/limit_bytes") / MIB);
    assert_eq!(limits, [64; 3]);
    for (name, job) in names.into_iter().zip(jobs) {
        place.end(name, job);
    }
    assert_eq!(group.killed(), 0, "{:?}", group.peak());
}

/// The service has room. A job at its own limit waits for its own pages, and nothing of its neighbour is looked at.
#[test]
fn a_job_at_its_own_limit_reclaims_in_its_own_subtree() {
    let test = "a_job_at_its_own_limit_reclaims_in_its_own_subtree";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "512M", "--idle", "off"]);
    let rich = place.job("rich", 64, &["-m", "256M"], false);
    let poor = place.job("poor", 96, &["-m", "48M"], true);
    let number = |name: &str, figure: &str| place.number(name, figure);
    wait_until("it waits", || {
        number("poor", "/pressure/some/total_us") > 0 && number("poor", "/vmstat/pgsteal") > 0
    });
    for figure in ["pgscan", "pgsteal", "zswpout", "pswpout"] {
        assert_eq!(number("rich", &format!("/vmstat/{figure}")), 0, "{figure}");
    }
    assert!(number("rich", "/memory/resident_bytes") >= 64 * MIB);
    assert!(number("poor", "/memory/current_bytes") <= allowed(48 * MIB));
    assert!(
        number("all", "/memory/current_bytes") < 256 * MIB,
        "it has room"
    );
    place.end("poor", poor);
    place.end("rich", rich);
}
