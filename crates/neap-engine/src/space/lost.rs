//! Pages of a forked child that no copy could be made of, as its parent's agent or staging area was gone. Nobody has their
//! bytes. The table does not know them, so they would be filled as memory that was never touched: whoever touches one is
//! ended instead. They move and go with their mappings.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_sys::{Lock, Locked};
use neap_units::PageNr;

use super::{Ranges, addresses};

#[derive(Default)]
pub(crate) struct Lost {
    /// There are some. Each fault asks, and need not take the lock for it.
    some: AtomicBool,
    pages: Lock<(Ranges, String), 6>,
}

impl Lost {
    fn pages(&self) -> Locked<'_, (Ranges, String), 6> {
        self.pages.lock()
    }

    /// Whether there may be any.
    pub fn is_some(&self) -> bool {
        self.some.load(Relaxed)
    }

    /// A child has lost these pages, and those that its parent has lost. Why, for each the same.
    pub fn inherit(&self, parent: &Self, pages: Vec<(PageNr, String)>) {
        let (mut all, mut why) = parent.pages().clone();
        for (page, reason) in pages {
            all.insert(addresses(page, 1));
            why = reason;
        }
        self.some.store(!all.is_empty(), Relaxed);
        *self.pages() = (all, why);
    }

    /// Where they are.
    pub fn ranges(&self) -> Ranges {
        match self.is_some() {
            true => self.pages().0.clone(),
            false => Default::default(),
        }
    }

    /// Why a page is lost, if it is.
    pub fn why(&self, page: PageNr) -> Option<String> {
        let lost = self.is_some().then(|| self.pages())?;
        lost.0.find(page.addr()).map(|_| lost.1.clone())
    }

    /// One of a range.
    pub fn first_of(&self, range: &Range<u64>) -> Option<PageNr> {
        let first = self.pages().0.within(range).into_iter().next()?;
        Some(PageNr::containing(first.start))
    }

    /// The range was unmapped or thrown away.
    pub fn forget(&self, range: &Range<u64>) {
        if self.is_some() {
            self.pages().0.remove(range.clone());
        }
    }

    /// The mapping has moved.
    pub fn remap(&self, from: &Range<u64>, to: u64) {
        if !self.is_some() {
            return;
        }
        let ranges = &mut self.pages().0;
        let moved = ranges.within(from);
        ranges.remove(from.clone());
        ranges.remove(to..to + (from.end - from.start));
        for part in moved {
            ranges.insert(part.start - from.start + to..part.end - from.start + to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: PageNr = PageNr(100);

    #[test]
    fn what_is_lost_moves_and_goes_with_its_mapping_and_is_lost_to_children() {
        let (parent, child) = (Lost::default(), Lost::default());
        let lost = [100, 101, 105].map(|page| (PageNr(page), "gone".to_owned()));
        parent.inherit(&Lost::default(), lost.into());
        assert_eq!(parent.why(FIRST).as_deref(), Some("gone"));
        assert_eq!(parent.why(PageNr(102)), None);
        parent.remap(&addresses(PageNr(101), 8), addresses(PageNr(300), 1).start);
        parent.forget(&addresses(FIRST, 1));
        child.inherit(&parent, Vec::new());
        let all = |lost: &Lost| -> Vec<u64> {
            (0..400)
                .filter(|&page| lost.why(PageNr(page)).is_some())
                .collect()
        };
        assert_eq!(
            (all(&parent), all(&child)),
            (vec![300, 304], vec![300, 304])
        );
        assert_eq!(
            child.first_of(&addresses(PageNr(301), 9)),
            Some(PageNr(304))
        );
        parent.forget(&addresses(PageNr(300), 10));
        assert_eq!(parent.first_of(&(0..u64::MAX)), None);
    }
}
