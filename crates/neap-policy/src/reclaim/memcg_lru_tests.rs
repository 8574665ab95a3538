//! What moves a cgroup on the memcg LRU, and what a pass over it owes to equals (SPEC 3.10).

use neap_units::Bytes;

use super::tests::{Fake, PAGES, fill, machine, request, switches};
use super::*;
use crate::memcg::Limits;
use crate::memcg_lru::MemcgSeg as Seg;
use crate::switches::Lru;

/// A cgroup with pages, old on the memcg LRU of 6.7.
fn one(pages: u64) -> (Mm, MemcgId, Fake) {
    let (mm, memcgs, host) = machine(switches(Lru::Mglru614, MemcgWalk::MemcgLru67), 1, pages);
    (mm, memcgs[0], host)
}

/// Where the cgroup is: its segment, and generations since `seq` was 0.
fn place(mm: &Mm, memcg: MemcgId) -> (Seg, u64) {
    let place = mm.memcg_lru[0].place(memcg).unwrap();
    (place.seg, place.seq)
}

/// The first `count` places it is moved to by reclaim of everything.
fn moves(mm: &mut Mm, memcg: MemcgId, host: &mut Fake, count: usize) -> Vec<(Seg, u64)> {
    let mut seen = Vec::new();
    let mut at = place(mm, memcg);
    for _ in 0..100 {
        let mut reclaim = Reclaim::new(request(32));
        while seen.len() < count && reclaim.step(mm, host) == Progress::More {
            let now = place(mm, memcg);
            if now != at {
                seen.push(now);
                at = now;
            }
        }
    }
    seen
}

#[test]
fn above_its_soft_limit_a_cgroup_goes_to_the_head_once() {
    let (mut mm, memcg, _) = one(100);
    let soft = |pages| Limits {
        soft_limit: Some(Pages(pages)),
        ..Limits::default()
    };
    let id = mm.lruvec_of(memcg, 0);
    mm.set_limits(memcg, soft(100));
    mm.check_soft_limit(id, &mut |_| 3);
    assert_eq!(place(&mm, memcg), (Seg::Default, 0), "not above it");
    mm.set_limits(memcg, soft(99));
    mm.check_soft_limit(id, &mut |_| 3);
    assert_eq!(place(&mm, memcg), (Seg::Head, 0));
    mm.check_soft_limit(id, &mut |_| unreachable!("it is there already"));
}

#[test]
fn below_low_it_goes_to_the_tail_and_is_reclaimed_at_the_second_visit() {
    let (mut mm, memcg, mut host) = one(PAGES);
    let low = Limits {
        low: Pages(2 * PAGES),
        ..Limits::default()
    };
    mm.set_limits(memcg, low);
    assert_eq!(moves(&mut mm, memcg, &mut host, 1), [(Seg::Tail, 0)]);
    assert_eq!(mm.counters(memcg)[Counter::MemcgLow], 0);
    Reclaim::new(request(32)).run(&mut mm, &mut host);
    assert!(mm.counters(memcg)[Counter::MemcgLow] > 0);
}

#[test]
fn too_small_it_goes_to_the_tail_and_then_to_the_young() {
    let (mut mm, memcg, mut host) = one(100);
    let seen = moves(&mut mm, memcg, &mut host, 2);
    assert_eq!(seen, [(Seg::Tail, 0), (Seg::Default, 1)]);
}

/// 6.3 looks at the size before any work: the first time too small it goes to the tail, the second time to the young,
/// and is not visited at either (triggers 3 and 4).
#[test]
fn in_6_3_too_small_it_is_moved_and_not_visited() {
    let of = switches(Lru::Mglru63, MemcgWalk::MemcgLru63);
    let (mut mm, memcgs, mut host) = machine(of, 1, 100);
    let memcg = memcgs[0];
    let seen = moves(&mut mm, memcg, &mut host, 2);
    assert_eq!(seen, [(Seg::Tail, 0), (Seg::Default, 1)]);
    assert_eq!(host.visits.get(&memcg.0), None);
    let (mut mm, memcgs, mut host) = machine(of, 1, PAGES);
    moves(&mut mm, memcgs[0], &mut host, 1);
    assert!(host.visits.contains_key(&memcgs[0].0), "large enough");
    // From 6.7 on the size is looked at after the visit.
    let (mut mm, memcg, mut host) = one(100);
    moves(&mut mm, memcg, &mut host, 2);
    assert!(host.visits.contains_key(&memcg.0));
}

#[test]
fn below_min_it_goes_to_the_young_without_a_visit() {
    let (mut mm, memcg, mut host) = one(PAGES);
    let min = Limits {
        min: Pages(2 * PAGES),
        ..Limits::default()
    };
    mm.set_limits(memcg, min);
    assert_eq!(moves(&mut mm, memcg, &mut host, 1), [(Seg::Default, 1)]);
    assert_eq!(host.visits.get(&memcg.0), None);
}

#[test]
fn aged_it_goes_to_the_young() {
    let (mut mm, memcg, mut host) = one(PAGES);
    assert_eq!(moves(&mut mm, memcg, &mut host, 1), [(Seg::Default, 1)]);
    assert_eq!(mm.counters(memcg)[Counter::MglruAged], 1);
}

#[test]
fn offline_it_goes_to_the_old() {
    let (mut mm, memcg, mut host) = one(PAGES);
    moves(&mut mm, memcg, &mut host, 1);
    let old = mm.memcg_lru[0].seq();
    mm.offline_memcg(memcg, |_| 0);
    assert_eq!(place(&mm, memcg), (Seg::Default, old));
    let first = mm.memcg_lru[0].first(old, 0);
    assert_eq!(first, Some(memcg), "at the head");
}

/// Between two advances of `seq`, as long as no pass ends early.
#[test]
fn equal_cgroups_are_visited_as_often_as_each_other() {
    for walk in [MemcgWalk::MemcgLru63, MemcgWalk::MemcgLru67] {
        for lru in [Lru::Mglru63, Lru::Mglru614] {
            let (mut mm, memcgs, mut host) = machine(switches(lru, walk), 7, PAGES);
            let all = Bytes::gib(64).whole_pages().0;
            let (mut seq, mut before) = (0, host.visits.clone());
            for _ in 0..40 {
                let mut reclaim = Reclaim::new(request(all));
                while reclaim.step(&mut mm, &mut host) == Progress::More {
                    if mm.memcg_lru[0].seq() == seq {
                        continue;
                    }
                    seq = mm.memcg_lru[0].seq();
                    let of = |id: &MemcgId| {
                        let count = |visits: &std::collections::BTreeMap<u32, u64>| {
                            visits.get(&id.0).copied().unwrap_or(0)
                        };
                        count(&host.visits) - count(&before)
                    };
                    let visits: Vec<u64> = memcgs.iter().map(of).collect();
                    let (low, high) = (visits.iter().min(), visits.iter().max());
                    assert!(
                        high.unwrap() - low.unwrap() <= 1,
                        "{lru} {walk}: {visits:?}"
                    );
                    before = host.visits.clone();
                }
                for &id in &memcgs {
                    let missing = PAGES - mm.memcgs.usage(id).0;
                    fill(&mut mm, id, missing);
                }
            }
            assert!(seq > 3, "seq advances");
        }
    }
}
