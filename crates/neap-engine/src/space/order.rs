//! The order of events, when threads change mappings at the same time.
//!
//! A thread queues its event after it has let go of the address space, so another may have taken the
//! place meanwhile and its event may be read first; and the unmapping that ends an mremap is announced
//! only after the mremap itself was read. Without care the records of the newcomer would be dropped.
//!
//! Only a newcomer that brought records from elsewhere (by mremap) can lose anything: what a new mapping
//! has is in memory as long as an event is still to come, since the kernel refuses moves until then, and
//! is found again.

use std::ops::Range;

/// Parked records lie beyond every address of a program: 2^52 and up, in bytes.
const PARKING: u64 = 1 << 52;

/// The old place of a moved mapping.
#[derive(Debug)]
struct Left {
    range: Range<u64>,
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
    /// Newcomers that came, by a move, to a place whose unmapping is still to be announced.
    expected: Vec<Range<u64>>,
    /// Places whose unmapping was spared, since a newcomer seems to be there.
    doubtful: Vec<Range<u64>>,
}

/// What becomes of expectations once no event is still to come.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Where records are parked that nobody will ask for.
    pub parked: Vec<Range<u64>>,
    /// Places to be compared with what is there.
    pub doubtful: Vec<Range<u64>>,
}

impl Order {
    /// A mapping left this place.
    pub fn leave(&mut self, range: Range<u64>) {
        self.left.push(Left {
            range,
            taken: false,
        });
    }

    /// A mapping with records came to this place by a move.
    pub fn arrive(&mut self, range: &Range<u64>) {
        for left in &mut self.left {
            left.taken |= left.range.start < range.end && range.start < left.range.end;
        }
    }

    /// Whether this unmapping only ends a move, and the records there are a newcomer's.
    pub fn was_left(&mut self, range: &Range<u64>) -> bool {
        let at = self.left.iter().position(|left| left.range == *range);
        let taken = at.is_some_and(|at| self.left.swap_remove(at).taken);
        if taken {
            self.doubtful.push(range.clone());
        }
        taken
    }

    /// A mapping has come to a place whose unmapping is still to be announced.
    pub fn expect(&mut self, range: Range<u64>) {
        self.expected.push(range);
    }

    /// Whether this unmapping may be one that is older than a newcomer there.
    pub fn was_expected(&mut self, range: &Range<u64>) -> bool {
        let meets = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        let expected = self.expected.iter().any(meets);
        if expected {
            self.doubtful.push(range.clone());
        }
        expected
    }

    /// Whether an unmapping is expected.
    pub fn expects(&self) -> bool {
        let some = !self.left.is_empty() || !self.parked.is_empty() || !self.expected.is_empty();
        some || self.doubts()
    }

    /// Whether an unmapping may have been mistaken: the mapping had stayed where it was (MREMAP_DONTUNMAP),
    /// was covered by another, and both are gone.
    pub fn doubts(&self) -> bool {
        !self.doubtful.is_empty()
    }

    /// No event is still to come: what is expected never comes.
    pub fn settle(&mut self) -> Settled {
        self.left.clear();
        self.expected.clear();
        let place = |(range, at): (Range<u64>, u64)| at..at + (range.end - range.start);
        Settled {
            parked: self.parked.drain(..).map(place).collect(),
            doubtful: std::mem::take(&mut self.doubtful),
        }
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
    fn an_unmapping_that_ends_a_move_spares_who_moved_there_since() {
        let mut order = Order::default();
        order.leave(0..10);
        order.leave(0..10);
        order.arrive(&(9..20));
        assert!(order.was_left(&(0..10)) && order.was_left(&(0..10)));
        assert!(!order.was_left(&(0..10)));
        assert_eq!(order.settle().doubtful.len(), 2);
        assert!(!order.expects());
        order.leave(0..10);
        order.arrive(&(10..20));
        assert!(!order.was_left(&(0..10)));
    }

    #[test]
    fn what_stayed_behind_is_unmapped_like_any_other() {
        let mut order = Order::default();
        order.leave(0..10);
        order.arrive(&(0..10));
        let at = order.park(0..10);
        assert!(order.expects());
        let parked = order.settle().parked;
        assert_eq!((parked.len(), parked[0].clone()), (1, at..at + 10));
        assert!(!order.expects() && !order.was_left(&(0..10)));
    }

    #[test]
    fn an_older_unmapping_spares_whoever_came_before_it_was_announced() {
        let mut order = Order::default();
        order.expect(10..20);
        assert!(!order.was_expected(&(0..10)));
        assert!(order.was_expected(&(5..25)) && order.doubts());
        assert_eq!(order.settle().doubtful.len(), 1);
        assert!(!order.was_expected(&(5..25)));
    }

    #[test]
    fn parked_places_are_apart() {
        let mut order = Order::default();
        let (one, two) = (order.park(0..10), order.park(0..10));
        assert!(two >= one + 10);
        assert_eq!(order.unpark(&(0..10)), Some(one));
        assert_eq!(order.unpark(&(5..10)), None);
    }
}
