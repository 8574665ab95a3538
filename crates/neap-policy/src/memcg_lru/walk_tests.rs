//! Walks over groups that are nothing but what a walk asks about them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::model::Model;
use super::*;
use crate::memcg::{MemcgId, Protection};

/// Groups of an imagined job.
#[derive(Default)]
struct Few {
    lru: MemcgLru<MemcgId>,
    /// The bin that is drawn next, and by how much the one after differs.
    draw: u32,
    step: u32,
    protected: BTreeMap<u32, Protection>,
    offline: BTreeSet<u32>,
    small: BTreeSet<u32>,
    low_events: u64,
    visits: Vec<u32>,
    /// Visits until it is enough.
    goal: usize,
}

impl Groups<MemcgId> for Few {
    fn lru(&mut self) -> &mut MemcgLru<MemcgId> {
        &mut self.lru
    }

    fn random(&mut self, n: u32) -> u32 {
        self.draw += self.step;
        (self.draw - self.step) % n
    }

    fn protection(&mut self, id: MemcgId) -> Protection {
        let found = self.protected.get(&id.0);
        found.copied().unwrap_or(Protection::Open)
    }

    fn count_low(&mut self, _: MemcgId) {
        self.low_events += 1;
    }

    fn online(&self, id: MemcgId) -> bool {
        !self.offline.contains(&id.0)
    }

    fn too_small(&self, id: MemcgId) -> bool {
        self.small.contains(&id.0)
    }

    fn enough(&self) -> bool {
        self.visits.len() >= self.goal
    }
}

impl Few {
    fn new(groups: u32) -> Few {
        let mut few = Few {
            goal: usize::MAX,
            step: 1,
            ..Few::default()
        };
        for id in 0..groups {
            few.lru.insert(MemcgId(id), id % MEMCG_NR_BINS);
        }
        few
    }

    /// One walk; who was visited.
    fn walk(&mut self, rules: VisitRules, aged: bool) -> Vec<u32> {
        self.visits.clear();
        shrink_many(rules, self, |few, id| {
            few.visits.push(id.0);
            Visited { aged }
        });
        self.lru.check();
        self.visits.clone()
    }

    fn place(&self, id: u32) -> (MemcgSeg, u64) {
        let place = self.lru.place(MemcgId(id)).unwrap();
        (place.seg, place.seq)
    }
}

#[test]
fn enough_ends_a_walk_and_what_was_visited_last_moves() {
    let mut few = Few::new(16);
    (few.draw, few.goal) = (6, 3);
    assert_eq!(few.walk(VisitRules::V67, true), [6, 14, 7]);
    for id in [6, 14, 7] {
        assert_eq!(few.place(id), (MemcgSeg::Default, 1));
    }
    assert_eq!(few.place(15), (MemcgSeg::Default, 0));
    // It is enough at once: a group that is passed over ends the walk as well.
    (few.draw, few.goal) = (0, 0);
    few.protected.insert(0, Protection::BelowMin);
    assert_eq!(few.walk(VisitRules::V67, true), []);
    assert_eq!((few.place(0).1, few.place(8).1), (1, 0));
}

/// What happens to one group in a walk: whether it is visited, its place after it, and events `low`.
fn met(rules: VisitRules, prepare: impl Fn(&mut Few), aged: bool) -> (bool, (MemcgSeg, u64), u64) {
    let mut few = Few::new(2);
    prepare(&mut few);
    // Into the same bin, which the walk has left by then: it is met once.
    (few.draw, few.step) = (1, 0);
    let visited = few.walk(rules, aged).contains(&1);
    (visited, few.place(1), few.low_events)
}

#[test]
fn a_visit_asks_in_the_order_of_its_kernel() {
    let stays = (MemcgSeg::Default, 0);
    let tail = (MemcgSeg::Tail, 0);
    let young = (MemcgSeg::Default, 1);
    let tailed = |few: &mut Few| few.lru.rotate(MemcgId(1), MemcgOp::Tail, 1);
    let protect = |protection| {
        move |few: &mut Few| {
            few.protected.insert(1, protection);
        }
    };
    let small = |few: &mut Few| {
        few.small.insert(1);
    };
    // Another stays old, so that generations can be told apart.
    let keep = |few: &mut Few| {
        few.protected.insert(0, Protection::BelowLow);
    };
    for rules in [VisitRules::V63, VisitRules::V67] {
        let met = |prepare: &dyn Fn(&mut Few), aged| {
            let both = |few: &mut Few| {
                keep(few);
                prepare(few);
            };
            met(rules, both, aged)
        };
        let large = |_: &mut Few| {};
        assert_eq!(met(&large, false), (true, stays, 0), "{rules:?}");
        assert_eq!(met(&large, true), (true, young, 0), "{rules:?}");
        let low = protect(Protection::BelowLow);
        assert_eq!(met(&low, false), (false, tail, 0), "{rules:?}");
        let again = |few: &mut Few| {
            tailed(few);
            low(few);
        };
        assert_eq!(met(&again, false), (true, tail, 1), "{rules:?}");
        let min = protect(Protection::BelowMin);
        assert_eq!(met(&min, false), (false, young, 0), "{rules:?}");
        // 6.3 does not visit what is too small, and asks that before all else.
        let new = rules == VisitRules::V67;
        assert_eq!(met(&small, false), (new, tail, 0), "{rules:?}");
        let again = |few: &mut Few| {
            tailed(few);
            small(few);
        };
        assert_eq!(met(&again, false), (new, young, 0), "{rules:?}");
        let small_below_min = |few: &mut Few| {
            small(few);
            min(few);
        };
        let place = if new { young } else { tail };
        assert_eq!(met(&small_below_min, false), (false, place, 0), "{rules:?}");
        // An aging of what is offline is no share.
        let offline = |few: &mut Few| {
            few.offline.insert(1);
        };
        let place = if new { tail } else { stays };
        assert_eq!(met(&offline, true), (true, place, 0), "{rules:?}");
    }
}

/// Old becomes young under a walk, twice, and its slot is used again: it meets nobody whom it has not begun with.
#[test]
fn a_walk_leaves_generations_alone_that_came_after_its_own() {
    let mut few = Few::new(8);
    few.draw = 0;
    shrink_many(VisitRules::V67, &mut few, |few, id| {
        few.visits.push(id.0);
        assert!(few.visits.len() <= 8, "it met its successors");
        while few.lru.seq() < 3 {
            for id in 0..8 {
                few.lru.rotate(MemcgId(id), MemcgOp::Young, id);
            }
        }
        Visited::default()
    });
    assert_eq!(few.visits, [0]);
}

#[test]
fn a_bin_is_begun_anew_when_the_one_visited_has_left_it() {
    let mut few = Few::new(0);
    for id in 0..4 {
        few.lru.insert(MemcgId(id), 0);
    }
    few.draw = 0;
    shrink_many(VisitRules::V67, &mut few, |few, id| {
        few.visits.push(id.0);
        if few.visits.len() == 2 {
            few.lru.remove(id);
        }
        Visited { aged: id.0 > 1 }
    });
    assert_eq!(few.visits, [0, 1, 0, 2, 3]);
}

proptest! {
    /// What nobody disturbs is visited once, in order of bins from a random one on.
    #[test]
    fn a_walk_visits_each_of_old_once_in_order(
        groups in prop::collection::vec((0u32..MEMCG_NR_BINS, any::<bool>()), 1..40),
        first in 0u32..MEMCG_NR_BINS,
        aged in any::<bool>(),
        old_rules in any::<bool>(),
    ) {
        let (mut few, mut model) = (Few::new(0), Model::default());
        for (id, &(bin, _)) in groups.iter().enumerate() {
            few.lru.insert(MemcgId(id as u32), bin);
            model.insert(id as u32, bin);
        }
        for (id, &(bin, young)) in groups.iter().enumerate() {
            if young {
                few.lru.rotate(MemcgId(id as u32), MemcgOp::Young, bin);
                model.rotate(id as u32, MemcgOp::Young, bin);
            }
        }
        (few.draw, few.step) = (first, 3);
        let rules = if old_rules { VisitRules::V63 } else { VisitRules::V67 };
        prop_assert_eq!(few.walk(rules, aged), model.order(model.seq, first));
    }

    /// Whoever comes, goes and moves meanwhile: a walk visits members of its own generation alone, and it ends.
    #[test]
    fn a_walk_among_moving_groups_ends(
        ops in prop::collection::vec((0u8..6, 0u32..12, 0u32..MEMCG_NR_BINS), 0..100),
        aged in any::<bool>(),
    ) {
        let mut few = Few::new(12);
        let mut ops = ops.into_iter();
        let mut walk = BinWalk::new(VisitRules::V67, &mut few);
        let seq = few.lru.seq();
        let mut visits = 0;
        while let Some(id) = walk.next_group(&mut few) {
            prop_assert_eq!(few.lru.place(id).map(|place| place.seq), Some(seq));
            for (what, id, bin) in ops.by_ref().take(3) {
                let moves = [MemcgOp::Head, MemcgOp::Tail, MemcgOp::Old, MemcgOp::Young];
                match moves.get(usize::from(what)) {
                    Some(&op) => few.lru.rotate(MemcgId(id), op, bin),
                    None if what == 4 => few.lru.remove(MemcgId(id)),
                    None if few.lru.place(MemcgId(id)).is_none() => few.lru.insert(MemcgId(id), bin),
                    None => {}
                }
            }
            walk.end_visit(&mut few, Visited { aged });
            few.lru.check();
            visits += 1;
            prop_assert!(visits <= 12 * (1 + 34), "begun anew for each move at most");
        }
        prop_assert_eq!(walk.next_group(&mut few), None, "it stays over");
    }

    /// Each gives once between two changes of old, however early each walk ends.
    #[test]
    fn everyone_gives_once_before_anyone_gives_twice(
        groups in 2u32..20,
        goals in prop::collection::vec((1usize..6, 0u32..MEMCG_NR_BINS), 1..100),
    ) {
        let mut few = Few::new(groups);
        let mut given = vec![0u64; groups as usize];
        for (goal, first) in goals {
            (few.goal, few.draw) = (goal, first);
            few.visits.clear();
            shrink_many(VisitRules::V67, &mut few, |few, id| {
                few.visits.push(id.0);
                given[id.0 as usize] += 1;
                Visited { aged: true }
            });
            let (least, most) = (given.iter().min(), given.iter().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{:?}", given);
        }
    }
}
