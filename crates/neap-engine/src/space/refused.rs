//! What the program asked us to leave alone, until it is unmapped.

use std::ops::Range;

use neap_sys::Mapping;

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

    /// To be remembered before the mappings are read.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Forgets ranges where nothing is mapped: another mapping may come. Not if the program has asked
    /// since the mappings were read: what it asked for may be younger than they are.
    pub fn forget_unmapped(&mut self, mappings: &[Mapping], asked: u64) {
        if asked != self.asked {
            return;
        }
        let unmapped = |range: &Range<u64>| {
            let at = mappings.partition_point(|mapping| mapping.range.end <= range.start);
            mappings
                .get(at)
                .is_none_or(|mapping| mapping.range.start >= range.end)
        };
        let gone: Vec<Range<u64>> = self.ranges.iter().filter(unmapped).collect();
        for range in gone {
            self.ranges.remove(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(range: Range<u64>) -> Mapping {
        Mapping {
            range,
            read: true,
            write: true,
            exec: false,
            shared: false,
            anonymous: true,
            special: false,
        }
    }

    #[test]
    fn a_range_is_forgotten_with_its_mapping_but_not_by_an_old_look() {
        let mut refused = Refused::default();
        refused.insert(10..20);
        refused.insert(40..50);
        let asked = refused.asked();
        refused.forget_unmapped(&[mapping(0..15)], asked);
        assert!(refused.touches(&(10..20)) && !refused.touches(&(40..50)));
        refused.insert(40..50);
        refused.forget_unmapped(&[], asked);
        assert!(refused.touches(&(40..50)));
    }
}
