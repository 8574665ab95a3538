//! One packed word for each page of the arena: what the page is part of.
//!
//! | kind | bits 0-1 | bits 2-8 | bits 9-18 | bits 19-28 | bits 2-31 |
//! |------|----------|----------|-----------|------------|-----------|
//! | free | 0        |          |           |            |           |
//! | head | 1        | class    | used slots| first free slot |      |
//! | body | 2        | pages back to the head |  |       |           |
//! | huge | 3        |          |           |            | entry     |
//!
//! The number of slots itself stands for "no free slot".

use neap_units::EntryId;

/// Largest entry number a huge page can name.
pub(crate) const MAX_ENTRY: u32 = (1 << 30) - 1;

/// A page of the arena, packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageWord(u32);

/// A page of the arena, unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Page {
    /// In no zspage.
    Free,
    /// First page of a zspage.
    Head(Head),
    /// A further page of a zspage, so many pages after its head.
    Body { back: u8 },
    /// One object that fills the page.
    Huge { entry: EntryId },
}

/// State of a zspage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub class: u8,
    /// Slots in use.
    pub used: u16,
    /// First free slot; the number of slots when there is none.
    pub free: u16,
}

const FIELD: u32 = (1 << 10) - 1;

impl PageWord {
    #[inline]
    pub fn pack(page: Page) -> Self {
        Self(match page {
            Page::Free => 0,
            Page::Head(Head { class, used, free }) => {
                debug_assert!(class < 128 && u32::from(used) <= FIELD && u32::from(free) <= FIELD);
                1 | u32::from(class) << 2 | u32::from(used) << 9 | u32::from(free) << 19
            }
            Page::Body { back } => 2 | u32::from(back) << 2,
            Page::Huge { entry } => {
                debug_assert!(entry.0 <= MAX_ENTRY);
                3 | entry.0 << 2
            }
        })
    }

    #[inline]
    pub fn unpack(self) -> Page {
        match self.0 & 3 {
            0 => Page::Free,
            1 => Page::Head(Head {
                class: (self.0 >> 2 & 127) as u8,
                used: (self.0 >> 9 & FIELD) as u16,
                free: (self.0 >> 19 & FIELD) as u16,
            }),
            2 => Page::Body {
                back: (self.0 >> 2 & 7) as u8,
            },
            _ => Page::Huge {
                entry: EntryId(self.0 >> 2),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_packing() {
        let pages = [
            Page::Free,
            Page::Head(Head {
                class: 127,
                used: 1023,
                free: 1023,
            }),
            Page::Head(Head {
                class: 0,
                used: 0,
                free: 0,
            }),
            Page::Head(Head {
                class: 5,
                used: 17,
                free: 128,
            }),
            Page::Body { back: 7 },
            Page::Huge {
                entry: EntryId(MAX_ENTRY),
            },
            Page::Huge { entry: EntryId(0) },
        ];
        for page in pages {
            assert_eq!(PageWord::pack(page).unpack(), page);
        }
        assert_eq!(std::mem::size_of::<PageWord>(), 4);
        assert_eq!(PageWord::default().unpack(), Page::Free);
    }
}
