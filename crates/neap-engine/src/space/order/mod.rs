//! The order of changes, when threads change mappings at the same time.
//!
//! A thread tells of its change after it has let go of the address space, so another may have taken the
//! place meanwhile, and be read first. What is read is therefore kept until nothing is still to come: the
//! kernel says so (it fills again). Then the story is whole, and put in order: nothing can come to a place
//! before what is there has left.

mod story;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use super::Ranges;
use story::Story;

/// What a change does to places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// An unmapping.
    Unmap(Range<u64>),
    /// A mapping moved.
    Move {
        /// Its old place.
        from: Range<u64>,
        /// Its new place, as far as it was there before.
        to: Range<u64>,
    },
    /// Nothing leaves and nothing comes.
    Still,
}

/// So many unmappings are tried as the end of a move and as one of its own: all ways to do so.
const MOST_DOUBTS: usize = 5;

/// The changes, which are all since nothing was to come, in the order in which they were made, as indices of
/// the order in which they were read. Those are left out that only tell the end of a move. `taken`: where
/// mappings were before, as far as is known. `registered` says whether a mapping that the kernel tells of is at a
/// place now.
pub(crate) fn in_order(
    read: &[Shape],
    taken: Ranges,
    registered: impl Fn(u64) -> bool,
) -> Vec<usize> {
    let (ends, doubts) = ends(read);
    let mut best: Option<(usize, Vec<usize>)> = None;
    for kept in 0..1usize << doubts.len() {
        let is_kept = |end| {
            let doubt = doubts.iter().position(|&doubt| doubt == end);
            doubt.is_some_and(|bit| kept >> bit & 1 == 1)
        };
        let ended: HashMap<usize, usize> = (ends.iter().map(|(&by, &end)| (by, end)))
            .filter(|&(_, end)| !is_kept(end))
            .collect();
        let left_out: HashSet<usize> = ended.values().copied().collect();
        let told = Story::new(read, &left_out, taken.clone()).told(&registered);
        if doubts.is_empty() {
            return told;
        }
        let wrong = contradictions(read, &told, &ended, &registered);
        if best.as_ref().is_none_or(|(least, _)| wrong < *least) {
            best = Some((wrong, told));
        }
        if wrong == 0 {
            break;
        }
    }
    best.map(|(_, told)| told).unwrap_or_default()
}

/// A move ends with an unmapping of the old place, unless it leaves an empty mapping there: by move, that end. And
/// those that could as well be the end of what stayed behind, which matters if something has come there since.
fn ends(read: &[Shape]) -> (HashMap<usize, usize>, Vec<usize>) {
    let (mut ends, mut taken, mut doubts) = (HashMap::new(), HashSet::new(), Vec::new());
    for (by, shape) in read.iter().enumerate() {
        let Shape::Move { from, .. } = shape else {
            continue;
        };
        let is_end =
            |other: &usize| read[*other] == Shape::Unmap(from.clone()) && !taken.contains(other);
        let Some(end) = (by + 1..read.len()).find(is_end) else {
            continue;
        };
        ends.insert(by, end);
        taken.insert(end);
        let comes = |other: &Shape| matches!(other, Shape::Move { to, .. } if to.start < from.end && from.start < to.end);
        if doubts.len() < MOST_DOUBTS && read.iter().any(comes) {
            doubts.push(end);
        }
    }
    (ends, doubts)
}

/// How often a story cannot be true: a mapping leaves a place that is empty, or is not where it must be now, or is
/// where nothing can be. `ended`: the moves that left nothing behind.
fn contradictions(
    read: &[Shape],
    told: &[usize],
    ended: &HashMap<usize, usize>,
    registered: impl Fn(u64) -> bool,
) -> usize {
    let (mut there, mut gone) = (Ranges::default(), Ranges::default());
    let mut wrong = 0;
    for &at in told {
        match read[at].clone() {
            Shape::Unmap(range) => {
                there.remove(range.clone());
                gone.insert(range);
            }
            Shape::Move { from, to } => {
                wrong += usize::from(gone.touches(&from));
                there.remove(from.clone());
                match ended.contains_key(&at) {
                    true => gone.insert(from),
                    false => gone.remove(from),
                }
                gone.remove(to.clone());
                there.insert(to);
            }
            Shape::Still => {}
        }
    }
    // Every part of it was changed as a whole.
    let mut edges = BTreeSet::new();
    for shape in read {
        match shape {
            Shape::Unmap(range) => edges.extend([range.start, range.end]),
            Shape::Move { from, to } => edges.extend([from.start, from.end, to.start, to.end]),
            Shape::Still => {}
        }
    }
    let missing = edges
        .iter()
        .filter(|&&at| there.find(at).is_some() && !registered(at));
    let wrong = wrong + missing.count();
    wrong
        + edges
            .iter()
            .filter(|&&at| gone.find(at).is_some() && registered(at))
            .count()
}
