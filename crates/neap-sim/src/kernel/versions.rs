//! Which write-out of a page each place behind swap holds, so that tests see whether reading back
//! gives the last one (SPEC 10): an old entry of zswap that survives a newer write to the device, or is
//! written over one, would give bytes of the past. Only tests keep count; elsewhere this is nothing.

use neap_policy::Source;
use neap_units::SwapSlot;

/// What is kept of every slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    #[cfg(test)]
    kept: std::collections::HashMap<u32, Kept>,
    #[cfg(test)]
    last: u64,
}

/// Versions of one slot; 0: the place holds none.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    newest: u64,
    zero: u64,
    zswap: u64,
    device: u64,
}

#[cfg(test)]
impl Kept {
    fn at(&mut self, place: Source) -> &mut u64 {
        match place {
            Source::Cache => &mut self.newest,
            Source::ZeroMap => &mut self.zero,
            Source::Zswap => &mut self.zswap,
            Source::Device => &mut self.device,
        }
    }
}

#[cfg(test)]
impl Versions {
    /// Pages went to a place.
    pub(super) fn out(&mut self, first: SwapSlot, pages: u64, place: Source) {
        for slot in first.0..first.0 + pages as u32 {
            self.last += 1;
            let kept = self.kept.entry(slot).or_default();
            kept.newest = self.last;
            *kept.at(place) = self.last;
        }
    }

    /// An entry of zswap was written to the device.
    pub(super) fn written_back(&mut self, slot: SwapSlot) {
        let kept = self.kept.entry(slot.0).or_default();
        kept.device = std::mem::take(&mut kept.zswap);
    }

    /// A page is read from a place: it must be the newest there is.
    pub(super) fn read(&mut self, slot: SwapSlot, place: Source) {
        let kept = self.kept.entry(slot.0).or_default();
        let (newest, found) = (kept.newest, *kept.at(place));
        assert_eq!(found, newest, "{slot}, read from {place:?}: {kept:?}");
        if place == Source::Zswap {
            kept.zswap = 0;
        }
    }

    /// Nobody needs the slot any more.
    pub(super) fn gone(&mut self, slot: SwapSlot) {
        self.kept.remove(&slot.0);
    }
}

#[cfg(not(test))]
#[expect(
    clippy::unused_self,
    clippy::needless_pass_by_ref_mut,
    reason = "as in tests"
)]
impl Versions {
    #[inline]
    pub(super) fn out(&mut self, _: SwapSlot, _: u64, _: Source) {}
    #[inline]
    pub(super) fn written_back(&mut self, _: SwapSlot) {}
    #[inline]
    pub(super) fn read(&mut self, _: SwapSlot, _: Source) {}
    #[inline]
    pub(super) fn gone(&mut self, _: SwapSlot) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_version_is_found_wherever_it_went() {
        let mut versions = Versions::default();
        versions.out(SwapSlot(4), 2, Source::Zswap);
        versions.written_back(SwapSlot(5));
        versions.read(SwapSlot(4), Source::Zswap);
        versions.read(SwapSlot(5), Source::Device);
        versions.gone(SwapSlot(4));
        versions.out(SwapSlot(4), 1, Source::ZeroMap);
        versions.read(SwapSlot(4), Source::ZeroMap);
    }

    #[test]
    #[should_panic(expected = "read from Zswap")]
    fn an_entry_that_survived_a_newer_write_is_seen() {
        let mut versions = Versions::default();
        versions.out(SwapSlot(4), 1, Source::Zswap);
        versions.out(SwapSlot(4), 1, Source::Device);
        versions.read(SwapSlot(4), Source::Zswap);
    }

    #[test]
    #[should_panic(expected = "read from Device")]
    fn an_old_entry_written_over_newer_data_is_seen() {
        let mut versions = Versions::default();
        versions.out(SwapSlot(4), 1, Source::Zswap);
        versions.out(SwapSlot(4), 1, Source::Device);
        versions.written_back(SwapSlot(4));
        versions.read(SwapSlot(4), Source::Device);
    }
}
