//! A leaf: the packed records of 64 neighbouring pages.
//!
//! | what | bits | holds |
//! |---|---|---|
//! | meta | 0-3 | state tag |
//! | | 4-5 | generation (sequence number mod 4), while on the list of one; out of memory: 1 if it left from probation |
//! | | 6 | wanted: a fault met the page in transit |
//! | | 7 | workingset: the page was activated by its last refault |
//! | word a | 32 | `Resident`: previous page on the list; staged: its slot |
//! | word b | 32 | `Resident`: next page on the list; stored: eviction stamp |
//! | word c | 32 | entry, or the kept copy ([`NONE`]: no copy) |
//!
//! The three words of a page lie together, so that a transition touches two cache
//! lines: the leaf's meta bytes and the page's words.

use neap_units::{EntryId, PageNr, SlotId, SpaceId};

use super::State;
use crate::list::NONE;

/// Pages in a leaf.
pub(crate) const LEAF_PAGES: usize = 64;

/// The space of a leaf that is on the free list.
const NO_SPACE: SpaceId = SpaceId(u16::MAX);

const TAG: u8 = 0x0f;
const GENERATION_SHIFT: u32 = 4;
const GENERATION: u8 = 0x30;
const WANTED: u8 = 0x40;
const WORKINGSET: u8 = 0x80;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

const ABSENT: u8 = 0;
const RESIDENT: u8 = 1;
const ISOLATED: u8 = 2;
const STAGED: u8 = 3;
const STORING: u8 = 4;
const RETURNING: u8 = 5;
const STORED: u8 = 6;
const LOADING: u8 = 7;
/// `Resident`, and on probation instead of in a generation.
const ON_PROBATION: u8 = 10;
/// `Resident`, in a generation and referenced: passed over once.
const REFERENCED: u8 = 11;

/// The list of pages on probation, where [`Leaf::list`] names that of a generation otherwise.
pub(crate) const PROBATION: usize = 4;

/// Records of 64 neighbouring pages of one space.
#[derive(Clone)]
pub(crate) struct Leaf {
    meta: [u8; LEAF_PAGES],
    words: [[u32; 3]; LEAF_PAGES],
    /// Leaf number: page number of the first page / 64.
    number: u64,
    space: SpaceId,
    used: u8,
}

impl Leaf {
    pub(crate) const FREE: Leaf = Leaf {
        meta: [ABSENT; LEAF_PAGES],
        words: [[0; 3]; LEAF_PAGES],
        number: 0,
        space: NO_SPACE,
        used: 0,
    };

    /// Takes a free leaf into use.
    pub(crate) fn claim(&mut self, space: SpaceId, number: u64) {
        debug_assert!(self.is_free() && self.used == 0);
        self.space = space;
        self.number = number;
    }

    /// Makes it free again; every page must be absent.
    pub(crate) fn release(&mut self) {
        debug_assert!(!self.is_free() && self.used == 0);
        self.space = NO_SPACE;
    }

    pub(crate) fn renumber(&mut self, number: u64) {
        self.number = number;
    }

    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.space == NO_SPACE
    }

    #[inline]
    pub(crate) fn space(&self) -> SpaceId {
        self.space
    }

    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    #[inline]
    pub(crate) fn page(&self, at: usize) -> PageNr {
        PageNr(self.number * LEAF_PAGES as u64 + at as u64)
    }

    /// Pages that are not absent.
    #[inline]
    pub(crate) fn used(&self) -> u8 {
        self.used
    }

    #[inline]
    pub(crate) fn is_absent(&self, at: usize) -> bool {
        self.meta[at] & TAG == ABSENT
    }

    #[inline]
    pub(crate) fn is_resident(&self, at: usize) -> bool {
        matches!(self.meta[at] & TAG, RESIDENT | ON_PROBATION | REFERENCED)
    }

    pub(crate) fn state(&self, at: usize) -> State {
        let [a, _, c] = self.words[at];
        let slot = SlotId(a);
        let entry = EntryId(c);
        let copy = (c != NONE).then_some(entry);
        match self.meta[at] & TAG {
            RESIDENT | ON_PROBATION | REFERENCED => State::Resident { copy },
            ISOLATED => State::Isolated { copy },
            STAGED => State::Staged { slot, copy },
            STORING => State::Storing { slot, copy },
            RETURNING => State::Returning { slot, copy },
            STORED => State::Stored { entry },
            LOADING => State::Loading { entry },
            _ => State::Absent,
        }
    }

    /// Writes the state. Leaves the list of a resident page, whether it is referenced, its links (words a and b) and
    /// the eviction stamp alone, and clears the flags of a page that becomes absent.
    pub(crate) fn set_state(&mut self, at: usize, state: State) {
        let tag = match state {
            State::Absent => ABSENT,
            State::Resident { .. } if self.is_resident(at) => self.meta[at] & TAG,
            State::Resident { .. } => RESIDENT,
            State::Isolated { .. } => ISOLATED,
            State::Staged { .. } => STAGED,
            State::Storing { .. } => STORING,
            State::Returning { .. } => RETURNING,
            State::Stored { .. } => STORED,
            State::Loading { .. } => LOADING,
        };
        let meta = &mut self.meta[at];
        let was_absent = *meta & TAG == ABSENT;
        *meta = if tag == ABSENT {
            ABSENT
        } else {
            *meta & !TAG | tag
        };
        self.used = self.used + u8::from(was_absent) - u8::from(tag == ABSENT);
        if let Some(slot) = state.slot() {
            self.words[at][A] = slot.0;
        }
        self.words[at][C] = state.entry().map_or(NONE, |entry| entry.0);
    }

    /// Which list a resident page is on: that of a generation, or [`PROBATION`].
    #[inline]
    pub(crate) fn list(&self, at: usize) -> usize {
        match self.meta[at] & TAG {
            ON_PROBATION => PROBATION,
            _ => usize::from((self.meta[at] & GENERATION) >> GENERATION_SHIFT),
        }
    }

    /// Notes for later whether a page that leaves its list was on probation.
    #[inline]
    pub(crate) fn set_tried(&mut self, at: usize, tried: bool) {
        self.meta[at] = self.meta[at] & !GENERATION | u8::from(tried) << GENERATION_SHIFT;
    }

    /// Whether a page that is on no list left from probation.
    #[inline]
    pub(crate) fn tried(&self, at: usize) -> bool {
        self.meta[at] & GENERATION != 0
    }

    /// Whether a resident page is referenced.
    #[inline]
    pub(crate) fn referenced(&self, at: usize) -> bool {
        self.meta[at] & TAG == REFERENCED
    }

    /// A page in a generation is referenced, until it is put on a list again.
    #[inline]
    pub(crate) fn set_referenced(&mut self, at: usize) {
        debug_assert!(self.is_resident(at) && self.list(at) != PROBATION);
        self.meta[at] = self.meta[at] & !TAG | REFERENCED;
    }

    /// Notes the list of a resident page, which is not referenced then.
    #[inline]
    pub(crate) fn set_list(&mut self, at: usize, list: usize) {
        debug_assert!(self.is_resident(at));
        let (tag, bits) = match list {
            PROBATION => (ON_PROBATION, 0),
            generation => (RESIDENT, (generation as u8) << GENERATION_SHIFT),
        };
        self.meta[at] = self.meta[at] & !(TAG | GENERATION) | tag | bits;
    }

    #[inline]
    pub(crate) fn wanted(&self, at: usize) -> bool {
        self.meta[at] & WANTED != 0
    }

    #[inline]
    pub(crate) fn set_wanted(&mut self, at: usize, on: bool) {
        self.set_flag(at, WANTED, on);
    }

    #[inline]
    pub(crate) fn workingset(&self, at: usize) -> bool {
        self.meta[at] & WORKINGSET != 0
    }

    #[inline]
    pub(crate) fn set_workingset(&mut self, at: usize, on: bool) {
        self.set_flag(at, WORKINGSET, on);
    }

    #[inline]
    fn set_flag(&mut self, at: usize, flag: u8, on: bool) {
        if on {
            self.meta[at] |= flag;
        } else {
            self.meta[at] &= !flag;
        }
    }

    /// Previous page (younger) of a resident page on its list.
    #[inline]
    pub(crate) fn prev(&self, at: usize) -> u32 {
        self.words[at][A]
    }

    /// Next page (older) of a resident page on its list.
    #[inline]
    pub(crate) fn next(&self, at: usize) -> u32 {
        self.words[at][B]
    }

    #[inline]
    pub(crate) fn set_prev(&mut self, at: usize, id: u32) {
        self.words[at][A] = id;
    }

    #[inline]
    pub(crate) fn set_next(&mut self, at: usize, id: u32) {
        self.words[at][B] = id;
    }

    /// Non-resident age of the space when the page was evicted.
    #[inline]
    pub(crate) fn stamp(&self, at: usize) -> u32 {
        self.words[at][B]
    }

    #[inline]
    pub(crate) fn set_stamp(&mut self, at: usize, age: u32) {
        self.words[at][B] = age;
    }

    /// Takes a record out as it is, for [`Leaf::put`]; the page is absent afterwards.
    pub(crate) fn take(&mut self, at: usize) -> Record {
        let record = Record {
            meta: self.meta[at],
            words: self.words[at],
        };
        self.set_state(at, State::Absent);
        record
    }

    /// Puts a record in the place of an absent page.
    pub(crate) fn put(&mut self, at: usize, record: Record) {
        debug_assert!(self.is_absent(at) && record.meta & TAG != ABSENT);
        self.meta[at] = record.meta;
        self.words[at] = record.words;
        self.used += 1;
    }

    /// Panics unless the count of used pages is right and the tags are known.
    pub(crate) fn check(&self) {
        let used = (0..LEAF_PAGES).filter(|&at| !self.is_absent(at)).count();
        assert_eq!(
            used,
            usize::from(self.used),
            "used pages of leaf {:#x}",
            self.number
        );
        for at in 0..LEAF_PAGES {
            let meta = self.meta[at];
            assert!(
                meta & TAG <= REFERENCED,
                "state tag {meta:#x} of {}",
                self.page(at)
            );
            assert!(
                meta & TAG != ABSENT || meta == ABSENT,
                "flags on absent {}",
                self.page(at)
            );
        }
        assert!(!self.is_free() || used == 0, "a free leaf holds pages");
    }
}

/// A page's record on its way to another place in the table.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    meta: u8,
    words: [u32; 3],
}
