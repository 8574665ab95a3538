//! A set of pages as ranges that never touch.

use std::ops::Range;

use neap_units::{PageNr, Pages};

/// Ascending, none empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<Range<u64>>);

impl Spans {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn has(&self, page: PageNr) -> bool {
        let after = self.0.partition_point(|span| span.end <= page.0);
        self.0.get(after).is_some_and(|span| span.start <= page.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<PageNr>> + '_ {
        self.0
            .iter()
            .map(|span| PageNr(span.start)..PageNr(span.end))
    }

    /// The parts of a range that are in the set.
    pub(super) fn within(&self, range: &Range<PageNr>) -> Vec<Range<u64>> {
        let first = self.0.partition_point(|span| span.end <= range.start.0);
        let inside = self.0[first..].iter();
        inside
            .take_while(|span| span.start < range.end.0)
            .map(|span| span.start.max(range.start.0)..span.end.min(range.end.0))
            .collect()
    }

    pub(super) fn insert(&mut self, range: &Range<PageNr>) {
        if range.start >= range.end {
            return;
        }
        // Those that it meets or touches become one with it.
        let first = self.0.partition_point(|span| span.end < range.start.0);
        let last = self.0.partition_point(|span| span.start <= range.end.0);
        let mut whole = range.start.0..range.end.0;
        if let [met, ..] = &self.0[first..last] {
            whole.start = whole.start.min(met.start);
        }
        if let [.., met] = &self.0[first..last] {
            whole.end = whole.end.max(met.end);
        }
        self.0.splice(first..last, [whole]);
    }

    pub(super) fn remove(&mut self, range: &Range<PageNr>) {
        if range.start >= range.end {
            return;
        }
        let first = self.0.partition_point(|span| span.end <= range.start.0);
        let last = self.0.partition_point(|span| span.start < range.end.0);
        let (Some(head), Some(tail)) = (self.0[first..last].first(), self.0[first..last].last())
        else {
            return;
        };
        let rest = [head.start..range.start.0, range.end.0..tail.end];
        let rest = rest.into_iter().filter(|span| span.start < span.end);
        self.0.splice(first..last, rest);
    }

    /// What is at one place goes to another, as memory does that mremap moves.
    pub(super) fn shift(&mut self, from: PageNr, to: PageNr, len: Pages) {
        if self.is_empty() {
            return;
        }
        let moved = self.within(&from.span(len));
        self.remove(&from.span(len));
        self.remove(&to.span(len));
        for span in moved {
            let at = |page: u64| PageNr(page - from.0 + to.0);
            self.insert(&(at(span.start)..at(span.end)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_equals_a_set_of_pages(
            ops in prop::collection::vec((0u8..3, 0u64..64, 0u64..16, 0u64..64), 0..40),
        ) {
            let (mut spans, mut model) = (Spans::default(), [false; 80]);
            for (op, start, len, to) in ops {
                let range = PageNr(start).span(Pages(len));
                match op {
                    0 => spans.insert(&range),
                    1 => spans.remove(&range),
                    _ if start.abs_diff(to) >= len => spans.shift(PageNr(start), PageNr(to), Pages(len)),
                    _ => continue,
                }
                for at in start..start + len {
                    let (at, there) = (at as usize, (at - start + to) as usize);
                    match op {
                        0 => model[at] = true,
                        1 => model[at] = false,
                        _ => model[there] = std::mem::take(&mut model[at]),
                    }
                }
                let got: Vec<bool> = (0..80).map(|page| spans.has(PageNr(page))).collect();
                prop_assert_eq!(&got[..], &model[..]);
                prop_assert!(spans.0.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert!(spans.0.iter().all(|span| span.start < span.end));
                let inside: Vec<u64> = spans.within(&(PageNr(13)..PageNr(40))).into_iter().flatten().collect();
                let want: Vec<u64> = (13..40).filter(|&page| model[page as usize]).collect();
                prop_assert_eq!(inside, want);
            }
        }
    }
}
