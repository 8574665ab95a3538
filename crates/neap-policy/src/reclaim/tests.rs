use std::collections::BTreeMap;

use neap_units::{Bytes, Nanos};
use proptest::prelude::*;

use super::*;
use crate::folio::Flags;
use crate::memcg::Limits;
use crate::switches::{Lru, Switches};

/// A machine that frees whatever it is asked to, and finds every `young`-th page accessed.
#[derive(Default)]
pub(super) struct Fake {
    state: u32,
    looks: u32,
    young: u32,
    exec: bool,
    walks: u64,
    freed: u64,
    full: bool,
    pub(super) kills: u64,
    /// The high watermark, if it is more than 100 pages; 1,048,576 are free.
    pub(super) high: u64,
    /// Visits of each cgroup, by its number.
    pub(super) visits: BTreeMap<u32, u64>,
}

impl Fake {
    /// Finds every page accessed from now on, by execution or not.
    pub(super) fn hit_all(&mut self, exec: bool) {
        (self.young, self.exec) = (1, exec);
    }
}

impl Host for Fake {
    fn random(&mut self, n: u32) -> u32 {
        self.state = self
            .state
            .wrapping_mul(747_796_405)
            .wrapping_add(2_891_336_453);
        (self.state >> 16) % n
    }

    fn referenced(&mut self, _: &mut Mm, _: FolioId, _: MemcgId) -> Referenced {
        self.looks += 1;
        let hit = self.young > 0 && self.looks.is_multiple_of(self.young);
        Referenced {
            ptes: hit.into(),
            exec: hit && self.exec,
        }
    }

    fn walk_page_tables(&mut self, _: &mut Mm, _: LruvecId, _: bool) {
        self.walks += 1;
    }

    fn pageout(&mut self, mm: &mut Mm, id: FolioId, target: LruvecId) -> Pageout {
        if self.full {
            return Pageout::Activate;
        }
        mm.evict_shadow(id, target);
        let memcg = mm.folio_memcg(id);
        mm.memcgs.uncharge(memcg, Pages(mm.folios.pages(id)));
        mm.folios.free(id);
        self.freed += 1;
        Pageout::Freed { wrote: true }
    }

    fn flush(&mut self, _: &mut Mm, _: FolioId) {}
    fn take_parts(&mut self, _: &mut Vec<FolioId>) {}
    fn shrink_slab(&mut self, mm: &mut Mm, lruvec: LruvecId, _: u8) {
        *self.visits.entry(mm.memcg_of(lruvec).0).or_default() += 1;
    }
    fn out_of_memory(&mut self, _: &mut Mm) {
        self.kills += 1;
    }
    fn balanced(&self, _: u32) -> bool {
        false
    }
    fn free_and_high(&self, _: u32) -> (u64, u64) {
        (1 << 20, self.high.max(100))
    }
    fn drain_batches(&mut self, _: &mut Mm) {}
}

pub(super) fn switches(lru: Lru, memcg_walk: MemcgWalk) -> Switches {
    Switches {
        lru,
        memcg_walk,
        ..Switches::default()
    }
}

/// Pages of a cgroup that is never too small.
pub(super) const PAGES: u64 = 4500;

/// `cgroups` of `pages` anonymous pages each.
pub(super) fn machine(switches: Switches, cgroups: u32, pages: u64) -> (Mm, Vec<MemcgId>, Fake) {
    let mut mm = Mm::new(switches, 60, 1, 1);
    mm.free_swap = Bytes::gib(64).whole_pages();
    let mut host = Fake::default();
    let memcgs: Vec<_> = (0..cgroups)
        .map(|_| mm.create_memcg(MemcgId::ROOT, "g", |n| host.random(n)))
        .collect();
    for &memcg in &memcgs {
        fill(&mut mm, memcg, pages);
    }
    (mm, memcgs, host)
}

pub(super) fn fill(mm: &mut Mm, memcg: MemcgId, pages: u64) {
    fill_with(mm, memcg, pages, 0);
}

/// Fills a cgroup with folios of an order.
pub(super) fn fill_with(mm: &mut Mm, memcg: MemcgId, pages: u64, order: u8) {
    mm.memcgs.try_charge(0, memcg, Pages(pages), true).unwrap();
    mm.memcgs.drain_stocks(MemcgId::ROOT);
    for _ in 0..pages >> order {
        let flags = Flags::SWAPBACKED.with_order(order);
        let id = mm.folios.alloc(mm.lruvec_of(memcg, 0), 0, flags);
        mm.note_fault(id);
        mm.add_folio(id, false);
    }
}

pub(super) fn request(goal: u64) -> Request {
    Request {
        cause: Cause::Proactive,
        target: MemcgId::ROOT,
        goal: Pages(goal),
        swappiness: None,
        nodes: Nodes::From(0),
    }
}

#[test]
fn every_kernel_meets_a_goal_and_the_lists_agree() {
    for &lru in Lru::ALL {
        for &walk in MemcgWalk::ALL {
            let (mut mm, _, mut host) = machine(switches(lru, walk), 8, 2000);
            host.young = 3;
            // Fresh generations have nothing cold: the first call may be in vain.
            let mut got = Pages::ZERO;
            for _ in 0..16 {
                if got < Pages(500) {
                    got += Reclaim::new(request(500)).run(&mut mm, &mut host);
                }
            }
            assert!(got >= Pages(500), "{lru} {walk}: {got}");
            assert_eq!(host.freed, got.0);
            mm.check();
            assert_eq!(mm.memcgs.usage(MemcgId::ROOT).0, 16_000 - got.0);
            assert_eq!(mm.counters(MemcgId::ROOT).pgsteal(), got.0);
        }
    }
}

#[test]
fn a_full_walk_visits_everyone_though_the_goal_is_met() {
    let visits = |walk| {
        let (mut mm, _, mut host) = machine(switches(Lru::Classic, walk), 64, 4096);
        Reclaim::new(request(32)).run(&mut mm, &mut host);
        let root = mm.counters(MemcgId::ROOT);
        (root[Counter::MemcgVisited], root.pgsteal())
    };
    let (full, overshoot) = visits(MemcgWalk::FullLinear);
    assert_eq!(full % 65, 0, "whole passes");
    let (partial, close) = visits(MemcgWalk::PartialCookie);
    assert!(
        partial < full && close < overshoot,
        "{partial} {full} {close} {overshoot}"
    );
}

#[test]
fn a_partial_walk_goes_on_where_the_last_one_stopped() {
    let (mut mm, memcgs, mut host) =
        machine(switches(Lru::Classic, MemcgWalk::PartialCookie), 16, 4096);
    for _ in 0..64 {
        Reclaim::new(request(32)).run(&mut mm, &mut host);
    }
    let steals: Vec<u64> = memcgs.iter().map(|&id| mm.counters(id).pgsteal()).collect();
    let (low, high) = (steals.iter().min().unwrap(), steals.iter().max().unwrap());
    assert!(*low > 0 && *high < 4 * low, "{steals:?}");
}

#[test]
fn nothing_is_aged_at_the_first_priority() {
    for lru in [Lru::Mglru63, Lru::Mglru614] {
        let (mut mm, memcgs, mut host) = machine(switches(lru, MemcgWalk::MemcgLru67), 1, 100);
        let lruvec = mm.lruvec_of(memcgs[0], 0);
        let mut reclaim = Reclaim::new(Request {
            target: memcgs[0],
            ..request(32)
        });
        while reclaim.priority() == DEF_PRIORITY {
            reclaim.step(&mut mm, &mut host);
        }
        assert_eq!((host.walks, mm.max_seq(lruvec)), (0, 3));
        reclaim.run(&mut mm, &mut host);
        assert!(host.walks > 0 && reclaim.reclaimed() >= Pages(32));
    }
}

/// Kswapd over cgroups whose generations were opened at 10 s, as it goes at `now`.
fn kills(now: u64, min_ttl: u64, lru: Lru, change: impl Fn(&mut Mm, MemcgId)) -> (u64, bool) {
    let (mut mm, memcgs, mut host) = machine(switches(lru, MemcgWalk::MemcgLru67), 2, PAGES);
    let second = |n: u64| Nanos::millis(n * 1000);
    mm.now = second(10);
    for &memcg in &memcgs {
        for _ in 0..4 {
            let id = mm.lruvec_of(memcg, 0);
            mm.open_generation(id, true);
        }
        change(&mut mm, memcg);
    }
    (mm.now, mm.min_ttl) = (second(now), second(min_ttl));
    let mut reclaim = Reclaim::new(Request {
        cause: Cause::Kswapd,
        nodes: Nodes::Only(0),
        ..request(63)
    });
    // Nothing is freed: the priority falls.
    host.full = true;
    let mut at_first = 0;
    while reclaim.priority() >= DEF_PRIORITY - 2 {
        if reclaim.priority() == DEF_PRIORITY {
            at_first = host.kills;
        }
        if reclaim.step(&mut mm, &mut host) == Progress::Done {
            break;
        }
    }
    (host.kills, at_first > 0)
}

#[test]
fn kswapd_kills_rather_than_evict_a_working_set_that_is_to_be_kept() {
    for lru in [Lru::Mglru63, Lru::Mglru614] {
        let nothing = |_: &mut Mm, _| {};
        assert_eq!(kills(11, 0, lru, nothing).0, 0, "off");
        assert_eq!(kills(13, 2, lru, nothing).0, 0, "older than that");
        let (young, at_first) = kills(11, 2, lru, nothing);
        assert!(young > 0, "{lru}");
        assert_eq!(at_first, lru == Lru::Mglru614, "at the first priority");
        // What is old does not count where it is protected or too small.
        let min = |mm: &mut Mm, memcg| {
            let min = Pages(2 * PAGES);
            mm.set_limits(
                memcg,
                Limits {
                    min,
                    ..Limits::default()
                },
            );
        };
        assert!(kills(13, 2, lru, min).0 > 0, "{lru}");
    }
    assert_eq!(kills(11, 2, Lru::Classic, |_, _| {}).0, 0, "no generations");
}

#[test]
fn large_goals_start_at_the_priority_that_meets_them() {
    let start = |walk, goal| {
        let (mut mm, memcgs, mut host) = machine(switches(Lru::Mglru63, walk), 4, 4096);
        // Everything but the two youngest counts: 16384 pages after two agings.
        for &memcg in &memcgs {
            let id = mm.lruvec_of(memcg, 0);
            mm.open_generation(id, true);
            mm.open_generation(id, true);
        }
        let mut reclaim = Reclaim::new(request(goal));
        reclaim.step(&mut mm, &mut host);
        reclaim.priority()
    };
    assert_eq!(start(MemcgWalk::MemcgLru67, 63), 12, "small ones do not");
    // fls(16384) - 1 - fls(63) = 14 - 6.
    assert_eq!(start(MemcgWalk::MemcgLru67, 64), 8);
    assert_eq!(start(MemcgWalk::MemcgLru67, 4096), 6, "not below half");
    assert_eq!(start(MemcgWalk::MemcgLru63, 64), 7);
    assert_eq!(start(MemcgWalk::MemcgLru63, 4096), 1);
}

#[test]
fn what_is_below_min_is_never_reclaimed_and_below_low_only_in_need() {
    for &lru in Lru::ALL {
        let (mut mm, memcgs, mut host) = machine(switches(lru, MemcgWalk::PartialCookie), 3, 1000);
        mm.set_limits(
            memcgs[0],
            Limits {
                min: Pages(2000),
                ..Limits::default()
            },
        );
        mm.set_limits(
            memcgs[1],
            Limits {
                low: Pages(2000),
                ..Limits::default()
            },
        );
        while Reclaim::new(request(100)).run(&mut mm, &mut host) > Pages::ZERO {
            if mm.counters(memcgs[1]).pgsteal() > 0 {
                assert!(mm.counters(memcgs[2]).pgsteal() > 900, "{lru}");
                assert!(mm.counters(memcgs[1])[Counter::MemcgLow] > 0);
            }
        }
        assert_eq!(mm.counters(memcgs[0]).pgsteal(), 0, "{lru}");
        assert_eq!(mm.counters(memcgs[1]).pgsteal(), 1000, "{lru}");
        mm.check();
    }
}

#[test]
fn a_reclaim_in_vain_ends() {
    for &lru in Lru::ALL {
        for &walk in MemcgWalk::ALL {
            let (mut mm, _, mut host) = machine(switches(lru, walk), 4, 500);
            host.full = true;
            assert_eq!(
                Reclaim::new(request(64)).run(&mut mm, &mut host),
                Pages::ZERO
            );
            mm.check();
        }
    }
}

#[test]
fn a_pass_costs_the_same_for_any_number_of_cgroups() {
    // Cgroups that are not too small at the first priority, in folios of 64 pages.
    let visits = |walk, cgroups| {
        let switches = switches(Lru::Mglru614, walk);
        let (mut mm, memcgs, mut host) = machine(switches, cgroups, 0);
        for memcg in memcgs {
            fill_with(&mut mm, memcg, 4480, 6);
        }
        // At first all pages are young, and everyone has to age.
        for _ in 0..4 {
            Reclaim::new(request(64)).run(&mut mm, &mut host);
        }
        let visited = |mm: &Mm| mm.counters(MemcgId::ROOT)[Counter::MemcgVisited];
        let before = visited(&mm);
        for _ in 0..50 {
            assert!(Reclaim::new(request(640)).run(&mut mm, &mut host) >= Pages(640));
        }
        visited(&mm) - before
    };
    // The full walk goes to everyone each time.
    let partial = MemcgWalk::ALL
        .iter()
        .filter(|&&walk| walk != MemcgWalk::FullLinear);
    for &walk in partial {
        let (few, many) = (visits(walk, 128), visits(walk, 16_384));
        assert!(
            many <= few + few / 4,
            "{walk}: {few} visits of 128, {many} of 16384"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Equal cgroups: between two advances of `seq` each is aged once, whatever the goals.
    /// Cgroups that are offline or protected do not hold `seq` up.
    #[test]
    fn the_memcg_lru_is_fair_in_the_long_run(
        cgroups in 2u32..8,
        rework in any::<bool>(),
        old in any::<bool>(),
        goal in 32u64..400,
        odd in 0u8..3,
    ) {
        let lru = if rework { Lru::Mglru614 } else { Lru::Mglru63 };
        let walk = if old { MemcgWalk::MemcgLru63 } else { MemcgWalk::MemcgLru67 };
        // Large enough not to be "too small" at the first priority.
        let (mut mm, memcgs, mut host) = machine(switches(lru, walk), cgroups, PAGES);
        match odd {
            1 => mm.offline_memcg(memcgs[0], |_| 0),
            2 => mm.set_limits(memcgs[0], Limits { min: Pages(1 << 20), ..Limits::default() }),
            _ => {}
        }
        let equal = &memcgs[usize::from(odd > 0)..];
        let aged = |mm: &Mm| -> Vec<u64> {
            equal.iter().map(|&id| mm.counters(id)[Counter::MglruAged]).collect()
        };
        let (mut before, mut seq) = (aged(&mm), mm.memcg_lru[0].seq());
        for _ in 0..3000 {
            if seq > 3 {
                break;
            }
            let mut reclaim = Reclaim::new(request(goal));
            while reclaim.step(&mut mm, &mut host) == Progress::More {
                if mm.memcg_lru[0].seq() != seq {
                    seq = mm.memcg_lru[0].seq();
                    let now = aged(&mm);
                    let turns: Vec<u64> = now.iter().zip(&before).map(|(a, b)| a - b).collect();
                    prop_assert!(turns.iter().all(|&n| n == 1), "{:?}", turns);
                    before = now;
                }
            }
            for &id in equal {
                let missing = PAGES - mm.memcgs.usage(id).0;
                fill(&mut mm, id, missing);
            }
        }
        mm.check();
        prop_assert!(seq > 1, "seq advances");
    }
}

/// As a zonelist orders them where all are equally far.
#[test]
fn nodes_are_asked_from_the_callers_on() {
    let order = |nodes: Nodes, of| {
        let mut asked = vec![nodes.first()];
        while let Some(next) = nodes.after(asked[asked.len() - 1], of) {
            asked.push(next);
        }
        asked
    };
    assert_eq!(order(Nodes::From(1), 3), [1, 2, 0]);
    assert_eq!(order(Nodes::From(0), 1), [0]);
    assert_eq!(order(Nodes::Only(2), 3), [2]);
    assert_eq!(Nodes::From(3).after(2, 3), None);
}
