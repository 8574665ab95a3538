//! The memcg LRU: which group reclaim of everything visits next (SPEC 3.10; kernel: mm/vmscan.c, `lru_gen_rotate_memcg`).
//!
//! Groups stand in one of two live generations, *old* and *young*. Reclaim visits old. A group leaves old when it has given
//! its share or cannot give one, and young becomes old when old is empty. So between two changes of old each group gives
//! once, although no visit looks at all groups. [`MemcgLru`] keeps the places, [`MemcgTrigger`] says what moves a group, and
//! [`shrink_many`] walks through old.
//!
//! A place lies in a record of its own and not with the group. So the same lists serve the simulator, which keeps folios by cgroup
//! and node, and the engine, which keeps pages by address space.

mod trigger;
mod walk;

pub use trigger::{MemcgTrigger, VisitRules};
pub use walk::{BinWalk, Groups, Visited, initial_priority, shrink_many, too_small};

use crate::list::{LinkId, Links, List, NONE};

/// Bins of a generation (SPEC 0).
pub const MEMCG_NR_BINS: u32 = 8;
/// Slots for generations. Two are live; two slots would do (and did in 6.3), but a third
/// keeps a walk that has not noticed `seq` advance from meeting its successors.
const SLOTS: usize = 3;

/// Where a group was put last within its generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemcgSeg {
    /// By its arrival in the generation.
    #[default]
    Default,
    /// At the head of a bin: it is visited soon.
    Head,
    /// At the tail of a bin: it had its first chance to be passed over.
    Tail,
}

/// What to do with a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemcgOp {
    /// To the head of a random bin of its generation.
    Head,
    /// To the tail of a random bin of its generation.
    Tail,
    /// To the head of a random bin of old.
    Old,
    /// To the tail of a random bin of young.
    Young,
}

/// The place of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemcgPlace {
    /// Where it was put last within its generation.
    pub seg: MemcgSeg,
    /// Sequence number of its generation.
    pub seq: u64,
    /// Its bin, below [`MEMCG_NR_BINS`].
    pub bin: u32,
}

/// What is kept of the group of one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    /// None: there is no such group.
    place: Option<MemcgPlace>,
    prev: u32,
    next: u32,
}

impl<Id: LinkId> Links<Id> for Vec<Record> {
    #[inline]
    fn links(&self, id: Id) -> (u32, u32) {
        let record = &self[id.raw() as usize];
        (record.prev, record.next)
    }

    #[inline]
    fn set_prev(&mut self, id: Id, prev: u32) {
        self[id.raw() as usize].prev = prev;
    }

    #[inline]
    fn set_next(&mut self, id: Id, next: u32) {
        self[id.raw() as usize].next = next;
    }
}

/// The memcg LRU of one node: old is generation `seq`, young `seq + 1`.
///
/// Each operation takes the same few steps whatever the number of groups. An id is the index of a record: ids should be
/// small numbers without large gaps. Chance is the caller's: it draws each bin below [`MEMCG_NR_BINS`].
#[derive(Clone, Debug)]
pub struct MemcgLru<Id> {
    seq: u64,
    /// Each bin, from what is visited first.
    fifo: [[List<Id>; MEMCG_NR_BINS as usize]; SLOTS],
    members: [u64; SLOTS],
    records: Vec<Record>,
}

impl<Id> Default for MemcgLru<Id> {
    fn default() -> MemcgLru<Id> {
        MemcgLru {
            seq: 0,
            fifo: std::array::from_fn(|_| std::array::from_fn(|_| List::default())),
            members: [0; SLOTS],
            records: Vec::new(),
        }
    }
}

fn slot(seq: u64) -> usize {
    (seq % SLOTS as u64) as usize
}

impl<Id: LinkId> MemcgLru<Id> {
    /// Sequence number of the old generation. It grows by one when old has lost its last member.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Number of groups.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.members.iter().sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a group is; `None` if it was not inserted, or was removed.
    #[inline]
    #[must_use]
    pub fn place(&self, id: Id) -> Option<MemcgPlace> {
        self.records.get(id.raw() as usize)?.place
    }

    /// A new group goes to the tail of a bin of old (kernel: `lru_gen_online_memcg`).
    ///
    /// # Panics
    /// If the group is there already.
    pub fn insert(&mut self, id: Id, bin: u32) {
        let none = Record {
            place: None,
            prev: NONE,
            next: NONE,
        };
        let at = id.raw() as usize;
        if at >= self.records.len() {
            self.records.resize(at + 1, none);
        }
        assert!(self.place(id).is_none(), "group {at} is there already");
        let place = MemcgPlace {
            seg: MemcgSeg::Default,
            seq: self.seq,
            bin: bin % MEMCG_NR_BINS,
        };
        self.link(id, place, false);
    }

    /// A group is no more (kernel: `lru_gen_release_memcg`). Its number may be given to another, which a walk that has just
    /// visited the former one may move once. Does nothing if the group is not there.
    pub fn remove(&mut self, id: Id) {
        if let Some(was) = self.place(id) {
            self.unlink(id, was);
            self.records[id.raw() as usize].place = None;
            self.leave(was.seq);
        }
    }

    /// Moves a group into a bin; if old has lost its last member by that, young becomes old. Does nothing if the group is
    /// not there.
    pub fn rotate(&mut self, id: Id, op: MemcgOp, bin: u32) {
        let Some(was) = self.place(id) else {
            return;
        };
        let (seq, head, seg) = match op {
            MemcgOp::Head => (was.seq, true, MemcgSeg::Head),
            MemcgOp::Tail => (was.seq, false, MemcgSeg::Tail),
            MemcgOp::Old => (self.seq, true, MemcgSeg::Default),
            MemcgOp::Young => (self.seq + 1, false, MemcgSeg::Default),
        };
        let bin = bin % MEMCG_NR_BINS;
        self.unlink(id, was);
        self.link(id, MemcgPlace { seg, seq, bin }, head);
        self.leave(was.seq);
    }

    /// Something happened to a group: moves it if that is a reason to. `random(n)` draws a number below n, and only then.
    pub fn note(&mut self, id: Id, trigger: MemcgTrigger, random: impl FnOnce(u32) -> u32) {
        let Some(place) = self.place(id) else {
            return;
        };
        if let Some(op) = trigger.op(place.seg) {
            self.rotate(id, op, random(MEMCG_NR_BINS));
        }
    }

    /// The group that is visited first of a bin. `seq` is one of the two live generations.
    #[inline]
    #[must_use]
    pub fn first(&self, seq: u64, bin: u32) -> Option<Id> {
        self.fifo[slot(seq)][(bin % MEMCG_NR_BINS) as usize].head()
    }

    /// The group after another in its bin.
    #[inline]
    #[must_use]
    pub fn after(&self, id: Id) -> Option<Id> {
        let record = self.records.get(id.raw() as usize)?;
        record.place?;
        (record.next != NONE).then(|| Id::from_raw(record.next))
    }

    fn link(&mut self, id: Id, place: MemcgPlace, head: bool) {
        self.records[id.raw() as usize].place = Some(place);
        self.members[slot(place.seq)] += 1;
        let fifo = &mut self.fifo[slot(place.seq)][place.bin as usize];
        match head {
            true => fifo.push_head(&mut self.records, id),
            false => fifo.push_tail(&mut self.records, id),
        }
    }

    fn unlink(&mut self, id: Id, was: MemcgPlace) {
        self.members[slot(was.seq)] -= 1;
        self.fifo[slot(was.seq)][was.bin as usize].unlink(&mut self.records, id);
    }

    /// A member has left a generation: young becomes old if that was the last of old.
    fn leave(&mut self, seq: u64) {
        if seq == self.seq && self.members[slot(seq)] == 0 {
            self.seq += 1;
        }
    }

    /// Panics unless every group is on exactly one list, in old or young, and old has members if there are any.
    pub fn check(&self) {
        for seq in [self.seq, self.seq + 1] {
            let mut members = 0;
            for bin in 0..MEMCG_NR_BINS {
                self.fifo[slot(seq)][bin as usize].check(&self.records, |id: Id| {
                    let place = self.place(id).map(|place| (place.seq, place.bin));
                    assert_eq!(place, Some((seq, bin)), "place of {}", id.raw());
                    members += 1;
                });
            }
            assert_eq!(self.members[slot(seq)], members, "members of {seq}");
        }
        let there = self.records.iter().filter(|at| at.place.is_some()).count();
        assert_eq!(there as u64, self.len(), "groups on lists");
        assert_eq!(self.members[slot(self.seq + 2)], 0, "neither old nor young");
        assert!(
            self.members[slot(self.seq)] > 0 || there == 0,
            "old is empty"
        );
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk_tests;
