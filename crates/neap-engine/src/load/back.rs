//! A staged page comes back: its frame is moved, nothing is copied.

use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{State, Step};
use neap_sys::{Piece, Stop};
use neap_units::{PAGE_SIZE, PageId, PageNr, SlotId};

use crate::fault::Served;
use crate::job::Job;
use crate::space::{Body, Space, addresses};

/// Tries before a frame that somebody reads is copied instead of moved.
const MOVES: usize = 8;

/// Moves a `Staged` or `Storing` page home. The caller holds the gate shared.
pub(crate) fn return_staged(job: &Job, space: &Space, id: PageId) -> Served {
    let Some(body) = space.body.get() else {
        return Served::Done;
    };
    let (page, slot) = {
        let mut core = job.core();
        let (State::Staged { slot, .. } | State::Storing { slot, .. }) = core.state(id) else {
            return Served::Later; // it moved on meanwhile: look again
        };
        job.must(core.apply(id, Step::BeginReturn));
        (core.locate(id).1, slot)
    };
    let end = put_home(space, body, page, slot);
    let mut core = job.core();
    match end {
        Ok(()) => {
            let effect = job.must(core.apply(id, Step::EndReturn));
            drop(core);
            job.release(space, effect);
            job.events.returned.fetch_add(1, Relaxed);
            Served::Done
        }
        Err(stop) => {
            job.must(core.apply(id, Step::AbortReturn));
            drop(core);
            match stop {
                Stop::Retry | Stop::NoMemory => Served::Later,
                Stop::Dead => {
                    space.set_dead();
                    Served::Done
                }
                // The mapping is gone; its event, still unread, will drop the page.
                Stop::Absent => {
                    let _ = space.uffd.wake(addresses(page, 1));
                    Served::Done
                }
                other => {
                    job.lose(
                        space,
                        page,
                        &format!("it could not be moved back: {other:?}"),
                    );
                    Served::Done
                }
            }
        }
    }
}

fn put_home(space: &Space, body: &Body, page: PageNr, slot: SlotId) -> Result<(), Stop> {
    let from = body.stage.address(slot);
    let source = from..from + PAGE_SIZE as u64;
    for _ in 0..MOVES {
        match space
            .uffd
            .move_pages(page.addr(), source.clone(), false)
            .stop
        {
            None => return Ok(()),
            // Pinned for a moment by our own read, or shared since a fork, or the mapping's
            // protection differs from the stage's by now.
            Some(Stop::Busy) => std::thread::yield_now(),
            Some(Stop::Refused) => break,
            Some(stop) => return Err(stop),
        }
    }
    let mut bytes = [0u8; PAGE_SIZE];
    let mut pieces = [Piece {
        from,
        to: &mut bytes,
    }];
    if body.remote.read(&mut pieces).is_err() {
        return Err(Stop::Dead);
    }
    match space.uffd.copy(page.addr(), &bytes, false).stop {
        None => Ok(()),
        Some(stop) => Err(stop),
    }
}
