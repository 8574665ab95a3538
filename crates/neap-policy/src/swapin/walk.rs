//! Readahead for a program whose accesses nobody sees.
//!
//! The kernel finds accessed bits, and a mark in the page that it read ahead first. Where only faults are seen, one at
//! the first page after the last window that is not there is taken as proof that the window was used, and that what
//! was there already was passed: a walk through memory of which parts are resident is a walk all the same.
//!
//! The kernel keeps one state for each mapping. Most of a program is one heap, so that here each walk has its own.

use std::ops::Range;

use neap_tuning::TUNING;
use neap_units::{PageNr, Pages};

use super::Readahead;

/// Pages of the largest window.
const LONGEST: u32 = TUNING.loads.window.0 as u32;

/// The readahead of one address space, told of its faults alone.
#[derive(Clone, Debug)]
pub struct WalkReadahead {
    /// Where each walk is: the low bits of the first page of its last window. Beside each other, since most faults are
    /// near none of them.
    at: [u32; TUNING.loads.walks],
    walks: [Walk; TUNING.loads.walks],
    /// Those that were met again since the hand has passed them: who begins takes the place of another.
    met: u32,
    hand: usize,
    /// The walk of the last fault.
    last: usize,
}

/// What may become a walk: each fault that continues none begins one.
#[derive(Clone, Debug)]
struct Walk {
    readahead: Readahead,
    /// The last window, as far up as it was loaded.
    window: Range<PageNr>,
    /// Whether the last fault continued it. Two neighbours in a row are no walk yet.
    goes_on: bool,
}

impl Default for WalkReadahead {
    fn default() -> Self {
        Self {
            at: [0; TUNING.loads.walks],
            walks: std::array::from_fn(|_| Walk::NEW),
            met: 0,
            hand: 0,
            last: 0,
        }
    }
}

impl WalkReadahead {
    /// The window of a fault. `around`: pages of the aligned block that a fault loads which continues no walk, a power of two.
    /// `are_there`: whether all pages of a range, of one page at least, are resident.
    pub fn fault(
        &mut self,
        page: PageNr,
        around: Pages,
        are_there: impl Fn(Range<PageNr>) -> bool,
    ) -> Range<PageNr> {
        let continued = self.near(page).find_map(|walk| {
            let comes_from = self.walks[walk].comes_from(page, &are_there)?;
            Some((walk, comes_from))
        });
        self.last = match continued {
            Some((walk, comes_from)) => {
                self.met |= 1 << walk;
                self.walks[walk].go_on(comes_from);
                walk
            }
            None => self.begin(),
        };
        let walk = &mut self.walks[self.last];
        walk.window = walk.readahead.fault(page);
        if continued.is_none() {
            let start = PageNr(page.0 & !(around.0 - 1));
            walk.window = start..start + around;
        }
        self.at[self.last] = walk.window.start.0 as u32;
        walk.window.clone()
    }

    /// Nothing of the last window was loaded from this page on, which lies above the one that was asked for.
    pub fn ends_at(&mut self, end: PageNr) {
        let window = &mut self.walks[self.last].window;
        window.end = window.end.min(end);
    }

    /// The walks that may have come to this page.
    fn near(&self, page: PageNr) -> impl Iterator<Item = usize> {
        const REACH: u32 = 2 * LONGEST;
        let reaches =
            move |at: u32| (page.0 as u32).wrapping_sub(at).wrapping_add(REACH) <= 2 * REACH;
        let near = self.at.iter().enumerate();
        near.filter_map(move |(walk, &at)| reaches(at).then_some(walk))
    }

    /// The place of the first that has not been met again.
    fn begin(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % TUNING.loads.walks;
            let bit = 1 << self.hand;
            if self.met & bit == 0 {
                self.walks[self.hand] = Walk::NEW;
                return self.hand;
            }
            self.met &= !bit;
        }
    }
}

impl Walk {
    const NEW: Self = Self {
        readahead: Readahead::cold(LONGEST),
        window: PageNr(0)..PageNr(0),
        goes_on: false,
    };

    /// The page before `page` in the walk, if `page` is what it comes to next.
    fn comes_from(
        &self,
        page: PageNr,
        are_there: impl Fn(Range<PageNr>) -> bool,
    ) -> Option<PageNr> {
        let passed = |range: Range<PageNr>| {
            let length = range.end.0 - range.start.0;
            length == 0 || length <= u64::from(LONGEST) && are_there(range)
        };
        let (first, end) = (self.window.start, self.window.end);
        let next = PageNr(page.0 + 1);
        if first == end {
            return None; // there was no fault
        }
        if page >= end && passed(end..page) {
            return Some(PageNr(page.0 - 1));
        }
        (page < first && passed(next..first)).then_some(next)
    }

    fn go_on(&mut self, comes_from: PageNr) {
        let asked_for = u64::from(!self.goes_on);
        let used = self.window.start.0 + asked_for..self.window.end.0;
        used.for_each(|_| self.readahead.hit());
        self.readahead.pass(comes_from);
        self.goes_on = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: Pages = Pages(1);

    /// Walks over pages, some of which are there, and says how many pages each fault asked for.
    fn walk(pages: impl Iterator<Item = u64>, is_there: impl Fn(u64) -> bool) -> Vec<usize> {
        let mut ahead = WalkReadahead::default();
        let mut loaded: Vec<u64> = Vec::new();
        let mut sizes = Vec::new();
        for page in pages {
            if is_there(page) || loaded.contains(&page) {
                continue;
            }
            let are_there = |range: Range<PageNr>| (range.start.0..range.end.0).all(&is_there);
            let window = ahead.fault(PageNr(page), ONE, are_there);
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
        assert!(sizes[6..].iter().all(|&size| size == 64), "{sizes:?}");
    }

    #[test]
    fn pages_that_are_there_do_not_end_a_walk() {
        for every in [2, 7, 33] {
            let sizes = walk(10_240..10_752, |page| page % every == 0);
            let large = sizes.iter().filter(|&&size| size >= 8).count();
            assert!(sizes.len() <= large + 4, "{every}: {sizes:?}");
        }
    }

    #[test]
    fn a_walk_down_is_one_too() {
        let mut ahead = WalkReadahead::default();
        let (mut page, mut sizes) = (10_751, Vec::new());
        while page >= 10_300 {
            let window = ahead.fault(PageNr(page), ONE, |_| true);
            sizes.push(window.end.0 - window.start.0);
            page = window.start.0.min(page) - 2; // one is there
        }
        assert!(sizes[6..].iter().all(|&size| size == 64), "{sizes:?}");
    }

    #[test]
    fn a_fault_elsewhere_is_none() {
        let mut ahead = WalkReadahead::default();
        for page in [100u64, 9_000, 50, 70_000, 3_000] {
            ahead.fault(PageNr(page), ONE, |_| true);
        }
        let window = ahead.fault(PageNr(30_000), ONE, |_| true);
        assert_eq!(window, PageNr(30_000)..PageNr(30_001));
    }

    #[test]
    fn where_there_is_much_room_a_walk_begins_with_a_block() {
        let mut ahead = WalkReadahead::default();
        let mut window = |page| {
            let window = ahead.fault(PageNr(page), Pages(4), |_| false);
            window.start.0..window.end.0
        };
        assert_eq!(window(10_242), 10_240..10_244);
        assert_eq!(window(70_000), 70_000..70_004);
        assert_eq!(window(10_244), 10_244..10_252, "it goes on");
        assert_eq!(window(10_252).count(), 16);
    }

    /// The windows of the last turn of as many walks, each of which faults once in every turn.
    fn by_turns(walks: u64, turns: usize) -> Vec<u64> {
        let mut ahead = WalkReadahead::default();
        let mut pages: Vec<u64> = (1..=walks).map(|n| n << 20).collect();
        let mut sizes = Vec::new();
        for _ in 0..turns {
            sizes.clear();
            for page in &mut pages {
                let window = ahead.fault(PageNr(*page), ONE, |_| false);
                sizes.push(window.end.0 - window.start.0);
                *page = window.end.0;
            }
        }
        sizes
    }

    #[test]
    fn walks_by_turns_do_not_disturb_each_other() {
        let walks = TUNING.loads.walks as u64;
        assert_eq!(by_turns(walks, 8), [64; TUNING.loads.walks]);
        assert_eq!(
            by_turns(walks + 1, 8),
            [1; TUNING.loads.walks + 1],
            "forgotten"
        );
    }

    #[test]
    fn a_walk_goes_on_beside_faults_elsewhere() {
        let mut ahead = WalkReadahead::default();
        let mut page = 1 << 20;
        for turn in 0..8 {
            for elsewhere in 1..TUNING.loads.walks as u64 {
                let far = PageNr((1 << 24) + ((turn * 100 + elsewhere) << 12));
                assert_eq!(ahead.fault(far, ONE, |_| true), far..PageNr(far.0 + 1));
            }
            page = ahead.fault(PageNr(page), ONE, |_| false).end.0;
        }
        let window = ahead.fault(PageNr(page), ONE, |_| false);
        assert_eq!(window.end.0 - window.start.0, 64);
    }

    /// How many faults two walks have that go by turns over 4,096 pages each, the second so many pages behind the first.
    /// What was passed is gone.
    fn faults_of_two(behind: u64) -> usize {
        let mut ahead = WalkReadahead::default();
        let mut loaded: Vec<u64> = Vec::new();
        let mut faults = 0;
        for step in 0..4096 {
            for page in [(1 << 20) + behind + step, (1 << 20) + step] {
                if let Some(at) = loaded.iter().position(|&there| there == page) {
                    loaded.swap_remove(at);
                    continue;
                }
                let window = ahead.fault(PageNr(page), ONE, |_| false);
                loaded.extend(page + 1..window.end.0);
                faults += 1;
            }
        }
        faults
    }

    #[test]
    fn walks_near_each_other_do_not_disturb_each_other() {
        for behind in [70, 100, 128, 1000, 1 << 32] {
            let faults = faults_of_two(behind);
            assert!(faults < 220, "{behind}: {faults}");
        }
    }

    #[test]
    fn two_neighbours_are_no_walk_yet() {
        let mut ahead = WalkReadahead::default();
        for page in [100u64, 9_000, 50_000] {
            ahead.fault(PageNr(page), ONE, |_| false);
            let window = ahead.fault(PageNr(page + 1), ONE, |_| false);
            assert_eq!(window.end.0 - window.start.0, 2);
        }
    }

    #[test]
    fn pages_that_are_away_end_a_walk() {
        let mut ahead = WalkReadahead::default();
        let first = ahead.fault(PageNr(10_240), ONE, |_| false);
        let beyond = PageNr(first.end.0 + 3);
        let window = ahead.fault(beyond, ONE, |_| false);
        assert!(window.end.0 - window.start.0 < 8, "{window:?}");
    }

    proptest! {
        #[test]
        fn any_fault_gets_a_window_around_it(
            faults in prop::collection::vec((0u64..1 << 14, 0u64..70, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut ahead = WalkReadahead::default();
            for (page, loaded, is_there, high) in faults {
                let page = PageNr(page + (u64::from(high) << 32));
                let window = ahead.fault(page, Pages(1 << (loaded % 3)), |_| is_there);
                prop_assert!(window.contains(&page));
                prop_assert!(window.end.0 - window.start.0 <= u64::from(LONGEST));
                ahead.ends_at(window.end.min(PageNr(page.0 + 1 + loaded)));
            }
        }
    }
}
