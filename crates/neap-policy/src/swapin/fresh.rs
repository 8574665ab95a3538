//! Where the fresh memory of a program is being filled, to fill ahead of it.

use neap_tuning::TUNING;
use neap_units::{PageNr, Pages};

/// A place where fresh pages were filled last.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The page behind it.
    next: PageNr,
    /// Pages of the last fill.
    len: Pages,
}

/// The places, the one that was filled last first.
#[derive(Debug, Default)]
pub struct FreshRuns {
    runs: [Option<Run>; TUNING.faults.fresh_places],
}

impl FreshRuns {
    /// How many pages to fill at `page`, at most `most`: twice as many as the last time if that ended here, else one.
    #[must_use]
    pub fn wanted(&self, page: PageNr, most: Pages) -> Pages {
        let run = self.runs.iter().flatten().find(|run| run.next == page);
        run.map_or(Pages(1), |run| (run.len * 2).clamp(Pages(1), most))
    }

    /// So many pages have been filled from `page` on. None: one alone is to be tried there next, and the other places
    /// are as before.
    pub fn note(&mut self, page: PageNr, filled: Pages) {
        let run = Run {
            next: page + filled,
            len: filled,
        };
        let others = self.runs.into_iter().flatten();
        let others = others.filter(|other| other.next != page && other.next != run.next);
        let first = (filled > Pages::ZERO).then_some(run);
        let mut all = first.into_iter().chain(others);
        self.runs = std::array::from_fn(|_| all.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Pages = Pages(32);

    /// Fills what is wanted at each of the pages that the walks have come to, by turns.
    fn walk(runs: &mut FreshRuns, places: &mut [u64], turns: usize) -> Vec<u64> {
        let mut last = Vec::new();
        for _ in 0..turns {
            last.clear();
            for place in &mut *places {
                let len = runs.wanted(PageNr(*place), MOST);
                runs.note(PageNr(*place), len);
                *place += len.0;
                last.push(len.0);
            }
        }
        last
    }

    #[test]
    fn a_walk_is_filled_in_runs_that_double() {
        let mut runs = FreshRuns::default();
        let lens: Vec<u64> = (0..7)
            .scan(1000, |place, _| {
                let len = walk(&mut runs, std::slice::from_mut(place), 1)[0];
                Some(len)
            })
            .collect();
        assert_eq!(lens, [1, 2, 4, 8, 16, 32, 32]);
        assert_eq!(runs.wanted(PageNr(5), MOST), Pages(1), "elsewhere");
    }

    #[test]
    fn as_many_walks_as_there_are_places_do_not_disturb_each_other() {
        let mut runs = FreshRuns::default();
        let mut places: Vec<u64> = (1..=TUNING.faults.fresh_places as u64)
            .map(|n| n << 20)
            .collect();
        assert_eq!(
            walk(&mut runs, &mut places, 6),
            [32; TUNING.faults.fresh_places]
        );
        places.push(1 << 30);
        assert_eq!(
            walk(&mut runs, &mut places, 6),
            [1; TUNING.faults.fresh_places + 1],
            "of one more each is forgotten before its turn"
        );
    }

    #[test]
    fn a_walk_goes_on_beside_pages_that_nothing_follows() {
        let mut runs = FreshRuns::default();
        let mut place = [1 << 20];
        for turn in 0..6u64 {
            walk(&mut runs, &mut place, 1);
            for single in 0..TUNING.faults.fresh_places as u64 - 1 {
                runs.note(PageNr((turn * 100 + single) << 40), Pages(1));
            }
        }
        assert_eq!(runs.wanted(PageNr(place[0]), MOST), Pages(32));
    }

    #[test]
    fn where_nothing_could_be_filled_one_page_is_tried_and_other_walks_go_on() {
        let mut runs = FreshRuns::default();
        let mut places: Vec<u64> = (1..=4).map(|n| n << 20).collect();
        walk(&mut runs, &mut places, 6);
        for _ in 0..2 * TUNING.faults.fresh_places {
            runs.note(PageNr(places[0]), Pages(0));
            runs.note(PageNr(1 << 40), Pages(0));
        }
        let wanted: Vec<u64> = places
            .iter()
            .map(|&place| runs.wanted(PageNr(place), MOST).0)
            .collect();
        assert_eq!(wanted, [1, 32, 32, 32]);
    }

    #[test]
    fn each_place_is_kept_once() {
        let mut runs = FreshRuns::default();
        let mut other = [1 << 20];
        walk(&mut runs, &mut other, 6);
        for turn in 0..4 * TUNING.faults.fresh_places as u64 {
            runs.note(PageNr(100 - turn), Pages(turn + 1)); // all end at page 101
            runs.note(PageNr(50), Pages(1));
            runs.note(PageNr(51), Pages(50));
        }
        let ends = runs
            .runs
            .iter()
            .flatten()
            .filter(|run| run.next == PageNr(101))
            .count();
        assert_eq!(ends, 1);
        assert_eq!(runs.wanted(PageNr(other[0]), MOST), Pages(32));
    }

    /// Mappings of so many pages lie beside each other, and the kernel fills none across their border.
    #[test]
    fn a_border_that_nothing_is_filled_across_costs_one_try_each() {
        for border in [1u64, 2, 16, 64] {
            let (mut runs, mut place, mut failed) = (FreshRuns::default(), 0u64, 0);
            while place < 4096 {
                let page = PageNr(place);
                let wanted = runs.wanted(page, MOST);
                if place % border + wanted.0 > border {
                    runs.note(page, Pages(0));
                    failed += 1;
                    assert_eq!(runs.wanted(page, MOST), Pages(1));
                } else {
                    runs.note(page, wanted);
                    place += wanted.0;
                }
            }
            assert!(failed <= 2 * 4096 / border, "{failed} of {border}");
        }
    }
}
