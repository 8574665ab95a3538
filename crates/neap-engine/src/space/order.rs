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

#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Old places of moved mappings, whose unmapping is still to be announced.
    left: Vec<(Range<u64>, u64)>,
    /// Places whose records were in the way of a newcomer, and where they are parked.
    parked: Vec<(Range<u64>, u64)>,
    next: u64,
}

impl Order {
    /// A mapping left this place at `now` (nanoseconds).
    pub fn leave(&mut self, range: Range<u64>, now: u64) {
        self.left.push((range, now));
    }

    /// Whether this unmapping only ends a move.
    pub fn was_left(&mut self, range: &Range<u64>, now: u64) -> bool {
        self.left.retain(|(_, since)| now - since < FOLLOWS_WITHIN);
        let at = self.left.iter().position(|(left, _)| left == range);
        at.map(|at| self.left.swap_remove(at)).is_some()
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
        order.leave(0..10, 5);
        assert!(order.was_left(&(0..10), 6) && !order.was_left(&(0..10), 6));
        order.leave(0..10, 5);
        assert!(!order.was_left(&(0..10), 5 + FOLLOWS_WITHIN));
        let (one, two) = (order.park(0..10), order.park(0..10));
        assert!(two >= one + 10);
        assert_eq!(order.unpark(&(0..10)), Some(one));
        assert_eq!(order.unpark(&(5..10)), None);
    }
}
