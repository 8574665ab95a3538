//! What a process asks for. Most of it is letting go: it needs memory that neap does not touch, for a range or for a
//! moment.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::State;
use neap_sys::Process;
use neap_tuning::TUNING;
use neap_units::PageNr;
use neap_wire::Request;

use crate::attendant::acknowledge;
use crate::fault::Served;
use crate::group::{Group, pacer};
use crate::job::Job;
use crate::listen::Caller;
use crate::load::Loader;
use crate::space::{Phase, Space, Trait, pages};

/// Does what a process of the job asks for, and tells it so. Who cannot be told whether it runs in the space that it names
/// gets no answer: it must not take for done what was not.
pub(crate) fn answer(job: &Arc<Job>, caller: &Caller, request: Request) {
    match space_of(job, caller) {
        Whose::Its(space) => match request {
            Request::Release(range) => release(job, &space, range),
            Request::Wipe(range) => wipe(job, &space, range),
            Request::Thaw => thaw(job, &space),
            Request::Resume => resume(job, &space),
            Request::Forked => forked(job, &space),
            Request::Foresee(bytes) => foresee(job, &space, bytes),
            Request::Attach { .. }
            | Request::Adopt { .. }
            | Request::Inherit
            | Request::Fork { .. } => {}
        },
        Whose::Another => {}
        Whose::Unknown => return,
    }
    acknowledge(job, caller);
}

/// Whose the space is that a caller names.
enum Whose {
    Its(Arc<Space>),
    /// Its parent's, say, whose number it has from there; or that of nobody any more.
    Another,
    Unknown,
}

/// The space that a caller names, if it is its own.
pub(crate) fn its_space(job: &Job, caller: &Caller) -> Option<Arc<Space>> {
    match space_of(job, caller) {
        Whose::Its(space) => Some(space),
        Whose::Another | Whose::Unknown => None,
    }
}

/// A process that was made to share the memory (CLONE_VM) speaks for it as well as the one that was met.
fn space_of(job: &Job, caller: &Caller) -> Whose {
    let named = job.space_by_cookie(caller.number);
    let Some(space) = named.filter(|space| !space.is_dead()) else {
        return Whose::Another;
    };
    if space.pid.load(Relaxed) != caller.pid {
        return match runs_in(&space, caller) {
            Some(true) => Whose::Its(space),
            Some(false) => Whose::Another,
            None => Whose::Unknown,
        };
    }
    // A process that was just told that it is managed may ask before the rest is in place.
    for _ in 0..TUNING.talk.looks {
        if space.is_dead() || space.body.get().is_some() {
            break;
        }
        job.clock.sleep(TUNING.talk.look.0);
    }
    Whose::Its(space)
}

/// Whether a process other than the one that was met runs in this space: its bytes are in no forked child. Of a space
/// without a body nothing has left.
fn runs_in(space: &Space, caller: &Caller) -> Option<bool> {
    let Some(body) = space.body.get() else {
        return Some(false);
    };
    let process = Process::open(caller.pid, &caller.pidfd).ok()?;
    body.token.is_in(&process)
}

/// The program has a userfaultfd of its own and will register the range with it, if any.
fn release(job: &Arc<Job>, space: &Arc<Space>, range: Range<u64>) {
    space.traits.note(Trait::Exact);
    if !range.is_empty() {
        let_go(job, space, range);
    }
}

/// Forked children will find the range empty, and the kernel does not say so when it announces them.
fn wipe(job: &Arc<Job>, space: &Arc<Space>, range: Range<u64>) {
    space.traits.note(Trait::Wipes);
    let_go(job, space, range);
}

/// No page may ever leave: the kernel serves the space from now on, and tells of no fork of it.
pub(crate) fn leave_native(job: &Arc<Job>, space: &Arc<Space>) {
    let everything = 0..u64::MAX;
    let registered = space.ranges.lock().touches(&everything);
    if registered {
        if let Some(body) = space.body.get() {
            job.warn(format!(
                "process {} stays unmanaged: neap could not be told of memory that its children are to find empty (MADV_WIPEONFORK); no descriptor left, or another root?",
                body.pid
            ));
        }
        let_go(job, space, everything);
        space.unregister_cookie();
    }
}

/// Brings the range back and leaves it alone from now on.
fn let_go(job: &Arc<Job>, space: &Arc<Space>, range: Range<u64>) {
    let earlier = {
        let mut refused = space.refused.lock();
        let earlier = refused.clone();
        refused.insert(range.clone());
        earlier
    };
    space.thawed.fetch_add(1, Relaxed);
    // A record of memory that the space has not would never be brought back.
    while !space.has_its_own(job) && !space.is_dead() {
        job.clock.sleep(TUNING.talk.look.0);
    }
    if let Some((page, why)) = space
        .lost
        .first_of(&range)
        .and_then(|page| Some((page, space.lost.why(page)?)))
    {
        job.lose(space, page, &why); // the kernel would fill it
    }
    let end = || {
        // A mapping may have moved there and its thread not have told yet. It would lose its pages that are out: the
        // kernel refuses fills then, but no unregistration.
        if space.is_changing() {
            return false;
        }
        let grown = space.may_have_grown(&range);
        let mut ranges = space.ranges.lock();
        let known: Vec<Range<u64>> = ranges.within(&range);
        // What was refused before may be registered with a userfaultfd of the program's own.
        let grown = grown.into_iter().filter(|part| !earlier.touches(part));
        for part in known.into_iter().chain(grown) {
            if space.uffd.unregister(part.clone()).is_err() {
                continue;
            }
            ranges.remove(part.clone());
            let effects = job.core().remove_range(space.id, pages(&part));
            for effect in effects {
                job.release(space, effect);
            }
        }
        true
    };
    bring_back(job, space, &[pages(&range)], || {}, end);
    space.thawed.fetch_sub(1, Relaxed);
}

/// The process forks and the kernel cannot announce it: its child would read absent pages as
/// zeros. Everything comes back and stays until the fork is over, over the limit if need be.
fn thaw(job: &Arc<Job>, space: &Arc<Space>) {
    space.thawed.fetch_add(1, Relaxed);
    let all = PageNr(0)..PageNr(u64::MAX);
    bring_back(
        job,
        space,
        &[all],
        || {
            space
                .group
                .chain()
                .for_each(|group| group.meter.note_thaw())
        },
        || true,
    );
}

fn resume(job: &Arc<Job>, space: &Arc<Space>) {
    // Without one if the request to thaw was lost.
    let less = |forks: u32| forks.checked_sub(1);
    let _ = space.thawed.fetch_update(Relaxed, Relaxed, less);
    job.reclaim.ring();
}

/// The process has forked. Its staged pages are its child's too, and go with it when it ends: it waits until
/// the fork, which was read before it went on, has been applied.
fn forked(job: &Job, space: &Arc<Space>) {
    while {
        drop(space.gate.write());
        space.expects() && !space.is_dead()
    } {
        job.clock.sleep(TUNING.talk.look.0);
    }
}

/// The process will have so many bytes filled, by which nothing waits for room that is not registered before. Memory of
/// a job that stays small is left alone.
fn foresee(job: &Arc<Job>, space: &Arc<Space>, bytes: u64) {
    let small = |group: &Group| {
        let meter = &group.meter;
        meter.usage().saturating_add(bytes) < pacer(meter.limit()).arm_point().0
    };
    if space.group.chain().all(small) || space.is_native() {
        return;
    }
    job.flags.foreseen.store(true, Relaxed);
    job.sampler.ring();
    let end = job.clock.now() + TUNING.talk.foresee.0;
    let is_due = || matches!(space.standing.phase(), Phase::Due | Phase::Looking);
    while is_due() && job.clock.now() < end {
        job.clock.sleep(TUNING.talk.look.0);
    }
    if space.is_managed() {
        space.discover(job);
    }
}

/// Fills every page of these ranges that is elsewhere, after a call of `some` if there are any, until none is;
/// then calls `end`, until that is true, before anything can leave again. The caller has set `thawed`, or opened the window of a
/// fork, so reclaim takes no new pages.
pub(crate) fn bring_back(
    job: &Arc<Job>,
    space: &Arc<Space>,
    places: &[Range<PageNr>],
    some: impl Fn(),
    mut end: impl FnMut() -> bool,
) {
    let mut loader = Loader::new(&job.recorder);
    while !space.is_dead() {
        let found = {
            let _gate = space.gate.write();
            if space.is_dead() {
                return;
            }
            let found = elsewhere(job, space, places);
            let settled = !space.expects();
            if settled && found.is_empty() && end() {
                return;
            }
            found
        };
        if found.is_empty() || space.expects() {
            job.clock.sleep(TUNING.talk.look.0);
            continue;
        }
        some();
        let mut again = false;
        for page in found {
            again |= bring(job, space, &mut loader, page) != Served::Done;
        }
        if again {
            job.clock.sleep(TUNING.talk.look.0);
        }
    }
}

fn elsewhere(job: &Job, space: &Space, places: &[Range<PageNr>]) -> Vec<PageNr> {
    let mut found = Vec::new();
    let core = job.core();
    for place in places {
        core.for_range(space.id, place.clone(), |page, _, state| {
            if !matches!(state, State::Resident { .. }) {
                found.push(page);
            }
        });
    }
    found
}

fn bring(job: &Job, space: &Space, loader: &mut Loader, page: PageNr) -> Served {
    let state = {
        let _gate = space.gate.read();
        if space.is_dead() {
            return Served::Done;
        }
        job.core().state_at(space.id, page)
    };
    match state {
        State::Staged { .. } | State::Storing { .. } => loader.bring_home(job, space, page),
        State::Stored { .. } => {
            loader.load(job, space, page, || job.clock.sleep(TUNING.talk.look.0))
        }
        State::Resident { .. } | State::Absent => Served::Done,
        // In transit: whoever carries it is not done yet.
        _ => Served::Later,
    }
}
