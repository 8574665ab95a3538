use super::*;

const PAGES: u32 = 4096;

fn job(limit: Bytes) -> PlayJob {
    PlayJob {
        limit,
        pool_max_percent: 50,
        swap: Bytes::gib(1),
        cpus: 2,
        costs: PlayCosts::likely(),
        ratio: (3.0, 3.0),
        unwatched_hot: false,
    }
}

fn play(limit: Bytes) -> Play {
    Play::new(job(limit), PAGES, std::slice::from_ref(&(0..PAGES))).expect("descriptors")
}

/// Goes through all pages, again and again.
fn walk(play: &mut Play, times: u32) {
    for _ in 0..times {
        for page in 0..PAGES {
            play.touch(page, true);
            play.pass(Nanos(800));
        }
    }
}

#[test]
fn a_program_within_its_limit_waits_for_nothing() {
    let mut play = play(Bytes::mib(256));
    walk(&mut play, 3);
    assert_eq!(play.counts(), PlayCounts::default());
    assert_eq!(play.now(), Nanos(800 * 3 * u64::from(PAGES)));
}

#[test]
fn a_walk_through_more_than_the_limit_keeps_it_and_loads_what_does_not_fit() {
    let mut play = play(Bytes::mib(10));
    walk(&mut play, 4);
    let counts = play.counts();
    assert!(!counts.over && !play.is_endless(), "{counts:?}");
    let came = counts.zswpin + counts.pswpin;
    let (most, least) = (3 * u64::from(PAGES), 3 * u64::from(PAGES - 2560));
    assert!((least..most).contains(&came), "{counts:?}");
    play.job.core().check();
    play.job.store.check();
}

#[test]
fn the_same_program_is_played_to_the_same_counts_and_time() {
    let run = || {
        let mut play = play(Bytes::mib(6));
        walk(&mut play, 2);
        play.free(100, 300);
        walk(&mut play, 1);
        (play.counts(), play.now())
    };
    assert_eq!(run(), run());
}

#[test]
fn pages_that_are_given_back_take_no_memory() {
    let mut play = play(Bytes::mib(10));
    walk(&mut play, 1);
    play.free(0, PAGES);
    assert_eq!(play.job.core().total_resident(), Pages(0));
    let before = play.counts().pgmajfault;
    walk(&mut play, 1);
    let loads = play.counts().pgmajfault - before;
    assert_eq!(loads, 0, "they are fresh");
}

/// The pool's memory is the machine's, which has not half a pebibyte.
#[test]
fn a_limit_may_be_larger_than_the_machine() {
    let mut play = play(Bytes::gib(1 << 20));
    walk(&mut play, 1);
    assert_eq!(play.counts(), PlayCounts::default());
}
