//! The order of events, when threads change mappings at the same time.
//!
//! A thread queues its event after it has let go of the address space, so another may have taken the
//! place meanwhile and its event may be read first; and the unmapping that ends an mremap is announced
//! only after the mremap itself was read. Without care the records of the newcomer would be dropped.

use std::ops::Range;

/// Parked records lie beyond every address of a program: 2^52 and up, in bytes.
const PARKING: u64 = 1 << 52;

/// The thread that moved a mapping announces the unmapping as soon as it runs again; after an mremap that
/// leaves the old mapping there (MREMAP_DONTUNMAP) it never does. In nanoseconds.
const FOLLOWS_WITHIN: u64 = 1_000_000_000;

/// The old place of a moved mapping.
#[derive(Debug)]
struct Left {
    range: Range<u64>,
    /// When it moved, in nanoseconds.
    since: u64,
    /// Another mapping has come there since, with records of its own.
    taken: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Old places of moved mappings, whose unmapping is still to be announced.
    left: Vec<Left>,
    /// Places whose records were in the way of a newcomer, and where they are parked.
    parked: Vec<(Range<u64>, u64)>,
    next: u64,
}

impl Order {
    /// A mapping left this place at `now` (nanoseconds).
    pub fn leave(&mut self, range: Range<u64>, now: u64) {
        self.left.push(Left {
            range,
            since: now,
            taken: false,
        });
    }

    /// A mapping with records came to this place.
    pub fn arrive(&mut self, range: &Range<u64>) {
        for left in &mut self.left {
            left.taken |= left.range.start < range.end && range.start < left.range.end;
        }
    }

    /// Whether this unmapping only ends a move, and the records there are a newcomer's. Without a newcomer
    /// they are what was made in a mapping that stayed (MREMAP_DONTUNMAP), and go with it.
    pub fn was_left(&mut self, range: &Range<u64>, now: u64) -> bool {
        self.left.retain(|left| now - left.since < FOLLOWS_WITHIN);
        let at = self.left.iter().position(|left| left.range == *range);
        at.is_some_and(|at| self.left.swap_remove(at).taken)
    }

    /// Where the records of this place can be parked.
    pub fn park(&mut self, range: Range<u64>) -> u64 {
        let at = PARKING + self.next;
        self.next = (self.next + (range.end - range.start)) % PARKING;
        self.parked.push((range, at));
        at
    }

    /// Where the records of this place are parked, if they are.
    pub fn unpark(&mut self, range: &Range<u64>) -> Option<u64> {
        let at = self.parked.iter().position(|(parked, _)| parked == range)?;
        Some(self.parked.swap_remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_left_once_for_each_move_and_parked_places_are_apart() {
        let mut order = Order::default();
        let mut leave = |range: Range<u64>, newcomer: bool, until: u64| {
            order.leave(range.clone(), 5);
            if newcomer {
                order.arrive(&(range.end - 1..range.end));
            }
            order.was_left(&range, until)
        };
        assert!(leave(0..10, true, 6));
        assert!(!leave(0..10, false, 6));
        assert!(!leave(0..10, true, 5 + FOLLOWS_WITHIN));
        assert!(!order.was_left(&(0..10), 6));
        let (one, two) = (order.park(0..10), order.park(0..10));
        assert!(two >= one + 10);
        assert_eq!(order.unpark(&(0..10)), Some(one));
        assert_eq!(order.unpark(&(5..10)), None);
    }
}
