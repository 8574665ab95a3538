use super::*;

const MIB: u64 = 1 << 20;

/// 64 MiB, of which as many bytes are used, and so much of them may be reclaimed.
fn meter(usage: u64, reclaimable: u64) -> Meter {
    let meter = Meter::new(Bytes(64 * MIB), true);
    meter.charge(usage);
    meter.note_reclaimable(Bytes(reclaimable).whole_pages(), 0);
    meter
}

#[test]
fn fills_wait_where_they_would_pass_the_limit() {
    let meter = meter(63 * MIB, 40 * MIB);
    assert!(!meter.must_hold(MIB));
    assert!(meter.must_hold(MIB + 1));
    assert_eq!(meter.room(), MIB);
}

#[test]
fn a_limit_near_the_end_of_numbers_is_none_in_effect() {
    for meter in [meter(MIB, 0), Meter::new(Bytes(u64::MAX), true)] {
        meter.set_limit(Bytes(u64::MAX));
        meter.charge(1 << 40);
        assert!(!meter.is_far_over() && meter.far() > meter.limit().0);
    }
}

#[test]
fn reclaim_lags_once_its_lead_is_nearly_used() {
    let meter = meter(60 * MIB, 40 * MIB);
    assert!(!meter.lags(), "nothing is wanted of it");
    meter.set_plan(Bytes(64 * MIB), Some(Bytes(60 * MIB)));
    meter.charge(7 * MIB / 2);
    assert!(!meter.lags());
    meter.charge(1);
    assert!(meter.lags());
}

#[test]
fn the_floor_may_be_filled_whatever_else_takes_the_limit() {
    let meter = meter(82 * MIB, 2 * MIB);
    assert_eq!(meter.floor(), Bytes(4 * MIB).whole_pages());
    assert!(!meter.must_hold(2 * MIB));
    assert!(meter.must_hold(2 * MIB + 1));
    assert_eq!(meter.room(), 2 * MIB);
    assert!(meter.is_full(), "it is over its limit all the same");
}

#[test]
fn more_than_the_floor_waits_again() {
    assert!(meter(82 * MIB, 5 * MIB).must_hold(1));
}

#[test]
fn a_pool_that_can_be_written_back_counts_as_the_floor_has_room() {
    let meter = meter(90 * MIB, 3 * MIB);
    meter.note_reclaimable(Bytes(3 * MIB).whole_pages(), 4 * MIB);
    assert!(!meter.must_hold(MIB));
    meter.note_reclaimable(Bytes(3 * MIB).whole_pages(), 6 * MIB);
    assert!(meter.must_hold(1));
}

#[test]
fn a_job_that_is_to_be_killed_has_no_floor() {
    let meter = Meter::new(Bytes(64 * MIB), false);
    meter.charge(65 * MIB);
    meter.note_reclaimable(Pages(0), 0);
    assert_eq!(meter.floor(), Pages(0));
    assert!(meter.must_hold(1));
}

#[test]
fn a_limit_made_smaller_is_no_excess_of_the_jobs() {
    let meter = Meter::new(Bytes(64 * MIB), true);
    look(&meter, 60 * MIB, false);
    meter.set_limit(Bytes(32 * MIB));
    assert_eq!(meter.floor(), TUNING.limit.floor_least.whole_pages());
    look(&meter, 50 * MIB, false);
    assert!(meter.settles() && meter.is_far_over() && !meter.was_far_over());
    look(&meter, 30 * MIB, false);
    assert!(!meter.settles());
    look(&meter, 40 * MIB, false);
    look(&meter, 38 * MIB, false);
    meter.set_limit(Bytes(128 * MIB));
    look(&meter, 64 * MIB, false);
    assert_eq!(meter.furthest(), (8 * MIB, Bytes(32 * MIB)));
}

#[test]
fn what_is_asked_for_is_reclaimed_below_the_limit() {
    let meter = meter(40 * MIB, 40 * MIB);
    assert_eq!(meter.excess(), 0);
    meter.ask_for(Limit::Bytes(Bytes(30 * MIB)));
    assert_eq!((meter.excess(), meter.kept()), (10 * MIB, Pages(0)));
    assert!(!meter.must_hold(MIB), "nobody waits for that");
    meter.ask_for(Limit::Max);
    assert_eq!((meter.excess(), meter.kept()), (0, meter.floor()));
}

fn look(meter: &Meter, usage: u64, thaws: bool) {
    meter.sample(Sample {
        resident: usage,
        thaws,
        ..Sample::default()
    });
}

#[test]
fn what_comes_back_for_a_fork_is_why_the_peak_is_over_the_limit() {
    let meter = Meter::new(Bytes(64 * MIB), true);
    meter.note_thaw();
    look(&meter, 60 * MIB, true);
    look(&meter, 80 * MIB, true);
    look(&meter, 90 * MIB, false);
    assert!(meter.peaked_thawed(), "it was over since");
    look(&meter, 60 * MIB, false);
    look(&meter, 80 * MIB, false);
    assert!(meter.peaked_thawed(), "that is no peak");
}

#[test]
fn a_fork_that_is_over_is_not_why_the_limit_is_passed_later() {
    let meter = Meter::new(Bytes(64 * MIB), true);
    meter.note_thaw();
    look(&meter, 80 * MIB, true);
    look(&meter, 60 * MIB, false);
    look(&meter, 90 * MIB, false);
    assert!(!meter.peaked_thawed());
}

#[test]
fn a_pool_beside_the_limit_counts_nowhere() {
    for (beside, used) in [(false, 60), (true, 40)] {
        let meter = Meter::new(Bytes(64 * MIB), true).with_pool_beside(beside);
        let pool = Holding {
            bytes: 19 * MIB,
            backed: 20 * MIB,
            ..Holding::default()
        };
        meter.sample(Sample {
            resident: 35 * MIB,
            own: 25 * MIB,
            pool,
            thaws: false,
        });
        assert_eq!(meter.usage(), used * MIB);
        meter.note_pool(24 * MIB);
        let grown = if beside { 0 } else { 4 * MIB };
        assert_eq!(meter.usage(), used * MIB + grown);
    }
}
