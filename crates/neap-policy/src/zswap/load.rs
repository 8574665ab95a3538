//! Out of the pool again, for a page that is wanted (SPEC 1.7).

use neap_units::SwapSlot;

use super::{Accounts, RAW, Zswap};

/// What becomes of the entry of a page that is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loading {
    /// It is freed: memory and pool never hold the page twice.
    Exclusive,
    /// It stays where it is (6.9 to 6.1x: faults that bypass the swap cache).
    Keep,
    /// It stays and becomes the newest of its list (6.6 to 6.8, exclusive loads off).
    ToTail,
}

/// A page served from the pool; `zswpin` grows by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// Bytes it had: 0 for a page of one word to be filled, 4096 for one to be copied.
    pub length: u16,
}

impl Loaded {
    /// Whether a decompressor was needed.
    #[must_use]
    pub fn decompressed(self) -> bool {
        (1..RAW).contains(&self.length)
    }
}

/// Why a load is an I/O error rather than a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// A large folio while zswap was ever on: upper layers fall back to single pages.
    Large,
}

impl Zswap {
    /// Loads the page of a slot, or none: it is on the device.
    ///
    /// # Errors
    /// [`LoadError::Large`] for more than one page.
    pub fn load(
        &mut self,
        slot: SwapSlot,
        pages: u32,
        loading: Loading,
        accounts: &mut impl Accounts,
    ) -> Result<Option<Loaded>, LoadError> {
        if pages > 1 {
            return Err(LoadError::Large);
        }
        let Some(entry) = self.entries.get(slot) else {
            return Ok(None);
        };
        match loading {
            Loading::Exclusive => {
                self.free(slot, accounts);
            }
            Loading::ToTail if entry.length > 0 => {
                let list = &mut self.lists[entry.list.0 as usize];
                list.ends.rotate(&mut self.entries, slot);
            }
            Loading::Keep | Loading::ToTail => (),
        }
        Ok(Some(Loaded {
            length: entry.length,
        }))
    }
}
