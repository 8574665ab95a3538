//! The memcg LRU: which cgroup global reclaim visits next (SPEC 3.10).

use crate::folio::LruvecId;
use crate::list::{Links, List, NONE};
use crate::lru::{Lruvec, Mm};

/// Bins of a generation (SPEC 0).
pub(crate) const MEMCG_NR_BINS: u32 = 8;
/// Slots for generations. Two are live; two slots would do (and did in 6.3), but a third
/// keeps a walk that has not noticed `seq` advance from meeting its successors.
const SLOTS: usize = 3;

/// Where a cgroup was put last within its generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Seg {
    #[default]
    Default,
    Head,
    Tail,
}

/// What to do with a cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Head,
    Tail,
    Old,
    Young,
}

/// Place of a cgroup on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) seg: Seg,
    pub(crate) seq: u64,
    pub(crate) bin: u32,
    prev: u32,
    next: u32,
}

impl Default for Place {
    fn default() -> Place {
        Place {
            seg: Seg::Default,
            seq: 0,
            bin: 0,
            prev: NONE,
            next: NONE,
        }
    }
}

impl Links<LruvecId> for Vec<Lruvec> {
    fn links(&self, id: LruvecId) -> (u32, u32) {
        let place = self[id.index()].place;
        (place.prev, place.next)
    }

    fn set_prev(&mut self, id: LruvecId, prev: u32) {
        self[id.index()].place.prev = prev;
    }

    fn set_next(&mut self, id: LruvecId, next: u32) {
        self[id.index()].place.next = next;
    }
}

/// The memcg LRU of one node: old is `seq`, young `seq + 1`.
#[derive(Default)]
pub(crate) struct MemcgLru {
    pub(crate) seq: u64,
    /// Each bin, from what is visited first.
    fifo: [[List<LruvecId>; MEMCG_NR_BINS as usize]; SLOTS],
    members: [u64; SLOTS],
}

fn slot(seq: u64) -> usize {
    (seq % SLOTS as u64) as usize
}

impl Mm {
    /// A new cgroup goes to the tail of a random bin of old.
    pub(crate) fn memcg_lru_online(&mut self, id: LruvecId, random: &mut dyn FnMut(u32) -> u32) {
        let node = self.node_of(id) as usize;
        let seq = self.memcg_lru[node].seq;
        let bin = random(MEMCG_NR_BINS);
        self.link_memcg(id, seq, bin, false);
    }

    fn link_memcg(&mut self, id: LruvecId, seq: u64, bin: u32, head: bool) {
        let node = self.node_of(id) as usize;
        let lru = &mut self.memcg_lru[node];
        lru.members[slot(seq)] += 1;
        let fifo = &mut lru.fifo[slot(seq)][bin as usize];
        let place = &mut self.lruvecs[id.index()].place;
        (place.seq, place.bin) = (seq, bin);
        match head {
            true => fifo.push_head(&mut self.lruvecs, id),
            false => fifo.push_tail(&mut self.lruvecs, id),
        }
    }

    fn unlink_memcg(&mut self, id: LruvecId) {
        let node = self.node_of(id) as usize;
        let place = self.lruvecs[id.index()].place;
        let lru = &mut self.memcg_lru[node];
        lru.members[slot(place.seq)] -= 1;
        let fifo = &mut lru.fifo[slot(place.seq)][place.bin as usize];
        fifo.unlink(&mut self.lruvecs, id);
    }

    /// Moves a cgroup; when old runs out of members, young becomes old.
    pub(crate) fn rotate_memcg(
        &mut self,
        id: LruvecId,
        op: Op,
        random: &mut dyn FnMut(u32) -> u32,
    ) {
        let node = self.node_of(id) as usize;
        let was = self.lruvecs[id.index()].place.seq;
        let seq = self.memcg_lru[node].seq;
        let bin = random(MEMCG_NR_BINS);
        self.unlink_memcg(id);
        let (to, head, seg) = match op {
            Op::Head => (was, true, Seg::Head),
            Op::Tail => (was, false, Seg::Tail),
            Op::Old => (seq, true, Seg::Default),
            Op::Young => (seq + 1, false, Seg::Default),
        };
        self.link_memcg(id, to, bin, head);
        self.lruvecs[id.index()].place.seg = seg;
        let lru = &mut self.memcg_lru[node];
        if was == lru.seq && lru.members[slot(was)] == 0 {
            lru.seq += 1;
        }
    }

    /// First cgroup of a bin.
    pub(crate) fn first_memcg(&self, node: u32, seq: u64, bin: u32) -> Option<LruvecId> {
        self.memcg_lru[node as usize].fifo[slot(seq)][bin as usize].head()
    }

    /// The cgroup after another in its bin.
    pub(crate) fn next_memcg(&self, id: LruvecId) -> Option<LruvecId> {
        let next = self.lruvecs[id.index()].place.next;
        (next != NONE).then_some(LruvecId(next))
    }

    /// Panics unless every cgroup is on exactly one list of its node, in old or young.
    pub(crate) fn check_memcg_lru(&self) {
        for (node, lru) in self.memcg_lru.iter().enumerate() {
            let mut seen = 0;
            for seq in [lru.seq, lru.seq + 1] {
                let mut members = 0;
                for bin in 0..MEMCG_NR_BINS {
                    let mut at = self.first_memcg(node as u32, seq, bin);
                    while let Some(id) = at {
                        let place = self.lruvecs[id.index()].place;
                        assert_eq!((place.seq, place.bin), (seq, bin), "place of {id:?}");
                        members += 1;
                        assert!(members <= self.memcgs.len(), "a bin is a ring");
                        at = self.next_memcg(id);
                    }
                }
                assert_eq!(lru.members[slot(seq)], u64::from(members));
                seen += members;
            }
            assert_eq!(seen, self.memcgs.len(), "cgroups on node {node}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memcg::MemcgId;
    use crate::switches::Switches;

    fn machine(cgroups: u32) -> Mm {
        let mut mm = Mm::new(Switches::of_kernel((6, 12), true), 60, 1, 1);
        for n in 0..cgroups {
            mm.create_memcg(MemcgId::ROOT, "g", |max| n % max);
        }
        mm
    }

    #[test]
    fn head_and_tail_keep_the_generation() {
        let mut mm = machine(3);
        let id = LruvecId(2);
        let before = mm.lruvec(id).place.seq;
        for (op, seg) in [(Op::Head, Seg::Head), (Op::Tail, Seg::Tail)] {
            mm.rotate_memcg(id, op, &mut |_| 5);
            let place = mm.lruvec(id).place;
            assert_eq!((place.seq, place.bin, place.seg), (before, 5, seg));
        }
        mm.check_memcg_lru();
    }

    #[test]
    fn operations_choose_generation_bin_and_end() {
        let ends = |mm: &Mm, seq, bin| {
            let first = mm.first_memcg(0, seq, bin);
            let list = std::iter::successors(first, |&id| mm.next_memcg(id));
            list.map(|id| id.0).collect::<Vec<_>>()
        };
        // All start in bins of old; three of them, and 3 moves among them.
        for (op, seq, order, seg) in [
            (Op::Head, 0, [3, 1, 2], Seg::Head),
            (Op::Tail, 0, [1, 2, 3], Seg::Tail),
            (Op::Old, 0, [3, 1, 2], Seg::Default),
            (Op::Young, 1, [1, 2, 3], Seg::Default),
        ] {
            let mut mm = machine(4);
            for id in [1, 2] {
                let to = if seq == 1 { Op::Young } else { Op::Tail };
                mm.rotate_memcg(LruvecId(id), to, &mut |_| 6);
            }
            mm.rotate_memcg(LruvecId(3), op, &mut |bins| {
                assert_eq!(bins, MEMCG_NR_BINS, "any bin");
                6
            });
            assert_eq!(ends(&mm, seq, 6), order, "{op:?}");
            assert_eq!(mm.lruvec(LruvecId(3)).place.seg, seg, "{op:?}");
            mm.check_memcg_lru();
        }
    }

    #[test]
    fn seq_advances_when_old_is_empty() {
        let mut mm = machine(3);
        for id in 0..4 {
            assert_eq!(mm.memcg_lru[0].seq, 0);
            mm.rotate_memcg(LruvecId(id), Op::Young, &mut |_| 0);
        }
        assert_eq!(mm.memcg_lru[0].seq, 1);
        mm.rotate_memcg(LruvecId(1), Op::Old, &mut |_| 3);
        assert_eq!(mm.lruvec(LruvecId(1)).place.seq, 1, "all were made old");
        mm.check_memcg_lru();
    }

    proptest! {
        #[test]
        fn every_cgroup_stays_on_one_list(ops in prop::collection::vec((0u32..9, 0u8..4, 0u32..8), 1..200)) {
            let mut mm = machine(8);
            for (id, op, bin) in ops {
                let op = [Op::Head, Op::Tail, Op::Old, Op::Young][op as usize];
                let before = mm.memcg_lru[0].seq;
                mm.rotate_memcg(LruvecId(id), op, &mut |_| bin);
                prop_assert!(mm.memcg_lru[0].seq - before <= 1);
            }
            mm.check_memcg_lru();
        }
    }
}
