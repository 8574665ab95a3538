//! Where the fresh memory of a program is being filled, to fill ahead of it.

use neap_tuning::TUNING;
use neap_units::PageNr;

/// A place where fresh pages were filled last.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The page behind it.
    next: u64,
    /// Pages of the last fill.
    len: u64,
}

/// The places, the one that was filled last first.
#[derive(Debug, Default)]
pub(super) struct FreshRuns {
    runs: [Run; TUNING.faults.fresh_places],
}

impl FreshRuns {
    /// How many pages to fill at `page`, at most `most`: twice as many as the last time if that ended here, else one.
    pub fn wanted(&self, page: PageNr, most: u64) -> u64 {
        let run = self.runs.iter().find(|run| run.next == page.0);
        run.map_or(1, |run| (run.len * 2).clamp(1, most))
    }

    /// So many pages have been filled from `page` on. None: one alone is to be tried there next, and the other places
    /// are as before.
    pub fn note(&mut self, page: PageNr, filled: u64) {
        let run = Run {
            next: page.0 + filled,
            len: filled,
        };
        let others = self.runs.into_iter();
        let others = others.filter(|other| other.next != page.0 && other.next != run.next);
        let first = (filled > 0).then_some(run);
        let mut all = first.into_iter().chain(others);
        self.runs = std::array::from_fn(|_| all.next().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 32;

    /// Fills what is wanted at each of the pages that the walks have come to, by turns.
    fn walk(runs: &mut FreshRuns, places: &mut [u64], turns: usize) -> Vec<u64> {
        let mut last = Vec::new();
        for _ in 0..turns {
            last.clear();
            for place in &mut *places {
                let len = runs.wanted(PageNr(*place), MOST);
                runs.note(PageNr(*place), len);
                *place += len;
                last.push(len);
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
        assert_eq!(runs.wanted(PageNr(5), MOST), 1, "elsewhere");
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
                runs.note(PageNr((turn * 100 + single) << 40), 1);
            }
        }
        assert_eq!(runs.wanted(PageNr(place[0]), MOST), 32);
    }

    #[test]
    fn where_nothing_could_be_filled_one_page_is_tried_and_other_walks_go_on() {
        let mut runs = FreshRuns::default();
        let mut places: Vec<u64> = (1..=4).map(|n| n << 20).collect();
        walk(&mut runs, &mut places, 6);
        for _ in 0..2 * TUNING.faults.fresh_places {
            runs.note(PageNr(places[0]), 0);
            runs.note(PageNr(1 << 40), 0);
        }
        let wanted: Vec<u64> = places
            .iter()
            .map(|&place| runs.wanted(PageNr(place), MOST))
            .collect();
        assert_eq!(wanted, [1, 32, 32, 32]);
    }

    #[test]
    fn each_place_is_kept_once() {
        let mut runs = FreshRuns::default();
        let mut other = [1 << 20];
        walk(&mut runs, &mut other, 6);
        for turn in 0..4 * TUNING.faults.fresh_places as u64 {
            runs.note(PageNr(100 - turn), turn + 1); // all end at page 101
            runs.note(PageNr(50), 1);
            runs.note(PageNr(51), 50);
        }
        let ends = runs.runs.iter().filter(|run| run.next == 101).count();
        assert_eq!(ends, 1);
        assert_eq!(runs.wanted(PageNr(other[0]), MOST), 32);
    }

    /// Mappings of so many pages lie beside each other, and the kernel fills none across their border.
    #[test]
    fn a_border_that_nothing_is_filled_across_costs_one_try_each() {
        for border in [1u64, 2, 16, 64] {
            let (mut runs, mut place, mut failed) = (FreshRuns::default(), 0u64, 0);
            while place < 4096 {
                let page = PageNr(place);
                let wanted = runs.wanted(page, MOST);
                if place % border + wanted > border {
                    runs.note(page, 0);
                    failed += 1;
                    assert_eq!(runs.wanted(page, MOST), 1);
                } else {
                    runs.note(page, wanted);
                    place += wanted;
                }
            }
            assert!(failed <= 2 * 4096 / border, "{failed} of {border}");
        }
    }
}
