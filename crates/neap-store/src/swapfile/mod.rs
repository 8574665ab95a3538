//! The swap file: compressed pages packed into extents, and pages that do not compress as whole blocks. The checksum
//! of each is kept in memory.

mod extent;
#[cfg(test)]
mod faulty;
mod file;
mod record;

pub(crate) use extent::{EXTENT, Extents, Region};
#[cfg(test)]
pub(crate) use faulty::{Direction, Fault, FaultyFile};
pub use file::{BlockFile, MemFile, NoFile};
pub(crate) use record::{Record, next_record, record_room};

/// Unit of transfers in bytes: offsets and lengths are multiples of it.
pub const BLOCK: usize = 4096;

/// Unit of locations in bytes: 32 bits of them address 128 GiB.
pub(crate) const GRAIN: usize = 32;

/// Where a record starts in the swap file, in units of 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Location(pub u32);

impl Location {
    pub fn at(byte: u64) -> Self {
        debug_assert!(byte.is_multiple_of(GRAIN as u64));
        Self((byte / GRAIN as u64) as u32)
    }

    pub fn byte(self) -> u64 {
        u64::from(self.0) * GRAIN as u64
    }
}

/// The whole blocks that `len` bytes at `byte` lie in.
pub(crate) fn blocks_of(byte: u64, len: usize) -> std::ops::Range<u64> {
    let block = BLOCK as u64;
    byte / block * block..(byte + len as u64).next_multiple_of(block)
}

#[cfg(test)]
mod tests;
