//! The memcg LRU as plain vectors, written from the table of SPEC 3.10: what the lists are tested against.

use std::collections::BTreeMap;

use super::{MEMCG_NR_BINS, MemcgOp, MemcgPlace, MemcgSeg};

/// Each bin of each generation that ever was, in order, and each group's segment.
#[derive(Default)]
pub(super) struct Model {
    pub(super) seq: u64,
    bins: BTreeMap<(u64, u32), Vec<(u32, MemcgSeg)>>,
}

impl Model {
    pub(super) fn bin(&self, seq: u64, bin: u32) -> Vec<u32> {
        let members = self.bins.get(&(seq, bin)).into_iter().flatten();
        members.map(|(id, _)| *id).collect()
    }

    pub(super) fn place(&self, id: u32) -> Option<MemcgPlace> {
        self.bins.iter().find_map(|(&(seq, bin), members)| {
            let (_, seg) = *members.iter().find(|(member, _)| *member == id)?;
            Some(MemcgPlace { seg, seq, bin })
        })
    }

    /// Members of a generation, in the order in which a walk from a bin on meets them.
    pub(super) fn order(&self, seq: u64, first: u32) -> Vec<u32> {
        let bins = (0..MEMCG_NR_BINS).map(|n| (first + n) % MEMCG_NR_BINS);
        bins.flat_map(|bin| self.bin(seq, bin)).collect()
    }

    pub(super) fn insert(&mut self, id: u32, bin: u32) {
        let fifo = self.bins.entry((self.seq, bin)).or_default();
        fifo.push((id, MemcgSeg::Default));
    }

    pub(super) fn remove(&mut self, id: u32) {
        if let Some(was) = self.take(id) {
            self.left(was.seq);
        }
    }

    pub(super) fn rotate(&mut self, id: u32, op: MemcgOp, bin: u32) {
        let Some(was) = self.take(id) else {
            return;
        };
        let seq = match op {
            MemcgOp::Head | MemcgOp::Tail => was.seq,
            MemcgOp::Old => self.seq,
            MemcgOp::Young => self.seq + 1,
        };
        let fifo = self.bins.entry((seq, bin)).or_default();
        match op {
            MemcgOp::Head => fifo.insert(0, (id, MemcgSeg::Head)),
            MemcgOp::Tail => fifo.push((id, MemcgSeg::Tail)),
            MemcgOp::Old => fifo.insert(0, (id, MemcgSeg::Default)),
            MemcgOp::Young => fifo.push((id, MemcgSeg::Default)),
        }
        self.left(was.seq);
    }

    fn take(&mut self, id: u32) -> Option<MemcgPlace> {
        let place = self.place(id)?;
        let fifo = self.bins.get_mut(&(place.seq, place.bin))?;
        fifo.retain(|(member, _)| *member != id);
        Some(place)
    }

    fn left(&mut self, seq: u64) {
        if seq == self.seq && self.order(seq, 0).is_empty() {
            self.seq += 1;
        }
    }
}
