//! The memory the pool lives in: one long range, backed only where written.

use std::ops::Range;

/// A range of bytes that belongs to the pool alone.
///
/// The real one is an anonymous mapping without reservation: untouched and discarded pages cost
/// nothing. Bytes never written, and bytes discarded since, read as zero; the pool relies on it.
pub trait Arena: Send {
    /// Length in bytes. Bytes past the last whole page are not used.
    fn len(&self) -> usize;

    /// Whether it holds no byte at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes.
    fn bytes(&self) -> &[u8];

    /// All bytes, to be written.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Gives the memory behind `range` (whole pages, in bytes) back; it reads as zero afterwards.
    fn discard(&mut self, range: Range<usize>);

    /// `range` (whole pages, in bytes, that hold nothing) will be written soon: its memory may be had all at once.
    fn back(&mut self, range: Range<usize>) {
        let _ = range;
    }
}

/// An arena on the heap, for tests and tools: discarding clears, but gives nothing back.
#[derive(Debug)]
pub struct VecArena(Vec<u8>);

impl VecArena {
    /// An arena of `len` zero bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self(vec![0; len])
    }
}

impl Arena for VecArena {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn discard(&mut self, range: Range<usize>) {
        self.0[range].fill(0);
    }
}
