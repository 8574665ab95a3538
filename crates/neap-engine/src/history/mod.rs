//! The run over time: figures of the job at growing distances, and how old its generations are.
//!
//! The sampler takes a sample when it looks anyway, so that nobody wakes for it. The policy core has no clock. When a
//! generation was opened is seen here, at the first look that finds it, and so its age is right but for a tenth of a second.

mod births;
mod members;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use neap_control::{Column, Sample, Series};
use neap_sys::Lock;
use neap_tuning::TUNING;
use serde::Serialize;
use serde_json::Value;

use crate::group::Group;
use crate::job::Job;
use crate::space::Space;
use births::{Births, Found};
use members::Members;

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
    /// Of a service: the runs of its jobs.
    members: Members,
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
                members: Members::default(),
            }),
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
        if self.options.serves {
            self.note_members(now);
        }
        if !is_due {
            return;
        }
        let mut sample = self.figures(usage, now);
        sample.set(Column::Most, history.most.swap(0, Relaxed));
        let mut kept = history.kept.lock();
        kept.births.by_age(&found, now, &mut sample);
        kept.series.push(sample);
    }

    /// The run of a group so far, up to now, as it is told.
    pub fn told_series(&self, group: &Arc<Group>) -> Value {
        if group.parent.is_some() {
            return self.series_of(group).object();
        }
        let mut object = self.series().object();
        if self.options.serves {
            object["jobs"] = self.parts();
        }
        object
    }

    /// The run so far, up to now.
    fn series(&self) -> Series {
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
        series.push_if_later(sample);
        series
    }

    /// The generations of a group as they are now.
    pub fn generations(&self, group: &Group) -> GenerationsReport {
        let found = self.listed(&self.spaces_of(group));
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
        let pressure = self.groups.top().stalls.report();
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
