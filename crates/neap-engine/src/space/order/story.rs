//! One story, told so that nothing comes to a place before what is there has left.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::super::Ranges;
use super::Shape;

pub(super) struct Story<'a> {
    read: &'a [Shape],
    /// As they were read, but for moves that belong elsewhere.
    line: Vec<usize>,
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
        Story {
            read,
            line: (0..read.len())
                .filter(|at| !left_out.contains(at))
                .collect(),
            left: BTreeMap::new(),
            told: Vec::with_capacity(read.len()),
            waits: Vec::new(),
            taken,
        }
    }

    pub fn told(mut self, registered: impl Fn(u64) -> bool) -> Vec<usize> {
        self.join_replacements();
        self.learn(registered);
        let line = std::mem::take(&mut self.line);
        let placed = line.iter().copied().enumerate();
        self.left = placed
            .clone()
            .filter(|&(_, at)| self.read[at] != Shape::Still)
            .collect();
        for (place, at) in placed {
            if self.left.contains_key(&place) {
                self.tell(place, at);
            } else if self.read[at] == Shape::Still {
                self.told.push(at);
            }
        }
        self.told
    }

    /// A move to where something was (MREMAP_FIXED) first tells that this is unmapped, and only when that was
    /// read that it has moved: in between others may be read that came later. So it is put there.
    fn join_replacements(&mut self) {
        for at in 0..self.read.len() {
            let Shape::Move { from, to } = &self.read[at] else {
                continue;
            };
            let Some(place) = self.line.iter().position(|&other| other == at) else {
                continue;
            };
            let meets = |range: &Range<u64>| range.start < from.end && from.start < range.end;
            // Back to the unmapping, but not beyond what made its old place what it is.
            let mut before = self.line[..place].iter().enumerate().rev();
            let found = before.find_map(|(before, &other)| match &self.read[other] {
                Shape::Unmap(range) if range.start == to.start && range.end >= to.end => {
                    Some(Some(before))
                }
                Shape::Move { to: came, .. } if meets(came) => Some(None),
                _ => None,
            });
            if let Some(Some(unmapping)) = found {
                self.line.remove(place);
                self.line.insert(unmapping + 1, at);
            }
        }
    }

    /// An unmapping covers memory of other kinds, too, which is not known to have been there. What moved to such
    /// a place and is still there came after it.
    fn learn(&mut self, registered: impl Fn(u64) -> bool) {
        let moves = |part: &Range<u64>| {
            let meets = |range: &Range<u64>| range.start < part.end && part.start < range.end;
            let left = self.line.iter();
            left.filter(|&&other| match &self.read[other] {
                Shape::Move { from, to } => meets(to) || meets(from),
                _ => false,
            })
            .count()
        };
        let mut learnt = Vec::new();
        for (i, &arrival) in self.line.iter().enumerate() {
            let Shape::Move { to, .. } = &self.read[arrival] else {
                continue;
            };
            for &later in &self.line[i + 1..] {
                let Shape::Unmap(range) = &self.read[later] else {
                    continue;
                };
                let part = range.start.max(to.start)..range.end.min(to.end);
                // Where more than one move has been, what is there now says nothing of this one.
                if part.start < part.end && moves(&part) == 1 && registered(part.start) {
                    learnt.push(part);
                }
            }
        }
        for part in learnt {
            self.taken.insert(part);
        }
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
            Shape::Still => {}
        }
    }

    /// What has to leave before something can come to this place, and its own place in the line.
    fn in_the_way(&self, to: &Range<u64>) -> Option<(usize, usize)> {
        let leaves = |&(_, change): &(usize, usize)| {
            let from = match &self.read[change] {
                Shape::Unmap(range) | Shape::Move { from: range, .. } => range,
                Shape::Still => return false,
            };
            let part = from.start.max(to.start)..from.end.min(to.end);
            part.start < part.end && self.taken.touches(&part) && !self.waits.contains(&change)
        };
        let mut left = self.left.iter().map(|(&place, &change)| (place, change));
        left.find(leaves)
    }
}
