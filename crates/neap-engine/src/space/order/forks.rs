//! Where a fork belongs in a story.
//!
//! A fork has the address space to itself while it copies it, and so has each change. Whoever did either tells of it only
//! afterwards, and an mremap tells of its target, waits until that is read, and then tells of its move. So a fork may be
//! read before a change that came first, after one that came later, and between the two halves of a move that came on either side
//! (`neap-sys/tests/conformance/forks.rs`). Its child knows better: what was registered when it was copied is
//! registered in it.
//!
//! Changes that have no place in common say nothing of each other's order. So they are parted into groups that meet, and in
//! each of them the fork is put where the child contradicts least; if that says nothing, where it was read.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use neap_tuning::TUNING;

use super::super::Ranges;
use super::{Registered, Shape};

/// A fork of a story.
#[derive(Debug)]
pub(crate) struct Birth {
    /// Which change of the story it is.
    pub at: usize,
    /// What is registered in the child, as far as it could be asked.
    pub has: Registered,
}

/// The forks of a story, and what the kernel says of the parent where it says something of the children.
#[derive(Debug, Default)]
pub(crate) struct Births {
    pub forks: Vec<Birth>,
    pub now: Registered,
    /// Ranges that neap registered while changes were still to come: a child that was forked before has nothing there.
    pub unsure: Ranges,
}

/// The places of a change, the one that it leaves first.
fn places(shape: &Shape) -> Vec<&Range<u64>> {
    match shape {
        Shape::Unmap(range) | Shape::Discard(range) => vec![range],
        Shape::Move { from, to } => vec![from, to],
        Shape::Still => Vec::new(),
    }
}

/// Where a child is to be asked: at the first and the last page of each place of a change, of what was there, and of what was there
/// before any fork, which is all but `unsure`; and below each place, from where the child may have grown into it.
pub(crate) fn places_to_ask_children(read: &[Shape], taken: &Ranges, unsure: &Ranges) -> Vec<u64> {
    let changes = read.iter().filter(|shape| !shape.is_still());
    let mut asked = Vec::new();
    for place in changes.flat_map(places) {
        let there = taken.within(place);
        let sure: Vec<Range<u64>> = there.iter().flat_map(|part| unsure.gaps(part)).collect();
        asked.extend(place.start.checked_sub(1));
        let parts = [Some(place), there.first(), there.last()].into_iter();
        for part in parts.chain([sure.first(), sure.last()]).flatten() {
            asked.extend([part.start, part.end - 1]);
        }
    }
    asked.sort_unstable();
    asked.dedup();
    asked
}

/// What speaks against a place of a fork, by what its child has.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// What it has and cannot have.
    strange: u32,
    /// It has grown since, into what was empty.
    grows: bool,
    /// What it has not: that may be kept from children (MADV_DONTFORK).
    kept: u32,
}

/// A story in order, whose forks are to be put where they belong.
pub(super) struct Told<'a> {
    pub read: &'a [Shape],
    pub told: Vec<usize>,
    /// The moves that left nothing behind.
    pub ended: HashMap<usize, usize>,
    pub taken: &'a Ranges,
}

impl Told<'_> {
    /// The story with its forks where they belong.
    pub fn with_forks(self, births: &Births) -> Vec<usize> {
        let asked = births.forks.iter().any(|birth| !birth.has.is_empty());
        if !asked || self.told.len() > TUNING.changes.story {
            return self.told;
        }
        let groups = self.groups();
        let mut forks: Vec<(usize, HashSet<usize>)> = Vec::new();
        for birth in &births.forks {
            let read_before = self.told.iter().take_while(|&&at| at != birth.at);
            let read_before: HashSet<usize> = read_before.copied().collect();
            let before = groups.iter().flat_map(|group| {
                let as_read = group.iter().filter(|&at| read_before.contains(at));
                let cut = self.cut(group, birth, births, as_read.count());
                group.iter().take(cut).copied()
            });
            forks.push((birth.at, before.collect()));
        }
        forks.sort_by_key(|(_, before)| before.len());
        let mut left = self.told;
        left.retain(|at| !forks.iter().any(|(fork, _)| fork == at));
        let mut placed = Vec::with_capacity(left.len() + forks.len());
        for (fork, before) in forks {
            let (first, later): (Vec<_>, _) = left.into_iter().partition(|at| before.contains(at));
            placed.extend(first);
            placed.push(fork);
            left = later;
        }
        placed.extend(left);
        placed
    }

    /// Changes that meet, each group in the order of the story.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<(Ranges, Vec<usize>)> = Vec::new();
        for (nr, &at) in self.told.iter().enumerate() {
            let own = places(&self.read[at]);
            let (mut all, mut members) = (Ranges::default(), vec![nr]);
            own.iter().for_each(|&place| all.insert(place.clone()));
            groups.retain_mut(|(places, others)| {
                let meets = own.iter().any(|place| places.touches(place));
                if meets {
                    members.append(others);
                    places.iter().for_each(|place| all.insert(place));
                }
                !meets
            });
            if !own.is_empty() {
                groups.push((all, members));
            }
        }
        let in_order = |(_, mut members): (Ranges, Vec<usize>)| {
            members.sort_unstable();
            members.iter().map(|&nr| self.told[nr]).collect()
        };
        groups.into_iter().map(in_order).collect()
    }

    /// How many changes of a group were made before a fork, which was read behind so many of them.
    fn cut(&self, group: &[usize], birth: &Birth, births: &Births, as_read: usize) -> usize {
        let mut faults = vec![Faults::default(); group.len() + 1];
        let grown = self.grown(group, birth);
        for (&at, &has) in &birth.has {
            let sure = births.unsure.find(at).is_none();
            let told = self.registered(group, at, sure);
            // Where something else is there now than is told, it has grown there, of which nobody tells.
            if let (Some(&Some(last)), Some(&now)) = (told.last(), births.now.get(&at))
                && last != now
            {
                continue;
            }
            let grows = grown.find(at).is_some();
            for (faults, told) in faults.iter_mut().zip(told) {
                let appears = has && told == Some(false);
                faults.strange += u32::from(appears && !grows);
                faults.grows |= appears && grows;
                faults.kept += u32::from(!has && told == Some(true));
            }
        }
        let cuts = faults.into_iter().enumerate();
        let doubts = |faults: Faults| (faults.strange, faults.kept + u32::from(faults.grows));
        let best = cuts.min_by_key(|&(cut, faults)| (doubts(faults), cut.abs_diff(as_read)));
        best.map_or(as_read, |(cut, _)| cut)
    }

    /// Where a child may have grown since its fork, of which nobody tells: into the place of a change, from what it has below that.
    fn grown(&self, group: &[usize], birth: &Birth) -> Ranges {
        let mut grown = Ranges::default();
        for place in group.iter().flat_map(|&at| places(&self.read[at])) {
            let below = place.start.checked_sub(1);
            if below.is_some_and(|at| birth.has.get(&at) == Some(&true)) {
                let mut above = birth.has.range(place.start..place.end);
                let end = above.find(|(_, has)| !**has);
                grown.insert(place.start..end.map_or(place.end, |(&at, _)| at));
            }
        }
        grown
    }

    /// Whether something is registered at a place, before a group of changes and behind each of them. `None`: that is not told.
    /// `sure`: what was there before was registered before any fork.
    fn registered(&self, group: &[usize], at: u64, sure: bool) -> Vec<Option<bool>> {
        let was_there = self.taken.find(at).is_some();
        let mut told = vec![None];
        let (mut is, mut is_first) = (None, true);
        for (nr, &member) in group.iter().enumerate() {
            let change = &self.read[member];
            let (before, behind) = match change {
                // Something there would have been told of.
                Shape::Move { to, .. } if self.reach(group, nr, to).contains(&at) => {
                    (Some(was_there), Some(true))
                }
                // What was not there may have grown.
                Shape::Move { from, .. } if from.contains(&at) => {
                    let is_empty = self.ended.contains_key(&member);
                    (was_there.then_some(true), is_empty.then_some(false))
                }
                Shape::Unmap(range) if range.contains(&at) => {
                    (was_there.then_some(true), Some(false))
                }
                _ => {
                    told.push(is);
                    continue;
                }
            };
            if std::mem::take(&mut is_first) {
                told.fill(before.filter(|_| sure));
            }
            is = behind;
            told.push(is);
        }
        told
    }

    /// Where a move comes to: all of what was unmapped for it, also what it grew by.
    fn reach(&self, group: &[usize], nr: usize, to: &Range<u64>) -> Range<u64> {
        let before = nr.checked_sub(1).map(|before| &self.read[group[before]]);
        match before {
            Some(Shape::Unmap(range)) if range.start == to.start => to.start..to.end.max(range.end),
            _ => to.clone(),
        }
    }
}
