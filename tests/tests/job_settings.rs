//! The settings of one job of a service, by the names of a memory cgroup's files. In each test the programs look at the end
//! whether every word of their memory is as it was.

use neap_tests::service::{Place, path, places, wait_until};
use neap_tests::{allowed, pages};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Sets something, which must be possible. What was said.
fn set(place: &Place, words: &[&str]) -> String {
    let output = place.ask(&[&["set"], words].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    said
}

#[test]
fn pages_of_a_job_that_writes_nothing_stay_out_of_the_swap_file_and_its_neighbour_gets_on() {
    let test =
        "pages_of_a_job_that_writes_nothing_stay_out_of_the_swap_file_and_its_neighbour_gets_on";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        // A pool that holds only a part of either job.
        let _service = place.serve(&["-m", "64M", "--pool-max", "2"]);
        let stays = place.job("stays", 40, &["--no-writeback"], true);
        let goes = place.job("goes", 40, &[], true);
        let written = |name| place.number(name, "/vmstat/zswpwb");
        wait_until("the neighbour's pages are written", || {
            written("goes") > 1000
        });
        assert_eq!(written("stays"), 0);
        assert!(place.number("stays", "/vmstat/zswpout") > 0);
        // Told otherwise while it runs, and back.
        let _ = set(&place, &["stays", "zswap.writeback=1"]);
        wait_until("its pages are written", || written("stays") > 100);
        let _ = set(&place, &["stays", "zswap.writeback=0"]);
        place.end("stays", stays);
        place.end("goes", goes);
    }
}

#[test]
fn a_switch_of_a_job_holds_for_what_runs_within_it() {
    let test = "a_switch_of_a_job_holds_for_what_runs_within_it";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "64M", "--pool-max", "2"]);
    let stop = place.file("inner.stop");
    let inner = place.start(&[
        "run",
        "--in",
        "all",
        "--name",
        "outer",
        "--no-writeback",
        "--",
        path(&place.neap),
        "run",
        "--name",
        "inner",
        "--",
        path(&place.waits),
        "40",
        path(&stop),
        "busy",
    ]);
    let ready = place.file("inner.stop.ready");
    wait_until("the inner one waits", || ready.exists());
    let goes = place.job("goes", 40, &[], true);
    let written = |name| place.number(name, "/vmstat/zswpwb");
    wait_until("the neighbour's pages are written", || {
        written("goes") > 1000
    });
    assert_eq!((written("inner"), written("outer")), (0, 0));
    let _ = set(&place, &["outer", "zswap.writeback=1"]);
    wait_until("its pages are written", || written("inner") > 100);
    place.end("goes", goes);
    place.end("inner", inner);
}

/// All jobs write nothing: nothing can leave a full pool, and what the limit cannot hold stays with the programs.
#[test]
fn jobs_that_all_write_nothing_go_over_the_limit_and_end_whole() {
    let test = "jobs_that_all_write_nothing_go_over_the_limit_and_end_whole";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "48M", "--pool-max", "2"]);
    let jobs = ["one", "two"].map(|name| (name, place.job(name, 40, &["--no-writeback"], false)));
    let all = place.stat("all");
    assert_eq!(all["vmstat"]["pswpout"], 0);
    assert!(
        all["memory"]["current_bytes"].as_u64() > Some(48 * MIB),
        "{all}"
    );
    for (name, job) in jobs {
        place.end(name, job);
    }
}

/// Nothing of a job can leave once as much of it is out as may be. Its neighbour's memory does.
#[test]
fn no_more_of_a_job_is_out_than_its_swap_max_and_others_get_on() {
    let test = "no_more_of_a_job_is_out_than_its_swap_max_and_others_get_on";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let _service = place.serve(&["-m", "72M"]);
        let bound = place.job("bound", 40, &["-m", "24M", "--swap-max", "8M"], false);
        let out = |name| place.number(name, "/memory/swap_current_bytes");
        let resident = |name| place.number(name, "/memory/resident_bytes");
        wait_until("as much is out as may be", || out("bound") >= 7 * MIB);
        assert!(out("bound") <= 8 * MIB, "{}", out("bound"));
        assert!(resident("bound") >= 32 * MIB, "the rest stays");
        wait_until("it is said that nothing more can leave", || {
            let warnings = place.stat("all")["warnings"].to_string();
            warnings.contains("memory.swap.max is reached")
        });
        let other = place.job("other", 48, &[], true);
        wait_until(
            "what the limit of all wants is taken from its neighbour",
            || out("other") > 8 * MIB,
        );
        assert!(out("bound") <= 8 * MIB);
        // On disk it counts as well, and a larger limit lets it back within its own.
        let _ = set(&place, &["bound", "swap.max=max"]);
        wait_until("it is within its limit", || {
            place.number("bound", "/memory/current_bytes") <= allowed(24 * MIB)
        });
        place.end("other", other);
        let said = place.end("bound", bound);
        assert!(said.contains("memory.swap.max is reached"), "{said}");
    }
}

#[test]
fn the_pool_has_no_more_of_a_job_than_its_zswap_max_and_the_rest_goes_to_disk() {
    let test = "the_pool_has_no_more_of_a_job_than_its_zswap_max_and_the_rest_goes_to_disk";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let _service = place.serve(&["-m", "128M"]);
        let number = |name: &str, what| place.number(&format!("all/{name}"), what);
        let pool = |name| number(name, "/memory/zswap_current_bytes");
        let written = |name| number(name, "/vmstat/zswpwb");
        let other = place.job("other", 40, &["-m", "16M"], true);
        for max in ["0", "256K"] {
            let bound = place.job("bound", 40, &["-m", "16M", "--zswap-max", max], true);
            for _ in 0..12 {
                // What passes through it is above the limit for a moment.
                assert!(pool("bound") <= 2 * MIB, "{max}: {}", pool("bound"));
            }
            assert!(written("bound") > 1000, "{max}: {}", written("bound"));
            let peak = number("bound", "/memory/peak_bytes");
            assert!(peak <= allowed(16 * MIB), "{max}: {peak}");
            place.end("bound", bound);
            let _ = std::fs::remove_file(place.file("bound.stop"));
            let _ = std::fs::remove_file(place.file("bound.stop.ready"));
        }
        assert_eq!(written("other"), 0, "nobody else's is written");
        let before = pool("other");
        assert!(before > MIB, "{before}");
        let _ = set(&place, &["other", "zswap.max=512K"]);
        wait_until("the pool gives it to the swap file", || {
            pool("other") <= MIB && written("other") > 0
        });
        place.end("other", other);
    }
}

/// A job may write nothing, and the pool takes no more of it.
#[test]
fn a_job_whose_pages_can_go_nowhere_stays_and_others_get_on() {
    let test = "a_job_whose_pages_can_go_nowhere_stays_and_others_get_on";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "64M"]);
    let options = ["--no-writeback", "--zswap-max", "256K"];
    let stays = place.job("stays", 32, &options, true);
    let other = place.job("other", 48, &[], true);
    let peak = place.number("all", "/memory/peak_bytes");
    assert!(peak <= allowed(64 * MIB), "{peak}");
    assert!(place.number("stays", "/memory/resident_bytes") > 28 * MIB);
    assert!(place.number("other", "/vmstat/pgsteal") * 4096 > 8 * MIB);
    place.end("other", other);
    place.end("stays", stays);
}

#[test]
fn what_cannot_be_set_is_said_in_one_line() {
    let test = "what_cannot_be_set_is_said_in_one_line";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "64M"]);
    let job = place.job("one", 8, &[], false);
    for (bad, why) in [
        ("swap.max=x", "swap.max"),
        ("zswap.max=", "zswap.max"),
        ("swap.max=-1", "swap.max"),
        ("swap.high=1M", "cannot be set"),
    ] {
        let said = place.refusal(&["set", "one", bad], 1);
        assert!(
            said.starts_with("neap: error[E0306]") && said.contains(why),
            "{bad}: {said}"
        );
    }
    let said = place.refusal(&["run", "--swap-max", "1M", "-m", "64M", "--", "true"], 125);
    assert!(said.contains("--in"), "{said}");
    let said = place.refusal(
        &["run", "--in", "all", "--zswap-max", "1Q", "--", "true"],
        125,
    );
    assert!(said.contains("--zswap-max"), "{said}");
    let settings = place.stat("one")["settings"].clone();
    assert_eq!(settings["swap.max"], "max");
    let _ = set(&place, &["one", "swap.max=16M", "zswap.max=4M"]);
    let settings = place.stat("one")["settings"].clone();
    assert_eq!(settings["swap.max"], 16 * MIB);
    assert_eq!(settings["zswap.max"], 4 * MIB);
    place.end("one", job);
}

/// memory.high takes memory away, holds up who takes more, and kills nobody.
#[test]
fn a_job_above_its_high_gives_memory_and_waits_and_is_not_killed() {
    let test = "a_job_above_its_high_gives_memory_and_waits_and_is_not_killed";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let _service = place.serve(&["-m", "256M", "--on-exhausted", "kill"]);
        let rich = place.job("rich", 40, &[], false);
        let job = place.job("high", 64, &["--high", "24M"], false);
        let number = |what| place.number("all/high", what);
        wait_until("it is at its high", || {
            number("/memory/current_bytes") <= allowed(24 * MIB)
        });
        assert!(number("/neap/high") > 0, "it went above");
        assert!(number("/memory/swap_current_bytes") > 32 * MIB);
        assert!(place.number("all/rich", "/memory/resident_bytes") >= 40 * MIB);
        let _ = set(&place, &["high", "memory.high=max"]);
        place.end("high", job);
        // Nothing of it can leave: it goes on above its high, waits, and ends whole.
        let options = ["--high", "64M", "--swap-max", "0"];
        let held = place.job("held", 67, &options, false);
        let events = place.start(&["events", "all/held"]);
        assert!(place.number("all/held", "/memory/resident_bytes") >= 67 * MIB);
        assert!(place.number("all/held", "/neap/high") > 0);
        assert!(place.number("all/held", "/pressure/some/total_us") > 100_000);
        place.end("held", held);
        place.end("rich", rich);
        drop(_service);
        let (_, said, _) = events.wait();
        assert!(said.contains("throttled"), "{said}");
    }
}

#[test]
fn idle_memory_leaves_the_jobs_that_ask_for_it_and_stays_in_the_others() {
    let test = "idle_memory_leaves_the_jobs_that_ask_for_it_and_stays_in_the_others";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let _service = place.serve(&["-m", "256M", "--idle", "off"]);
        let goes = place.job("goes", 40, &["--idle", "200ms"], false);
        let stays = place.job("stays", 40, &[], false);
        let resident = |name| place.number(name, "/memory/resident_bytes");
        wait_until("its memory leaves", || resident("all/goes") < 8 * MIB);
        assert!(resident("all/stays") >= 40 * MIB);
        assert_eq!(place.number("all/stays", "/neap/idle"), 0);
        // It is moved while they run; the service's holds for all its jobs.
        let _ = set(&place, &["stays", "idle=200ms"]);
        wait_until("the other's leaves, too", || {
            resident("all/stays") < 8 * MIB
        });
        let _ = set(&place, &["all", "idle=off"]);
        place.end("goes", goes);
        place.end("stays", stays);
    }
}

#[test]
fn several_jobs_are_frozen_at_once_while_memory_is_asked_back_from_the_service() {
    let test = "several_jobs_are_frozen_at_once_while_memory_is_asked_back_from_the_service";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "512M"]);
    let names = ["one", "two", "three"];
    let jobs = names.map(|name| place.job(name, 48, &[], false));
    let stays = place.job("stays", 48, &[], false);
    let asked: Vec<_> = names
        .iter()
        .map(|name| place.start(&["freeze", name, "--to-disk"]))
        .chain([place.start(&["reclaim", "all", "8M"])])
        .collect();
    for running in asked {
        let (status, _, said) = running.wait();
        assert!(status.success(), "{said}");
    }
    for (name, job) in names.into_iter().zip(jobs) {
        assert_eq!(place.number(name, "/neap/frozen"), 1);
        assert!(place.number(name, "/memory/resident_bytes") < 8 * MIB);
        let _ = place.ask(&["thaw", name]);
        place.end(name, job);
    }
    place.end("stays", stays);
}

#[test]
fn pressure_above_what_was_set_is_an_event_of_the_job_that_waits() {
    let test = "pressure_above_what_was_set_is_an_event_of_the_job_that_waits";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let service = place.serve(&["-m", "256M"]);
        let events = place.start(&["events", "all"]);
        let rich = place.job("rich", 16, &[], true);
        let short = place.job("short", 64, &["-m", "24M"], true);
        let _ = set(&place, &["short", "memory.pressure=1"]);
        wait_until("it waits", || {
            let stat = place.stat("all/short");
            let share = stat.pointer("/pressure/some/avg10");
            share
                .and_then(Value::as_f64)
                .is_some_and(|share| share > 2.0)
        });
        let _ = set(&place, &["short", "memory.pressure=off"]);
        place.end("short", short);
        place.end("rich", rich);
        drop(service);
        let (_, said, _) = events.wait();
        let of = |name: &str| {
            let mut lines = said.lines();
            lines.any(|line| {
                line.contains("pressure") && line.contains(name) && line.contains("10 s")
            })
        };
        assert!(of("short") && !of("rich"), "{said}");
    }
}

#[test]
fn a_plain_run_has_a_high_that_may_be_moved() {
    let test = "a_plain_run_has_a_high_that_may_be_moved";
    if !pages(test) {
        return;
    }
    let place = Place::own();
    let stop = place.file("plain.stop");
    let words = [
        "run", "--name", "plain", "-m", "256M", "--high", "40M", "--",
    ];
    let program = [path(&place.waits), "64", path(&stop)];
    let run = place.start(&[&words[..], &program].concat());
    let ready = place.file("plain.stop.ready");
    wait_until("it waits", || ready.exists());
    let current = || place.number("plain", "/memory/current_bytes");
    wait_until("it is at its high", || current() <= allowed(40 * MIB));
    let _ = set(&place, &["plain", "memory.high=16M"]);
    wait_until("it is at a lower one", || current() <= allowed(16 * MIB));
    let _ = set(&place, &["plain", "memory.high=max"]);
    assert_eq!(place.stat("plain")["settings"]["memory.high"], "max");
    let low = place.refusal(&["set", "plain", "memory.high=1M"], 1);
    assert!(low.contains("memory.high is at least 4MiB"), "{low}");
    place.end("plain", run);
}

#[test]
fn a_job_of_a_service_is_frozen_to_disk_and_the_pool_keeps_what_others_have() {
    let test = "a_job_of_a_service_is_frozen_to_disk_and_the_pool_keeps_what_others_have";
    if !pages(test) {
        return;
    }
    for place in places(test) {
        let _service = place.serve(&["-m", "256M"]);
        let jobs = ["one", "two"].map(|name| (name, place.job(name, 40, &[], false)));
        let keeps = place.job("keeps", 16, &["--no-writeback"], false);
        let number = |name: &str, what| place.number(&format!("all/{name}"), what);
        let done = |words: &[&str]| {
            let output = place.ask(words);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.success() && said.is_empty(),
                "{words:?}: {said}"
            );
        };
        done(&["reclaim", "all/two", "24M"]);
        let pool = number("two", "/memory/zswap_current_bytes");
        assert!(pool > 0);
        done(&["freeze", "all/one", "--to-disk"]);
        assert_eq!(number("one", "/memory/zswap_current_bytes"), 0);
        assert!(number("one", "/vmstat/zswpwb") * 4096 > 32 * MIB);
        assert_eq!(number("one", "/neap/frozen"), 1);
        assert_eq!(number("two", "/vmstat/zswpwb"), 0, "it stays in the pool");
        assert!(number("two", "/memory/zswap_current_bytes") >= pool);
        // One that is frozen already may go on to disk.
        done(&["freeze", "all/two"]);
        assert!(number("two", "/memory/zswap_current_bytes") > 0);
        done(&["freeze", "all/two", "--to-disk"]);
        assert_eq!(number("two", "/memory/zswap_current_bytes"), 0);
        let said = place.refusal(&["freeze", "all/keeps", "--to-disk"], 1);
        assert!(said.contains("zswap.writeback is 0"), "{said}");
        done(&["thaw", "all/one", "--prefetch"]);
        done(&["thaw", "all/two"]);
        place.end("keeps", keeps);
        for (name, job) in jobs {
            place.end(name, job);
        }
    }
}
