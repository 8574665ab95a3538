//! Doubly linked lists through records that lie elsewhere. In lists of pages and folios what is new goes to the head, and
//! reclaim takes from the tail. In those of compressed entries the head is the oldest (SPEC 1.1), in the bins of the memcg LRU
//! what is visited first (SPEC 3.10).

use std::marker::PhantomData;

use neap_units::EntryId;

/// "None" in links, and never an id.
pub const NONE: u32 = u32::MAX;

/// Names a record in lists.
pub trait LinkId: Copy {
    /// The record of this number.
    fn from_raw(raw: u32) -> Self;
    /// Its number.
    fn raw(self) -> u32;
}

impl LinkId for EntryId {
    #[inline]
    fn from_raw(raw: u32) -> EntryId {
        EntryId(raw)
    }

    #[inline]
    fn raw(self) -> u32 {
        self.0
    }
}

/// Whoever holds the records. Links are ids, or [`NONE`].
pub trait Links<I: LinkId> {
    /// The record nearer to the head, and the one nearer to the tail.
    fn links(&self, id: I) -> (u32, u32);
    /// Sets the record nearer to the head.
    fn set_prev(&mut self, id: I, prev: u32);
    /// Sets the record nearer to the tail.
    fn set_next(&mut self, id: I, next: u32);

    /// Sets both.
    #[inline]
    fn set_links(&mut self, id: I, prev: u32, next: u32) {
        self.set_prev(id, prev);
        self.set_next(id, next);
    }
}

/// A list of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List<I> {
    head: u32,
    tail: u32,
    len: u32,
    ids: PhantomData<I>,
}

impl<I> Default for List<I> {
    fn default() -> List<I> {
        List {
            head: NONE,
            tail: NONE,
            len: 0,
            ids: PhantomData,
        }
    }
}

impl<I: LinkId> List<I> {
    /// Records on the list.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The record at the head.
    #[inline]
    pub fn head(&self) -> Option<I> {
        (self.head != NONE).then(|| I::from_raw(self.head))
    }

    /// The record at the tail.
    #[inline]
    pub fn tail(&self) -> Option<I> {
        (self.tail != NONE).then(|| I::from_raw(self.tail))
    }

    /// Puts a record at the head.
    #[inline]
    pub fn push_head(&mut self, records: &mut impl Links<I>, id: I) {
        records.set_links(id, NONE, self.head);
        self.join(records, NONE, self.head, id.raw(), id.raw());
        self.len += 1;
    }

    /// Puts a record at the tail.
    #[inline]
    pub fn push_tail(&mut self, records: &mut impl Links<I>, id: I) {
        records.set_links(id, self.tail, NONE);
        self.join(records, self.tail, NONE, id.raw(), id.raw());
        self.len += 1;
    }

    /// Takes a record of this list out.
    #[inline]
    pub fn unlink(&mut self, records: &mut impl Links<I>, id: I) {
        let (prev, next) = records.links(id);
        self.join(records, prev, next, next, prev);
        self.len -= 1;
    }

    /// The records from head to tail.
    pub fn iter<'a>(&self, records: &'a impl Links<I>) -> impl Iterator<Item = I> + 'a
    where
        I: 'a,
    {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let id = (at != NONE).then(|| I::from_raw(at))?;
            at = records.links(id).1;
            Some(id)
        })
    }

    /// Tells the neighbours of a record that it goes by `id` now.
    pub fn rename(&mut self, records: &mut impl Links<I>, id: I) {
        let (prev, next) = records.links(id);
        self.join(records, prev, next, id.raw(), id.raw());
    }

    /// Makes `forward` follow `prev`, and `back` precede `next`.
    #[inline]
    fn join(&mut self, records: &mut impl Links<I>, prev: u32, next: u32, forward: u32, back: u32) {
        if prev == NONE {
            self.head = forward;
        } else {
            records.set_next(I::from_raw(prev), forward);
        }
        if next == NONE {
            self.tail = back;
        } else {
            records.set_prev(I::from_raw(next), back);
        }
    }

    /// Visits the records from head to tail.
    ///
    /// # Panics
    /// When the links or the count are wrong.
    pub fn check(&self, records: &impl Links<I>, mut visit: impl FnMut(I)) {
        let (mut at, mut before, mut count) = (self.head, NONE, 0);
        while at != NONE {
            let id = I::from_raw(at);
            let (prev, next) = records.links(id);
            assert_eq!(prev, before, "link back from {at}");
            visit(id);
            count += 1;
            assert!(count <= self.len, "a list is longer than its count");
            (before, at) = (at, next);
        }
        assert_eq!((self.tail, self.len), (before, count), "end of a list");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::{Flags, Folios, LruvecId};

    #[test]
    fn reclaim_takes_what_came_first_and_what_was_rotated_before_that() {
        let mut folios = Folios::default();
        let mut list = List::default();
        let ids: Vec<_> = (0..4)
            .map(|key| folios.alloc(LruvecId(0), key, Flags::default()))
            .collect();
        for &id in &ids[..3] {
            list.push_head(&mut folios, id);
        }
        list.push_tail(&mut folios, ids[3]);
        list.unlink(&mut folios, ids[1]);
        let mut seen = Vec::new();
        list.check(&folios, |id| seen.push(id));
        assert_eq!(seen, [ids[2], ids[0], ids[3]]);
        assert!(list.iter(&folios).eq(seen));
        assert_eq!(list.head(), Some(ids[2]));
        for id in [ids[3], ids[0], ids[2]] {
            assert_eq!(list.tail(), Some(id));
            list.unlink(&mut folios, id);
        }
        assert!(list.is_empty() && list.tail().is_none());
    }
}
