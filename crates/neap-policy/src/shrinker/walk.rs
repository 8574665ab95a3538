//! The walk of a list of compressed entries, wherever the list lies (SPEC 1.10, 1.11).
//!
//! Nothing here waits. A caller takes a ticket from a walk, or several, writes those entries back in its own time, and
//! reports. So it may hold a lock for a step at a time, and any number of walks of one list interleave.

use super::generic::ScanResult;
use super::lru::Verdict;
use super::worker::Visit;

/// Lists of compressed entries, the oldest at the head.
pub trait WritebackLists {
    /// Names a list.
    type List: Copy;
    /// Names an entry.
    type Entry: Copy;
    /// What the caller needs to write an entry back.
    type Ticket;

    /// Entries on a list.
    fn len(&self, list: Self::List) -> u64;

    /// The oldest entry of a list. None: there is none, or none may be written back.
    fn head(&self, list: Self::List) -> Option<Self::Entry>;

    /// What to do with the head of a list.
    fn verdict(&self, list: Self::List, head: Self::Entry) -> Verdict;

    /// Takes the second chance of the head away, and makes it the newest.
    fn spare(&mut self, list: Self::List, head: Self::Entry);

    /// Makes a ticket of the head, which is then the newest or on no list, so that a write-back that fails does not
    /// block the head. None: the caller has no room for it now, and it stays at the head.
    fn take(&mut self, list: Self::List, head: Self::Entry) -> Option<Self::Ticket>;
}

/// What one step of a walk did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkStep<T> {
    /// The head lost its second chance.
    Spared,
    /// It is the turn of an entry, which was the head: the caller writes it back, and reports.
    Ticket(T),
    /// Nothing: the walk is over, or its caller has no room for the head.
    Pause,
}

/// What became of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writeback {
    /// Written, or on its way.
    Written,
    /// The swap cache has a folio for the slot: somebody wants the page.
    Exists,
    /// No memory for the folio.
    NoMemory,
    /// The entry is gone or another.
    Gone,
    /// The device takes nothing now, this entry or another. Ends a walk.
    Refused,
}

/// What a conflict with the swap cache means for a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Conflict {
    /// Nothing: it is driven by a limit.
    Ignored,
    /// Its scan answers "stop", but the walk goes on (6.8).
    Stops,
    /// Its scan answers "stop", and the walk ends.
    Ends,
}

/// A walk over the head of a list with a budget of visits.
///
/// Rotated entries spend budget too, so a list of referenced ones absorbs all of it. After
/// a write-back the walk goes on at the head. Since whatever was visited has gone to the
/// tail or away, the head is where it goes on in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk<L> {
    list: L,
    left: u64,
    conflict: Conflict,
    conflicted: bool,
    /// Entries visited.
    pub visited: u64,
    /// Of these, entries that lost their second chance.
    pub rotated: u64,
    /// Of these, entries written.
    pub written: u64,
}

impl<L: Copy> Walk<L> {
    /// A walk that a limit drives, of up to `budget` entries: one owner's turn (kernel: shrink_memcg).
    #[must_use]
    pub fn of_limit(list: L, budget: u64) -> Walk<L> {
        Walk::new(list, budget, Conflict::Ignored)
    }

    pub(super) fn new(list: L, budget: u64, conflict: Conflict) -> Walk<L> {
        Walk {
            list,
            left: budget,
            conflict,
            conflicted: false,
            visited: 0,
            rotated: 0,
            written: 0,
        }
    }

    /// The list.
    #[must_use]
    pub fn list(&self) -> L {
        self.list
    }

    /// Whether no entry is left to visit.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Visits the head of the list.
    pub fn step<S: WritebackLists<List = L>>(&mut self, lists: &mut S) -> WalkStep<S::Ticket> {
        if self.left == 0 {
            return WalkStep::Pause;
        }
        let Some(head) = lists.head(self.list) else {
            self.left = 0;
            return WalkStep::Pause;
        };
        match lists.verdict(self.list, head) {
            Verdict::Rotate => {
                // Behind the only entry is the end of the list.
                let alone = lists.len(self.list) == 1;
                lists.spare(self.list, head);
                self.left = if alone { 0 } else { self.left - 1 };
                self.visited += 1;
                self.rotated += 1;
                WalkStep::Spared
            }
            Verdict::WriteBack => {
                let Some(ticket) = lists.take(self.list, head) else {
                    return WalkStep::Pause;
                };
                self.left -= 1;
                self.visited += 1;
                WalkStep::Ticket(ticket)
            }
        }
    }

    /// The next entry to write back. None: see [`WalkStep::Pause`].
    pub fn next<S: WritebackLists<List = L>>(&mut self, lists: &mut S) -> Option<S::Ticket> {
        loop {
            match self.step(lists) {
                WalkStep::Spared => (),
                WalkStep::Ticket(ticket) => return Some(ticket),
                WalkStep::Pause => return None,
            }
        }
    }

    /// Reports what became of so many tickets.
    pub fn report(&mut self, outcome: Writeback, tickets: u64) {
        match (outcome, self.conflict) {
            (Writeback::Written, _) => self.written += tickets,
            (Writeback::Refused, _) => self.left = 0,
            (Writeback::Exists, Conflict::Stops) => self.conflicted = true,
            (Writeback::Exists, Conflict::Ends) => (self.conflicted, self.left) = (true, 0),
            (Writeback::Exists | Writeback::NoMemory | Writeback::Gone, _) => (),
        }
    }

    /// What the walk came to as one owner's turn.
    #[must_use]
    pub fn visit(&self) -> Visit {
        Visit::of_walk(self.visited, self.rotated, self.written)
    }

    /// The answer of a scan of `request` objects.
    pub(super) fn scan_result(&self, request: u64) -> ScanResult {
        if self.conflicted || self.written == 0 {
            return ScanResult::Stop;
        }
        ScanResult::Done {
            scanned: request,
            freed: self.written,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// One list of entries, each with its bit, and room for so many tickets.
    struct Listed {
        entries: VecDeque<(u32, bool)>,
        room: usize,
    }

    impl Listed {
        fn of(entries: impl IntoIterator<Item = (u32, bool)>, room: usize) -> Listed {
            let entries = entries.into_iter().collect();
            Listed { entries, room }
        }
    }

    impl WritebackLists for Listed {
        type List = ();
        type Entry = (u32, bool);
        type Ticket = u32;

        fn len(&self, (): ()) -> u64 {
            self.entries.len() as u64
        }

        fn head(&self, (): ()) -> Option<(u32, bool)> {
            self.entries.front().copied()
        }

        fn verdict(&self, (): (), (_, referenced): (u32, bool)) -> Verdict {
            crate::ShrinkerScheme::SecondChance.verdict(referenced)
        }

        fn spare(&mut self, (): (), (entry, _): (u32, bool)) {
            self.entries.pop_front();
            self.entries.push_back((entry, false));
        }

        fn take(&mut self, (): (), (entry, _): (u32, bool)) -> Option<u32> {
            self.room = self.room.checked_sub(1)?;
            self.entries.pop_front();
            Some(entry)
        }
    }

    #[test]
    fn a_head_without_room_stays_where_it_is_and_costs_nothing() {
        let mut lists = Listed::of((0..5).map(|entry| (entry, entry == 0)), 2);
        let mut walk = Walk::of_limit((), 100);
        let mut taken = Vec::new();
        while let Some(entry) = walk.next(&mut lists) {
            taken.push(entry);
        }
        assert_eq!(taken, [1, 2], "two tickets are out");
        assert_eq!(walk.step(&mut lists), WalkStep::Pause);
        assert_eq!((walk.visited, lists.head(())), (3, Some((3, false))));
        assert!(!walk.is_over());
        walk.report(Writeback::Written, 2);
        lists.room = 9;
        assert_eq!(walk.next(&mut lists), Some(3), "it goes on at the head");
        assert_eq!(
            (walk.next(&mut lists), walk.next(&mut lists)),
            (Some(4), Some(0))
        );
        assert!(!walk.is_over());
        assert_eq!(walk.next(&mut lists), None);
        assert!(walk.is_over());
        walk.report(Writeback::Written, 3);
        assert_eq!((walk.visited, walk.rotated, walk.written), (6, 1, 5));
    }

    #[test]
    fn a_walk_ends_with_its_budget_with_its_list_or_with_a_device_that_refuses() {
        let entries = |n| Listed::of((0..n).map(|entry| (entry, false)), 100);
        let walked = |budget, n| {
            let (mut walk, mut lists) = (Walk::of_limit((), budget), entries(n));
            let taken = std::iter::from_fn(|| walk.next(&mut lists)).count();
            (taken, walk.is_over())
        };
        assert_eq!(
            [walked(3, 9), walked(9, 3), walked(0, 3)],
            [(3, true), (3, true), (0, true)]
        );
        let (mut walk, mut lists) = (Walk::of_limit((), 9), entries(9));
        assert_eq!(
            (walk.next(&mut lists), walk.next(&mut lists)),
            (Some(0), Some(1))
        );
        walk.report(Writeback::Refused, 2);
        assert_eq!(
            (walk.next(&mut lists), walk.visit()),
            (None, Visit::Nothing)
        );
    }
}
