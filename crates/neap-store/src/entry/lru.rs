//! A list of entries in the pool, an owner's or of pages that do not compress, oldest first (SPEC 1.1: the head is the
//! oldest).

use neap_policy::list::{Links, List};
use neap_units::EntryId;

use super::{EntryTable, Flag};

impl Links<EntryId> for EntryTable {
    fn links(&self, id: EntryId) -> (u32, u32) {
        let entry = self.get(id);
        (entry.prev, entry.next)
    }

    fn set_prev(&mut self, id: EntryId, prev: u32) {
        self.get_mut(id).prev = prev;
    }

    fn set_next(&mut self, id: EntryId, next: u32) {
        self.get_mut(id).next = next;
    }
}

/// A list of entries. Each is on one at most, and knows whether it is.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct LruList(List<EntryId>);

impl LruList {
    pub fn len(&self) -> u64 {
        u64::from(self.0.len())
    }

    /// The oldest entry.
    pub fn head(&self) -> Option<EntryId> {
        self.0.head()
    }

    /// Adds an entry as the newest.
    pub fn push_tail(&mut self, entries: &mut EntryTable, id: EntryId) {
        let entry = entries.get_mut(id);
        debug_assert!(!entry.is(Flag::Listed), "{id} is on a list already");
        entry.set(Flag::Listed, true);
        self.0.push_tail(entries, id);
    }

    /// Takes an entry off.
    pub fn remove(&mut self, entries: &mut EntryTable, id: EntryId) {
        let entry = entries.get_mut(id);
        debug_assert!(entry.is(Flag::Listed), "{id} is on no list");
        entry.set(Flag::Listed, false);
        self.0.unlink(entries, id);
    }

    /// Makes an entry the newest.
    pub fn rotate(&mut self, entries: &mut EntryTable, id: EntryId) {
        self.remove(entries, id);
        self.push_tail(entries, id);
    }

    /// The entries, oldest first.
    pub fn iter<'a>(&self, entries: &'a EntryTable) -> impl Iterator<Item = EntryId> + 'a {
        self.0.iter(entries)
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
