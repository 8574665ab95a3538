use neap_units::Nanos;
use proptest::prelude::*;

use super::*;

fn tree() -> (Memcgs, [MemcgId; 4]) {
    let mut memcgs = Memcgs::new(2);
    let a = memcgs.create(MemcgId::ROOT, "a");
    let b = memcgs.create(MemcgId::ROOT, "b");
    let aa = memcgs.create(a, "aa");
    let ab = memcgs.create(a, "ab");
    (memcgs, [a, b, aa, ab])
}

fn limit(memcgs: &mut Memcgs, id: MemcgId, change: impl Fn(&mut Limits)) {
    let mut limits = *memcgs.limits(id);
    change(&mut limits);
    memcgs.set_limits(id, limits);
}

#[test]
fn a_walk_goes_down_before_it_goes_on() {
    let (memcgs, [a, b, aa, ab]) = tree();
    let all: Vec<_> = memcgs.walk(MemcgId::ROOT).collect();
    assert_eq!(all, [MemcgId::ROOT, a, aa, ab, b]);
    assert_eq!(memcgs.walk(a).collect::<Vec<_>>(), [a, aa, ab]);
    assert!(memcgs.is_below(ab, a) && !memcgs.is_below(b, a));
}

#[test]
fn a_shared_walk_resumes_and_ends_with_the_round_it_joined() {
    let (memcgs, [a, b, aa, ab]) = tree();
    let mut cookie = Cookie::default();
    let mut first = None;
    let mut next = |own: &mut Option<u64>| cookie.next_group(&memcgs, MemcgId::ROOT, own);
    assert_eq!(next(&mut first), Some(MemcgId::ROOT));
    assert_eq!(next(&mut first), Some(a));
    let mut second = None;
    assert_eq!(next(&mut second), Some(aa));
    assert_eq!(next(&mut first), Some(ab));
    assert_eq!(next(&mut second), Some(b));
    assert_eq!(next(&mut second), None, "the round is over");
    assert_eq!(next(&mut first), None, "for the other, too");
    assert_eq!(next(&mut None), Some(MemcgId::ROOT));
}

#[test]
fn a_met_goal_ends_a_shared_walk_alone_and_the_next_resumes() {
    let (memcgs, [a, b, aa, ab]) = tree();
    let (root, mut cookie) = (MemcgId::ROOT, Cookie::default());
    let mut walk = |mut walk: TreeWalk<MemcgId>, goal: usize| {
        let mut seen = Vec::new();
        while let Some(id) = walk.next_group(&memcgs, root, &mut cookie) {
            seen.push(id);
            if seen.len() >= goal {
                walk.goal_met();
            }
        }
        assert_eq!(
            walk.next_group(&memcgs, root, &mut cookie),
            None,
            "it is over"
        );
        seen
    };
    assert_eq!(walk(TreeWalk::shared(), 2), [root, a]);
    assert_eq!(walk(TreeWalk::full(), 2), [root, a, aa, ab, b]);
    assert_eq!(walk(TreeWalk::shared(), 9), [aa, ab, b]);
}

#[test]
fn a_shared_walk_begins_again_where_the_group_it_stands_at_is_forgotten() {
    let (memcgs, [a, _, aa, _]) = tree();
    let (root, mut cookie) = (MemcgId::ROOT, Cookie::default());
    let mut walk = TreeWalk::shared();
    for id in [root, a] {
        assert_eq!(walk.next_group(&memcgs, root, &mut cookie), Some(id));
    }
    cookie.forget(aa);
    assert_eq!(walk.next_group(&memcgs, root, &mut cookie), Some(aa));
    cookie.forget(aa);
    assert_eq!(walk.next_group(&memcgs, root, &mut cookie), Some(root));
}

#[test]
fn a_charge_takes_a_batch_and_fits_every_level() {
    let (mut memcgs, [a, _, aa, _]) = tree();
    limit(&mut memcgs, a, |l| l.max = Some(Pages(100)));
    assert!(memcgs.try_charge(0, aa, Pages(1), false).is_ok());
    assert_eq!(memcgs.usage(a), Pages(64), "a batch, one page of it used");
    for _ in 0..63 {
        memcgs.try_charge(0, aa, Pages(1), false).unwrap();
    }
    assert_eq!(memcgs.usage(aa), Pages(64));
    // No room for a batch: one by one.
    for n in 65..=100 {
        memcgs.try_charge(0, aa, Pages(1), false).unwrap();
        assert_eq!(memcgs.usage(aa), Pages(n));
    }
    assert_eq!(memcgs.try_charge(0, aa, Pages(1), false), Err(OverLimit(a)));
    assert!(memcgs.try_charge(0, aa, Pages(1), true).is_ok());
    assert_eq!(memcgs.usage(MemcgId::ROOT), Pages(101));
}

#[test]
fn a_batch_above_high_is_owed() {
    let (mut memcgs, [a, _, aa, _]) = tree();
    limit(&mut memcgs, a, |l| l.high = Some(Pages(64)));
    assert_eq!(
        memcgs.try_charge(0, aa, Pages(1), false).unwrap().owed,
        Pages(0)
    );
    let large = memcgs.try_charge(0, aa, Pages(512), false).unwrap();
    assert_eq!(large.owed, Pages(512));
    assert_eq!(
        memcgs.try_charge(1, aa, Pages(1), false).unwrap().owed,
        Pages(64)
    );
    assert_eq!(
        memcgs.try_charge(1, aa, Pages(1), false).unwrap().owed,
        Pages(0),
        "from stock"
    );
}

#[test]
fn the_delay_curve_of_memory_high() {
    let (mut memcgs, [a, ..]) = tree();
    let mib = 256;
    limit(&mut memcgs, a, |l| l.high = Some(Pages(100 * mib)));
    for (usage, millis) in [
        (100, 0),
        (101, 6),
        (105, 159),
        (110, 639),
        (117, 1849),
        (118, 2000),
    ] {
        let more = usage * mib - memcgs.usage(a).0;
        memcgs.try_charge(0, a, Pages(more), false).unwrap();
        memcgs.drain_stocks(a);
        let delay = high_delay(&memcgs, a, Pages(64));
        assert_eq!(delay.0 / 1_000_000, millis, "{usage} MiB");
    }
}

#[test]
fn the_worst_level_delays_in_proportion_to_what_is_owed() {
    let level = |usage, high| (Pages(usage), Pages(high));
    let delay = |levels: &[_], owed| over_high_delay(levels.iter().copied(), Pages(owed));
    assert_eq!(delay(&[], 64), Nanos::ZERO);
    let (within, over) = (level(100, 100), level(10_500, 10_000));
    assert_eq!(delay(&[within, level(0, 0)], 64), Nanos::ZERO);
    let once = Nanos(159_000_000);
    assert_eq!(delay(&[within, over, level(10_100, 10_000)], 64), once);
    assert_eq!(delay(&[over], 128), once * 2);
    assert_eq!(delay(&[over], u64::MAX), Nanos(2_000_000_000));
    assert_eq!(delay(&[level(u64::MAX, 0)], 1), Nanos(2_000_000_000));
}

#[test]
fn the_delay_of_swap_high_follows_the_same_curve() {
    let (mut memcgs, [a, ..]) = tree();
    let mib = 256;
    limit(&mut memcgs, a, |l| l.swap_high = Some(Pages(100 * mib)));
    assert!(memcgs.charge_swap(a, Pages(105 * mib)));
    let delay = |owed| swap_high_delay(&memcgs, a, Pages(owed)).0 / 1_000_000;
    assert_eq!((delay(64), delay(128), delay(6400)), (159, 318, 2000));
    assert_eq!(high_delay(&memcgs, a, Pages(64)).0, 0);
}

#[test]
fn protection_is_shared_in_proportion_when_overcommitted() {
    let (mut memcgs, [a, b, aa, ab]) = tree();
    limit(&mut memcgs, a, |l| l.low = Pages(600));
    limit(&mut memcgs, aa, |l| l.low = Pages(600));
    limit(&mut memcgs, ab, |l| l.low = Pages(600));
    limit(&mut memcgs, b, |l| l.min = Pages(100));
    for (id, pages) in [(aa, 640), (ab, 640), (b, 64)] {
        memcgs.try_charge(0, id, Pages(pages), false).unwrap();
    }
    let root = MemcgId::ROOT;
    assert_eq!(memcgs.protection(root, aa), Protection::Open);
    assert_eq!(memcgs.get(aa).effective.low, Pages(300));
    // 640 - 640 * 300 / 641, then without low.
    let scan = |low_reclaim| {
        let target = memcgs.scaled(aa, 640, low_reclaim);
        (target.pages.0, target.by_low)
    };
    assert_eq!(scan(false), (341, true));
    assert_eq!(scan(true), (640, false));
    assert_eq!(memcgs.protection(root, b), Protection::BelowMin);
    assert_eq!(memcgs.protection(a, aa), Protection::Open);
    assert_eq!(
        memcgs.protection(aa, aa),
        Protection::Open,
        "a target has none"
    );
}

#[test]
fn compressed_bytes_are_charged_in_whole_pages_and_above_max() {
    let (mut memcgs, [a, _, aa, _]) = tree();
    limit(&mut memcgs, a, |l| l.max = Some(Pages(1)));
    for _ in 0..3 {
        memcgs.charge_zswap(aa, Bytes(2000));
    }
    assert_eq!((memcgs.usage(a), memcgs.zswapped(a)), (Pages(2), 3));
    assert_eq!(memcgs.zswap_bytes(MemcgId::ROOT), Bytes(6000));
    memcgs.uncharge_zswap(aa, Bytes(2000));
    memcgs.reparent_zswap(aa);
    assert_eq!((memcgs.usage(aa), memcgs.zswapped(aa)), (Pages(0), 0));
    assert_eq!((memcgs.usage(a), memcgs.zswapped(a)), (Pages(1), 2));
    for _ in 0..2 {
        memcgs.uncharge_zswap(a, Bytes(2000));
    }
    assert_eq!(memcgs.usage(MemcgId::ROOT), Pages(0));
}

#[test]
fn a_refused_slot_is_two_events() {
    let (mut memcgs, [a, _, aa, _]) = tree();
    limit(&mut memcgs, a, |l| l.swap_max = Some(Pages(1)));
    assert!(memcgs.charge_swap(aa, Pages(1)));
    assert!(!memcgs.charge_swap(aa, Pages(1)));
    assert_eq!(memcgs.swap_available(aa, Pages(9)), Pages(0));
    let counters = memcgs.counters(a);
    assert_eq!(counters[Counter::MemcgSwapMax], 1);
    assert_eq!(counters[Counter::MemcgSwapFail], 1);
    memcgs.uncharge_swap(aa, Pages(1));
    assert_eq!(memcgs.swap(MemcgId::ROOT), Pages(0));
}

proptest! {
    /// Whatever is charged, the sum over the leaves is what the root has, and it goes back to nothing.
    #[test]
    fn charges_balance(ops in prop::collection::vec((0usize..2, 0usize..4, 1u64..100, any::<bool>()), 1..200)) {
        let (mut memcgs, ids) = tree();
        limit(&mut memcgs, ids[0], |l| { l.max = Some(Pages(900)); l.min = Pages(50); l.low = Pages(200) });
        limit(&mut memcgs, ids[2], |l| l.low = Pages(300));
        let mut held = [0u64; 4];
        for (cpu, who, pages, take) in ops {
            if take {
                if memcgs.try_charge(cpu, ids[who], Pages(pages), false).is_ok() {
                    held[who] += pages;
                }
            } else {
                let back = pages.min(held[who]);
                memcgs.uncharge(ids[who], Pages(back));
                held[who] -= back;
            }
            prop_assert!(memcgs.usage(ids[0]) <= Pages(900));
        }
        memcgs.drain_stocks(MemcgId::ROOT);
        prop_assert_eq!(memcgs.usage(MemcgId::ROOT).0, held.iter().sum::<u64>());
        let children = memcgs.claim(ids[2]).low + memcgs.claim(ids[3]).low;
        prop_assert_eq!(memcgs.get(ids[0]).claims.low, children);
        for (who, id) in ids.iter().enumerate() {
            memcgs.uncharge(*id, Pages(held[who]));
        }
        for id in 0..memcgs.len() {
            prop_assert_eq!(memcgs.usage(MemcgId(id)), Pages(0));
        }
        prop_assert_eq!(memcgs.get(ids[0]).claims.low, Pages(0));
    }
}
