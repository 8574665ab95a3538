//! The event heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use neap_units::Nanos;

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Due {
    /// A CPU goes on.
    Cpu(u32),
    /// A task has slept enough.
    Wake(u32),
}

/// Events by time, and by the order they were made in where times are equal.
#[derive(Debug, Default)]
pub(super) struct Heap {
    events: BinaryHeap<Reverse<(Nanos, u64, Due)>>,
    made: u64,
}

impl Heap {
    pub(super) fn push(&mut self, at: Nanos, due: Due) {
        self.made += 1;
        self.events.push(Reverse((at, self.made, due)));
    }

    /// When the next event is due.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn pop(&mut self) -> Option<(Nanos, Due)> {
        self.events.pop().map(|Reverse((at, _, due))| (at, due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut heap = Heap::default();
        heap.push(Nanos(5), Due::Wake(9));
        heap.push(Nanos(5), Due::Cpu(1));
        heap.push(Nanos(1), Due::Cpu(2));
        assert_eq!(heap.next(), Some(Nanos(1)));
        assert_eq!(heap.pop(), Some((Nanos(1), Due::Cpu(2))));
        assert_eq!(heap.pop(), Some((Nanos(5), Due::Wake(9))));
        assert_eq!(heap.pop(), Some((Nanos(5), Due::Cpu(1))));
        assert_eq!(heap.pop(), None);
    }
}
