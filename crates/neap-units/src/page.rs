//! Virtual page numbers.

use std::fmt;
use std::ops::{Add, AddAssign, Range, Sub};

use crate::{Bytes, Pages};

/// Bytes in a page. neap manages base pages of 4 KiB only (x86-64).
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;

/// log2 of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = 12;

/// Number of a virtual page: its address divided by [`PAGE_SIZE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageNr(pub u64);

/// A half-open run of virtual pages.
pub type PageRange = Range<PageNr>;

impl PageNr {
    /// The page that holds address `addr`.
    #[inline]
    #[must_use]
    pub const fn containing(addr: u64) -> PageNr {
        PageNr(addr >> PAGE_SHIFT)
    }

    /// Address of the first byte of the page.
    #[inline]
    #[must_use]
    pub const fn addr(self) -> u64 {
        self.0 << PAGE_SHIFT
    }

    /// The run of `len` pages that starts here.
    #[inline]
    #[must_use]
    pub fn span(self, len: Pages) -> PageRange {
        self..self + len
    }
}

/// Number of pages in a run; an inverted run is empty.
#[inline]
#[must_use]
pub fn pages_of(range: &PageRange) -> Pages {
    Pages(range.end.0.saturating_sub(range.start.0))
}

impl Add<Pages> for PageNr {
    type Output = PageNr;
    #[inline]
    fn add(self, n: Pages) -> PageNr {
        PageNr(self.0 + n.0)
    }
}

impl AddAssign<Pages> for PageNr {
    #[inline]
    fn add_assign(&mut self, n: Pages) {
        self.0 += n.0;
    }
}

impl Sub<Pages> for PageNr {
    type Output = PageNr;
    #[inline]
    fn sub(self, n: Pages) -> PageNr {
        PageNr(self.0 - n.0)
    }
}

impl Sub for PageNr {
    type Output = Pages;
    #[inline]
    fn sub(self, earlier: PageNr) -> Pages {
        Pages(self.0 - earlier.0)
    }
}

impl fmt::Display for PageNr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {:#x}", self.0)
    }
}

impl From<Pages> for Bytes {
    #[inline]
    fn from(n: Pages) -> Bytes {
        Bytes(n.0 << PAGE_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_number_is_the_address_without_its_low_bits() {
        assert_eq!(PageNr::containing(0x7fff_1234_5678), PageNr(0x7_fff1_2345));
        assert_eq!(PageNr(0x7_fff1_2345).addr(), 0x7fff_1234_5000);
        assert_eq!(PAGE_SIZE, 4096);
    }

    #[test]
    fn arithmetic_keeps_the_units_apart() {
        let run = PageNr(10).span(Pages(4));
        assert_eq!(run, PageNr(10)..PageNr(14));
        assert_eq!(pages_of(&run), Pages(4));
        assert_eq!(pages_of(&(run.end..run.start)), Pages(0));
        assert_eq!(run.end - run.start, Pages(4));
        assert_eq!(run.end - Pages(1), PageNr(13));
        assert_eq!(Bytes::from(Pages(2)), Bytes(8192));
        assert_eq!(PageNr(0x10).to_string(), "page 0x10");
    }
}
