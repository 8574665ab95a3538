//! All switches together. All 24.9 million combinations would take a day; so every combination of
//! the switches of lists and walks is run, each with values of zswap's switches that are chosen so
//! that any three values of any three switches meet in some run.

use std::collections::HashSet;

use neap_policy::{
    FullPool, Incompressible, LargeStore, Lru, MemcgWalk, PenaltySpend, PoolWorkerVersion,
    RatioScope, Recency, ReclaimBatching, Rotate, ShrinkerLimit, ShrinkerScheme, SwapinCount,
    Switches, ZeroPages,
};

use super::random_tests::{Event, LEN, World, check_identities, machine};
use super::tables::Entry;
use super::tests::{finish, teardown};
use super::*;
use crate::compress::{Models, PageModel};

/// Switches there are.
const SWITCHES: usize = 17;
/// The first of them are those of lists and walks.
const LISTS: usize = 7;

/// A value of every switch, as its number.
type Row = [usize; SWITCHES];

const LEVELS: Row = [
    Lru::ALL.len(),
    MemcgWalk::ALL.len(),
    Rotate::ALL.len(),
    ReclaimBatching::ALL.len(),
    Recency::ALL.len(),
    2,
    2,
    ShrinkerScheme::ALL.len(),
    SwapinCount::ALL.len(),
    LargeStore::ALL.len(),
    ZeroPages::ALL.len(),
    Incompressible::ALL.len(),
    PoolWorkerVersion::ALL.len(),
    PenaltySpend::ALL.len(),
    RatioScope::ALL.len(),
    ShrinkerLimit::ALL.len(),
    FullPool::ALL.len(),
];

/// Names every field, so that a new switch does not compile until it is above, too.
fn switches(row: &Row) -> Switches {
    Switches {
        lru: Lru::ALL[row[0]],
        memcg_walk: MemcgWalk::ALL[row[1]],
        rotate: Rotate::ALL[row[2]],
        reclaim_batching: ReclaimBatching::ALL[row[3]],
        recency: Recency::ALL[row[4]],
        mglru_proportional: row[5] == 1,
        writeback_refault: row[6] == 1,
        shrinker_scheme: ShrinkerScheme::ALL[row[7]],
        swapin_count: SwapinCount::ALL[row[8]],
        large_store: LargeStore::ALL[row[9]],
        zero_pages: ZeroPages::ALL[row[10]],
        incompressible: Incompressible::ALL[row[11]],
        pool_worker: PoolWorkerVersion::ALL[row[12]],
        penalty_spend: PenaltySpend::ALL[row[13]],
        ratio_scope: RatioScope::ALL[row[14]],
        shrinker_limit: ShrinkerLimit::ALL[row[15]],
        full_pool: FullPool::ALL[row[16]],
    }
}

/// Which triples of values have met: a bit for each three switches and their values.
struct Triples {
    met: Vec<bool>,
    left: usize,
}

/// Values of a switch, at most.
const MOST: usize = 5;

impl Triples {
    fn new() -> Triples {
        // How many products of three of them there are, one switch after the other.
        let [_, _, _, left] = LEVELS
            .iter()
            .fold([1, 0, 0, 0], |[none, one, two, three], n| {
                [none, one + none * n, two + one * n, three + two * n]
            });
        assert!(LEVELS.iter().all(|&levels| levels <= MOST));
        let met = vec![false; (SWITCHES * MOST).pow(3)];
        Triples { met, left }
    }

    fn place(row: &Row, switches: [usize; 3]) -> usize {
        let mut sorted = switches;
        sorted.sort_unstable();
        let digit = |at: usize, s: usize| at * SWITCHES * MOST + s * MOST + row[s];
        sorted.into_iter().fold(0, digit)
    }

    /// Triples that a row has with switch `new` and two that are `set`, and that have not met yet.
    fn gain(&self, row: &Row, set: &[usize], new: usize) -> usize {
        let new = |a: usize, b: usize| usize::from(!self.met[Triples::place(row, [a, b, new])]);
        let pairs = set.iter().enumerate();
        pairs
            .map(|(n, &a)| set[..n].iter().map(|&b| new(a, b)).sum::<usize>())
            .sum()
    }

    fn meet(&mut self, row: &Row) {
        for a in 0..SWITCHES {
            for b in 0..a {
                for c in 0..b {
                    let place = Triples::place(row, [a, b, c]);
                    self.left -= usize::from(!self.met[place]);
                    self.met[place] = true;
                }
            }
        }
    }
}

/// Every combination of the first switches, and of the others, one by one, the value that meets most
/// that it has not met yet. Whoever comes first has most to choose, so they take turns.
fn rows() -> (Vec<Row>, Triples) {
    let mut triples = Triples::new();
    let combinations: usize = LEVELS[..LISTS].iter().product();
    let rows = (0..combinations).map(|number| {
        let mut row = [0; SWITCHES];
        let mut rest = number;
        for (value, levels) in row.iter_mut().zip(&LEVELS[..LISTS]) {
            (*value, rest) = (rest % levels, rest / levels);
        }
        let mut set: Vec<usize> = (0..LISTS).collect();
        for turn in 0..SWITCHES - LISTS {
            let switch = LISTS + (turn + number) % (SWITCHES - LISTS);
            let gain = |value: usize| {
                let mut tried = row;
                tried[switch] = value;
                triples.gain(&tried, &set, switch)
            };
            // Of equals another one each time.
            let values = (0..LEVELS[switch]).map(|value| (value + number) % LEVELS[switch]);
            row[switch] = values.max_by_key(|&value| gain(value)).unwrap_or(0);
            set.push(switch);
        }
        triples.meet(&row);
        row
    });
    (rows.collect(), triples)
}

/// A machine that is too small for what its three cgroups do, with zswap that is, too.
fn world(switches: Switches, number: usize) -> World {
    let fitted = Models::built_in().page_model("cc1", "lz4").unwrap();
    let config = KernelConfig {
        ram: Bytes::mib(8),
        nodes: 1 + number as u32 % 2,
        contents: vec![fitted, PageModel::fixed(4096, Nanos(5000), Nanos(2000))],
        ..machine(switches, [number / 2 % 2 == 1, true, true, false])
    };
    let mut world = World::new(&config);
    let file = world.kernel.create_file(Pages(LEN));
    let areas = [
        Area {
            advice: Advice::Sequential,
            ..Area::file(file, Pages(LEN))
        },
        Area {
            folio_order: 4,
            ..Area::anon(Pages(LEN))
        },
    ];
    for (who, areas) in [&areas[..1], &areas[1..], &areas[..]]
        .into_iter()
        .enumerate()
    {
        for &area in areas {
            let start = world.kernel.map(world.spaces[who].0, area);
            world.spaces[who].1.push(start);
        }
    }
    world
}

/// What each run does: every kind of event, under global and local pressure.
const EVENTS: [Event; 20] = [
    sweep(0, 0),
    sweep(1, 2),
    sweep(1, 0),
    sweep(2, 0),
    Event::Limit {
        memcg: 2,
        pages: 402,
    },
    sweep(2, 1),
    reclaim(0, 300),
    sweep(0, 2),
    sweep(2, 2),
    Event::Fork { who: 0 },
    sweep(0, 0),
    reclaim(1, 500),
    Event::Wait { micros: 900 },
    sweep(2, 3),
    Event::Unmap { who: 1, area: 2 },
    sweep(2, 0),
    reclaim(0, 900),
    Event::Exit { who: 0 },
    sweep(1, 0),
    sweep(2, 2),
];

const fn sweep(who: u8, area: u8) -> Event {
    Event::Sweep { who, area }
}

const fn reclaim(memcg: u8, pages: u16) -> Event {
    Event::Reclaim { memcg, pages }
}

/// Each page that was touched is in memory, in a slot that somebody uses or, of a file, on disk; no
/// more is held than the machine and swap count. Pages found.
fn check_pages(world: &mut World) -> usize {
    let Kernel { mm, machine, .. } = &mut world.kernel;
    let mut found = 0;
    let (mut folios, mut slots) = (HashSet::new(), HashSet::new());
    let starts = world.spaces.iter().flat_map(|(space, starts)| {
        let space = *space;
        starts.iter().map(move |&start| (space, start))
    });
    for (space, start) in starts {
        let area = machine.space_mut(space).find(start).expect("an area");
        let entries = machine.tables.area(area).entries;
        for at in 0..LEN {
            match machine.tables.entry(entries + at) {
                Entry::Folio(id) => {
                    let first = mm.folios.key(id);
                    let keys = first..first + mm.folios.pages(id) as u32;
                    let own = machine.key_of(area, at);
                    assert!(keys.contains(&own), "{id:?} has another page");
                    folios.insert(id);
                }
                Entry::Slot(slot) => {
                    let swap = machine.swap.as_ref().expect("swap");
                    assert!(swap.slots.users(slot) > 0, "{slot} is free");
                    slots.insert(slot);
                }
                Entry::Shadow(_) => {}
                Entry::None => continue,
            }
            found += 1;
        }
    }
    let held: u64 = folios.iter().map(|&id| mm.folios.pages(id)).sum();
    let used: u64 = machine.used.iter().sum();
    assert!(held <= used, "{held} pages of {used}");
    let used = machine.swap.as_ref().map(|swap| swap.slots.used().0);
    assert!(Some(slots.len() as u64) <= used);
    found
}

/// Reads every page of every space. Tests keep count of which write-out each place holds
/// (`versions.rs`), so that an old one that comes back is seen.
fn read_all(world: &mut World) {
    for (space, starts) in world.spaces.clone() {
        let pages = starts
            .iter()
            .flat_map(|&start| (0..LEN).map(move |at| start + Pages(at)));
        for page in pages {
            let write = false;
            let op = Op::Touch { space, page, write };
            let (reply, now) = finish(&mut world.kernel, op, world.now);
            assert!(matches!(reply, Reply::Done { .. }), "{page} {reply:?}");
            world.now = now;
        }
    }
}

/// Runs a row, with checks on the way and in the end. Counters of the machine, as text.
fn run(row: &Row, number: usize) -> String {
    let mut world = world(switches(row), number);
    let mut before = 0;
    for (nth, event) in EVENTS.into_iter().enumerate() {
        world.run(event);
        world.kernel.mm().check();
        let fewer = matches!(event, Event::Unmap { .. } | Event::Exit { .. });
        if fewer || nth % 5 == 4 {
            let found = check_pages(&mut world);
            assert!(fewer || found >= before, "{} lost", before - found);
            before = found;
        }
    }
    assert_eq!(
        world.spaces.len(),
        3,
        "one was forked, one ended, none killed"
    );
    check_identities(&world.kernel);
    let counters = format!("{:?} {}", world.kernel.vmstat(MemcgId::ROOT), world.now);
    read_all(&mut world);
    let found = check_pages(&mut world);
    let areas: usize = world.spaces.iter().map(|space| space.1.len()).sum();
    assert_eq!(found, areas * LEN as usize);
    for (space, _) in world.spaces {
        world.kernel.exit_space(space);
    }
    world.kernel.fire(Nanos(u64::MAX));
    world.kernel.remove_file(FileId(0));
    teardown(world.kernel, &[]);
    counters
}

#[test]
fn every_three_values_of_switches_run_together() {
    let all: usize = LEVELS.iter().product();
    let (rows, triples) = rows();
    assert_eq!((all, rows.len()), (24_883_200, 1080));
    assert_eq!(triples.left, 0, "triples that no row has");
    for (number, row) in rows.iter().enumerate() {
        run(row, number);
    }
}

/// So the runs above do go through what the switches decide.
#[test]
fn each_value_makes_a_difference() {
    let differs = |switch: usize, value: usize| {
        (0..12).any(|number| {
            let mut row = LEVELS.map(|levels| number % 3 % levels);
            row[switch] = 0;
            let before = run(&row, number);
            row[switch] = value;
            run(&row, number) != before
        })
    };
    let values = (0..SWITCHES).flat_map(|switch| (1..LEVELS[switch]).map(move |v| (switch, v)));
    let same: Vec<_> = values.filter(|&(s, v)| !differs(s, v)).collect();
    // With its knob off the sixth posting refuses large folios as kernels before it do. When disk
    // swap-ins are spent shows where the shrinker is asked and scans nothing, which takes a longer
    // list than a machine this small has (zswap's own tests have one).
    let knob_off = (9, LargeStore::V6KnobOff as usize);
    let at_scan = (13, PenaltySpend::AtScan as usize);
    assert_eq!(same, [knob_off, at_scan]);
}
