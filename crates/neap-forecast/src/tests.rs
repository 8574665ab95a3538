use neap_sim::{Backing, Models, TraceArea};

use super::*;

const PAGES: u32 = 4096;

fn area() -> Vec<TraceArea> {
    vec![TraceArea {
        backing: Backing::Anon,
        pages: PAGES,
    }]
}

fn touch(first: u32, count: u32) -> Event {
    Event::Touch {
        first,
        count,
        write: true,
    }
}

fn packing() -> Packing {
    Packing::of(&Models::of_neap(), "lz4", None).expect("lz4 is fitted")
}

fn asked() -> NeapForecast {
    NeapForecast {
        job: NeapJob {
            limit: Bytes(0),
            pool_max_percent: 50,
            swap: true,
            cpus: 2,
        },
        costs: NeapCosts::likely(),
        packing: packing().of_ratio(3.0),
        time: Some(Nanos::millis(50)),
    }
}

/// Goes through all pages, again and again.
fn walks(times: u32) -> Trace {
    let walk = (0..PAGES / 64).flat_map(|at| [touch(at * 64, 64), Event::Time(Nanos::micros(50))]);
    Trace::build(area(), (0..times).flat_map(|_| walk.clone()))
}

#[test]
fn a_limit_far_above_costs_nothing() {
    let [point] = asked().run(&walks(4), &[Bytes::mib(256)]).unwrap()[..] else {
        panic!("one limit, one point")
    };
    assert_eq!(point.counts.pgmajfault, 0);
    assert!((point.slowdown - 1.0).abs() < 0.01, "{point:?}");
}

#[test]
fn a_program_that_walks_through_more_than_its_limit_keeps_a_part_of_what_fits() {
    let limit = Bytes::mib(10);
    let point = |times| match asked().run(&walks(times), &[limit]).unwrap()[..] {
        [point] => point,
        _ => panic!("one limit, one point"),
    };
    let (first, later) = (point(4), point(6));
    let pages_in = |point: &NeapPoint| point.counts.zswpin + point.counts.pswpin;
    let (all, fits) = (u64::from(PAGES), limit.pages_up().0);
    let each = (pages_in(&later) - pages_in(&first)) / 2;
    assert!(
        (all - fits..all * 9 / 10).contains(&each),
        "{each} of {all} in each round: an order by age loads all of them"
    );
    assert!(
        first.counts.pgmajfault * 15 <= 3 * all * 11 / 10,
        "{first:?}: readahead brings 16 at once"
    );
    assert!(first.slowdown_low > 1.5, "{first:?}");
}

#[test]
fn less_memory_is_no_quicker_and_the_range_holds_what_is_likely() {
    let limits = [14, 11, 8].map(Bytes::mib);
    let points = asked().run(&walks(3), &limits).unwrap();
    for pair in points.windows(2) {
        assert!(pair[0].slowdown <= pair[1].slowdown * 1.02, "{pair:?}");
    }
    for point in points {
        assert!(point.slowdown_low <= point.slowdown);
        assert!(
            point
                .slowdown_high
                .is_some_and(|high| high >= point.slowdown)
        );
    }
}

/// As neap would see it at 12 MiB: a part is never watched, the rest is loaded in turn.
fn seen() -> Trace {
    let off = |first, count| Event::Watch {
        first,
        count,
        on: true,
    };
    let mut events = vec![touch(0, PAGES)];
    for _ in 0..3 {
        events.extend([
            off(2048, 2048),
            Event::Time(Nanos::millis(100)),
            touch(2048, 2048),
        ]);
    }
    Trace::build(area(), events).seen_at(Bytes::mib(12))
}

#[test]
fn below_the_limit_of_a_record_no_most_is_known() {
    let trace = seen();
    let limits = [Bytes::mib(24), Bytes::mib(12), Bytes::mib(8)];
    let points = asked().run(&trace, &limits).unwrap();
    assert!(points[0].slowdown_high.is_some() && points[1].slowdown_high.is_some());
    assert_eq!(
        (points[2].slowdown_high, points[2].pgmajfault_high),
        (None, None)
    );
    assert!(
        points[2].slowdown_low >= points[1].slowdown_low,
        "{points:?}"
    );
    let notes = asked().notes(&trace, &limits);
    assert!(
        notes
            .iter()
            .any(|note| note.contains("below that only the least")),
        "{notes:?}"
    );
}

#[test]
fn at_the_limit_of_a_record_its_time_is_the_most() {
    let points = asked().run(&seen(), &[Bytes::mib(12)]).unwrap();
    assert!(
        points[0]
            .slowdown_high
            .is_some_and(|high| (high - 6.0).abs() < 0.01)
    );
    // Of the 250 ms that it waited a quarter is the recorder's, likely.
    assert!((points[0].slowdown - 4.75).abs() < 0.01, "{points:?}");
    assert!((points[0].seconds - 0.2375).abs() < 0.001, "{points:?}");
}

#[test]
fn a_record_without_pressure_says_that_it_knows_nothing() {
    let trace = Trace::build(area(), [touch(0, PAGES)]).seen_at(Bytes::gib(1));
    let notes = asked().notes(&trace, &[Bytes::mib(8)]);
    assert!(
        notes
            .iter()
            .any(|note| note.contains("no page left memory")),
        "{notes:?}"
    );
}

#[test]
fn what_neap_saw_survives_the_file() {
    let trace = seen();
    assert_eq!(Trace::decode(&trace.encode()).as_ref(), Ok(&trace));
}

#[test]
fn a_denser_compressor_keeps_more_in_the_pool_and_takes_longer_for_a_page() {
    let of = |compressor: &str| NeapForecast {
        packing: Packing::of(&Models::of_neap(), compressor, Some("python")).unwrap(),
        ..asked()
    };
    let (lz4, zstd) = (of("lz4"), of("zstd:-1"));
    let disk = |asked: &NeapForecast| {
        asked.run(&walks(4), &[Bytes::mib(4)]).unwrap()[0]
            .counts
            .pswpout
    };
    assert!(disk(&zstd) < disk(&lz4), "{} {}", disk(&zstd), disk(&lz4));
    let costs = |asked: &NeapForecast| costs::with(&asked.costs, &asked.packing);
    assert_eq!(costs(&lz4), NeapCosts::likely());
    assert!(costs(&zstd).compress > costs(&lz4).compress);
    assert!(costs(&zstd).fill > costs(&lz4).fill);
    assert_eq!(costs(&zstd).fault, costs(&lz4).fault);
}

#[test]
fn a_dictionary_counts_from_where_the_engine_has_one() {
    let packing = Packing {
        dictionary: Ratio::known(30.0),
        ..packing().of_ratio(1.5)
    };
    let helped = NeapForecast {
        packing: packing.clone(),
        ..asked()
    };
    let alone = NeapForecast {
        packing: packing.of_ratio(1.5),
        ..asked()
    };
    let long: Vec<_> = (0..3 * PAGES / 64)
        .flat_map(|at| [touch(at * 64, 64), Event::Time(Nanos::micros(50))])
        .collect();
    let area = vec![TraceArea {
        backing: Backing::Anon,
        pages: 3 * PAGES,
    }];
    let trace = Trace::build(area, [long.clone(), long].concat());
    let disk = |asked: &NeapForecast, mib| {
        asked.run(&trace, &[Bytes::mib(mib)]).unwrap()[0]
            .counts
            .pswpout
    };
    assert!(disk(&helped, 20) < disk(&alone, 20));
    assert_eq!(disk(&helped, 12), disk(&alone, 12), "not below 16 MiB");
}

#[test]
fn a_record_of_several_processes_is_told_to_be_played_as_one() {
    let area = TraceArea {
        backing: Backing::Anon,
        pages: PAGES / 2,
    };
    let noted = |areas: Vec<TraceArea>| {
        let trace = Trace::build(areas, [touch(0, PAGES / 2)]).seen_at(Bytes::mib(12));
        let notes = asked().notes(&trace, &[Bytes::mib(12)]);
        notes.iter().any(|note| note.contains("of 2 processes"))
    };
    assert!(noted(vec![area, area]));
    assert!(!noted(vec![area]));
}
