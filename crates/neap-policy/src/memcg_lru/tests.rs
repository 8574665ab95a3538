use proptest::prelude::*;

use super::model::Model;
use super::*;
use crate::memcg::MemcgId;

fn machine(groups: u32) -> MemcgLru<MemcgId> {
    let mut lru = MemcgLru::default();
    for n in 0..groups {
        lru.insert(MemcgId(n), n % MEMCG_NR_BINS);
    }
    lru
}

fn bin(lru: &MemcgLru<MemcgId>, seq: u64, bin: u32) -> Vec<u32> {
    let list = std::iter::successors(lru.first(seq, bin), |&id| lru.after(id));
    list.map(|id| id.0).collect()
}

#[test]
fn head_and_tail_keep_the_generation() {
    let mut lru = machine(4);
    let id = MemcgId(2);
    let before = lru.place(id).unwrap().seq;
    for (op, seg) in [
        (MemcgOp::Head, MemcgSeg::Head),
        (MemcgOp::Tail, MemcgSeg::Tail),
    ] {
        lru.rotate(id, op, 5);
        let place = lru.place(id).unwrap();
        assert_eq!((place.seq, place.bin, place.seg), (before, 5, seg));
    }
    lru.check();
}

#[test]
fn operations_choose_generation_bin_and_end() {
    // All start in bins of old; three of them, and 3 moves among them.
    for (op, seq, order, seg) in [
        (MemcgOp::Head, 0, [3, 1, 2], MemcgSeg::Head),
        (MemcgOp::Tail, 0, [1, 2, 3], MemcgSeg::Tail),
        (MemcgOp::Old, 0, [3, 1, 2], MemcgSeg::Default),
        (MemcgOp::Young, 1, [1, 2, 3], MemcgSeg::Default),
    ] {
        let mut lru = machine(5);
        for id in [1, 2] {
            let to = match seq {
                1 => MemcgOp::Young,
                _ => MemcgOp::Tail,
            };
            lru.rotate(MemcgId(id), to, 6);
        }
        lru.rotate(MemcgId(3), op, 6);
        assert_eq!(bin(&lru, seq, 6), order, "{op:?}");
        assert_eq!(lru.place(MemcgId(3)).unwrap().seg, seg, "{op:?}");
        lru.check();
    }
}

#[test]
fn seq_advances_when_old_is_empty() {
    let mut lru = machine(4);
    for id in 0..4 {
        assert_eq!(lru.seq(), 0);
        lru.rotate(MemcgId(id), MemcgOp::Young, 0);
    }
    assert_eq!(lru.seq(), 1);
    lru.rotate(MemcgId(1), MemcgOp::Old, 3);
    assert_eq!(lru.place(MemcgId(1)).unwrap().seq, 1, "all were made old");
    lru.check();
}

#[test]
fn a_group_that_is_removed_makes_way_like_one_that_moves() {
    let mut lru = machine(2);
    lru.rotate(MemcgId(1), MemcgOp::Young, 0);
    lru.remove(MemcgId(0));
    assert_eq!((lru.seq(), lru.len()), (1, 1));
    // What is not there is moved by nothing.
    lru.remove(MemcgId(0));
    lru.rotate(MemcgId(0), MemcgOp::Head, 0);
    lru.note(MemcgId(0), MemcgTrigger::Aged, |_| unreachable!());
    lru.note(MemcgId(77), MemcgTrigger::Aged, |_| unreachable!());
    assert_eq!((lru.place(MemcgId(0)), lru.after(MemcgId(0))), (None, None));
    lru.insert(MemcgId(0), 4);
    assert_eq!(lru.place(MemcgId(0)).unwrap().seq, 1, "a new one is old");
    lru.check();
    for id in [0, 1] {
        lru.remove(MemcgId(id));
    }
    assert!(lru.is_empty());
    lru.check();
}

#[test]
fn each_trigger_has_its_operation() {
    use MemcgOp::{Head, Old, Tail, Young};
    let segs = [MemcgSeg::Default, MemcgSeg::Head, MemcgSeg::Tail];
    for (trigger, ops) in [
        (MemcgTrigger::AboveSoftLimit, [Some(Head), None, Some(Head)]),
        (MemcgTrigger::BelowLow, [Some(Tail), Some(Tail), None]),
        (
            MemcgTrigger::TooSmall,
            [Some(Tail), Some(Tail), Some(Young)],
        ),
        (MemcgTrigger::BelowMin, [Some(Young); 3]),
        (MemcgTrigger::Aged, [Some(Young); 3]),
        (MemcgTrigger::Offline, [Some(Old); 3]),
    ] {
        assert_eq!(segs.map(|seg| trigger.op(seg)), ops, "{trigger:?}");
    }
}

#[test]
fn a_visit_that_changes_nothing_draws_nothing() {
    let mut lru = machine(2);
    let mut drawn = Vec::new();
    for _ in 0..2 {
        lru.note(MemcgId(0), MemcgTrigger::AboveSoftLimit, |n| {
            drawn.push(n);
            5
        });
    }
    assert_eq!(drawn, [MEMCG_NR_BINS], "it goes to the head once");
    assert_eq!(bin(&lru, 0, 5), [0]);
}

/// A group's own record, those beside it where it was, and one where it goes.
#[test]
fn an_operation_writes_four_records_at_most_whatever_the_number_of_groups() {
    for groups in [3, 100, 10_000] {
        let lru = machine(groups);
        for id in [0, groups / 2, groups - 1] {
            for op in [MemcgOp::Head, MemcgOp::Tail, MemcgOp::Old, MemcgOp::Young] {
                let mut after = lru.clone();
                after.rotate(MemcgId(id), op, 3);
                let pairs = lru.records.iter().zip(&after.records);
                let changed = pairs.filter(|(before, after)| before != after).count();
                assert!(
                    changed <= 4,
                    "{op:?} of {id} of {groups}: {changed} records"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn every_cgroup_stays_on_one_list(ops in prop::collection::vec((0u32..9, 0u8..4, 0u32..8), 1..200)) {
        let mut lru = machine(9);
        for (id, op, bin) in ops {
            let op = [MemcgOp::Head, MemcgOp::Tail, MemcgOp::Old, MemcgOp::Young][op as usize];
            let before = lru.seq();
            lru.rotate(MemcgId(id), op, bin);
            prop_assert!(lru.seq() - before <= 1);
        }
        lru.check();
        prop_assert_eq!(lru.len(), 9);
    }

    /// Whatever is inserted, moved and removed, the lists say what plain vectors say.
    #[test]
    fn the_lists_are_those_of_plain_vectors(
        ops in prop::collection::vec((0u8..7, 0u32..12, 0u32..MEMCG_NR_BINS), 1..200),
    ) {
        let (mut lru, mut model) = (MemcgLru::default(), Model::default());
        for (what, id, to) in ops {
            // Numbers with gaps between them.
            let id = id * 7;
            let there = model.place(id).is_some();
            let moves = |op, lru: &mut MemcgLru<MemcgId>, model: &mut Model| {
                lru.rotate(MemcgId(id), op, to);
                model.rotate(id, op, to);
            };
            match what {
                0 => moves(MemcgOp::Head, &mut lru, &mut model),
                1 => moves(MemcgOp::Tail, &mut lru, &mut model),
                2 => moves(MemcgOp::Old, &mut lru, &mut model),
                3 => moves(MemcgOp::Young, &mut lru, &mut model),
                4 if there => {
                    lru.remove(MemcgId(id));
                    model.remove(id);
                }
                _ if there => {}
                _ => {
                    lru.insert(MemcgId(id), to);
                    model.insert(id, to);
                }
            }
            lru.check();
            prop_assert_eq!(lru.seq(), model.seq);
            prop_assert_eq!(lru.place(MemcgId(id)), model.place(id));
            for seq in [model.seq, model.seq + 1] {
                for at in 0..MEMCG_NR_BINS {
                    prop_assert_eq!(bin(&lru, seq, at), model.bin(seq, at));
                }
            }
        }
    }
}
