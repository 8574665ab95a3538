//! `neap thaw --prefetch`: what each space had when it was frozen comes back before it is touched, the youngest pages
//! first, as far as there is room below reclaim's mark.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use neap_policy::State;
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageNr, Pages};

use crate::freeze::Had;
use crate::group::{Group, pacer};
use crate::job::Job;
use crate::load::Loader;
use crate::space::{Space, pages};
use crate::spawn::try_spawn;

/// Pages on their way back, by a thread that nobody needs to wait for.
#[derive(Default)]
pub(crate) struct Prefetch {
    loaded: AtomicU64,
    over: AtomicBool,
}

impl Prefetch {
    /// Begins. Where no thread can be had, nothing is brought back.
    pub fn begin(job: &Arc<Job>, group: Arc<Group>, had: Had) -> Arc<Self> {
        let prefetch = Arc::new(Self::default());
        let (its, job) = (prefetch.clone(), job.clone());
        let started = try_spawn("neap-prefetch", move || {
            neap_sys::block_signals();
            neap_sys::lower_to_ordinary();
            its.run(&job, &group, &had);
            its.over.store(true, Relaxed);
        });
        if started.is_err() {
            prefetch.over.store(true, Relaxed);
        }
        prefetch
    }

    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Pages that have come so far.
    pub fn loaded(&self) -> u64 {
        self.loaded.load(Relaxed)
    }

    fn run(&self, job: &Arc<Job>, group: &Group, had: &Had) {
        let all: u64 = had.pages.iter().map(|(_, pages)| pages.0).sum();
        let usage = group.meter.usage();
        // Pages that were shared since a fork come back one by one.
        let most = mark(group).min(had.usage);
        let room = most.saturating_sub(usage) / PAGE_SIZE as u64;
        for (cookie, pages) in &had.pages {
            let share = match room >= all {
                true => pages.0,
                false => (u128::from(pages.0) * u128::from(room) / u128::from(all)) as u64,
            };
            if let Some(space) = job.space_by_cookie(*cookie) {
                self.bring(job, group, &space, youngest(job, &space, Pages(share)));
            }
        }
    }

    /// By age in steps, and by address in each: neighbours come along with the first of them.
    fn bring(&self, job: &Arc<Job>, group: &Group, space: &Arc<Space>, mut wanted: Vec<PageNr>) {
        let mut loader = Loader::new(&job.recorder);
        let mut left = wanted.len() as u64;
        for step in wanted.chunks_mut(TUNING.freeze.walk.as_usize()) {
            step.sort_unstable();
            for &page in &*step {
                let full = is_full(group) || left == 0;
                if full || job.is_stopping() || group.freeze.is_frozen() {
                    return;
                }
                let came = loader.load_ahead(job, space, page);
                self.loaded.fetch_add(came, Relaxed);
                left = left.saturating_sub(came); // neighbours come along
            }
        }
    }
}

/// Usage to which pages may come before reclaim takes others away.
fn mark(group: &Group) -> u64 {
    pacer(group.meter.limit())
        .goal()
        .0
        .saturating_sub(TUNING.freeze.room.0)
}

/// Whether reclaim would take others away for what comes, in the group or one above.
fn is_full(group: &Group) -> bool {
    let full = |group: &Group| group.meter.usage() >= mark(group) || group.meter.excess() > 0;
    group.chain().any(full)
}

/// The stored pages of a space that left last, the last of all first.
fn youngest(job: &Job, space: &Space, most: Pages) -> Vec<PageNr> {
    let registered = space.ranges.lock().within(&(0..u64::MAX));
    let mut found: Vec<(u64, PageNr)> = Vec::new();
    for range in registered {
        let range = pages(&range);
        for first in (range.start.0..range.end.0).step_by(TUNING.freeze.walk.as_usize()) {
            let last = range.end.0.min(first + TUNING.freeze.walk.0);
            let core = job.core();
            if space.is_dead() {
                return Vec::new();
            }
            core.for_range(space.id, PageNr(first)..PageNr(last), |page, id, state| {
                if matches!(state, State::Stored { .. }) {
                    found.push((core.away(id), page));
                }
            });
        }
    }
    found.sort_unstable();
    found.truncate(most.as_usize());
    found.into_iter().map(|(_, page)| page).collect()
}
