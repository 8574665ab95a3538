//! The run over time: figures of the job at growing distances, and how old its generations are.
//!
//! The sampler takes a sample when it looks anyway, so that nobody wakes for it. The policy core has no clock. When a
//! generation was opened is seen here, at the first look that finds it, and so its age is right but for a tenth of a second.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use neap_control::{AGES, Column, Sample, Series};
use neap_policy::Listed;
use neap_sys::Lock;
use neap_tuning::TUNING;
use neap_units::Pages;
use serde::Serialize;

use crate::group::Group;
use crate::job::Job;
use crate::space::Space;

/// Generations of a space at most.
const GENERATIONS: usize = 4;

/// What is kept of the run.
pub(crate) struct History {
    /// When to look next, in nanoseconds.
    next: AtomicU64,
    /// Highest usage since the last sample, in bytes.
    most: AtomicU64,
    kept: Lock<Kept, 7>,
}

struct Kept {
    series: Series,
    births: Births,
}

impl Default for History {
    fn default() -> Self {
        let period = TUNING.report.sample.as_millis();
        Self {
            next: AtomicU64::new(0),
            most: AtomicU64::new(0),
            kept: Lock::new(Kept {
                series: Series::new(TUNING.report.samples, period.into()),
                births: Births::default(),
            }),
        }
    }
}

/// When the generations of each space were opened.
#[derive(Default)]
struct Births(HashMap<u64, Born>);

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
type Found = (u64, Listed);

impl Births {
    /// These are all spaces that there are.
    fn note(&mut self, found: &[Found], now: u64) {
        let before = self.0.len();
        for (space, listed) in found {
            let youngest = listed.generations[0].0;
            let born = self.0.entry(*space);
            let born = born.or_insert_with(|| Born::new(youngest, now));
            born.note(youngest, now);
        }
        if self.0.len() > found.len() || before > found.len() {
            let live: HashMap<u64, ()> = found.iter().map(|(space, _)| (*space, ())).collect();
            self.0.retain(|space, _| live.contains_key(space));
        }
    }

    /// Age of a generation, in milliseconds.
    fn age(&self, space: u64, generation: u64, now: u64) -> u64 {
        let born = self.0.get(&space);
        let time = born.map_or(now, |born| born.times[place(generation)]);
        now.saturating_sub(time) / 1_000_000
    }

    /// The generations by their place from the youngest on; of several spaces each has the age of the oldest.
    fn by_generation(&self, found: &[Found], now: u64) -> [GenerationReport; GENERATIONS] {
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
    fn by_age(&self, found: &[Found], now: u64, sample: &mut Sample) {
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

/// One generation, as the kernel's lru_gen file shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GenerationReport {
    /// Since it was opened, in milliseconds. Of several processes, the oldest one's.
    pub age_ms: u64,
    /// Resident pages that were seen in use since, and not since the next one was opened.
    pub pages: u64,
}

/// Resident pages by how long ago they were seen in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GenerationsReport {
    /// The generations that have pages, the oldest first.
    pub lists: Vec<GenerationReport>,
    /// Pages that came back too late to be taken for young.
    pub probation_pages: u64,
}

impl Job {
    /// The sampler has looked, and found this usage.
    pub fn note_history(&self, spaces: &[Arc<Space>], usage: u64, now: u64) {
        let history = &self.history;
        history.most.fetch_max(usage, Relaxed);
        if now < history.next.load(Relaxed) {
            return;
        }
        history.next.store(now + TUNING.report.sample.0, Relaxed);
        let found = self.listed(spaces);
        let time = self.millis(now);
        let is_due = {
            let mut kept = history.kept.lock();
            kept.births.note(&found, now);
            kept.series.is_due(time)
        };
        if !is_due {
            return;
        }
        let mut sample = self.figures(usage, now);
        sample.set(Column::Most, history.most.swap(0, Relaxed));
        let mut kept = history.kept.lock();
        kept.births.by_age(&found, now, &mut sample);
        kept.series.push(sample);
    }

    /// The run so far, up to now.
    pub fn series(&self) -> Series {
        let spaces = self.spaces();
        let found = self.listed(&spaces);
        let now = neap_sys::monotonic_nanos();
        let usage = self.meter.usage();
        let mut sample = self.figures(usage, now);
        let most = self.history.most.load(Relaxed);
        sample.set(Column::Most, most.max(usage));
        let kept = self.history.kept.lock();
        kept.births.by_age(&found, now, &mut sample);
        let mut series = kept.series.clone();
        drop(kept);
        let time = |sample: &Sample| sample.get(Column::Time);
        let is_later = |last: &Sample| time(last) < time(&sample);
        if series.samples().last().is_none_or(is_later) {
            series.push(sample);
        }
        series
    }

    /// The generations of a group as they are now.
    pub fn generations(&self, group: &Group) -> GenerationsReport {
        let mut spaces = self.spaces();
        spaces.retain(|space| space.group.is_within(group));
        let found = self.listed(&spaces);
        let now = neap_sys::monotonic_nanos();
        let all = self.history.kept.lock().births.by_generation(&found, now);
        let oldest_first = all.into_iter().rev();
        GenerationsReport {
            lists: oldest_first.filter(|one| one.pages > 0).collect(),
            probation_pages: found.iter().map(|(_, listed)| listed.probation.0).sum(),
        }
    }

    fn listed(&self, spaces: &[Arc<Space>]) -> Vec<Found> {
        let mut found = Vec::with_capacity(spaces.len());
        let core = self.core();
        let listed = |space: &Arc<Space>| Some((space.cookie, core.listed(space.id)?));
        found.extend(spaces.iter().filter_map(listed));
        found
    }

    /// Since the engine started.
    fn millis(&self, now: u64) -> u64 {
        now.saturating_sub(self.started) / 1_000_000
    }

    /// All figures but those of generations, and the highest usage.
    fn figures(&self, usage: u64, now: u64) -> Sample {
        let (resident, own) = self.meter.now();
        let stored = self.store.stats();
        let pressure = self.stalls.report();
        let vmstat = self.core().vmstat();
        let major = &self.groups.top().events.pgmajfault;
        let mut sample = Sample::default();
        for (column, value) in [
            (Column::Time, self.millis(now)),
            (Column::Limit, self.meter.limit().0),
            (Column::Current, usage),
            (Column::Resident, resident),
            (Column::Pool, stored.pool_bytes),
            (Column::Own, own),
            (Column::Swap, stored.swap_used_bytes),
            (Column::Some, pressure.some.total_us),
            (Column::Full, pressure.full.total_us),
            (Column::Stored, stored.zswpout),
            (Column::Loaded, stored.zswpin),
            (Column::Written, stored.zswpwb),
            (Column::Read, stored.pswpin),
            (Column::Major, major.load(Relaxed)),
            (Column::Refaults, vmstat.workingset_refault_anon),
        ] {
            sample.set(column, value);
        }
        sample
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
