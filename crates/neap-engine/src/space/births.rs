//! Forked children: what each has from its parent, and what is asked of it before that is known.
//!
//! Where a fork belongs among the changes of its parent is told by nobody but the child ([`super::order`]). Nobody
//! serves the child until then. It may have changed mappings of its own meanwhile: that is done, and its threads wait until it is
//! read, in which time the kernel says nothing of the child's mappings. So it is read, and applied once the child has a table.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Effect, State, Step};
use neap_record::Recorded;
use neap_sys::{Event, Piece, Stop, Userfault};
use neap_tuning::TUNING;
use neap_units::{EntryId, PAGE_SIZE, PageNr, SlotId, SpaceId};

use super::events::{News, shape};
use super::order::{Birth, Births, Registered, Shape};
use super::{Body, Space, addresses};
use crate::job::Job;

/// Copies of staged pages, by slot.
pub(super) type Kept = HashMap<SlotId, Result<EntryId, String>>;

/// A forked child, which waits for what it touches until it is served: that takes longer than its parent's gate
/// may be held.
pub(crate) struct Born(Arc<Space>);

impl Born {
    /// Serves the child.
    pub fn attend(self, job: &Arc<Job>) {
        job.start_serving(&self.0);
    }
}

/// What a forked child has changed since, in the order of reading.
pub(super) type Since = Vec<Event>;

/// Whether something is registered at each of these places in a child; nothing if it has ended. What it has changed
/// since is read into `since`. `None`: to be asked again, it is changing.
fn ask(child: &dyn Userfault, places: &[u64], since: &mut Since) -> Option<Registered> {
    let mut has = Registered::new();
    // Also behind what has moved, whether it has grown there.
    let moved = since.iter().filter_map(|event| match shape(event) {
        Shape::Move { to, .. } if !places.is_empty() => Some(to.end),
        _ => None,
    });
    let all: BTreeSet<u64> = places.iter().copied().chain(moved).collect();
    for at in all {
        let page = addresses(PageNr::containing(at), 1);
        match child.is_registered(page.clone()) {
            Some(answer) => _ = has.insert(at, answer),
            None if child.try_nothing(page) == Some(Stop::Dead) => return Some(Registered::new()),
            None => {
                let all = since.len() < TUNING.changes.of_child && hear(child, since);
                return (!all).then(Registered::new);
            }
        }
    }
    // From the first change on that is not in `since` there would have been no answer.
    for shape in since.iter().rev().map(shape) {
        match shape {
            Shape::Unmap(range) => has.retain(|at, _| !range.contains(at)),
            Shape::Move { from, to } => {
                // It may have grown as far as all behind it is registered.
                let end = has.range(to.end..).find(|(_, has)| !**has);
                let end = end.map_or(u64::MAX, |(&at, _)| at);
                has.retain(|at, _| !(to.start..end).contains(at));
                let left = places.iter().filter(|at| from.contains(at));
                has.extend(left.map(|&at| (at, true)));
            }
            Shape::Discard(_) | Shape::Still => {}
        }
    }
    Some(has)
}

/// Reads what a child tells that nobody serves yet. Whether it could be read.
fn hear(child: &dyn Userfault, since: &mut Since) -> bool {
    let read = child.read_events(&mut |event| match event {
        // Its thread asks again.
        Event::Fault { address, .. } => {
            let _ = child.wake(addresses(PageNr::containing(address), 1));
        }
        event => since.push(event),
    });
    read.is_ok()
}

impl Space {
    /// Asks the forked children of a story at these places. `None`: to be asked again.
    pub(super) fn births(news: &mut [News], places: &[u64]) -> Option<Births> {
        let mut births = Births::default();
        for (at, news) in news.iter_mut().enumerate() {
            if let Event::Fork(child) = &news.event {
                let has = ask(&**child, places, &mut news.since)?;
                births.forks.push(Birth { at, has });
            }
        }
        Some(births)
    }

    /// The child starts with the parent's absent pages absent: it must find them too. Staged frames
    /// stay with the parent, so their bytes are kept in the store for both.
    pub(super) fn forked(
        self: &Arc<Self>,
        job: &Job,
        child: Box<dyn Userfault>,
        kept: Kept,
        since: Since,
    ) -> Born {
        let ranges = self.ranges.lock().clone();
        let child = job.add_space(self.group.clone(), child, ranges, Some(self.kin.family()));
        child.inherit_from(self);
        child.cow.inherit_from(&self.cow);
        child
            .cookie_page
            .store(self.cookie_page.load(Relaxed), Relaxed);
        let lost = self.copy_table(job, child.id, kept);
        child.lost.inherit(&self.lost, lost);
        since.into_iter().for_each(|event| child.hear(job, event));
        Born(child)
    }

    /// What is known of a parent is true of its forked child.
    pub fn inherit_from(&self, parent: &Arc<Self>) {
        self.kin.inherit_from(parent);
        // What children of its own find wiped is not registered in it either.
        self.traits.inherit_from(&parent.traits);
        self.mappings.inherit_from(&parent.mappings);
        let tight = self.group.room() < parent.kin.may_copy();
        let copies = self.kin.has_copier() && tight;
        let now = neap_sys::monotonic_nanos();
        if copies {
            self.cow.want();
        }
        parent.cow.fork(copies, now); // its next child has that from the beginning
        if copies {
            parent.ring();
        }
    }

    /// Gives a child's space what is out in this one. What of it has no bytes any more, and why. The caller holds the gate
    /// exclusively.
    pub(super) fn copy_table(
        &self,
        job: &Job,
        child: SpaceId,
        mut kept: Kept,
    ) -> Vec<(PageNr, String)> {
        let (mut lost, mut copies) = (Vec::new(), Vec::new());
        let mut core = job.core();
        core.fork(self.id, child, |page, state| {
            let entry = match state {
                State::Stored { entry } | State::Loading { entry } => Some(entry),
                _ => match state.slot().and_then(|slot| kept.remove(&slot)) {
                    Some(Ok(entry)) => {
                        copies.push((page, entry));
                        Some(entry)
                    }
                    Some(Err(why)) => {
                        lost.push((page, format!("no copy for a forked child: {why}")));
                        None
                    }
                    None => {
                        lost.push((page, format!("it forks while a page is {state:?}")));
                        None
                    }
                },
            };
            if let Some(entry) = entry {
                job.store.get(entry);
            }
            entry
        });
        let freed = keep_copies(job, &mut core, self.id, copies);
        drop(core);
        for effect in freed {
            job.release(self, effect);
        }
        // Compressed meanwhile, or gone.
        for entry in kept.into_values().flatten() {
            job.store.put(entry);
        }
        lost
    }

    /// Copies the bytes of every staged page into the store. Outside the core's lock: the exclusive
    /// gate keeps pages from coming and going, pins keep their frames.
    pub(super) fn keep_staged(&self, job: &Job) -> Kept {
        let Some(body) = self.body.get() else {
            return Kept::new();
        };
        let mut staged = Vec::new();
        let everything = PageNr(0)..PageNr(u64::MAX);
        job.core().for_range(self.id, everything, |_, _, state| {
            if let State::Staged { slot, .. } | State::Storing { slot, .. } = state {
                body.stage.pin(slot);
                staged.push(slot);
            }
        });
        let keep = |slot| {
            let bytes = read_slot(body, slot).map_err(|error| error.to_string());
            let entry = bytes.and_then(|bytes| {
                let stored = job.store.store_raw(self.id, &bytes);
                stored.map_err(|refused| refused.to_string())
            });
            body.stage.unpin(slot);
            (slot, entry)
        };
        staged.into_iter().map(keep).collect()
    }
}

/// Staged pages that were copied for a child keep the copies. Returns what that frees.
fn keep_copies(
    job: &Job,
    core: &mut Recorded,
    space: SpaceId,
    copies: Vec<(PageNr, EntryId)>,
) -> Vec<Effect> {
    let mut freed = Vec::new();
    for (page, entry) in copies {
        match core
            .find(space, page)
            .map(|id| core.apply(id, Step::SetCopy(entry)))
        {
            Some(Ok(effect)) => freed.push(effect),
            _ => job.store.put(entry),
        }
    }
    freed
}

/// The bytes of a staged page, surely from this address space.
fn read_slot(body: &Body, slot: SlotId) -> neap_sys::Result<[u8; PAGE_SIZE]> {
    let mut bytes = [0u8; PAGE_SIZE];
    let mut pieces = [Piece {
        from: body.stage.address(slot),
        to: &mut bytes,
    }];
    body.view.read(&mut pieces)?;
    Ok(bytes)
}
