//! What is counted for each group, by the names of memory.stat.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use neap_policy::Vmstat;
use neap_store::OwnerStats;
use neap_units::PAGE_SIZE;

use super::Group;
use crate::job::Job;

/// Event counters, in events or pages as the kernel counts them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Faults served.
    pub pgfault: AtomicU64,
    /// Faults that needed decompression or I/O.
    pub pgmajfault: AtomicU64,
    /// Pages moved to staging.
    pub staged: AtomicU64,
    /// Pages moved back from staging by a touch.
    pub returned: AtomicU64,
    /// Pages loaded ahead of a fault.
    pub swap_ra: AtomicU64,
    /// Fresh pages filled.
    pub fresh: AtomicU64,
    /// Faults that had to wait for reclaim.
    pub held: AtomicU64,
    /// Evictions that kept the compressed copy of an unchanged page.
    pub clean: AtomicU64,
    /// Pages taken from idle processes.
    pub idle: AtomicU64,
    /// Times that reclaim took from a group below its `memory.low`.
    pub low: AtomicU64,
    /// Times that a thread which took memory was above `memory.high`.
    pub high: AtomicU64,
    /// Faults that found the group itself full, and not only one above it or below. It is not counted for those above.
    pub full: AtomicU64,
    /// Times that memory was about to go over `memory.max`.
    pub max: AtomicU64,
    /// Times that nothing more could be reclaimed.
    pub oom: AtomicU64,
    /// Processes that were killed for that.
    pub oom_kill: AtomicU64,
    /// Moves that the kernel refused.
    pub busy: AtomicU64,
}

/// What is counted for each space. A group keeps those of spaces that are gone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gone {
    vmstat: Vmstat,
    stored: OwnerStats,
}

impl Gone {
    fn add(&mut self, vmstat: &Vmstat, stored: &OwnerStats) {
        self.vmstat.add(vmstat);
        self.stored.add(stored);
    }
}

impl Group {
    /// Counts so many events for the group and those above.
    pub fn count(&self, of: impl Fn(&Counters) -> &AtomicU64, more: u64) {
        for group in self.chain() {
            of(&group.events).fetch_add(more, Relaxed);
        }
    }

    /// A fault must wait, since the group or one above it is full: counted for the lowest that is, as the kernel charges from
    /// the bottom up.
    pub fn note_full(&self) {
        let full = |level: &&Self| level.meter.must_hold(PAGE_SIZE as u64);
        if let Some(level) = self.chain().find(full) {
            level.events.full.fetch_add(1, Relaxed);
            level.count(|events| &events.max, 1);
        }
    }

    /// A space is gone, with these counts.
    pub fn note_gone(&self, vmstat: &Vmstat, stored: &OwnerStats) {
        for group in self.chain() {
            group.gone.lock().add(vmstat, stored);
        }
    }
}

impl Job {
    /// Kills the processes of a group of which nothing more can be reclaimed.
    pub fn kill_for_room(&self, group: &Group) {
        if !group.killed.swap(true, Relaxed) {
            for space in self.spaces_of(group).iter() {
                let body = space.body.get().filter(|body| !body.is_left());
                if body.is_some_and(|body| body.pidfd.lives()) {
                    space.group.count(|events| &events.oom_kill, 1);
                }
            }
        }
        self.groups.kill(group); // again, if some were just being started
    }

    /// The counters of a group below the top, by their names.
    pub fn counts_of(&self, group: &Group) -> BTreeMap<&'static str, u64> {
        let mut sum = *group.gone.lock();
        let spaces = self.spaces_of(group);
        let stored = self.store.stats_of(spaces.iter().map(|space| space.id));
        {
            let core = self.core();
            for (space, stored) in spaces.iter().zip(&stored) {
                // One that is being dropped is in the sum already, or will be.
                if core.is_live(space.id) {
                    sum.add(&core.vmstat_of(space.id), stored);
                }
            }
        }
        let OwnerStats {
            zswpout,
            zswpin,
            zswpwb,
            pswpin,
        } = sum.stored;
        let named = [
            ("zswpout", zswpout),
            ("zswpin", zswpin),
            ("zswpwb", zswpwb),
            ("pswpin", pswpin),
            // All that is written went through the pool.
            ("pswpout", zswpwb),
        ];
        sum.vmstat.named().into_iter().chain(named).collect()
    }
}
