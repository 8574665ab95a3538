//! Doubly linked lists through the records. New folios go to the head, reclaim takes from
//! the tail.

use super::{FolioId, Folios, NONE};

/// A list of folios.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    folios: u32,
}

impl Default for List {
    fn default() -> List {
        List {
            head: NONE,
            tail: NONE,
            folios: 0,
        }
    }
}

impl List {
    /// Folios on the list.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.folios
    }

    /// Whether it has none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The folio reclaim takes next.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> Option<FolioId> {
        (self.tail != NONE).then_some(FolioId(self.tail))
    }

    /// Puts a folio where reclaim comes last.
    #[inline]
    pub fn push_head(&mut self, folios: &mut Folios, id: FolioId) {
        let record = &mut folios.records[id.0 as usize];
        record.prev = NONE;
        record.next = self.head;
        if self.head == NONE {
            self.tail = id.0;
        } else {
            folios.records[self.head as usize].prev = id.0;
        }
        self.head = id.0;
        self.folios += 1;
    }

    /// Puts a folio where reclaim comes first.
    #[inline]
    pub fn push_tail(&mut self, folios: &mut Folios, id: FolioId) {
        let record = &mut folios.records[id.0 as usize];
        record.next = NONE;
        record.prev = self.tail;
        if self.tail == NONE {
            self.head = id.0;
        } else {
            folios.records[self.tail as usize].next = id.0;
        }
        self.tail = id.0;
        self.folios += 1;
    }

    /// Takes a folio of this list out.
    #[inline]
    pub fn unlink(&mut self, folios: &mut Folios, id: FolioId) {
        let (prev, next) = {
            let record = &mut folios.records[id.0 as usize];
            let links = (record.prev, record.next);
            (record.prev, record.next) = (NONE, NONE);
            links
        };
        if prev == NONE {
            self.head = next;
        } else {
            folios.records[prev as usize].next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            folios.records[next as usize].prev = prev;
        }
        self.folios -= 1;
    }

    /// Takes the folio reclaim takes next.
    #[inline]
    pub fn pop_tail(&mut self, folios: &mut Folios) -> Option<FolioId> {
        let id = self.tail()?;
        self.unlink(folios, id);
        Some(id)
    }

    /// From head to tail; panics when the links or the count are wrong.
    pub fn check(&self, folios: &Folios, mut visit: impl FnMut(FolioId)) {
        let (mut at, mut before, mut count) = (self.head, NONE, 0);
        while at != NONE {
            let record = &folios.records[at as usize];
            assert_eq!(record.prev, before, "link back from folio {at}");
            visit(FolioId(at));
            count += 1;
            assert!(count <= self.folios, "a list is longer than its count");
            (before, at) = (at, record.next);
        }
        assert_eq!((self.tail, self.folios), (before, count), "end of a list");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Flags, LruvecId};
    use super::*;

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
        assert_eq!(list.pop_tail(&mut folios), Some(ids[3]));
        assert_eq!(list.pop_tail(&mut folios), Some(ids[0]));
        assert_eq!(list.pop_tail(&mut folios), Some(ids[2]));
        assert_eq!(list.pop_tail(&mut folios), None);
        assert!(list.is_empty());
    }
}
