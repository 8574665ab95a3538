//! The zero map: slots whose page was all zeros, which take no I/O (SPEC 1.2 step 2).

use neap_units::SwapSlot;

/// One bit for each slot.
#[derive(Clone, Debug, Default)]
pub struct ZeroMap {
    words: Vec<u64>,
}

impl ZeroMap {
    /// A map of `slots` slots, none of them zero.
    #[must_use]
    pub fn new(slots: u32) -> ZeroMap {
        ZeroMap {
            words: vec![0; (slots as usize).div_ceil(64)],
        }
    }

    /// A folio of `pages` pages is swapped out to the slots from `first` on: marks them
    /// all if every page is zero, clears them otherwise. A folio that is only partly
    /// zero counts as one that is not.
    pub fn set(&mut self, first: SwapSlot, pages: u32, zero: bool) {
        for slot in first.0..first.0 + pages {
            let bit = 1u64 << (slot % 64);
            let word = &mut self.words[slot as usize / 64];
            *word = if zero { *word | bit } else { *word & !bit };
        }
    }

    /// Whether a slot holds zeros.
    #[inline]
    #[must_use]
    pub fn is_zero(&self, slot: SwapSlot) -> bool {
        self.words[slot.index() / 64] >> (slot.0 % 64) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folio_is_zero_as_a_whole_until_it_is_written_again() {
        let mut map = ZeroMap::new(200);
        map.set(SwapSlot(60), 16, true);
        let zero = |map: &ZeroMap| {
            (0..200)
                .filter(|&slot| map.is_zero(SwapSlot(slot)))
                .collect::<Vec<_>>()
        };
        assert_eq!(zero(&map), (60..76).collect::<Vec<_>>());
        map.set(SwapSlot(64), 4, false);
        assert_eq!(zero(&map), (60..64).chain(68..76).collect::<Vec<_>>());
    }
}
