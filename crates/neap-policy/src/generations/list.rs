//! A doubly linked list of resident pages through the words of their records. New
//! pages go to the head, reclaim takes from the tail (the kernel's order for folio
//! lists).

use neap_units::PageId;

use crate::page::{NONE, Table};

/// One generation's pages.
#[derive(Clone, Copy)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    count: u64,
}

impl Default for List {
    fn default() -> List {
        List {
            head: NONE,
            tail: NONE,
            count: 0,
        }
    }
}

impl List {
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// The page that came first.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<PageId> {
        (self.tail != NONE).then_some(PageId(self.tail))
    }

    /// Puts a page at the head.
    #[inline]
    pub(crate) fn push(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at_mut(id);
        leaf.set_prev(at, NONE);
        leaf.set_next(at, self.head);
        if self.head == NONE {
            self.tail = id.0;
        } else {
            let (leaf, at) = table.at_mut(PageId(self.head));
            leaf.set_prev(at, id.0);
        }
        self.head = id.0;
        self.count += 1;
    }

    /// Takes a page of this list out.
    #[inline]
    pub(crate) fn unlink(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at(id);
        let (prev, next) = (leaf.prev(at), leaf.next(at));
        self.join(table, prev, next, next, prev);
        self.count -= 1;
    }

    /// Tells the neighbours of a page that it goes by `id` now.
    pub(crate) fn rename(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at(id);
        let (prev, next) = (leaf.prev(at), leaf.next(at));
        self.join(table, prev, next, id.0, id.0);
    }

    /// Makes `forward` follow `prev` and `back` precede `next`.
    #[inline]
    fn join(&mut self, table: &mut Table, prev: u32, next: u32, forward: u32, back: u32) {
        if prev == NONE {
            self.head = forward;
        } else {
            let (leaf, at) = table.at_mut(PageId(prev));
            leaf.set_next(at, forward);
        }
        if next == NONE {
            self.tail = back;
        } else {
            let (leaf, at) = table.at_mut(PageId(next));
            leaf.set_prev(at, back);
        }
    }

    /// Walks from the head to the tail; panics if the links or the count are wrong.
    pub(crate) fn check(&self, table: &Table, mut visit: impl FnMut(PageId)) {
        let (mut id, mut before, mut count) = (self.head, NONE, 0);
        while id != NONE {
            let (leaf, at) = table.at(PageId(id));
            assert!(
                leaf.is_resident(at),
                "{} on a list is not resident",
                leaf.page(at)
            );
            assert_eq!(leaf.prev(at), before, "link back from {}", leaf.page(at));
            visit(PageId(id));
            count += 1;
            assert!(count <= self.count, "a list is longer than its count");
            (before, id) = (id, leaf.next(at));
        }
        assert_eq!(self.tail, before, "tail of a list");
        assert_eq!(self.count, count, "count of a list");
    }
}
