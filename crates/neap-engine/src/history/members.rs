//! The runs of the jobs in a service. They have fewer samples than the service itself, and are looked at in turn, a few at each
//! look: however many jobs there are, a look is short.

use std::collections::HashMap;
use std::sync::Arc;

use neap_control::{Column, Name, Part, Sample, Series};
use neap_tuning::TUNING;
use serde_json::Value;

use crate::group::Group;
use crate::job::Job;

/// The runs by the numbers of their groups, and whose turn it is.
#[derive(Default)]
pub(super) struct Members {
    runs: HashMap<u64, Run>,
    turn: usize,
}

struct Run {
    series: Series,
    /// Highest usage since the last sample, in bytes.
    most: u64,
}

impl Run {
    fn new() -> Self {
        let period = TUNING.report.sample.as_millis().into();
        Self {
            series: Series::new(TUNING.report.samples_of_job, period),
            most: 0,
        }
    }
}

/// What is seen of a job at each look.
struct Seen {
    /// The number of its group.
    group: u64,
    /// In bytes.
    usage: u64,
    /// Since it joined, in milliseconds.
    time: u64,
}

/// Since a job joined, in milliseconds.
fn millis(group: &Group, now: u64) -> u64 {
    now.saturating_sub(group.started) / 1_000_000
}

impl Members {
    /// These are all jobs, now. The places of those that are to be sampled.
    fn look(&mut self, all: &[Seen]) -> Vec<usize> {
        for seen in all {
            let run = self.runs.entry(seen.group).or_insert_with(Run::new);
            run.most = run.most.max(seen.usage);
        }
        if self.runs.len() > all.len() {
            let lives = |number: &u64| all.iter().any(|seen| seen.group == *number);
            self.runs.retain(|number, _| lives(number));
        }
        let turn = self.turn.checked_rem(all.len()).unwrap_or(0);
        let is_due = |at: &usize| {
            let run = self.runs.get(&all[*at].group);
            run.is_some_and(|run| run.series.is_due(all[*at].time))
        };
        let in_turn = (turn..all.len()).chain(0..turn).filter(is_due);
        let due: Vec<usize> = in_turn.take(TUNING.report.jobs_at_once).collect();
        self.turn = due.last().map_or(turn, |last| last + 1);
        due
    }

    fn push(&mut self, group: u64, mut sample: Sample) {
        if let Some(run) = self.runs.get_mut(&group) {
            sample.set(Column::Most, run.most.max(sample.get(Column::Current)));
            run.most = 0;
            run.series.push(sample);
        }
    }
}

impl Job {
    /// The sampler has looked at a service.
    pub(super) fn note_members(&self, now: u64) {
        let all = self.groups.below();
        let seen = all.iter().map(|group| Seen {
            group: group.number,
            usage: group.meter.usage(),
            time: millis(group, now),
        });
        let seen: Vec<Seen> = seen.collect();
        let due = self.history.kept.lock().members.look(&seen);
        for group in due.iter().map(|at| &all[*at]) {
            let sample = self.sample_of(group, now);
            self.history.kept.lock().members.push(group.number, sample);
        }
    }

    /// The run of a job in a service so far, up to now.
    pub(super) fn series_of(&self, group: &Arc<Group>) -> Series {
        let now = neap_sys::monotonic_nanos();
        let mut sample = self.sample_of(group, now);
        let kept = self.history.kept.lock();
        let run = kept.members.runs.get(&group.number);
        let (mut series, most) = run.map_or_else(
            || (Run::new().series, 0),
            |run| (run.series.clone(), run.most),
        );
        drop(kept);
        sample.set(Column::Most, most.max(sample.get(Column::Current)));
        series.push_if_later(sample);
        series
    }

    /// What the largest jobs of a service used over time.
    pub(super) fn parts(&self) -> Value {
        let mut groups = self.groups.units();
        groups.sort_by_key(|group| std::cmp::Reverse(group.meter.peaks().0));
        groups.truncate(TUNING.report.jobs_told);
        let part = |group: &Arc<Group>| {
            let began = group.started.saturating_sub(self.started) / 1_000_000;
            let name = group.name.as_ref().map_or("", Name::as_str);
            Part::of(name, began, &self.series_of(group)).object()
        };
        groups.iter().map(part).collect()
    }

    /// What is counted for a job in a service.
    fn sample_of(&self, group: &Group, now: u64) -> Sample {
        let found = self.listed(&self.spaces_of(group));
        let counts = self.counts_of(group);
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let major = group.events.pgmajfault.load(super::Relaxed);
        let pressure = group.stalls.report();
        let mut sample = Sample::default();
        for (column, value) in [
            (Column::Time, millis(group, now)),
            (Column::Limit, group.meter.limit().min(self.meter.limit()).0),
            (Column::Current, group.meter.usage()),
            (Column::Resident, group.meter.now().0),
            (Column::Pool, group.meter.pool()),
            (Column::Swap, group.account.disk()),
            (Column::Some, pressure.some.total_us),
            (Column::Full, pressure.full.total_us),
            (Column::Stored, count("zswpout")),
            (Column::Loaded, count("zswpin")),
            (Column::Written, count("zswpwb")),
            (Column::Read, count("pswpin")),
            (Column::Refaults, count("workingset_refault_anon")),
            (Column::Major, major),
        ] {
            sample.set(column, value);
        }
        let kept = self.history.kept.lock();
        kept.births.by_age(&found, now, &mut sample);
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(group: u64, time: u64, usage: u64) -> Seen {
        Seen { group, usage, time }
    }

    fn look(members: &mut Members, all: &[Seen]) -> Vec<u64> {
        let due = members.look(all);
        for at in &due {
            let sample = Sample::default().with(Column::Time, all[*at].time);
            members.push(all[*at].group, sample);
        }
        due.iter().map(|at| all[*at].group).collect()
    }

    #[test]
    fn jobs_are_sampled_in_turn_and_a_few_at_each_look() {
        let mut members = Members::default();
        let each = u64::from(TUNING.report.sample.as_millis());
        let mut counts = [0; 10];
        for turn in 0..50 {
            let all: Vec<Seen> = (0..10).map(|group| seen(group, turn * each, 0)).collect();
            let due = look(&mut members, &all);
            assert_eq!(due.len(), TUNING.report.jobs_at_once);
            due.iter().for_each(|group| counts[*group as usize] += 1);
        }
        assert_eq!(counts, [20; 10]);
        assert!(look(&mut members, &[]).is_empty() && members.runs.is_empty());
    }

    #[test]
    fn who_has_left_is_forgotten_and_the_highest_use_is_kept_until_it_is_told() {
        let mut members = Members::default();
        assert_eq!(look(&mut members, &[seen(1, 0, 5), seen(2, 0, 5)]), [1, 2]);
        assert!(look(&mut members, &[seen(1, 10, 9), seen(3, 0, 0)]) == [3]);
        assert_eq!(members.runs.len(), 2);
        assert_eq!(look(&mut members, &[seen(1, 500, 2)]), [1]);
        let samples = members.runs[&1].series.samples();
        assert_eq!(
            samples.last().map(|sample| sample.get(Column::Most)),
            Some(9)
        );
    }
}
