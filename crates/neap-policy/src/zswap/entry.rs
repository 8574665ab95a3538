//! Entries, one for each swap slot, and the lists they are on.
//!
//! An entry lives in the place of its slot in one flat array, so the index from slots to
//! entries costs nothing, a lookup is one load, and no entry is ever allocated. Sixteen
//! bytes hold the links and everything else. All are zero at first, so slots that were
//! never used take no memory.

use neap_units::SwapSlot;

use crate::folio::LruvecId;

/// Most lists there may be: 17 bits, less the 0 of slots without an entry.
pub(super) const MAX_LISTS: usize = (1 << LIST_BITS) - 1;

const LENGTH_BITS: u32 = 13;
const LIST_BITS: u32 = 17;
const REFERENCED: u32 = 1 << LENGTH_BITS;
const LIST_SHIFT: u32 = LENGTH_BITS + 1;

/// What is known of a stored page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Bytes in the pool: 0 for a page of one repeated word, 4096 for one kept raw.
    pub length: u16,
    /// Whether it still has its second chance.
    pub referenced: bool,
    /// Owner and node.
    pub list: LruvecId,
}

impl Entry {
    fn pack(self) -> u32 {
        u32::from(self.length)
            | if self.referenced { REFERENCED } else { 0 }
            | (self.list.0 + 1) << LIST_SHIFT
    }

    fn unpack(word: u32) -> Option<Entry> {
        let list = (word >> LIST_SHIFT).checked_sub(1)?;
        Some(Entry {
            length: (word & ((1 << LENGTH_BITS) - 1)) as u16,
            referenced: word & REFERENCED != 0,
            list: LruvecId(list),
        })
    }
}

/// Ends, length and bytes of one list. Head is the oldest entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    head: u32,
    tail: u32,
    /// Entries on the list.
    pub len: u64,
}

const PREV: usize = 0;
const NEXT: usize = 1;
const WORD: usize = 2;
/// Where the pool has it, below a stamp that tells a new entry of a slot from an old one.
const PLACE: usize = 3;
const STAMP_SHIFT: u32 = 28;
/// No slot: the header of a swap area.
const NONE: u32 = 0;

/// The entries of all slots.
#[derive(Debug)]
pub(super) struct Entries {
    records: Vec<[u32; 4]>,
    stored: u64,
}

impl Entries {
    /// Room for slots 1 to `slots` - 1.
    pub fn new(slots: u32) -> Entries {
        Entries {
            records: vec![[0; 4]; slots as usize],
            stored: 0,
        }
    }

    /// Entries stored.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    #[inline]
    pub fn get(&self, slot: SwapSlot) -> Option<Entry> {
        Entry::unpack(self.records[slot.index()][WORD])
    }

    /// Which of the entries a slot had over time it has now.
    #[inline]
    pub fn stamp(&self, slot: SwapSlot) -> u8 {
        (self.records[slot.index()][PLACE] >> STAMP_SHIFT) as u8
    }

    /// Where the pool has it.
    #[inline]
    pub fn place(&self, slot: SwapSlot) -> u32 {
        self.records[slot.index()][PLACE] & ((1 << STAMP_SHIFT) - 1)
    }

    /// Puts an entry into a slot that has none.
    #[inline]
    pub fn insert(&mut self, slot: SwapSlot, entry: Entry, place: u32) {
        let record = &mut self.records[slot.index()];
        debug_assert!(slot.0 != NONE && record[WORD] == 0, "{slot} is taken");
        debug_assert!(place < 1 << STAMP_SHIFT, "too large a pool");
        let stamp = (record[PLACE] >> STAMP_SHIFT).wrapping_add(1);
        *record = [NONE, NONE, entry.pack(), stamp << STAMP_SHIFT | place];
        self.stored += 1;
    }

    /// Takes the entry of a slot out; it is on no list.
    #[inline]
    pub fn remove(&mut self, slot: SwapSlot) {
        let record = &mut self.records[slot.index()];
        // The stamp stays, for the next entry here.
        *record = [0, 0, 0, record[PLACE]];
        self.stored -= 1;
    }

    #[inline]
    pub fn set_referenced(&mut self, slot: SwapSlot, referenced: bool) {
        let word = &mut self.records[slot.index()][WORD];
        *word = *word & !REFERENCED | if referenced { REFERENCED } else { 0 };
    }

    fn set_list(&mut self, slot: u32, list: LruvecId) {
        let word = &mut self.records[slot as usize][WORD];
        *word = *word & ((1 << LIST_SHIFT) - 1) | (list.0 + 1) << LIST_SHIFT;
    }
}

impl Ends {
    /// The oldest entry.
    #[inline]
    pub fn head(&self) -> Option<SwapSlot> {
        (self.head != NONE).then_some(SwapSlot(self.head))
    }

    /// Adds an entry as the newest.
    #[inline]
    pub fn push(&mut self, entries: &mut Entries, slot: SwapSlot) {
        let record = &mut entries.records[slot.index()];
        record[PREV] = self.tail;
        record[NEXT] = NONE;
        match self.tail {
            NONE => self.head = slot.0,
            tail => entries.records[tail as usize][NEXT] = slot.0,
        }
        self.tail = slot.0;
        self.len += 1;
    }

    /// Takes an entry of this list off it.
    #[inline]
    pub fn unlink(&mut self, entries: &mut Entries, slot: SwapSlot) {
        let [prev, next, ..] = entries.records[slot.index()];
        match prev {
            NONE => self.head = next,
            prev => entries.records[prev as usize][NEXT] = next,
        }
        match next {
            NONE => self.tail = prev,
            next => entries.records[next as usize][PREV] = prev,
        }
        self.len -= 1;
    }

    /// Makes an entry of this list the newest.
    #[inline]
    pub fn rotate(&mut self, entries: &mut Entries, slot: SwapSlot) {
        if self.tail != slot.0 {
            self.unlink(entries, slot);
            self.push(entries, slot);
        }
    }

    /// Gives all entries to `to`, the list of `owner`, behind what it has.
    pub fn splice(&mut self, entries: &mut Entries, to: &mut Ends, owner: LruvecId) {
        let mut slot = std::mem::take(self).head;
        while slot != NONE {
            let next = entries.records[slot as usize][NEXT];
            entries.set_list(slot, owner);
            to.push(entries, SwapSlot(slot));
            slot = next;
        }
    }

    /// The entries, oldest first.
    pub fn iter<'a>(&self, entries: &'a Entries) -> impl Iterator<Item = SwapSlot> + 'a {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let slot = next;
            next = *entries.records.get(slot as usize)?.get(NEXT)?;
            (slot != NONE).then_some(SwapSlot(slot))
        })
    }

    /// Panics unless links, ends and length agree.
    pub fn check(&self, entries: &Entries) {
        let (mut before, mut len) = (NONE, 0);
        for slot in self.iter(entries) {
            assert_eq!(
                entries.records[slot.index()][PREV],
                before,
                "link back from {slot}"
            );
            before = slot.0;
            len += 1;
            assert!(len <= self.len, "a list is longer than its count");
        }
        assert_eq!((self.tail, self.len), (before, len), "tail and length");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_entry_takes_sixteen_bytes_and_keeps_what_it_is_told() {
        assert_eq!(size_of_val(&Entries::new(1).records[0]), 16);
        for entry in [
            Entry {
                length: 0,
                referenced: false,
                list: LruvecId(0),
            },
            Entry {
                length: 4096,
                referenced: true,
                list: LruvecId(MAX_LISTS as u32 - 1),
            },
        ] {
            assert_eq!(Entry::unpack(entry.pack()), Some(entry));
        }
        assert_eq!(Entry::unpack(0), None);
    }

    proptest! {
        #[test]
        fn the_list_is_a_queue_with_removal(ops in prop::collection::vec((0u8..5, any::<u16>()), 1..300)) {
            let entry = Entry { length: 7, referenced: true, list: LruvecId(3) };
            let mut entries = Entries::new(512);
            let (mut list, mut other) = (Ends::default(), Ends::default());
            let mut model: VecDeque<SwapSlot> = VecDeque::new();
            let mut free: Vec<u32> = (1..512).collect();
            for (op, pick) in ops {
                let at = usize::from(pick) % model.len().max(1);
                match (op, model.get(at).copied()) {
                    (0 | 1, _) | (_, None) => {
                        let slot = SwapSlot(free.swap_remove(usize::from(pick) % free.len()));
                        entries.insert(slot, entry, 0);
                        list.push(&mut entries, slot);
                        model.push_back(slot);
                    }
                    (2, Some(slot)) => {
                        list.unlink(&mut entries, slot);
                        entries.remove(slot);
                        free.push(slot.0);
                        model.remove(at);
                    }
                    (3, _) => {
                        list.splice(&mut entries, &mut other, LruvecId(4));
                        std::mem::swap(&mut list, &mut other);
                        prop_assert!(model.iter().all(|&slot| entries.get(slot).unwrap().list == LruvecId(4)));
                    }
                    (_, Some(slot)) => {
                        list.rotate(&mut entries, slot);
                        model.remove(at);
                        model.push_back(slot);
                    }
                }
                prop_assert_eq!(list.iter(&entries).collect::<Vec<_>>(), Vec::from(model.clone()));
                prop_assert_eq!(list.head(), model.front().copied());
                prop_assert_eq!(entries.stored(), model.len() as u64);
                list.check(&entries);
            }
        }
    }
}
