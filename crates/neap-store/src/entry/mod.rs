//! Entries: what the store knows of one stored page, in 20 bytes.
//!
//! An entry is in exactly one place: one word that fills the page, an object in the pool, or a
//! record in the swap file. Links, location and length are shared between these cases, and so are
//! the links with the free list. With the four bytes before the object in the pool and the words
//! of its pages, a compressed page costs about 26 bytes beside its data.

mod lru;
mod table;

use neap_units::SpaceId;

use crate::pool::Handle;
use crate::swapfile::Location;

pub(crate) use lru::LruList;
pub(crate) use table::EntryTable;

/// No entry: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// References at which the count sticks: the entry is then never freed. It takes one reference for
/// each address space, of which there are at most as many.
const STUCK: u16 = u16::MAX;

/// Where the bytes of an entry are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Nowhere: the entry is free.
    Free,
    /// One word fills the page.
    Same(u64),
    /// In the pool.
    Pool(Handle),
    /// In the swap file, with this checksum.
    Disk(Location, u32),
}

const KIND: u8 = 3;
const FREE: u8 = 0;
const SAME: u8 = 1;
const POOL: u8 = 2;
const DISK: u8 = 3;
const REFERENCED: u8 = 1 << 2;
const WRITING: u8 = 1 << 3;
const LISTED: u8 = 1 << 4;
const POOR: u8 = 1 << 5;
const KNOWN: u8 = 1 << 6;

/// One stored page, packed.
///
/// | field | meaning |
/// |---|---|
/// | `prev`, `next` | neighbours on its list; the word of a same-filled page; checksum of a record; next free entry |
/// | `location` | pool handle or swap file location |
/// | `len` | bytes kept, 4096 for a raw page, 0 for a same-filled one |
/// | `owner` | address space that stored it |
/// | `refs` | page table entries that name it, and write-back under way |
/// | `flags` | kind, and the bits above |
/// | `dict` | number of the dictionary it needs, 0 for none |
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    prev: u32,
    next: u32,
    location: u32,
    len: u16,
    owner: u16,
    refs: u16,
    flags: u8,
    dict: u8,
}

impl Entry {
    const FREE: Entry = Entry {
        prev: NONE,
        next: NONE,
        location: 0,
        len: 0,
        owner: 0,
        refs: 0,
        flags: FREE,
        dict: 0,
    };

    pub fn place(&self) -> Place {
        match self.flags & KIND {
            SAME => Place::Same(u64::from(self.prev) | u64::from(self.next) << 32),
            POOL => Place::Pool(Handle(self.location)),
            DISK => Place::Disk(Location(self.location), self.prev),
            _ => Place::Free,
        }
    }

    /// Puts the entry somewhere else. Only one in the pool may be on a list.
    pub fn set_place(&mut self, place: Place) {
        let kind = match place {
            Place::Free => FREE,
            Place::Same(word) => {
                debug_assert!(!self.is(Flag::Listed));
                (self.prev, self.next) = (word as u32, (word >> 32) as u32);
                SAME
            }
            Place::Pool(handle) => {
                self.location = handle.0;
                POOL
            }
            Place::Disk(location, checksum) => {
                debug_assert!(!self.is(Flag::Listed));
                (self.location, self.prev) = (location.0, checksum);
                DISK
            }
        };
        self.flags = self.flags & !KIND | kind;
    }

    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub fn owner(&self) -> SpaceId {
        SpaceId(self.owner)
    }

    /// Number of the dictionary needed to decompress, 0 for none.
    pub fn dict(&self) -> u8 {
        self.dict
    }

    pub fn refs(&self) -> u16 {
        self.refs
    }

    pub fn is(&self, flag: Flag) -> bool {
        self.flags & flag as u8 != 0
    }

    pub fn set(&mut self, flag: Flag, on: bool) {
        if on {
            self.flags |= flag as u8;
        } else {
            self.flags &= !(flag as u8);
        }
    }

    /// One more reference.
    pub fn get(&mut self) {
        self.refs = self.refs.saturating_add(1);
    }

    /// One reference less; whether it was the last.
    #[must_use]
    pub fn put(&mut self) -> bool {
        if self.refs != STUCK {
            self.refs -= 1;
        }
        self.refs == 0
    }
}

/// Bits of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Flag {
    /// It has its second chance left.
    Referenced = REFERENCED,
    /// It is being written to the swap file, or moved within it: not on the list, and held by a reference.
    Writing = WRITING,
    /// It is on its list.
    Listed = LISTED,
    /// It is kept as it is, since it does not compress: on the list of all such, not on its owner's.
    Poor = POOR,
    /// The hash of its page is in the table.
    Known = KNOWN,
}

/// What a new entry is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    pub owner: SpaceId,
    /// Bytes kept.
    pub len: usize,
    pub dict: u8,
    pub referenced: bool,
    pub poor: bool,
}

impl Birth {
    fn entry(self) -> Entry {
        let mut entry = Entry {
            len: self.len as u16,
            owner: self.owner.0,
            refs: 1,
            dict: self.dict,
            ..Entry::FREE
        };
        entry.set(Flag::Referenced, self.referenced);
        entry.set(Flag::Poor, self.poor);
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_twenty_bytes_and_keeps_its_fields_apart() {
        assert_eq!(size_of::<Entry>(), 20);
        let birth = Birth {
            owner: SpaceId(u16::MAX),
            len: 4096,
            dict: 255,
            referenced: true,
            poor: true,
        };
        let mut entry = birth.entry();
        for place in [
            Place::Pool(Handle(u32::MAX)),
            Place::Disk(Location(u32::MAX), 0x89ab_cdef),
            Place::Same(u64::MAX - 1),
            Place::Same(0x0123_4567_89ab_cdef),
        ] {
            entry.set_place(place);
            assert_eq!(entry.place(), place);
            assert_eq!(
                (entry.len(), entry.dict(), entry.owner()),
                (4096, 255, SpaceId(u16::MAX))
            );
            assert!(entry.is(Flag::Referenced) && entry.is(Flag::Poor));
            assert!(!entry.is(Flag::Writing) && !entry.is(Flag::Listed) && !entry.is(Flag::Known));
        }
        entry.set(Flag::Referenced, false);
        assert!(entry.is(Flag::Poor) && !entry.is(Flag::Referenced));
    }

    #[test]
    fn a_reference_count_that_overflows_sticks() {
        let mut entry = Entry::FREE;
        for _ in 0..70_000 {
            entry.get();
        }
        for _ in 0..70_000 {
            assert!(!entry.put(), "an entry nobody could count is never freed");
        }
    }
}
