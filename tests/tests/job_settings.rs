//! The settings of one job of a service, by the names of a memory cgroup's files. In each test the programs look at the end
//! whether every word of their memory is as it was.

use neap_tests::paging;
use neap_tests::service::{Place, places, wait_until};

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
    let Some(_alone) = paging(test) else { return };
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
    let Some(_alone) = paging(test) else { return };
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
        neap_tests::service::path(&place.neap),
        "run",
        "--name",
        "inner",
        "--",
        neap_tests::service::path(&place.waits),
        "40",
        neap_tests::service::path(&stop),
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
    let Some(_alone) = paging(test) else { return };
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
