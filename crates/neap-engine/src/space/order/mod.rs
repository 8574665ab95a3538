//! The order of changes, when threads change mappings at the same time.
//!
//! A thread tells of its change after it has let go of the address space, so another may have taken the
//! place meanwhile, and be read first. What is read is therefore kept until nothing is still to come: the
//! kernel says so (it fills again). Then the story is whole, and put in order: nothing can come to a place
//! before what is there has left.

mod doubt;
mod forks;
mod story;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use neap_tuning::TUNING;

use super::Ranges;
use doubt::{contradictions, ends};
use forks::Told;
pub(crate) use forks::{Birth, Births, places_to_ask_children};
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
    /// A place is emptied, and stays.
    Discard(Range<u64>),
    /// Nothing leaves and nothing comes.
    Still,
}

impl Shape {
    /// Whether all places stay what they are.
    fn is_still(&self) -> bool {
        matches!(self, Self::Discard(_) | Self::Still)
    }
}

/// Whether a mapping that the kernel tells of is at a place now, as far as it could be asked.
pub(crate) type Registered = BTreeMap<u64, bool>;

/// Where the kernel is to be asked before these changes are put in order: at the edges of all of them, where a move
/// has been. Nowhere if nothing moved.
pub(crate) fn places_to_ask(read: &[Shape]) -> BTreeSet<u64> {
    let (mut moved, mut edges) = (Ranges::default(), BTreeSet::new());
    for shape in read {
        match shape {
            Shape::Unmap(range) => edges.extend([range.start, range.end]),
            Shape::Move { from, to } => {
                edges.extend([from.start, from.end, to.start, to.end]);
                moved.insert(from.clone());
                moved.insert(to.clone());
            }
            Shape::Discard(_) | Shape::Still => {}
        }
    }
    edges.retain(|&at| moved.find(at).is_some());
    edges
}

/// The changes, which are all since nothing was to come, in the order in which they were made, as indices of
/// the order in which they were read. Those are left out that only tell the end of a move. `taken`: where
/// mappings were before, as far as is known. `now`: the answers for [`places_to_ask`].
pub(crate) fn in_order(
    read: &[Shape],
    taken: &Ranges,
    now: &Registered,
    births: &Births,
) -> Vec<usize> {
    let changes = read.iter().filter(|shape| !shape.is_still()).count();
    let (ends, mut doubts) = ends(read);
    if changes > TUNING.changes.story || now.is_empty() {
        doubts.clear(); // what a story says of itself is not enough: what a mapping grew by is told by nobody
    }
    let mut best: Option<((usize, usize), _, _)> = None;
    // Each way to take some of the doubtful unmappings as no end of a move, first of all none.
    for kept in 0..1usize << doubts.len() {
        let is_kept = |end: usize| {
            let doubt = doubts.iter().position(|&doubt| doubt == end);
            doubt.is_some_and(|bit| kept >> bit & 1 == 1)
        };
        let mut ended: HashMap<usize, usize> = ends.clone();
        ended.retain(|_, end| !is_kept(*end));
        let left_out = ended.values().copied().collect();
        let told = Story::new(read, &left_out, taken.clone()).told(now);
        let faults = match doubts.is_empty() {
            true => (0, 0),
            false => contradictions(read, &told, &ended, now),
        };
        if best.as_ref().is_none_or(|(least, ..)| faults < *least) {
            best = Some((faults, told, ended));
        }
        if faults == (0, 0) {
            break;
        }
    }
    let told = best.map(|(_, told, ended)| Told {
        read,
        told,
        ended,
        taken,
    });
    told.map(|told| told.with_forks(births)).unwrap_or_default()
}
