//! What the program asked us to leave alone, until it is unmapped.

use std::ops::Range;

use super::Ranges;

#[derive(Clone, Debug, Default)]
pub(crate) struct Refused {
    ranges: Ranges,
    /// How often the program has asked.
    asked: u64,
}

impl Refused {
    pub fn insert(&mut self, range: Range<u64>) {
        self.ranges.insert(range);
        self.asked += 1;
    }

    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.ranges.touches(range)
    }

    /// Ranges that the engine leaves alone, and how often the program has asked for each.
    pub fn all(&self) -> (Vec<Range<u64>>, u64) {
        (self.ranges.iter().collect(), self.asked)
    }

    /// Forgets ranges where nothing was mapped: another mapping may come. Not if the program has asked since, of which
    /// `asked` tells: what it asked for may be younger than that look.
    pub fn forget(&mut self, unmapped: Vec<Range<u64>>, asked: u64) {
        if asked == self.asked {
            unmapped
                .into_iter()
                .for_each(|range| self.ranges.remove(range));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_forgotten_with_its_mapping_but_not_by_an_old_look() {
        let mut refused = Refused::default();
        refused.insert(10..20);
        refused.insert(40..50);
        let (ranges, asked) = refused.all();
        assert_eq!(ranges, [10..20, 40..50]);
        refused.forget(ranges[1..].to_vec(), asked);
        assert!(refused.touches(&(10..20)) && !refused.touches(&(40..50)));
        refused.insert(40..50);
        refused.forget(ranges, asked);
        assert!(refused.touches(&(40..50)));
    }
}
