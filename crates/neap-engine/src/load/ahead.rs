//! Bringing back what a program says it will need (MADV_WILLNEED), by a thread that nobody waits for. It also looks at the
//! flags of mappings, which takes long, too.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use neap_policy::{Hint, State};
use neap_sys::Lock;
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageNr};

use super::Loader;
use crate::job::Job;
use crate::space::{Space, pages, runs};
#[cfg(not(test))]
use crate::spawn::try_spawn;

enum Errand {
    Bring(Range<PageNr>),
    Flags,
}

/// What is to be done, and whether a thread is at it.
#[derive(Default)]
pub(crate) struct Errands(Lock<List, 7>);

#[derive(Default)]
struct List {
    waiting: VecDeque<(Arc<Space>, Errand)>,
    at_work: bool,
}

/// Has what is out of a range brought back, as far as it finds room.
pub(crate) fn bring_ahead(job: &Arc<Job>, space: &Arc<Space>, range: Range<PageNr>) {
    send(job, space, Errand::Bring(range));
}

/// Has the flags of a program's mappings looked at, unless much else waits.
pub(crate) fn look_at_flags(job: &Arc<Job>, space: &Arc<Space>) {
    send(job, space, Errand::Flags);
}

fn send(job: &Arc<Job>, space: &Arc<Space>, errand: Errand) {
    let mut list = job.errands.0.lock();
    let looks = |errand: &Errand| matches!(errand, Errand::Flags);
    let same = |(other, waits): &(Arc<Space>, Errand)| {
        looks(&errand) && looks(waits) && Arc::ptr_eq(other, space)
    };
    if list.waiting.len() >= TUNING.hints.waiting || list.waiting.iter().any(same) {
        return;
    }
    list.waiting.push_back((space.clone(), errand));
    if std::mem::replace(&mut list.at_work, true) {
        return;
    }
    drop(list);
    start(job);
}

/// Who drives a run on the imagined kernel does what waits.
#[cfg(test)]
fn start(_: &Arc<Job>) {}

#[cfg(not(test))]
fn start(job: &Arc<Job>) {
    let its = job.clone();
    let started = try_spawn("neap-hints", move || {
        neap_sys::block_signals();
        neap_sys::lower_to_ordinary();
        work(&its);
    });
    if started.is_err() {
        *job.errands.0.lock() = List::default(); // they are hints
    }
}

/// Does what waits.
pub(crate) fn work(job: &Arc<Job>) {
    loop {
        let mut list = job.errands.0.lock();
        let Some((space, errand)) = list.waiting.pop_front().filter(|_| !job.is_stopping()) else {
            *list = List::default();
            return;
        };
        drop(list);
        match errand {
            Errand::Flags => space.look_at_flags(job),
            Errand::Bring(range) => bring(job, &space, &range),
        }
    }
}

fn bring(job: &Job, space: &Space, range: &Range<PageNr>) {
    let mut loader = Loader::new(&job.recorder);
    let most = TUNING.hints.ahead.of(space.group.meter.limit().0);
    let mut left = most / PAGE_SIZE as u64;
    let mut from = range.start;
    while from < range.end && left > 0 {
        let to = PageNr(range.end.0.min(from.0 + TUNING.hints.walk.0));
        let Some(out) = what_is_out(job, space, &(from..to)) else {
            return;
        };
        for step in out.chunks(TUNING.hints.step.as_usize()) {
            if left == 0 {
                return;
            }
            for &page in step {
                if !has_room(job, space) {
                    return;
                }
                left = left.saturating_sub(fetch(job, space, &mut loader, page));
            }
            keep(job, space, step);
        }
        from = to;
    }
}

/// The pages of a range that are not in the program. `None`: it is given up.
fn what_is_out(job: &Job, space: &Space, range: &Range<PageNr>) -> Option<Vec<PageNr>> {
    let _gate = space.gate.read();
    if space.is_dead() || job.is_stopping() {
        return None;
    }
    let mut out = Vec::new();
    job.core()
        .for_range(space.id, range.clone(), |page, _, state| {
            if !matches!(state, State::Resident { .. } | State::Isolated { .. }) {
                out.push(page);
            }
        });
    Some(out)
}

/// Waits for room. False: there is none, or the program is to be let be.
fn has_room(job: &Job, space: &Space) -> bool {
    for _ in 0..TUNING.hints.rooms {
        let stopped = space.group.chain().any(|group| group.freeze.is_frozen());
        if space.is_dead() || job.is_stopping() || stopped {
            return false;
        }
        if space.group.has_room() {
            return true;
        }
        job.reclaim.ring();
        job.clock.sleep(TUNING.hints.room.0);
    }
    false
}

/// Brings a page back, and with it what readahead wants. How many came.
fn fetch(job: &Job, space: &Space, loader: &mut Loader, page: PageNr) -> u64 {
    let state = {
        let _gate = space.gate.read();
        if space.is_dead() {
            return 0;
        }
        job.core().state_at(space.id, page)
    };
    match state {
        State::Stored { .. } => loader.load_ahead(job, space, page),
        State::Staged { .. } | State::Storing { .. } => {
            loader.bring_home(job, space, page);
            1
        }
        _ => 0,
    }
}

/// What came for the program goes to the youngest generation: it has said that it will want it.
fn keep(job: &Job, space: &Space, pages_asked: &[PageNr]) {
    let _gate = space.gate.read();
    if space.is_dead() {
        return;
    }
    let mut core = job.core();
    for run in runs(pages_asked) {
        core.hint(space.id, pages(&run), Hint::Soon);
    }
}
