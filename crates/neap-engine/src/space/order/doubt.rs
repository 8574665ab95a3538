//! What an unmapping of a place says that a mapping has left: that the move ended, or that the empty mapping which
//! stayed behind it (MREMAP_DONTUNMAP) is gone, too.

use std::collections::HashMap;
use std::ops::Range;

use neap_tuning::TUNING;

use super::super::Ranges;
use super::{Registered, Shape};

/// By move, the unmapping that ends it. And those of them that could as well be of what stayed behind, which matters if
/// something has come there since.
pub(super) fn ends(read: &[Shape]) -> (HashMap<usize, usize>, Vec<usize>) {
    let (mut ends, mut doubts) = (HashMap::new(), Vec::new());
    let mut open: HashMap<&Range<u64>, Vec<usize>> = HashMap::new();
    // Also what is read later: a move is told with the unmapping that made room for it.
    let mut arrivals = Ranges::default();
    for shape in read {
        if let Shape::Move { to, .. } = shape {
            arrivals.insert(to.clone());
        }
    }
    for (at, shape) in read.iter().enumerate() {
        match shape {
            Shape::Move { from, .. } => open.entry(from).or_default().push(at),
            Shape::Unmap(range) => {
                // The place was reached again before it was left again: this is the end of the last.
                let Some(by) = open.get_mut(range).and_then(Vec::pop) else {
                    continue;
                };
                ends.insert(by, at);
                if doubts.len() < TUNING.changes.doubts && arrivals.touches(range) {
                    doubts.push(at);
                }
            }
            Shape::Discard(_) | Shape::Still => {}
        }
    }
    (ends, doubts)
}

/// How often a story cannot be true. First where the kernel says so: what came is not there, or something is where
/// nothing can be. Then where it does itself: a mapping leaves a place that is empty; but what a mapping grew by is
/// told by nobody. `ended`: the moves that left nothing behind.
pub(super) fn contradictions(
    read: &[Shape],
    told: &[usize],
    ended: &HashMap<usize, usize>,
    now: &Registered,
) -> (usize, usize) {
    let (mut there, mut gone) = (Ranges::default(), Ranges::default());
    let mut from_nowhere = 0;
    for &at in told {
        match read[at].clone() {
            Shape::Unmap(range) => {
                there.remove(range.clone());
                gone.insert(range);
            }
            Shape::Move { from, to } => {
                from_nowhere += usize::from(gone.find(from.start).is_some());
                there.remove(from.clone());
                match ended.contains_key(&at) {
                    true => gone.insert(from),
                    false => gone.remove(from),
                }
                gone.remove(to.clone());
                there.insert(to);
            }
            Shape::Discard(_) | Shape::Still => {}
        }
    }
    let is_wrong = |&(&at, &registered): &(&u64, &bool)| {
        let came = there.find(at).is_some();
        // Right behind what came: that may have grown.
        let grew = at.checked_sub(1).and_then(|last| there.find(last));
        let left = gone.find(at).is_some() && grew.is_none();
        came && !registered || left && registered
    };
    (now.iter().filter(is_wrong).count(), from_nowhere)
}
