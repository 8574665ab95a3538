//! One page in the swap file: a checksum and the bytes.
//!
//! The checksum also covers what the record is supposed to be: the entry, how it was compressed,
//! and the *generation* of its extent, which changes each time the extent is used anew. So a write
//! that never reached the disk, and left an older, valid record in place, is found too.

use neap_units::EntryId;

use super::GRAIN;

/// Bytes of the checksum.
const CHECKSUM: usize = 4;

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
    /// Bytes it takes, without padding.
    pub fn size(&self) -> usize {
        CHECKSUM + self.len
    }

    /// Writes the checksum in front of the data, which is already in place behind it.
    pub fn seal(&self, record: &mut [u8]) {
        let sum = self.checksum(&record[CHECKSUM..CHECKSUM + self.len]);
        record[..CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }

    /// The data, or `None` when the record is not what it is supposed to be.
    pub fn open<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let data = record.get(CHECKSUM..CHECKSUM + self.len)?;
        (record[..CHECKSUM] == self.checksum(data).to_le_bytes()).then_some(data)
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
    (CHECKSUM + len).next_multiple_of(GRAIN)
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
        record.seal(&mut bytes);
        assert_eq!(record.open(&bytes), Some(&[7; 100][..]));
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
            assert_eq!(other.open(&bytes), None);
        }
        for at in 0..record.size() {
            bytes[at] ^= 0x10;
            assert_eq!(record.open(&bytes), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
        assert_eq!(record.open(&bytes[..50]), None);
    }
}
