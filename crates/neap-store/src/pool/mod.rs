//! The pool: compressed objects in size classes, after zsmalloc (SPEC 1.1).
//!
//! Objects of a class lie in *zspages*, runs of 1 to 6 pages cut into equal slots. Each object is
//! preceded by the number of its entry. Everything about a free slot is kept in the slot itself:
//! the next free slot of its zspage, and, in the first free one, the links of the list of zspages
//! that are about as full. So the only table beside the arena is one word for each page.
//!
//! The pages of an empty zspage are idle: used again first, and given back to the system when there are
//! more than a few. When a class has more free slots than one zspage and
//! 1/32 of the slots in use, its emptiest zspage is moved into the others: that is at most about
//! one move for each free, and bounds what free slots can waste without a scan. A list per entry
//! or a bitmap per zspage would have served as well, at 4 to 8 more bytes for each page stored.

mod class;
mod compact;
mod runs;
mod word;
mod zspage;

use neap_tuning::TUNING;
use neap_units::{EntryId, PAGE_SIZE};

use crate::arena::Arena;
use class::{Classes, HEADER, QUANTUM};
use runs::{Run, Runs};
use word::{Head, Page, PageWord};
use zspage::{GROUPS, NO_PAGE};

pub(crate) use word::MAX_ENTRY;

/// Where an object lies in the arena, in units of 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle(pub u32);

impl Handle {
    fn at(byte: usize) -> Self {
        debug_assert!(byte.is_multiple_of(QUANTUM));
        Self((byte / QUANTUM) as u32)
    }

    fn byte(self) -> usize {
        self.0 as usize * QUANTUM
    }

    fn page(self) -> usize {
        self.byte() / PAGE_SIZE
    }
}

/// Counts and lists of one class.
#[derive(Clone, Debug)]
struct ClassState {
    zspages: usize,
    used: usize,
    /// First zspage of each fullness group; full zspages are in none.
    partial: [u32; GROUPS],
}

/// What the pool holds and what it has moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PoolCounts {
    /// Pages in use.
    pub pages: u64,
    /// Objects moved by compaction since the start.
    pub moved: u64,
    /// Pages given back because compaction emptied their zspage.
    pub compacted_pages: u64,
}

pub(crate) struct Pool {
    arena: Box<dyn Arena>,
    classes: Classes,
    states: Vec<ClassState>,
    /// One word for each page the bitmap covers.
    words: Vec<PageWord>,
    runs: Runs,
    moved: u64,
    compacted_pages: u64,
}

/// Most bytes of an arena that a pool uses: what its references can name.
pub const ADDRESSABLE: usize = (u32::MAX as usize + 1) * QUANTUM;

impl Pool {
    pub fn new(arena: Box<dyn Arena>) -> Self {
        let classes = Classes::new();
        let pages = arena.len().min(ADDRESSABLE) / PAGE_SIZE;
        let empty = ClassState {
            zspages: 0,
            used: 0,
            partial: [NO_PAGE; GROUPS],
        };
        Self {
            states: vec![empty; classes.count()],
            classes,
            words: Vec::new(),
            runs: Runs::new(pages),
            arena,
            moved: 0,
            compacted_pages: 0,
        }
    }

    pub fn counts(&self) -> PoolCounts {
        PoolCounts {
            pages: self.pages(),
            moved: self.moved,
            compacted_pages: self.compacted_pages,
        }
    }

    /// Pages in use.
    pub fn pages(&self) -> u64 {
        self.runs.used() as u64
    }

    /// Pages in use, and free ones that are backed by memory.
    pub fn backed_pages(&self) -> u64 {
        (self.runs.used() + self.runs.idle()) as u64
    }

    /// Objects held.
    pub fn objects(&self) -> u64 {
        let small: usize = self.states.iter().map(|state| state.used).sum();
        let huge = |word: &&PageWord| matches!(word.unpack(), Page::Huge { .. });
        (small + self.words.iter().filter(huge).count()) as u64
    }

    /// Bytes of tables outside the arena.
    pub fn metadata_bytes(&self) -> usize {
        self.words.capacity() * size_of::<PageWord>()
            + self.runs.metadata_bytes()
            + self.states.capacity() * size_of::<ClassState>()
    }

    /// Stores `data` (1 to 4096 bytes) for `entry`; `None` when the arena is full.
    pub fn store(&mut self, entry: EntryId, data: &[u8]) -> Option<Handle> {
        debug_assert!((1..=PAGE_SIZE).contains(&data.len()) && entry.0 <= MAX_ENTRY);
        let handle = match self.classes.of_len(data.len()) {
            Some(class) => {
                let handle = self.take_slot(class)?;
                self.write_u32(handle.byte(), entry.0);
                handle
            }
            None => {
                let (page, _) = self.take_run(1)?;
                self.words[page] = PageWord::pack(Page::Huge { entry });
                Handle::at(page * PAGE_SIZE)
            }
        };
        let at = self.data_at(handle, data.len());
        self.arena.bytes_mut()[at..at + data.len()].copy_from_slice(data);
        Some(handle)
    }

    /// Whether an object of `len` bytes takes a page of its own.
    pub fn fills_page(&self, len: usize) -> bool {
        self.classes.of_len(len).is_none()
    }

    /// The bytes of an object of `len` bytes.
    pub fn data(&self, handle: Handle, len: usize) -> &[u8] {
        let at = self.data_at(handle, len);
        &self.arena.bytes()[at..at + len]
    }

    /// Frees an object of `len` bytes, and compacts its class if that leaves too many free slots;
    /// `relocate` is told of each object that moves.
    pub fn free(&mut self, handle: Handle, len: usize, relocate: impl FnMut(EntryId, Handle)) {
        match self.classes.of_len(len) {
            Some(class) => {
                self.give_slot(class, handle);
                self.settle(class, relocate);
            }
            None => self.give_run(handle.page(), 1),
        }
    }

    #[inline]
    fn data_at(&self, handle: Handle, len: usize) -> usize {
        let header = if self.classes.of_len(len).is_some() {
            HEADER
        } else {
            0
        };
        handle.byte() + header
    }

    /// Takes pages in a row; whether they hold old bytes.
    fn take_run(&mut self, len: usize) -> Option<(usize, bool)> {
        let Run { first, dirty, back } = self.runs.alloc(len)?;
        if !back.is_empty() {
            self.arena
                .back(back.start * PAGE_SIZE..back.end * PAGE_SIZE);
        }
        let covered = self.runs.covered();
        if self.words.len() < covered {
            if self.words.capacity() < covered {
                let more = (covered - self.words.len()).max(self.words.len() / 16);
                self.words.reserve_exact(more);
            }
            self.words.resize(covered, PageWord::default());
        }
        Some((first, dirty))
    }

    /// Frees the pages. When too many are idle, half of those go back to the system at once: each of its
    /// calls takes longer than all the rest.
    fn give_run(&mut self, page: usize, len: usize) {
        self.words[page..page + len].fill(PageWord::default());
        self.runs.free(page as u32, len);
        let most = (TUNING.pool.idle.of(self.runs.used() as u64) as usize)
            .max(TUNING.pool.idle_least.as_usize());
        if self.runs.idle() > most {
            for range in self.runs.take_idle(most / 2) {
                self.arena
                    .discard(range.start * PAGE_SIZE..range.end * PAGE_SIZE);
            }
        }
    }

    fn read_u16(&self, at: usize) -> u16 {
        let mut bytes = [0; 2];
        bytes.copy_from_slice(&self.arena.bytes()[at..at + 2]);
        u16::from_le_bytes(bytes)
    }

    fn write_u16(&mut self, at: usize, value: u16) {
        self.arena.bytes_mut()[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn read_u32(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.arena.bytes()[at..at + 4]);
        u32::from_le_bytes(bytes)
    }

    fn write_u32(&mut self, at: usize, value: u32) {
        self.arena.bytes_mut()[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
