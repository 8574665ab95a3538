//! A list of entries in the pool, an owner's or of pages that do not compress, oldest first (SPEC 1.1: the head is the
//! oldest).

use neap_units::EntryId;

use super::{EntryTable, Flag, NONE, id_of, link_of};

/// Ends and length of a list whose links are in the entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LruList {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for LruList {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }
}

impl LruList {
    pub fn len(&self) -> u64 {
        u64::from(self.len)
    }

    /// The oldest entry.
    pub fn head(&self) -> Option<EntryId> {
        id_of(self.head)
    }

    /// Adds an entry as the newest.
    pub fn push_tail(&mut self, entries: &mut EntryTable, id: EntryId) {
        let old = id_of(self.tail);
        let entry = entries.get_mut(id);
        debug_assert!(!entry.is(Flag::Listed), "{id} is on a list already");
        entry.prev = link_of(old);
        entry.next = NONE;
        entry.set(Flag::Listed, true);
        match old {
            Some(old) => entries.get_mut(old).next = id.0,
            None => self.head = id.0,
        }
        self.tail = id.0;
        self.len += 1;
    }

    /// Takes an entry off.
    pub fn remove(&mut self, entries: &mut EntryTable, id: EntryId) {
        let entry = entries.get_mut(id);
        debug_assert!(entry.is(Flag::Listed), "{id} is on no list");
        let (prev, next) = (id_of(entry.prev), id_of(entry.next));
        entry.prev = NONE;
        entry.next = NONE;
        entry.set(Flag::Listed, false);
        match prev {
            Some(prev) => entries.get_mut(prev).next = link_of(next),
            None => self.head = link_of(next),
        }
        match next {
            Some(next) => entries.get_mut(next).prev = link_of(prev),
            None => self.tail = link_of(prev),
        }
        self.len -= 1;
    }

    /// Makes an entry the newest.
    pub fn rotate(&mut self, entries: &mut EntryTable, id: EntryId) {
        self.remove(entries, id);
        self.push_tail(entries, id);
    }

    /// The entries, oldest first.
    pub fn iter<'a>(&self, entries: &'a EntryTable) -> impl Iterator<Item = EntryId> + 'a {
        let mut next = id_of(self.head);
        std::iter::from_fn(move || {
            let id = next?;
            next = id_of(entries.get(id).next);
            Some(id)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use neap_units::SpaceId;
    use proptest::prelude::*;

    use super::*;
    use crate::entry::{Birth, Place};

    proptest! {
        #[test]
        fn the_list_is_a_queue_with_removal(ops in prop::collection::vec((0u8..4, any::<u16>()), 1..300)) {
            let mut entries = EntryTable::new(1 << 16);
            let mut list = LruList::default();
            let mut model: VecDeque<EntryId> = VecDeque::new();
            for (op, pick) in ops {
                let at = usize::from(pick) % model.len().max(1);
                match (op, model.get(at).copied()) {
                    (0 | 1, _) | (_, None) => {
                        let birth = Birth { owner: SpaceId(0), len: 1, dict: 0, referenced: false, poor: false };
                        let id = entries.alloc(birth).expect("room");
                        entries.get_mut(id).set_place(Place::Pool(crate::pool::Handle(0)));
                        list.push_tail(&mut entries, id);
                        model.push_back(id);
                    }
                    (2, Some(id)) => {
                        list.remove(&mut entries, id);
                        entries.free(id);
                        model.remove(at);
                    }
                    (_, Some(id)) => {
                        list.rotate(&mut entries, id);
                        model.remove(at);
                        model.push_back(id);
                    }
                }
                prop_assert_eq!(list.iter(&entries).collect::<Vec<_>>(), Vec::from(model.clone()));
                prop_assert_eq!(list.len(), model.len() as u64);
                prop_assert_eq!(list.head(), model.front().copied());
            }
            entries.check();
        }
    }
}
