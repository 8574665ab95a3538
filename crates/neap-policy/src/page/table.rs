//! The arena of leaves, shared by all spaces of a job.

use neap_units::{PageId, SpaceId};

use super::leaf::{LEAF_PAGES, Leaf};
use crate::list::{LinkId, Links};

/// Leaves made at once: 27 KiB, enough for 8 MiB of pages. The arena grows by whole
/// chunks and never moves a leaf, so growth costs one allocation and no copying.
const CHUNK: usize = 32;

/// Leaves the table can hold: a page id has 26 bits for the leaf, and the last id of
/// all means "none".
const MAX_LEAVES: usize = (1 << 26) - 1;

/// The page records of a job.
#[derive(Default)]
pub(crate) struct Table {
    chunks: Vec<Box<[Leaf]>>,
    free: Vec<u32>,
}

/// The id of a page of a leaf.
#[inline]
pub(crate) fn page_id(leaf: u32, at: usize) -> PageId {
    PageId(leaf << LEAF_PAGES.trailing_zeros() | at as u32)
}

/// The leaf of a page id, and the place in it.
#[inline]
pub(crate) fn split(id: PageId) -> (u32, usize) {
    (
        id.0 >> LEAF_PAGES.trailing_zeros(),
        (id.0 as usize) % LEAF_PAGES,
    )
}

impl LinkId for PageId {
    #[inline]
    fn from_raw(raw: u32) -> PageId {
        PageId(raw)
    }

    #[inline]
    fn raw(self) -> u32 {
        self.0
    }
}

/// Only resident pages have links.
impl Links<PageId> for Table {
    #[inline]
    fn links(&self, id: PageId) -> (u32, u32) {
        let (leaf, at) = self.at(id);
        (leaf.prev(at), leaf.next(at))
    }

    #[inline]
    fn set_prev(&mut self, id: PageId, prev: u32) {
        let (leaf, at) = self.at_mut(id);
        leaf.set_prev(at, prev);
    }

    #[inline]
    fn set_next(&mut self, id: PageId, next: u32) {
        let (leaf, at) = self.at_mut(id);
        leaf.set_next(at, next);
    }

    #[inline]
    fn set_links(&mut self, id: PageId, prev: u32, next: u32) {
        let (leaf, at) = self.at_mut(id);
        leaf.set_prev(at, prev);
        leaf.set_next(at, next);
    }
}

impl Table {
    /// Takes a leaf into use.
    ///
    /// # Panics
    /// When 2^26 leaves (16 TiB of pages) are in use: the ids are spent.
    pub(crate) fn claim(&mut self, space: SpaceId, number: u64) -> u32 {
        if self.free.is_empty() {
            self.grow();
        }
        let leaf = self.free.pop().expect("grow adds free leaves");
        self.leaf_mut(leaf).claim(space, number);
        leaf
    }

    #[cold]
    fn grow(&mut self) {
        let made = self.chunks.len() * CHUNK;
        assert!(
            made + CHUNK <= MAX_LEAVES,
            "the page table holds 16 TiB of pages: no ids left"
        );
        self.chunks.push(vec![Leaf::FREE; CHUNK].into_boxed_slice());
        self.free
            .extend((made..made + CHUNK).rev().map(|leaf| leaf as u32));
    }

    /// Gives a leaf back whose pages are all absent.
    pub(crate) fn release(&mut self, leaf: u32) {
        self.leaf_mut(leaf).release();
        self.free.push(leaf);
    }

    #[inline]
    pub(crate) fn leaf(&self, leaf: u32) -> &Leaf {
        &self.chunks[leaf as usize / CHUNK][leaf as usize % CHUNK]
    }

    #[inline]
    pub(crate) fn leaf_mut(&mut self, leaf: u32) -> &mut Leaf {
        &mut self.chunks[leaf as usize / CHUNK][leaf as usize % CHUNK]
    }

    /// The leaf of a page, and the place in it.
    #[inline]
    pub(crate) fn at(&self, id: PageId) -> (&Leaf, usize) {
        let (leaf, at) = split(id);
        (self.leaf(leaf), at)
    }

    /// The leaf of a page to write to, and the place in it.
    #[inline]
    pub(crate) fn at_mut(&mut self, id: PageId) -> (&mut Leaf, usize) {
        let (leaf, at) = split(id);
        (self.leaf_mut(leaf), at)
    }

    /// Whether the leaf of this id was ever made.
    #[inline]
    pub(crate) fn knows(&self, id: PageId) -> bool {
        (split(id).0 as usize) < self.chunks.len() * CHUNK
    }

    pub(crate) fn metadata_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[Leaf]>>()
            + self.chunks.len() * CHUNK * size_of::<Leaf>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// Panics unless free and used leaves add up and each leaf is well formed.
    /// Returns the number of leaves in use.
    pub(crate) fn check(&self) -> usize {
        let made = self.chunks.len() * CHUNK;
        for leaf in self.chunks.iter().flatten() {
            leaf.check();
        }
        for &leaf in &self.free {
            assert!(
                self.leaf(leaf).is_free(),
                "leaf {leaf} is on the free list and in use"
            );
        }
        let free = self
            .chunks
            .iter()
            .flatten()
            .filter(|leaf| leaf.is_free())
            .count();
        assert_eq!(
            free,
            self.free.len(),
            "free leaves that are not on the free list"
        );
        made - free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_spends_13_bytes_a_page_and_16_for_itself() {
        assert_eq!(size_of::<Leaf>(), 13 * LEAF_PAGES + 16);
    }

    #[test]
    fn leaves_are_reused_before_new_ones_are_made() {
        let mut table = Table::default();
        let first = table.claim(SpaceId(0), 7);
        let second = table.claim(SpaceId(0), 8);
        assert_ne!(first, second);
        table.release(first);
        assert_eq!(table.claim(SpaceId(1), 9), first);
        assert_eq!(
            (table.leaf(first).space(), table.leaf(first).number()),
            (SpaceId(1), 9)
        );
        assert_eq!(table.check(), 2);
        assert_eq!(split(page_id(second, 63)), (second, 63));
    }
}
