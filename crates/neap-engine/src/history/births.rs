//! How old generations are. A space is known by its number.

use std::collections::{HashMap, HashSet};

use neap_control::{AGES, Column, Sample};
use neap_policy::Listed;
use neap_units::Pages;

use super::GenerationReport;

/// Generations of a space at most.
const GENERATIONS: usize = 4;

/// When the generations of each space were opened.
#[derive(Default)]
pub(super) struct Births(HashMap<u64, Born>);

/// When those of one space were.
struct Born {
    youngest: u64,
    /// By number, modulo as many as there are at most.
    times: [u64; GENERATIONS],
}

impl Born {
    fn new(youngest: u64, now: u64) -> Self {
        let times = [now; GENERATIONS];
        Self { youngest, times }
    }

    /// The youngest has this number now.
    fn note(&mut self, youngest: u64, now: u64) {
        let opened = youngest.saturating_sub(self.youngest);
        for back in 0..opened.min(GENERATIONS as u64) {
            self.times[place(youngest - back)] = now;
        }
        self.youngest = youngest;
    }
}

fn place(generation: u64) -> usize {
    (generation % GENERATIONS as u64) as usize
}

/// A space by its number, and what is listed in it.
pub(super) type Found = (u64, Listed);

impl Births {
    /// These are all spaces that there are.
    pub fn note(&mut self, found: &[Found], now: u64) {
        let before = self.0.len();
        for (space, listed) in found {
            let youngest = listed.generations[0].0;
            let born = self.0.entry(*space);
            let born = born.or_insert_with(|| Born::new(youngest, now));
            born.note(youngest, now);
        }
        if self.0.len() > found.len() || before > found.len() {
            let live: HashSet<u64> = found.iter().map(|(space, _)| *space).collect();
            self.0.retain(|space, _| live.contains(space));
        }
    }

    /// Age of a generation, in milliseconds; 0 if it was opened since they were noted last.
    fn age(&self, space: u64, generation: u64, now: u64) -> u64 {
        let born = self.0.get(&space);
        let noted = born.filter(|born| generation <= born.youngest);
        let time = noted.map_or(now, |born| born.times[place(generation)]);
        now.saturating_sub(time) / 1_000_000
    }

    /// The generations by their place from the youngest on; of several spaces each has the age of the oldest.
    pub fn by_generation(&self, found: &[Found], now: u64) -> [GenerationReport; GENERATIONS] {
        let mut all = [GenerationReport::default(); GENERATIONS];
        for (space, listed) in found {
            for (report, (generation, pages)) in all.iter_mut().zip(listed.generations) {
                if pages > Pages::ZERO {
                    report.age_ms = report.age_ms.max(self.age(*space, generation, now));
                    report.pages += pages.0;
                }
            }
        }
        all
    }

    /// The pages of all generations, by class of age.
    pub fn by_age(&self, found: &[Found], now: u64, sample: &mut Sample) {
        for (space, listed) in found {
            for (generation, pages) in listed.generations {
                let age = self.age(*space, generation, now);
                let class = AGES.iter().find(|(_, most)| age <= *most);
                let (column, _) = class.unwrap_or(&AGES[AGES.len() - 1]);
                sample.set(*column, sample.get(*column) + pages.0);
            }
            let probation = sample.get(Column::Probation) + listed.probation.0;
            sample.set(Column::Probation, probation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A space whose youngest generation has this number, with so many pages in each from that on.
    fn found(space: u64, youngest: u64, pages: [u64; GENERATIONS]) -> Found {
        let generation = |back: usize| (youngest - back as u64, Pages(pages[back]));
        let listed = Listed {
            generations: [0, 1, 2, 3].map(generation),
            probation: Pages(5),
        };
        (space, listed)
    }

    #[test]
    fn a_generation_is_as_old_as_the_first_look_that_found_it() {
        let mut births = Births::default();
        births.note(&[found(7, 3, [9, 0, 0, 0])], SECOND);
        births.note(&[found(7, 3, [9, 0, 0, 0])], 2 * SECOND);
        births.note(&[found(7, 5, [1, 2, 6, 0])], 4 * SECOND);
        let now = [found(7, 5, [1, 2, 6, 0])];
        let all = births.by_generation(&now, 9 * SECOND);
        let seen = all.map(|one| (one.age_ms, one.pages));
        assert_eq!(seen, [(5000, 1), (5000, 2), (8000, 6), (0, 0)]);
        let mut sample = Sample::default();
        births.by_age(&now, 12 * SECOND, &mut sample);
        let of = |column| sample.get(column);
        assert_eq!((of(Column::Age1s), of(Column::Age10s)), (0, 3));
        assert_eq!((of(Column::Age1min), of(Column::Probation)), (6, 5));
    }

    #[test]
    fn a_space_that_opened_many_at_once_has_none_older_than_the_look_before() {
        let mut births = Births::default();
        births.note(&[found(7, 3, [4, 0, 0, 0])], SECOND);
        births.note(&[found(7, 40, [1, 1, 1, 1])], 3 * SECOND);
        let all = births.by_generation(&[found(7, 40, [1, 1, 1, 1])], 4 * SECOND);
        assert!(all.iter().all(|one| one.age_ms == 1000), "{all:?}");
    }

    /// It has the place of one that is gone.
    #[test]
    fn what_was_opened_since_the_last_look_is_young() {
        let mut births = Births::default();
        births.note(&[found(7, 3, [1; 4])], SECOND);
        let all = births.by_generation(&[found(7, 5, [1; 4])], 9 * SECOND);
        assert_eq!(all.map(|one| one.age_ms), [0, 0, 8000, 8000]);
    }

    #[test]
    fn spaces_that_are_gone_are_forgotten_and_those_that_come_are_young() {
        let mut births = Births::default();
        for look in 0..50 {
            let now = look * SECOND;
            let spaces = [found(look, 3, [1; 4]), found(look + 1, 3, [1; 4])];
            births.note(&spaces, now);
            assert_eq!(births.0.len(), 2);
            assert_eq!(births.age(look + 1, 3, now), 0);
        }
        births.note(&[], 99 * SECOND);
        assert!(births.0.is_empty());
    }
}
