//! Readahead for a program whose accesses nobody sees.
//!
//! The kernel finds accessed bits, and a mark in the page that it read ahead first. Where only faults are seen, one at
//! the first page after the last window that is not there is taken as proof that the window was used, and that what
//! was there already was passed: a walk through memory of which parts are resident is a walk all the same.

use std::ops::Range;

use neap_units::PageNr;

use super::Readahead;

/// The readahead of one address space, told of its faults alone.
#[derive(Clone, Debug)]
pub struct WalkReadahead {
    readahead: Readahead,
    /// The last window, as far up as it was loaded.
    last: Range<PageNr>,
}

impl WalkReadahead {
    /// Readahead of at most `max` pages, capped at 32.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self {
            readahead: Readahead::new(max),
            last: PageNr(0)..PageNr(0),
        }
    }

    /// The window of a fault. `are_there`: whether all pages of a range, of one page at least, are resident.
    pub fn fault(
        &mut self,
        page: PageNr,
        are_there: impl Fn(Range<PageNr>) -> bool,
    ) -> Range<PageNr> {
        let longest = self.readahead.max().0;
        let passed = |range: Range<PageNr>| {
            let length = range.end.0 - range.start.0;
            length == 0 || length <= longest && are_there(range)
        };
        let (first, end) = (self.last.start, self.last.end);
        let next = PageNr(page.0 + 1);
        let above = page >= end && passed(end..page);
        let below = page < first && passed(next..first);
        if above || below {
            (first.0 + 1..end.0).for_each(|_| self.readahead.hit());
        }
        match (above, below) {
            (true, _) if page.0 > 0 => self.readahead.pass(PageNr(page.0 - 1)),
            (_, true) => self.readahead.pass(next),
            _ => {}
        }
        self.last = self.readahead.fault(page);
        self.last.clone()
    }

    /// Nothing of the last window was loaded from this page on, which lies above the one that was asked for.
    pub fn ends_at(&mut self, end: PageNr) {
        self.last.end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks over pages, some of which are there, and says how many pages each fault asked for.
    fn walk(pages: impl Iterator<Item = u64>, is_there: impl Fn(u64) -> bool) -> Vec<usize> {
        let mut ahead = WalkReadahead::new(32);
        let mut loaded: Vec<u64> = Vec::new();
        let mut sizes = Vec::new();
        for page in pages {
            if is_there(page) || loaded.contains(&page) {
                continue;
            }
            let are_there = |range: Range<PageNr>| (range.start.0..range.end.0).all(&is_there);
            let window = ahead.fault(PageNr(page), are_there);
            loaded.extend((window.start.0..window.end.0).filter(|&at| !is_there(at)));
            let last = loaded.last().copied().unwrap_or(page);
            ahead.ends_at(PageNr(last + 1));
            sizes.push((window.end.0 - window.start.0) as usize);
        }
        sizes
    }

    #[test]
    fn a_walk_gets_the_largest_windows() {
        let sizes = walk(10_240..10_700, |_| false);
        assert!(sizes[3..].iter().all(|&size| size == 32), "{sizes:?}");
    }

    #[test]
    fn pages_that_are_there_do_not_end_a_walk() {
        for every in [2, 7, 33] {
            let sizes = walk(10_240..10_752, |page| page % every == 0);
            let large = sizes.iter().filter(|&&size| size >= 8).count();
            assert!(sizes.len() <= large + 2, "{every}: {sizes:?}");
        }
    }

    #[test]
    fn a_walk_down_is_one_too() {
        let mut ahead = WalkReadahead::new(32);
        let (mut page, mut sizes) = (10_751, Vec::new());
        while page >= 10_300 {
            let window = ahead.fault(PageNr(page), |_| true);
            sizes.push(window.end.0 - window.start.0);
            page = window.start.0.min(page) - 2; // one is there
        }
        assert!(sizes[4..].iter().all(|&size| size == 32), "{sizes:?}");
    }

    #[test]
    fn a_fault_elsewhere_is_none() {
        let mut ahead = WalkReadahead::new(32);
        for page in [100u64, 9_000, 50, 70_000, 3_000] {
            ahead.fault(PageNr(page), |_| true);
        }
        let window = ahead.fault(PageNr(30_000), |_| true);
        assert_eq!(window, PageNr(30_000)..PageNr(30_001));
    }

    #[test]
    fn pages_that_are_away_end_a_walk() {
        let mut ahead = WalkReadahead::new(32);
        let first = ahead.fault(PageNr(10_240), |_| false);
        let beyond = PageNr(first.end.0 + 3);
        let window = ahead.fault(beyond, |_| false);
        assert!(window.end.0 - window.start.0 < 8, "{window:?}");
    }
}
