//! One page in the swap file: its bytes, of which memory has the checksum.
//!
//! The checksum also covers what the record is supposed to be: the entry, how it was compressed,
//! and the *generation* of its extent, which changes each time the extent is used anew. So a write
//! that never reached the disk, and left an older, valid record in place, is found too.
//!
//! A whole page is a whole block: reading it takes one, and not two.

use neap_units::{EntryId, PAGE_SIZE};

use super::{BLOCK, GRAIN};

/// What a record is supposed to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub entry: EntryId,
    /// Generation of its extent.
    pub generation: u32,
    /// Bytes of data.
    pub len: usize,
    /// Number of the dictionary needed.
    pub dict: u8,
}

impl Record {
    /// The checksum of the data that `record` starts with.
    pub fn seal(&self, record: &[u8]) -> u32 {
        self.checksum(&record[..self.len])
    }

    /// The data, or `None` when the record is not what it is supposed to be.
    pub fn open<'a>(&self, checksum: u32, record: &'a [u8]) -> Option<&'a [u8]> {
        let data = record.get(..self.len)?;
        (checksum == self.checksum(data)).then_some(data)
    }

    fn checksum(&self, data: &[u8]) -> u32 {
        let mut head = [0; 11];
        head[..4].copy_from_slice(&self.entry.0.to_le_bytes());
        head[4..8].copy_from_slice(&self.generation.to_le_bytes());
        head[8..10].copy_from_slice(&(self.len as u16).to_le_bytes());
        head[10] = self.dict;
        crc32c::crc32c_append(crc32c::crc32c(&head), data)
    }
}

/// Bytes a record for `len` bytes of data takes in an extent.
pub(crate) fn record_room(len: usize) -> usize {
    len.next_multiple_of(GRAIN)
}

/// Where a record for `len` bytes of data can start, from `at` on.
pub(crate) fn next_record(at: usize, len: usize) -> usize {
    if len == PAGE_SIZE {
        at.next_multiple_of(BLOCK)
    } else {
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_opens_only_as_what_it_was_sealed() {
        let record = Record {
            entry: EntryId(9),
            generation: 3,
            len: 100,
            dict: 0,
        };
        let mut bytes = vec![7; record_room(100)];
        let sum = record.seal(&bytes);
        assert_eq!(record.open(sum, &bytes), Some(&[7; 100][..]));
        assert_eq!(record.open(sum ^ 1, &bytes), None);
        for other in [
            Record {
                entry: EntryId(8),
                ..record
            },
            Record {
                generation: 4,
                ..record
            },
            Record { dict: 1, ..record },
            Record { len: 99, ..record },
        ] {
            assert_eq!(other.open(sum, &bytes), None);
        }
        for at in 0..record.len {
            bytes[at] ^= 0x10;
            assert_eq!(record.open(sum, &bytes), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
        assert_eq!(record.open(sum, &bytes[..50]), None);
    }

    #[test]
    fn a_whole_page_starts_a_block_and_anything_else_does_not_care() {
        assert_eq!(
            [0, 32, 4096].map(|at| next_record(at, PAGE_SIZE)),
            [0, 4096, 4096]
        );
        assert_eq!([0, 32, 4096].map(|at| next_record(at, 4095)), [0, 32, 4096]);
    }
}
