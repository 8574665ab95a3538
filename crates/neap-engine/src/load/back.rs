//! Staged pages come back: several have their frames moved, one alone is copied.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Heat, State, Step};
use neap_sys::{Piece, Stop};
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageId, PageNr, SlotId};
use neap_wire::{BLOCK_PAGES, op};

use super::Filler;
use crate::agent::{Called, Errand};
use crate::fault::Served;
use crate::job::Job;
use crate::space::{Body, Space, addresses};

/// Staged pages that follow each other in the program.
struct Flock {
    first: PageNr,
    ids: Vec<PageId>,
    slots: Vec<SlotId>,
    /// A thread waits for the first of them.
    touched: bool,
}

impl Flock {
    fn heat(&self) -> Heat {
        if self.touched { Heat::Hot } else { Heat::Warm }
    }
}

/// Brings a `Staged` or `Storing` page home, and with it the staged pages that follow it within
/// `window`. The caller holds the gate shared. `wait`: for the agent, if another thread has it; nobody waits for
/// the page, and a copy would take a second frame until the block is recycled.
pub(crate) fn return_staged(
    job: &Job,
    space: &Space,
    filler: &mut Filler,
    page: PageNr,
    window: &Range<PageNr>,
    wait: bool,
) -> Served {
    let Some(body) = space.body.get() else {
        return Served::Done;
    };
    let Some(flock) = gather(job, space, page, window, !wait) else {
        return Served::Later; // it moved on meanwhile: look again
    };
    for &slot in &flock.slots {
        body.stage.pin(slot);
    }
    // The agent is asked for one page in more time than its copy takes; but a copy needs room for a second frame
    // until the block is recycled, which nobody does once the pages are to stay.
    let one = flock.ids.len() == 1;
    let room = !space.group.is_full() && space.lets_go();
    let served = if one && !wait && room {
        copy_home(job, space, body, filler, &flock)
    } else {
        move_home(job, space, body, filler, &flock, wait)
    };
    for &slot in &flock.slots {
        body.stage.unpin(slot);
    }
    served
}

/// Has the agent move the frames.
fn move_home(
    job: &Job,
    space: &Space,
    body: &Body,
    filler: &mut Filler,
    flock: &Flock,
    wait: bool,
) -> Served {
    let spans = spans(body, &flock.slots);
    let errand = Errand::Return {
        pages: flock.ids.clone(),
        touched: flock.touched,
    };
    filler.before_call(space);
    let called = body
        .agent
        .call(op::MOVE, &spans, flock.first.addr(), errand, wait);
    match called {
        // It is with reclaim: a copy is quicker than the wait for it.
        Called::Busy(_) => copy_home(job, space, body, filler, flock),
        called => {
            let done = space.complete(job, called);
            settle(job, space, body, filler, flock, done)
        }
    }
}

/// Marks the page and its staged followers as returning, no more than one command takes.
fn gather(
    job: &Job,
    space: &Space,
    page: PageNr,
    window: &Range<PageNr>,
    touched: bool,
) -> Option<Flock> {
    let mut flock = Flock {
        first: page,
        ids: Vec::new(),
        slots: Vec::new(),
        touched,
    };
    let mut core = job.core();
    let end = window.end.0.clamp(page.0 + 1, page.0 + BLOCK_PAGES);
    for number in page.0..end {
        let id = core.find(space.id, PageNr(number));
        let found = id.map(|id| (id, core.state(id)));
        let Some((id, State::Staged { slot, .. } | State::Storing { slot, .. })) = found else {
            break;
        };
        job.must(core.apply(id, Step::BeginReturn));
        flock.ids.push(id);
        flock.slots.push(slot);
    }
    (!flock.ids.is_empty()).then_some(flock)
}

/// Addresses of the slots, in order, joined where they are consecutive.
fn spans(body: &Body, slots: &[SlotId]) -> Vec<Range<u64>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for &slot in slots {
        let at = body.stage.address(slot);
        match spans.last_mut() {
            Some(span) if span.end == at => span.end += PAGE_SIZE as u64,
            _ => spans.push(at..at + PAGE_SIZE as u64),
        }
    }
    spans
}

/// What a thread that waits for the first page of a flock is told.
fn settle(
    job: &Job,
    space: &Space,
    body: &Body,
    filler: &mut Filler,
    flock: &Flock,
    done: Option<usize>,
) -> Served {
    if done.is_none() {
        return Served::Done; // late or gone: whoever completes the move wakes the thread
    }
    {
        // The kernel refused: pinned for a moment by our own read, shared since a fork, or the mapping
        // has another protection than the stage by now. Unless the page has gone its way since: then
        // this slot is not its place any more.
        let mut core = job.core();
        let refused = matches!(core.state(flock.ids[0]), State::Staged { slot, .. } if slot == flock.slots[0]);
        if !refused {
            return Served::Done;
        }
        job.must(core.apply(flock.ids[0], Step::BeginReturn));
    }
    let alone = Flock {
        first: flock.first,
        ids: vec![flock.ids[0]],
        slots: vec![flock.slots[0]],
        touched: flock.touched,
    };
    copy_home(job, space, body, filler, &alone)
}

/// The way home without the agent: copies the first page, leaves the others staged.
fn copy_home(job: &Job, space: &Space, body: &Body, filler: &mut Filler, flock: &Flock) -> Served {
    {
        let mut core = job.core();
        for &id in &flock.ids[1..] {
            job.must(core.apply(id, Step::AbortReturn));
        }
    }
    if flock.ids.len() > 1 {
        // Who came to wait for one of them looks again.
        let others = PageNr(flock.first.0 + 1);
        filler.let_go(space, addresses(others, flock.ids.len() - 1));
    }
    let id = flock.ids[0];
    match copy(space, body, filler, flock.first, flock.slots[0]) {
        Ok(()) => {
            let effect = job.must(job.core().apply(id, Step::EndReturn(flock.heat())));
            job.release(space, effect);
            space.group.count(|events| &events.returned, 1);
            space.came_back.fetch_add(1, Relaxed);
            // The frame in the stage is still there until its block is recycled.
            space.charge(PAGE_SIZE as u64);
            Served::Done
        }
        Err(stop) => {
            job.must(job.core().apply(id, Step::AbortReturn));
            filler.let_go(space, addresses(flock.first, 1));
            refuse(job, space, filler, flock.first, stop)
        }
    }
}

fn copy(
    space: &Space,
    body: &Body,
    filler: &mut Filler,
    page: PageNr,
    slot: SlotId,
) -> Result<(), Stop> {
    let mut bytes = [0u8; PAGE_SIZE];
    let mut pieces = [Piece {
        from: body.stage.address(slot),
        to: &mut bytes,
    }];
    // From the address space that was handed over: the process may have become another's by now.
    if (0..TUNING.loads.reads).all(|_| body.view.read(&mut pieces).is_err()) {
        return Err(if space.look_for_life() {
            Stop::Refused
        } else {
            Stop::Dead
        });
    }
    match filler.copy(space, page.addr(), &bytes).stop {
        None => Ok(()),
        Some(stop) => Err(stop),
    }
}

fn refuse(job: &Job, space: &Space, filler: &mut Filler, page: PageNr, stop: Stop) -> Served {
    match stop {
        Stop::Retry | Stop::NoMemory => return Served::Later,
        Stop::Dead if space.look_for_life() => return Served::Later,
        Stop::Dead => {}
        // The mapping is gone; its event, still unread, will drop the page.
        Stop::Absent => {
            filler.let_go(space, addresses(page, 1));
        }
        other => {
            let why = format!("it could not be moved back: {other:?}");
            if !job.lose(space, page, &why) {
                return Served::Later;
            }
        }
    }
    Served::Done
}
