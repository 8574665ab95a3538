//! Faults at equal distances: a walk down a column, or over the fields of an array of structures. Readahead
//! of neighbours sees nothing in them, so each page would cost a fault.

use neap_tuning::TUNING;
use neap_units::PageNr;

/// One walk at a time, as the faults of a space tell it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stride {
    last: u64,
    distance: i64,
    seen: u32,
    /// Pages brought for the last fault of the walk; 0: there is none.
    depth: u32,
}

impl Stride {
    /// Takes note of a fault and says which pages after it the walk will want, at most `most`, nearest first.
    /// While a walk goes on they double with each fault that comes where it must come.
    pub fn fault(
        &mut self,
        page: PageNr,
        most: u32,
    ) -> impl Iterator<Item = PageNr> + Clone + use<> {
        let distance = page.0.wrapping_sub(self.last).cast_signed();
        let walked = self.distance.wrapping_mul(i64::from(self.depth) + 1);
        if self.distance.unsigned_abs() > 1 && distance == walked {
            self.seen += 1;
        } else {
            (self.distance, self.seen, self.depth) = (distance, 1, 0);
        }
        if self.seen >= TUNING.loads.equal_distances {
            self.depth = (self.depth * 2).clamp(1, most);
        }
        self.last = page.0;
        let (last, distance) = (self.last, self.distance);
        (1..=i64::from(self.depth))
            .map_while(move |step| last.checked_add_signed(distance.checked_mul(step)?))
            .map(PageNr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(pages: impl IntoIterator<Item = u64>) -> Vec<Vec<u64>> {
        let mut stride = Stride::default();
        let fault = |page| stride.fault(PageNr(page), 8).map(|page| page.0).collect();
        pages.into_iter().map(fault).collect()
    }

    #[test]
    fn a_walk_is_followed_further_and_further() {
        let wanted = faults([1000, 1016, 1032, 1048, 1080, 1128]);
        assert!(wanted[..3].iter().all(Vec::is_empty), "{wanted:?}");
        assert_eq!(wanted[3], [1064]);
        assert_eq!(wanted[4], [1096, 1112]);
        assert_eq!(wanted[5], [1144, 1160, 1176, 1192]);
    }

    #[test]
    fn a_walk_may_go_down_as_far_as_there_are_pages() {
        let wanted = faults([50, 40, 30, 20, 0]);
        assert_eq!(wanted[3], [10]);
        assert_eq!(wanted[4], [0u64; 0]);
    }

    #[test]
    fn a_fault_elsewhere_ends_it() {
        let wanted = faults([1000, 1016, 1032, 1048, 7, 1064, 1080]);
        assert!(wanted[4..].iter().all(Vec::is_empty), "{wanted:?}");
    }

    #[test]
    fn neighbours_are_left_to_readahead() {
        assert!(faults(10..20).iter().all(Vec::is_empty));
        assert!(faults([5; 9]).iter().all(Vec::is_empty));
    }

    #[test]
    fn no_more_than_asked_for() {
        let mut at = 0;
        let mut stride = Stride::default();
        for _ in 0..9 {
            at = stride.fault(PageNr(at), 8).last().map_or(at, |page| page.0) + 16;
        }
        assert_eq!(stride.fault(PageNr(at), 8).count(), 8);
    }
}
