//! Readahead by place on the device (SPEC 2.3; kernel: swap_cluster_readahead in
//! mm/swap_state.c).

use std::ops::Range;

use neap_units::{PageNr, SwapSlot};

use super::window;

/// Hits the machine starts with, so that its first fault reads ahead.
const INITIAL_HITS: u32 = 4;

/// The readahead of all devices together: one window for the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterReadahead {
    hits: u32,
    prev_slot: u32,
    prev_window: u32,
    max: u32,
}

impl ClusterReadahead {
    /// Readahead of at most `max` slots (kernel: 2^page_cluster); off when that is at
    /// most 1.
    #[must_use]
    pub fn new(max: u32) -> ClusterReadahead {
        ClusterReadahead {
            hits: INITIAL_HITS,
            prev_slot: 0,
            prev_window: 0,
            max,
        }
    }

    /// A fault had to read `slot`. Returns the slots to read: the aligned block around it,
    /// without the header and what lies at or behind `end`. The caller skips slots that are
    /// free or cached.
    pub fn fault(&mut self, slot: SwapSlot, end: SwapSlot) -> Range<u32> {
        let hits = std::mem::take(&mut self.hits);
        let (prev, pos) = (PageNr(self.prev_slot.into()), PageNr(slot.0.into()));
        let size = window(prev, pos, hits, self.max, self.prev_window);
        if hits == 0 {
            self.prev_slot = slot.0;
        }
        self.prev_window = size;
        // Windows are powers of two, because the largest is.
        let start = slot.0 & !(size - 1);
        start.max(1)..(start + size).min(end.0)
    }

    /// A page read ahead was used.
    pub fn hit(&mut self) {
        self.hits = self.hits.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: SwapSlot = SwapSlot(1000);

    #[test]
    fn unused_readahead_decays_8_4_2_1() {
        let mut readahead = ClusterReadahead::new(8);
        let sizes: Vec<usize> = [100, 500, 300, 700, 200]
            .map(|slot| readahead.fault(SwapSlot(slot), END).len())
            .to_vec();
        assert_eq!(sizes, [8, 4, 2, 1, 1]);
    }

    #[test]
    fn blocks_are_aligned_and_clipped() {
        let mut readahead = ClusterReadahead::new(8);
        assert_eq!(readahead.fault(SwapSlot(5), END), 1..8, "no header");
        (0..8).for_each(|_| readahead.hit());
        assert_eq!(readahead.fault(SwapSlot(13), SwapSlot(14)), 8..14);
        assert_eq!(ClusterReadahead::new(1).fault(SwapSlot(9), END), 9..10);
    }

    #[test]
    fn an_ascending_scan_keeps_the_window_at_its_maximum() {
        let mut readahead = ClusterReadahead::new(8);
        let mut slot = 8;
        for _ in 0..50 {
            let block = readahead.fault(SwapSlot(slot), END);
            assert_eq!(block, slot..slot + 8);
            (1..8).for_each(|_| readahead.hit());
            slot = block.end;
        }
    }
}
