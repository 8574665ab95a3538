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

use std::collections::{BTreeMap, HashMap, HashSet};
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
}

/// Changes that meet, in the order of the story, and all their places.
struct Group {
    members: Vec<usize>,
    places: Ranges,
}

/// The places of a change, the one that it leaves first.
fn places(shape: &Shape) -> Vec<&Range<u64>> {
    match shape {
        Shape::Unmap(range) | Shape::Discard(range) => vec![range],
        Shape::Move { from, to } => vec![from, to],
        Shape::Still => Vec::new(),
    }
}

/// Whether a change is one of what is registered at a place.
fn changes(shape: &Shape, at: u64) -> bool {
    !shape.is_still() && places(shape).iter().any(|place| place.contains(&at))
}

/// Where a child is to be asked: at the first and the last page of each place of a change, and of what was there.
pub(crate) fn places_to_ask_children(read: &[Shape], taken: &Ranges) -> Vec<u64> {
    let changes = read.iter().filter(|shape| !shape.is_still());
    let mut asked = Vec::new();
    for place in changes.flat_map(places) {
        let there = taken.within(place);
        for part in [Some(place), there.first(), there.last()]
            .into_iter()
            .flatten()
        {
            asked.extend([part.start, part.end - 1]);
        }
    }
    asked.sort_unstable();
    asked.dedup();
    asked
}

/// A story in order, with its forks where they belong. `ended`: the moves that left nothing behind.
pub(super) fn placed(
    read: &[Shape],
    told: Vec<usize>,
    ended: &HashMap<usize, usize>,
    taken: &Ranges,
    births: &Births,
) -> Vec<usize> {
    if births.forks.iter().all(|birth| birth.has.is_empty()) || told.len() > TUNING.changes.story {
        return told;
    }
    let groups = groups(read, &told);
    let mut left = told;
    let mut forks: Vec<(usize, HashSet<usize>)> = Vec::new();
    for birth in &births.forks {
        let place = left.iter().position(|&at| at == birth.at);
        let as_read: HashSet<usize> = left.iter().take(place.unwrap_or(0)).copied().collect();
        let before = groups.iter().flat_map(|group| {
            let ask = Asked::new(read, group, ended, taken, births, birth);
            let members = group.members.iter();
            let as_read = members.clone().filter(|&at| as_read.contains(at)).count();
            members.take(ask.cut(as_read)).copied()
        });
        forks.push((birth.at, before.collect()));
    }
    forks.sort_by_key(|(_, before)| before.len());
    left.retain(|at| !forks.iter().any(|(fork, _)| fork == at));
    let mut placed = Vec::with_capacity(read.len());
    for (fork, before) in forks {
        let (first, later): (Vec<_>, _) = left.into_iter().partition(|at| before.contains(at));
        placed.extend(first);
        placed.push(fork);
        left = later;
    }
    placed.extend(left);
    placed
}

fn groups(read: &[Shape], told: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (nr, &at) in told.iter().enumerate() {
        let (mut members, mut all) = (vec![nr], Ranges::default());
        let own = places(&read[at]);
        own.iter().for_each(|&place| all.insert(place.clone()));
        groups.retain_mut(|group| {
            let meets = own.iter().any(|place| group.places.touches(place));
            if meets {
                members.append(&mut group.members);
                group.places.iter().for_each(|place| all.insert(place));
            }
            !meets
        });
        if !own.is_empty() {
            members.sort_unstable();
            let places = all;
            groups.push(Group { members, places });
        }
    }
    for group in &mut groups {
        group.members.iter_mut().for_each(|nr| *nr = told[*nr]);
    }
    groups
}

/// What the child says of one group of changes.
struct Asked<'a> {
    read: &'a [Shape],
    members: &'a [usize],
    ended: &'a HashMap<usize, usize>,
    /// By place: whether something is registered there before the first change, and in the child.
    places: BTreeMap<u64, (Option<bool>, bool)>,
}

impl<'a> Asked<'a> {
    fn new(
        read: &'a [Shape],
        group: &'a Group,
        ended: &'a HashMap<usize, usize>,
        taken: &Ranges,
        births: &Births,
        birth: &Birth,
    ) -> Self {
        let before = |at: u64| {
            let was_there = taken.find(at).is_some();
            let mut members = group.members.iter().map(|&member| &read[member]);
            let first = members.find(|change| changes(change, at))?;
            Some(match first {
                // Or it would have been told of.
                Shape::Move { to, .. } if to.contains(&at) => Some(was_there),
                // What was not there may have grown, of which nobody tells.
                _ => was_there.then_some(true),
            })
        };
        let places = birth.has.iter();
        let places = places.filter_map(|(&at, &has)| Some((at, (before(at)?, has))));
        let mut asked = Self {
            read,
            members: &group.members,
            ended,
            places: places.collect(),
        };
        // Where something else is there now than the story says, it has grown there, of which nobody tells.
        let last = asked.tell(group.members.len(), |_, _| {});
        let agrees = |at: &u64| match (last.get(at), births.now.get(at)) {
            (Some(Some(told)), Some(now)) => told == now,
            _ => true,
        };
        asked.places.retain(|at, _| agrees(at));
        asked
    }

    /// Tells the first so many changes: what is registered then.
    fn tell(
        &self,
        count: usize,
        mut each: impl FnMut(usize, &BTreeMap<u64, Option<bool>>),
    ) -> BTreeMap<u64, Option<bool>> {
        let mut now: BTreeMap<u64, Option<bool>> = self
            .places
            .iter()
            .map(|(&at, &(before, _))| (at, before))
            .collect();
        let set = |now: &mut BTreeMap<u64, Option<bool>>, place: &Range<u64>, is: Option<bool>| {
            now.range_mut(place.clone()).for_each(|(_, old)| *old = is);
        };
        each(0, &now);
        for (nr, at) in self.members.iter().take(count).enumerate() {
            match &self.read[*at] {
                Shape::Unmap(range) => set(&mut now, range, Some(false)),
                Shape::Move { from, to } => {
                    let stays = !self.ended.contains_key(at);
                    set(&mut now, from, (!stays).then_some(false));
                    set(&mut now, to, Some(true));
                }
                Shape::Discard(_) | Shape::Still => {}
            }
            each(nr + 1, &now);
        }
        now
    }

    /// How many of the changes were made before the fork.
    fn cut(&self, as_read: usize) -> usize {
        let mut best = (usize::MAX, usize::MAX, as_read);
        self.tell(self.members.len(), |count, now| {
            let wrong = |(at, told): (&u64, &Option<bool>)| {
                told.is_some_and(|told| told != self.places[at].1)
            };
            let faults = now.iter().filter(|&place| wrong(place)).count();
            best = best.min((faults, count.abs_diff(as_read), count));
        });
        best.2
    }
}
