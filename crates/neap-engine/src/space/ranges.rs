//! A set of address ranges that never touch: what is registered in one space.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges in bytes; adjacent ones are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    by_start: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        // Whatever touches the new range becomes part of it.
        while let Some((&from, &to)) = self.by_start.range(..=end).next_back() {
            if to < start {
                break;
            }
            start = start.min(from);
            end = end.max(to);
            self.by_start.remove(&from);
        }
        self.by_start.insert(start, end);
    }

    /// Takes a range out; what lies beside it stays.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&from, &to)) = self.by_start.range(..range.end).next_back() {
            if to <= range.start {
                break;
            }
            self.by_start.remove(&from);
            if to > range.end {
                self.by_start.insert(range.end, to);
            }
            if from < range.start {
                self.by_start.insert(from, range.start);
            }
        }
    }

    /// The range that holds `address`.
    pub fn find(&self, address: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.by_start.range(..=address).next_back()?;
        (address < end).then_some(start..end)
    }

    /// What follows from `address` on, up to the next gap.
    pub fn next(&self, address: u64) -> Option<Range<u64>> {
        let here = self.find(address).map(|range| address..range.end);
        here.or_else(|| {
            let (&start, &end) = self.by_start.range(address..).next()?;
            Some(start..end)
        })
    }

    /// Whether any byte of `range` is in the set.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        let before = self.by_start.range(..range.end).next_back();
        before.is_some_and(|(_, &end)| end > range.start)
    }

    /// Whether every byte of `range` is in the set.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        self.find(range.start)
            .is_some_and(|found| range.end <= found.end)
    }

    /// What of `range` is in the set, ascending.
    pub fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.find(range.start);
        let from = first.as_ref().map_or(range.start, |first| first.end);
        let cut = |part: Range<u64>| part.start.max(range.start)..part.end.min(range.end);
        let later = self.by_start.range(from..range.end.max(from));
        let later = later.map(|(&start, &end)| start..end);
        first
            .into_iter()
            .chain(later)
            .map(cut)
            .filter(|part| !part.is_empty())
            .collect()
    }

    /// What of `range` is not in the set, ascending.
    pub fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut from = range.start;
        for part in self.within(range) {
            gaps.push(from..part.start);
            from = part.end;
        }
        gaps.push(from..range.end);
        gaps.retain(|gap| gap.start < gap.end);
        gaps
    }

    /// All ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.by_start.iter().map(|(&start, &end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_a_set_of_bytes(ops in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..16), 0..40)) {
            let (mut ranges, mut model) = (Ranges::default(), [false; 80]);
            for (add, start, len) in ops {
                let range = start..start + len;
                if add { ranges.insert(range.clone()); } else { ranges.remove(range.clone()); }
                for at in range { model[at as usize] = add; }
                let got: Vec<bool> = (0..80).map(|at| ranges.find(at).is_some()).collect();
                prop_assert_eq!(&got[..], &model[..]);
                let next: Vec<_> = (0..80).map(|at| ranges.next(at).map_or(99, |next| next.start)).collect();
                let first = |from: usize| (from..80).find(|&at| model[at]).map_or(99, |at| at as u64);
                prop_assert_eq!(next, (0..80).map(first).collect::<Vec<_>>());
                let all: Vec<_> = ranges.iter().collect();
                prop_assert!(all.windows(2).all(|w| w[0].end < w[1].start));
            }
            for (start, end) in [(0, 80), (13, 40), (20, 21), (30, 30)] {
                let inside: Vec<u64> = ranges.within(&(start..end)).into_iter().flatten().collect();
                let outside: Vec<u64> = ranges.gaps(&(start..end)).into_iter().flatten().collect();
                let (want, rest): (Vec<u64>, Vec<u64>) = (start..end).partition(|&at| model[at as usize]);
                prop_assert_eq!((inside, outside), (want, rest));
            }
        }
    }

    #[test]
    fn a_hole_is_not_covered() {
        let mut ranges = Ranges::default();
        ranges.insert(0..10);
        ranges.insert(12..20);
        assert!(!ranges.covers(&(5..15)));
        assert_eq!(ranges.within(&(5..15)), vec![5..10, 12..15]);
        assert!(ranges.touches(&(9..12)) && !ranges.touches(&(10..12)));
        ranges.insert(10..12);
        assert!(ranges.covers(&(5..15)));
    }
}
