//! One story, told so that nothing comes to a place before what is there has left.
//!
//! An example: one thread moves a mapping from 100 to 200, and then another moves one from 300 to 100. The kernel tells of a move
//! once it is done, and each thread tells of its own. So the second may be read first: `Move 300..100`, `Move 100..200`. Told in that
//! order, the first mapping would be taken for gone. When the story comes to the move to 100, that place is taken, and another change
//! that is still left leaves it. So that one is told before.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::super::Ranges;
use super::{Registered, Shape};

pub(super) struct Story<'a> {
    read: &'a [Shape],
    /// What changes places, in the order in which it is looked at: first with which other change each stands (itself, but for moves that
    /// belong to an unmapping read before), then which it is. Both are indices of `read`.
    line: Vec<(usize, usize)>,
    /// Changes that are not told yet, by their place in the line.
    left: BTreeMap<usize, usize>,
    told: Vec<usize>,
    /// Moves that are about to be told, once what was in their way is.
    waits: Vec<usize>,
    /// Where mappings are after what was told.
    taken: Ranges,
}

impl Story<'_> {
    pub fn new<'a>(read: &'a [Shape], left_out: &HashSet<usize>, taken: Ranges) -> Story<'a> {
        let changes = |at: &usize| !read[*at].is_still() && !left_out.contains(at);
        Story {
            read,
            line: (0..read.len()).filter(changes).map(|at| (at, at)).collect(),
            left: BTreeMap::new(),
            told: Vec::with_capacity(read.len()),
            waits: Vec::new(),
            taken,
        }
    }

    pub fn told(mut self, now: &Registered) -> Vec<usize> {
        self.join_replacements();
        self.learn(now);
        let line = std::mem::take(&mut self.line);
        let changes = line.iter().map(|&(_, at)| at);
        self.left = changes.enumerate().collect();
        let read = self.read;
        let still = |at: &usize| read[*at].is_still();
        let mut still = (0..read.len()).filter(still).peekable();
        for (place, (with, at)) in line.into_iter().enumerate() {
            while let Some(before) = still.next_if(|&other| other < with) {
                self.told.push(before);
            }
            if self.left.contains_key(&place) {
                self.tell(place, at);
            }
        }
        self.told.extend(still);
        self.told
    }

    /// A move to where something was (MREMAP_FIXED) first tells that this is unmapped, and only when that was
    /// read that it has moved: in between others may be read that came later. So it is put there.
    fn join_replacements(&mut self) {
        for at in 0..self.read.len() {
            let Shape::Move { from, to } = &self.read[at] else {
                continue;
            };
            let Some(place) = self.line.iter().position(|&(_, other)| other == at) else {
                continue;
            };
            let meets = |range: &Range<u64>| range.start < from.end && from.start < range.end;
            // Back to the unmapping, but not beyond what made its old place what it is: the mapping that came there, or the
            // discard of a part of it, which nothing else could have been told of once it had moved.
            let mut before = self.line[..place].iter().enumerate().rev();
            let found = before.find_map(|(before, &(with, other))| match &self.read[other] {
                Shape::Unmap(range) if range.start == to.start && range.end >= to.end => {
                    Some(Some((before, with)))
                }
                Shape::Move { to: came, .. } if meets(came) => Some(None),
                _ => None,
            });
            let was_emptied = |with: usize| {
                let mut between = self.read[with..at].iter();
                between.any(|shape| matches!(shape, Shape::Discard(range) if meets(range)))
            };
            if let Some(Some((unmapping, with))) = found
                && !was_emptied(with)
            {
                self.line.remove(place);
                self.line.insert(unmapping + 1, (with, at));
            }
        }
    }

    /// An unmapping covers memory of other kinds, too, which is not known to have been there. What moved to such
    /// a place and is still there came after it. But it was told because of something else, then; otherwise it was of
    /// what moved there, and a mapping has grown over the place since.
    fn learn(&mut self, now: &Registered) {
        let meeting = |part: &Range<u64>| {
            let meets = |range: &Range<u64>| range.start < part.end && part.start < range.end;
            let line = self.line.iter();
            line.filter(|&&(_, other)| match &self.read[other] {
                Shape::Move { from, to } => meets(to) || meets(from),
                _ => false,
            })
            .count()
        };
        let mut learnt = Vec::new();
        for (i, &(_, arrival)) in self.line.iter().enumerate() {
            let Shape::Move { to, .. } = &self.read[arrival] else {
                continue;
            };
            for (j, &(_, later)) in self.line.iter().enumerate().skip(i + 1) {
                let Shape::Unmap(range) = &self.read[later] else {
                    continue;
                };
                if self.makes_room(j, range) {
                    continue;
                }
                let part = range.start.max(to.start)..range.end.min(to.end);
                let is_there = part.start < part.end && now.get(&part.start) == Some(&true);
                // Where more than one move has been, what is there now says nothing of this one.
                let alone = is_there && meeting(&part) == 1;
                if alone && (self.taken.touches(range) || meeting(range) > 1) {
                    learnt.push(part);
                }
            }
        }
        for part in learnt {
            self.taken.insert(part);
        }
    }

    /// Whether an unmapping made room for the move behind it in the line. That one has all of the place then, also what it
    /// has grown by: what is there now need not be what came before.
    fn makes_room(&self, place: usize, range: &Range<u64>) -> bool {
        let next = self.line.get(place + 1).map(|&(_, at)| &self.read[at]);
        matches!(next, Some(Shape::Move { to, .. }) if to.start == range.start && to.end < range.end)
    }

    fn tell(&mut self, place: usize, at: usize) {
        self.waits.push(at);
        if let Shape::Move { to, .. } = &self.read[at] {
            while let Some((place, first)) = self.in_the_way(to) {
                self.tell(place, first);
            }
        }
        self.waits.pop();
        self.left.remove(&place);
        self.told.push(at);
        match self.read[at].clone() {
            Shape::Unmap(range) => self.taken.remove(range),
            Shape::Move { from, to } => {
                self.taken.remove(from);
                self.taken.insert(to);
            }
            Shape::Discard(_) | Shape::Still => {}
        }
    }

    /// What has to leave before something can come to this place, and its own place in the line.
    fn in_the_way(&self, to: &Range<u64>) -> Option<(usize, usize)> {
        let leaves = |&(_, change): &(usize, usize)| {
            let from = match &self.read[change] {
                Shape::Unmap(range) | Shape::Move { from: range, .. } => range,
                Shape::Discard(_) | Shape::Still => return false,
            };
            let part = from.start.max(to.start)..from.end.min(to.end);
            part.start < part.end && self.taken.touches(&part) && !self.waits.contains(&change)
        };
        let mut left = self.left.iter().map(|(&place, &change)| (place, change));
        left.find(leaves)
    }
}
