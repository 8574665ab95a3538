//! Page tables and objects as flat arrays.
//!
//! A page of an object has an entry of four bytes: where it is. A page of an area has three
//! bits: present, accessed, dirty. Areas of one object share its entries, except that each
//! private area has entries of its own, which a fork copies.

use std::collections::BTreeMap;

use neap_policy::FolioId;
use neap_units::{Pages, SwapSlot};

use super::ids::{AreaId, ObjectId, SpaceId};
use super::space::Area;

/// Pages of a page table's range (2 MiB): ranges are handed out in these.
pub(super) const CHUNK: u64 = 512;
/// Pages of a word of bits.
const WORD: u64 = 64;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// Nowhere yet.
    None,
    /// In memory.
    Folio(FolioId),
    /// In swap.
    Slot(SwapSlot),
    /// On disk; once it was in memory, and left a shadow with this number.
    Shadow(u32),
}

const TAG: u32 = 30;
const VALUE: u32 = (1 << TAG) - 1;

impl Entry {
    #[inline]
    fn unpack(word: u32) -> Entry {
        let value = word & VALUE;
        match word >> TAG {
            0 => Entry::None,
            1 => Entry::Folio(FolioId(value)),
            2 => Entry::Slot(SwapSlot(value)),
            _ => Entry::Shadow(value),
        }
    }

    fn pack(self) -> u32 {
        match self {
            Entry::None => 0,
            Entry::Folio(id) => 1 << TAG | id.0,
            Entry::Slot(slot) => 2 << TAG | slot.0,
            Entry::Shadow(number) => 3 << TAG | number,
        }
    }
}

/// Ranges of a growing array, in whole chunks; freed ones are used again for the same size.
#[derive(Default)]
struct Ranges {
    end: u64,
    free: BTreeMap<u64, Vec<u64>>,
}

impl Ranges {
    fn take(&mut self, pages: u64) -> u64 {
        let pages = pages.next_multiple_of(CHUNK);
        if let Some(base) = self.free.get_mut(&pages).and_then(Vec::pop) {
            return base;
        }
        let base = self.end;
        self.end += pages;
        base
    }

    fn give(&mut self, base: u64, pages: u64) {
        let pages = pages.next_multiple_of(CHUNK);
        self.free.entry(pages).or_default().push(base);
    }
}

/// What areas map.
pub(super) struct Object {
    pub(super) len: u64,
    /// First of its keys: a folio's key is that plus its page in the object.
    pub(super) key: u64,
    /// First of its entries, if areas share them.
    pub(super) entries: Option<u64>,
    pub(super) swapbacked: bool,
    pub(super) content: u32,
    pub(super) areas: Vec<AreaId>,
}

/// One mapping of one space.
pub(super) struct AreaState {
    pub(super) space: SpaceId,
    pub(super) start: u64,
    pub(super) area: Area,
    pub(super) object: ObjectId,
    /// Entry of its first page.
    pub(super) entries: u64,
    /// First of its bits, in pages.
    pub(super) bits: u64,
    /// Private: a write needs the dirty bit to hit.
    pub(super) private: bool,
    pub(super) readahead: neap_policy::Readahead,
}

/// All tables.
#[derive(Default)]
pub(super) struct Tables {
    entries: Vec<u32>,
    entry_ranges: Ranges,
    present: Vec<u64>,
    accessed: Vec<u64>,
    dirty: Vec<u64>,
    /// Dense ranges of 2 MiB, as aging remembers them: two bits each.
    pub(super) dense: Vec<u8>,
    bit_ranges: Ranges,
    /// Object of each chunk of keys.
    keys: Vec<u32>,
    key_ranges: Ranges,
    objects: Vec<Option<Object>>,
    areas: Vec<Option<AreaState>>,
    free_areas: Vec<u32>,
    free_objects: Vec<u32>,
}

impl Tables {
    pub(super) fn add_object(
        &mut self,
        len: Pages,
        shared: bool,
        swapbacked: bool,
        content: u32,
    ) -> ObjectId {
        let key = self.key_ranges.take(len.0);
        let entries = shared.then(|| self.take_entries(len.0));
        let object = Object {
            len: len.0,
            key,
            entries,
            swapbacked,
            content,
            areas: Vec::new(),
        };
        let id = match self.free_objects.pop() {
            Some(id) => {
                self.objects[id as usize] = Some(object);
                id
            }
            None => {
                self.objects.push(Some(object));
                self.objects.len() as u32 - 1
            }
        };
        let chunks = self.key_ranges.end.div_ceil(CHUNK) as usize;
        self.keys.resize(chunks.max(self.keys.len()), u32::MAX);
        let first = (key / CHUNK) as usize;
        let count = len.0.div_ceil(CHUNK) as usize;
        self.keys[first..first + count].fill(id);
        ObjectId(id)
    }

    pub(super) fn remove_object(&mut self, id: ObjectId) {
        if let Some(object) = self.objects[id.index()].take() {
            debug_assert!(object.areas.is_empty());
            self.key_ranges.give(object.key, object.len);
            if let Some(base) = object.entries {
                self.entry_ranges.give(base, object.len);
            }
            self.free_objects.push(id.0);
        }
    }

    fn take_entries(&mut self, pages: u64) -> u64 {
        let base = self.entry_ranges.take(pages);
        let end = self.entry_ranges.end as usize;
        if self.entries.len() < end {
            self.entries.resize(end, 0);
        }
        base
    }

    pub(super) fn object(&self, id: ObjectId) -> &Object {
        self.objects[id.index()].as_ref().expect("a live object")
    }

    pub(super) fn object_mut(&mut self, id: ObjectId) -> &mut Object {
        self.objects[id.index()].as_mut().expect("a live object")
    }

    /// The object a folio belongs to, and its first page there.
    pub(super) fn resolve(&self, key: u32) -> (ObjectId, u64) {
        let id = ObjectId(self.keys[key as usize / CHUNK as usize]);
        (id, u64::from(key) - self.object(id).key)
    }

    pub(super) fn add_area(&mut self, mut state: AreaState) -> AreaId {
        let len = state.area.len.0;
        state.entries = match self.object(state.object).entries {
            Some(base) => base + state.area.offset.0,
            None => self.take_entries(len),
        };
        state.bits = self.bit_ranges.take(len);
        let words = (self.bit_ranges.end / WORD) as usize;
        if self.present.len() < words {
            self.present.resize(words, 0);
            self.accessed.resize(words, 0);
            self.dirty.resize(words, 0);
            self.dense.resize((self.bit_ranges.end / CHUNK) as usize, 0);
        }
        let object = state.object;
        let id = match self.free_areas.pop() {
            Some(id) => {
                self.areas[id as usize] = Some(state);
                AreaId(id)
            }
            None => {
                self.areas.push(Some(state));
                AreaId(self.areas.len() as u32 - 1)
            }
        };
        self.object_mut(object).areas.push(id);
        id
    }

    /// Forgets an area whose pages are all unmapped. Returns its object if no area is left.
    pub(super) fn remove_area(&mut self, id: AreaId) -> Option<ObjectId> {
        let state = self.areas[id.index()].take()?;
        let chunk = (state.bits / CHUNK) as usize;
        let chunks = state.area.len.0.div_ceil(CHUNK) as usize;
        self.dense[chunk..chunk + chunks].fill(0);
        self.bit_ranges.give(state.bits, state.area.len.0);
        if self.object(state.object).entries.is_none() {
            self.entry_ranges.give(state.entries, state.area.len.0);
        }
        self.free_areas.push(id.0);
        let object = self.object_mut(state.object);
        object.areas.retain(|&other| other != id);
        object.areas.is_empty().then_some(state.object)
    }

    #[inline]
    pub(super) fn area(&self, id: AreaId) -> &AreaState {
        self.areas[id.index()].as_ref().expect("a live area")
    }

    pub(super) fn area_mut(&mut self, id: AreaId) -> &mut AreaState {
        self.areas[id.index()].as_mut().expect("a live area")
    }

    #[inline]
    pub(super) fn entry(&self, at: u64) -> Entry {
        Entry::unpack(self.entries[at as usize])
    }

    #[inline]
    pub(super) fn set_entry(&mut self, at: u64, entry: Entry) {
        self.entries[at as usize] = entry.pack();
    }

    /// A load or store where a page table would allow it: marks it and says so.
    #[inline]
    pub(super) fn touch(&mut self, bit: u64, write: bool, private: bool) -> bool {
        let (word, mask) = ((bit / WORD) as usize, 1 << (bit % WORD));
        if self.present[word] & mask == 0 {
            return false;
        }
        if write && self.dirty[word] & mask == 0 {
            if private {
                return false;
            }
            self.dirty[word] |= mask;
        }
        self.accessed[word] |= mask;
        true
    }

    #[inline]
    pub(super) fn is_present(&self, bit: u64) -> bool {
        self.present[(bit / WORD) as usize] >> (bit % WORD) & 1 != 0
    }

    #[inline]
    pub(super) fn is_accessed(&self, bit: u64) -> bool {
        let word = (bit / WORD) as usize;
        (self.present[word] & self.accessed[word]) >> (bit % WORD) & 1 != 0
    }

    #[inline]
    pub(super) fn clear_accessed(&mut self, bit: u64) {
        self.accessed[(bit / WORD) as usize] &= !(1 << (bit % WORD));
    }

    /// Accessed pages of the word that holds `bit`.
    #[inline]
    pub(super) fn accessed_word(&self, bit: u64) -> u64 {
        let word = (bit / WORD) as usize;
        self.present[word] & self.accessed[word]
    }

    pub(super) fn set_present(&mut self, bit: u64, dirty: bool) {
        let (word, mask) = ((bit / WORD) as usize, 1 << (bit % WORD));
        self.present[word] |= mask;
        self.accessed[word] |= mask;
        if dirty {
            self.dirty[word] |= mask;
        } else {
            self.dirty[word] &= !mask;
        }
    }

    pub(super) fn set_dirty(&mut self, bit: u64) {
        self.dirty[(bit / WORD) as usize] |= 1 << (bit % WORD);
    }

    /// Write-protects a page; whether it was dirty.
    pub(super) fn protect(&mut self, bit: u64) -> bool {
        let (word, mask) = ((bit / WORD) as usize, 1 << (bit % WORD));
        let was = self.present[word] & self.dirty[word] & mask != 0;
        self.dirty[word] &= !mask;
        was
    }

    /// Unmaps a page: whether it was there, accessed, dirty.
    pub(super) fn unmap(&mut self, bit: u64) -> Option<(bool, bool)> {
        let (word, mask) = ((bit / WORD) as usize, 1u64 << (bit % WORD));
        if self.present[word] & mask == 0 {
            return None;
        }
        let was = (
            self.accessed[word] & mask != 0,
            self.dirty[word] & mask != 0,
        );
        self.present[word] &= !mask;
        self.accessed[word] &= !mask;
        self.dirty[word] &= !mask;
        Some(was)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_four_bytes_and_keep_what_they_hold() {
        for entry in [
            Entry::None,
            Entry::Folio(FolioId(0)),
            Entry::Slot(SwapSlot(VALUE)),
            Entry::Shadow(7),
        ] {
            assert_eq!(Entry::unpack(entry.pack()), entry);
        }
    }

    #[test]
    fn a_private_page_is_written_through_its_dirty_bit_only() {
        let mut tables = Tables::default();
        tables.present.resize(8, 0);
        tables.accessed.resize(8, 0);
        tables.dirty.resize(8, 0);
        assert!(!tables.touch(70, false, true));
        tables.set_present(70, false);
        assert!(tables.touch(70, false, true) && !tables.touch(70, true, true));
        assert!(
            tables.touch(70, true, false),
            "a shared page takes the bit itself"
        );
        assert_eq!(tables.unmap(70), Some((true, true)));
        assert_eq!(tables.unmap(70), None);
    }
}
