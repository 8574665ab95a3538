//! All entries, in chunks that never move.

use neap_tuning::TUNING;
use neap_units::EntryId;

use super::{Birth, Entry, Flag, NONE, Place};
use crate::keyed::PageHash;
use crate::pool::MAX_ENTRY;

#[derive(Debug)]
pub(crate) struct EntryTable {
    chunks: Vec<Box<[Entry]>>,
    /// Hashes of pages, for each chunk of which some are known: few pages come back and leave unchanged.
    hashes: Vec<Option<Box<[PageHash; TUNING.pool.entries]>>>,
    /// Last freed entry; the free ones are linked by `next`.
    free: u32,
    live: usize,
    /// Most entries there may be.
    limit: usize,
}

impl EntryTable {
    /// A table of at most `limit` entries.
    pub fn new(limit: usize) -> Self {
        Self {
            chunks: Vec::new(),
            hashes: Vec::new(),
            free: NONE,
            live: 0,
            limit: limit.min(MAX_ENTRY as usize + 1),
        }
    }

    /// Entries in use.
    pub fn live(&self) -> usize {
        self.live
    }

    pub fn metadata_bytes(&self) -> usize {
        self.chunks.len() * TUNING.pool.entries * size_of::<Entry>()
            + self.chunks.capacity() * size_of::<Box<[Entry]>>()
            + self.hashes.iter().flatten().count() * size_of::<[PageHash; TUNING.pool.entries]>()
            + self.hashes.capacity() * size_of::<Option<Box<[PageHash; TUNING.pool.entries]>>>()
    }

    /// A new entry, placed nowhere yet, with one reference; `None` when there are too many.
    pub fn alloc(&mut self, birth: Birth) -> Option<EntryId> {
        if self.free == NONE {
            self.grow()?;
        }
        let id = EntryId(self.free);
        let entry = self.get_mut(id);
        let next = entry.next;
        *entry = birth.entry();
        self.free = next;
        self.live += 1;
        Some(id)
    }

    /// Frees an entry that is on no list.
    pub fn free(&mut self, id: EntryId) {
        let next = self.free;
        let entry = self.get_mut(id);
        *entry = Entry {
            next,
            ..Entry::FREE
        };
        self.free = id.0;
        self.live -= 1;
    }

    pub fn get(&self, id: EntryId) -> &Entry {
        &self.chunks[id.index() / TUNING.pool.entries][id.index() % TUNING.pool.entries]
    }

    pub fn get_mut(&mut self, id: EntryId) -> &mut Entry {
        &mut self.chunks[id.index() / TUNING.pool.entries][id.index() % TUNING.pool.entries]
    }

    /// The hash of an entry's page, if it is known.
    pub fn hash(&self, id: EntryId) -> Option<PageHash> {
        let hashes = self
            .hashes
            .get(id.index() / TUNING.pool.entries)?
            .as_deref()?;
        let known = self.get(id).is(Flag::Known);
        known.then(|| hashes[id.index() % TUNING.pool.entries])
    }

    /// The hash of an entry's page is known from now on, until the entry is freed.
    pub fn set_hash(&mut self, id: EntryId, hash: PageHash) {
        let chunk = id.index() / TUNING.pool.entries;
        if self.hashes.len() <= chunk {
            self.hashes.resize_with(self.chunks.len(), || None);
        }
        let hashes = self.hashes[chunk]
            .get_or_insert_with(|| Box::new([PageHash::default(); TUNING.pool.entries]));
        hashes[id.index() % TUNING.pool.entries] = hash;
        self.get_mut(id).set(Flag::Known, true);
    }

    /// The entry, if there is one of this number.
    pub fn find(&self, id: EntryId) -> Option<&Entry> {
        let entry = self
            .chunks
            .get(id.index() / TUNING.pool.entries)?
            .get(id.index() % TUNING.pool.entries)?;
        (entry.place() != Place::Free).then_some(entry)
    }

    /// Entries that are placed somewhere, among the numbers `range`.
    pub fn placed(&self, range: std::ops::Range<u32>) -> impl Iterator<Item = (EntryId, &Entry)> {
        let end = range.end.min(self.numbers());
        (range.start..end).filter_map(|n| self.find(EntryId(n)).map(|entry| (EntryId(n), entry)))
    }

    /// Numbers handed out so far, free again or not.
    pub fn numbers(&self) -> u32 {
        (self.chunks.len() * TUNING.pool.entries) as u32
    }

    fn grow(&mut self) -> Option<()> {
        let start = self.chunks.len() * TUNING.pool.entries;
        if start + TUNING.pool.entries > self.limit {
            return None;
        }
        let chunk = (0..TUNING.pool.entries)
            .map(|i| {
                let last = i + 1 == TUNING.pool.entries;
                let next = if last { NONE } else { (start + i + 1) as u32 };
                Entry {
                    next,
                    ..Entry::FREE
                }
            })
            .collect();
        self.chunks.push(chunk);
        self.free = start as u32;
        Some(())
    }

    /// Panics unless the free list holds exactly the free entries.
    pub fn check(&self) {
        let mut free = 0;
        let mut link = self.free;
        while link != NONE {
            let entry = self.get(EntryId(link));
            assert_eq!(
                entry.place(),
                Place::Free,
                "entry {link} is on the free list"
            );
            link = entry.next;
            free += 1;
            assert!(free <= self.numbers() as usize, "the free list is a ring");
        }
        let placed = self.placed(0..self.numbers()).count();
        assert_eq!(
            free + placed,
            self.numbers() as usize,
            "free and placed entries"
        );
        assert_eq!(placed, self.live, "entries in use");
    }
}
