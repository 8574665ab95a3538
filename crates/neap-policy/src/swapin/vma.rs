//! Which neighbours to load with a page: VMA swap readahead (SPEC 2.2, 2.3; kernel:
//! __swapin_nr_pages and swap_vma_ra_win in mm/swap_state.c).

use std::ops::Range;

use neap_units::{PageNr, Pages};

/// Hits a mapping starts with, so that its first fault reads ahead.
const INITIAL_HITS: u32 = 4;

/// Largest window of VMA readahead (kernel: SWAP_RA_ORDER_CEILING 5).
const WINDOW_CEILING: u32 = 32;

/// Pages of a page-table leaf range (2 MiB), which a window does not cross.
const TABLE_PAGES: u64 = 512;

/// Size of the next window in pages.
///
/// * `prev_pos`, `pos`: page of the previous fault and of this one.
/// * `hits`: pages of earlier windows that were used since then.
/// * `max`: largest window; readahead is off when it is at most 1.
/// * `prev_window`: size of the previous window.
///
/// Hits double the window up to `max`; unused readahead halves it at each fault.
#[must_use]
pub fn window(prev_pos: PageNr, pos: PageNr, hits: u32, max: u32, prev_window: u32) -> u32 {
    if max <= 1 {
        return 1;
    }
    let wanted = if hits > 0 {
        (hits.saturating_add(2).min(1 << 31))
            .next_power_of_two()
            .max(4)
    } else if pos.0.abs_diff(prev_pos.0) == 1 {
        2
    } else {
        1
    };
    wanted.min(max).max(prev_window / 2)
}

/// The readahead of one mapping, in two words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Readahead {
    /// Page of the last fault, then its window and the hits since, as in the kernel's
    /// `swap_readahead_info`; that has 6 bits for either.
    packed: u64,
    max: u32,
}

const FIELD_BITS: u32 = 7;
const FIELD: u64 = (1 << FIELD_BITS) - 1;

fn pack(page: PageNr, window: u32, hits: u32) -> u64 {
    page.0 << (2 * FIELD_BITS) | u64::from(window) << FIELD_BITS | u64::from(hits)
}

impl Readahead {
    /// Readahead of at most `max` pages (kernel: 2^page_cluster), capped at 32; off when
    /// `max` is at most 1.
    #[must_use]
    pub fn new(max: u32) -> Readahead {
        Readahead {
            packed: pack(PageNr(0), 0, INITIAL_HITS),
            max: max.min(WINDOW_CEILING),
        }
    }

    /// Readahead of at most `max` pages, which the kernel's cap is nothing to, that begins without hits: its first fault
    /// loads one page.
    pub(super) const fn cold(max: u32) -> Readahead {
        assert!(max as u64 <= FIELD);
        Readahead { packed: 0, max }
    }

    /// A fault had to load `page`. Returns the pages to load: a range with `page` in it,
    /// ahead of it when faults go up, behind it when they go down, around it otherwise.
    ///
    /// The range stays within the 2 MiB of the page; the caller clips it to the mapping
    /// and loads only what is stored.
    pub fn fault(&mut self, page: PageNr) -> Range<PageNr> {
        let prev = PageNr(self.packed >> (2 * FIELD_BITS));
        let prev_window = (self.packed >> FIELD_BITS & FIELD) as u32;
        let size = window(prev, page, self.hits(), self.max, prev_window);
        self.packed = pack(page, size, 0);
        let size = u64::from(size);
        let before = if page.0 == prev.0 + 1 {
            0
        } else if prev.0 == page.0 + 1 {
            size - 1
        } else {
            (size - 1) / 2
        };
        let table = page.0 - page.0 % TABLE_PAGES;
        let start = page.0.saturating_sub(before).max(table);
        let end = (page.0 + size - before).min(table + TABLE_PAGES);
        PageNr(start)..PageNr(end)
    }

    /// A page loaded ahead was used.
    pub fn hit(&mut self) {
        if u64::from(self.hits()) < FIELD {
            self.packed += 1;
        }
    }

    /// A page loaded ahead was used, and where: the next fault is judged from there (kernel:
    /// lookup_swap_cache, which moves the position on every hit).
    pub fn hit_at(&mut self, page: PageNr) {
        self.hit();
        self.pass(page);
    }

    /// The program went on to this page: the next fault is judged from there.
    pub(super) fn pass(&mut self, page: PageNr) {
        let low = self.packed & ((1 << (2 * FIELD_BITS)) - 1);
        self.packed = page.0 << (2 * FIELD_BITS) | low;
    }

    /// Pages of the last window that were used so far.
    #[must_use]
    pub fn hits(&self) -> u32 {
        (self.packed & FIELD) as u32
    }

    /// Largest window.
    #[must_use]
    pub fn max(&self) -> Pages {
        Pages(self.max.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(hits: u32, prev_window: u32, adjacent: bool, max: u32) -> u32 {
        let pos = PageNr(if adjacent { 101 } else { 500 });
        window(PageNr(100), pos, hits, max, prev_window)
    }

    #[test]
    fn windows_follow_the_vectors_of_the_specification() {
        for (hits, prev, adjacent, size) in [
            (4, 0, false, 8),
            (0, 8, false, 4),
            (0, 4, false, 2),
            (0, 2, false, 1),
            (0, 1, true, 2),
            (1, 1, false, 4),
            (2, 4, false, 4),
            (3, 4, false, 8),
            (7, 8, false, 8),
        ] {
            assert_eq!(
                after(hits, prev, adjacent, 8),
                size,
                "{hits} {prev} {adjacent}"
            );
        }
        assert_eq!(after(3, 4, false, 4), 4);
        assert_eq!(after(3, 4, false, 1), 1, "off");
        assert_eq!(window(PageNr(5), PageNr(4), 0, 8, 0), 2, "adjacent below");
        assert_eq!(window(PageNr(5), PageNr(0), u32::MAX, 8, 0), 8);
    }

    #[test]
    fn random_faults_decay_the_window_8_4_2_1() {
        let mut readahead = Readahead::new(8);
        let sizes: Vec<u64> = [100_000, 5_000, 70_000, 20_000, 90_000]
            .iter()
            .map(|&page| {
                let range = readahead.fault(PageNr(page + 100));
                range.end.0 - range.start.0
            })
            .collect();
        assert_eq!(sizes, [8, 4, 2, 1, 1]);
    }

    #[test]
    fn an_ascending_scan_keeps_the_window_at_its_maximum() {
        let mut readahead = Readahead::new(8);
        let mut page = PageNr(512 * 10);
        for _ in 0..90 {
            let loaded = readahead.fault(page);
            assert_eq!(
                readahead.packed >> FIELD_BITS & FIELD,
                8,
                "window at {page}"
            );
            for _ in page.0 + 1..loaded.end.0 {
                readahead.hit();
            }
            page = loaded.end;
        }
        assert!(
            page.0 > 512 * 10 + 90 * 4,
            "at least four new pages for each fault"
        );
    }

    #[test]
    fn the_window_lies_where_the_faults_go() {
        let mut readahead = Readahead::new(8);
        assert_eq!(
            readahead.fault(PageNr(100)),
            PageNr(97)..PageNr(105),
            "around"
        );
        readahead.hit();
        assert_eq!(
            readahead.fault(PageNr(101)),
            PageNr(101)..PageNr(105),
            "ahead"
        );
        readahead.hit();
        assert_eq!(
            readahead.fault(PageNr(100)),
            PageNr(97)..PageNr(101),
            "behind"
        );
    }

    #[test]
    fn a_window_stays_within_its_page_table_leaf() {
        let mut readahead = Readahead::new(8);
        assert_eq!(readahead.fault(PageNr(512)), PageNr(512)..PageNr(517));
        let mut readahead = Readahead::new(8);
        assert_eq!(readahead.fault(PageNr(1023)), PageNr(1020)..PageNr(1024));
        assert_eq!(Readahead::new(8).fault(PageNr(0)), PageNr(0)..PageNr(5));
    }

    #[test]
    fn readahead_of_one_page_is_off() {
        let mut readahead = Readahead::new(0);
        readahead.hit();
        assert_eq!(readahead.fault(PageNr(7)), PageNr(7)..PageNr(8));
        assert_eq!(Readahead::new(1 << 20).max(), Pages(32));
        assert!(size_of::<Readahead>() <= 16);
    }

    /// The rule as a table of cases, without shortcuts.
    fn naive(prev_pos: u64, pos: u64, hits: u32, max: u32, prev_window: u32) -> u32 {
        let mut size = 1;
        if hits == 0 && (prev_pos + 1 == pos || pos + 1 == prev_pos) {
            size = 2;
        }
        if hits > 0 {
            size = 4;
            while size < hits + 2 {
                size *= 2;
            }
        }
        if size > max {
            size = max;
        }
        if size < prev_window / 2 {
            size = prev_window / 2;
        }
        size
    }

    proptest! {
        #[test]
        fn the_window_is_that_of_the_naive_rule(
            prev in 0u64..50, pos in 0u64..50, hits in 0u32..64, order in 1u32..6, prev_window in 0u32..33,
        ) {
            let max = 1 << order;
            let size = window(PageNr(prev), PageNr(pos), hits, max, prev_window);
            prop_assert_eq!(size, naive(prev, pos, hits, max, prev_window));
        }

        #[test]
        fn any_walk_gets_windows_around_its_faults(
            max in 0u32..100,
            walk in prop::collection::vec((0u64..1 << 45, 0u32..140), 1..60),
        ) {
            let mut readahead = Readahead::new(max);
            for (page, hits) in walk {
                let range = readahead.fault(PageNr(page));
                prop_assert!(range.contains(&PageNr(page)));
                prop_assert!(range.end - range.start <= readahead.max().max(Pages(1)));
                prop_assert_eq!(range.start.0 / 512, (range.end.0 - 1) / 512);
                (0..hits).for_each(|_| readahead.hit());
                prop_assert_eq!(readahead.hits(), hits.min(FIELD as u32));
            }
        }
    }
}
