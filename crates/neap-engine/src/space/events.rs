//! Keeping the picture true: what the kernel says of forks and of changed mappings.
//!
//! Everything here runs under the exclusive gate. From the read of a change until it is applied nothing is
//! filled and nothing leaves: [`Space::expects`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Effect, State, Step};
use neap_record::Recorded;
use neap_sys::{Event, Piece, Userfault};
use neap_tuning::TUNING;
use neap_units::{EntryId, PAGE_SIZE, PageId, PageNr, Pages, SlotId, SpaceId};

use super::order::{Registered, Shape, in_order, places_to_ask};
use super::{Body, Ranges, Space, Trait, addresses, pages};
use crate::job::Job;

/// A forked child, which waits for what it touches until it is served: that takes longer than its parent's gate
/// may be held.
pub(crate) struct Born(Arc<Space>);

impl Born {
    /// Serves the child.
    pub fn attend(self, job: &Arc<Job>) {
        job.start_serving(&self.0);
    }
}

/// Copies of staged pages, by slot.
type Kept = HashMap<SlotId, Result<EntryId, String>>;

/// A change that was read and not applied yet.
pub(crate) struct News {
    event: Event,
    /// Of a fork: its parent may end before it is applied, and what is staged with it.
    kept: Kept,
}

impl Space {
    /// Takes one event that is not a fault. What it changes is applied by [`Self::settle`]; a fork of which no
    /// change that was read could be the elder at once.
    pub fn hear(self: &Arc<Self>, job: &Job, event: Event) -> Option<Born> {
        match event {
            Event::Fault { .. } => {}
            Event::Fork(child) if !self.expects() => {
                return Some(self.forked(job, child, self.keep_staged(job)));
            }
            Event::Remove(range) if range.start == self.cookie_page.load(Relaxed) => {}
            Event::Remove(range) => {
                self.traits.note(Trait::Frees);
                if self.expects() {
                    // Of what may have moved there.
                    self.await_more(Event::Remove(range), Kept::new());
                } else {
                    self.removed(job, &range);
                }
            }
            Event::Fork(_) => self.await_more(event, self.keep_staged(job)),
            event => {
                if let Event::Unmap(place) = &event {
                    self.note_replaced(place);
                }
                self.await_more(event, Kept::new());
            }
        }
        None
    }

    /// Keeps a change until nothing is still to come.
    fn await_more(&self, event: Event, kept: Kept) {
        let mut news = self.news.lock();
        if let Event::Remove(range) = &event {
            // Who tells the same again and again would fill all memory with it.
            let last = news.iter().rev().take(TUNING.changes.discards);
            let mut discards = last.map_while(|news| match &news.event {
                Event::Remove(range) => Some(range),
                _ => None,
            });
            if discards.any(|other| other == range) {
                return;
            }
        }
        news.push(News { event, kept });
        self.unsure.store(true, Relaxed);
    }

    /// Whether a mapping has come to this page, or left it, by a change that was read and not applied yet.
    pub fn is_awaited(&self, page: PageNr) -> (bool, bool) {
        let (mut comes, mut leaves) = (false, false);
        for news in self.news.lock().iter() {
            match shape(&news.event) {
                Shape::Unmap(range) => leaves |= range.contains(&page.addr()),
                Shape::Move { from, to } => {
                    leaves |= from.contains(&page.addr());
                    comes |= to.contains(&page.addr());
                }
                Shape::Discard(_) | Shape::Still => {}
            }
        }
        (comes, leaves)
    }

    /// Whether changes were read that could not be applied yet.
    pub fn expects(&self) -> bool {
        self.unsure.load(Relaxed)
    }

    /// Applies what was read, if nothing is still to come. The caller holds the gate exclusively. Forked
    /// children are to be attended to without it.
    pub fn settle(self: &Arc<Self>, job: &Job) -> Vec<Born> {
        if !self.expects() || self.is_changing() {
            return Vec::new();
        }
        let read = self.shapes_of_news();
        let mut now = Registered::new();
        for at in places_to_ask(&read) {
            match self.is_registered(at) {
                Some(answer) => now.insert(at, answer),
                None if self.is_changing() => return Vec::new(),
                None => break, // it has ended
            };
        }
        if !now.is_empty() && self.is_changing() {
            return Vec::new(); // what was seen may be what a later change has left
        }
        self.apply(job, in_order(&read, self.taken(job, &read), &now))
    }

    /// The same where nothing more will be heard: a child that was forked before is served.
    pub fn settle_now(self: &Arc<Self>, job: &Job) -> Vec<Born> {
        let read = self.shapes_of_news();
        let unknown = Registered::new();
        self.apply(job, in_order(&read, self.taken(job, &read), &unknown))
    }

    fn shapes_of_news(&self) -> Vec<Shape> {
        let news = self.news.lock();
        news.iter().map(|news| shape(&news.event)).collect()
    }

    fn is_registered(&self, at: u64) -> Option<bool> {
        let page = addresses(PageNr::containing(at), 1);
        self.uffd.is_registered(page)
    }

    fn apply(self: &Arc<Self>, job: &Job, order: Vec<usize>) -> Vec<Born> {
        let mut born = Vec::new();
        let news = std::mem::take(&mut *self.news.lock());
        let mut news: Vec<Option<News>> = news.into_iter().map(Some).collect();
        for at in order {
            let Some(News { event, kept }) = news[at].take() else {
                continue;
            };
            match event {
                Event::Fork(child) => born.push(self.forked(job, child, kept)),
                Event::Remap { from, to, len } => self.remapped(job, from, to, len),
                Event::Remove(range) => self.removed(job, &range),
                Event::Unmap(range) => self.unmapped(job, &range),
                Event::Fault { .. } => {}
            }
        }
        self.unsure.store(false, Relaxed);
        born
    }

    /// Where mappings were before these changes, of the places that they are about: what is registered, as far as it
    /// was seen, and where the table has pages. Nothing if none moves: then nobody asks.
    fn taken(&self, job: &Job, changes: &[Shape]) -> Ranges {
        let mut taken = Ranges::default();
        if !changes
            .iter()
            .any(|change| matches!(change, Shape::Move { .. }))
        {
            return taken;
        }
        {
            let ranges = self.ranges.lock();
            let mut note = |place| {
                ranges
                    .within(place)
                    .into_iter()
                    .for_each(|part| taken.insert(part))
            };
            for change in changes {
                match change {
                    Shape::Unmap(range) => note(range),
                    Shape::Move { from, to } => [from, to].into_iter().for_each(&mut note),
                    Shape::Discard(_) | Shape::Still => {}
                }
            }
        }
        let core = job.core();
        for change in changes {
            if let Shape::Move { to, .. } = change {
                core.for_range(self.id, pages(to), |page, _, _| {
                    taken.insert(addresses(page, 1));
                });
            }
        }
        taken
    }

    pub(super) fn unmapped(&self, job: &Job, range: &Range<u64>) {
        self.ranges.lock().remove(range.clone());
        self.quarantine.lock().forget(range);
        let mut vouched = self.vouched.lock();
        vouched.remove(range.clone());
        drop(vouched);
        self.forget(job, pages(range));
    }

    /// Forgets what the table has of a range where nothing is registered. `registered` in order of address.
    pub(super) fn forget_holes(&self, job: &Job, range: &Range<u64>, registered: &[Range<u64>]) {
        let mut start = range.start;
        let end = range.end..range.end;
        for there in registered.iter().chain([&end]) {
            let hole = start..there.start.min(range.end);
            start = start.max(there.end);
            if hole.start < hole.end {
                self.ranges.lock().remove(hole.clone());
                self.forget(job, pages(&hole));
            }
        }
    }

    /// The pages will be thrown away after this event. They leave the lists at once, so nothing evicts them
    /// before the kernel has dropped them; they return by a fault.
    fn removed(&self, job: &Job, range: &Range<u64>) {
        self.quarantine.lock().enter(range.clone());
        self.forget(job, pages(range));
    }

    fn forget(&self, job: &Job, range: Range<PageNr>) {
        let effects = job.core().remove_range(self.id, range.clone());
        for effect in effects {
            job.release(self, effect);
        }
        self.lost.forget(&(range.start.addr()..range.end.addr()));
        // Threads that waited for a page in transit look again, and find what the program left there.
        let _ = self.uffd.wake(range.start.addr()..range.end.addr());
    }

    fn remapped(&self, job: &Job, from: u64, to: u64, len: u64) {
        {
            let mut ranges = self.ranges.lock();
            ranges.remove(from..from + len);
            ranges.insert(to..to + len);
        }
        {
            let mut quarantine = self.quarantine.lock();
            quarantine.forget(&(from..from + len));
            quarantine.forget(&(to..to + len));
        }
        {
            let mut vouched = self.vouched.lock();
            let sure = vouched.covers(&(from..from + len));
            vouched.remove(from..from + len);
            vouched.remove(to..to + len);
            if sure {
                vouched.insert(to..to + len);
            }
        }
        self.lost.remap(&(from..from + len), to);
        let mut core = job.core();
        let (source, target) = (PageNr::containing(from), PageNr::containing(to));
        let count = Pages(len / PAGE_SIZE as u64);
        let mut moved = Vec::new();
        // Whoever was there has left before: what the table still has of it goes.
        let effects = core.remap_with(self.id, source, target, count, |_, new, state| {
            moved.push((new, state));
        });
        for (new, state) in moved {
            self.follow(job, &mut core, new, state);
        }
        drop(core);
        for effect in effects {
            job.release(self, effect);
        }
        // Faults that came in for the old place look again, and for the new one.
        let _ = self.uffd.wake(from..from + len);
        let _ = self.uffd.wake(to..to + len);
    }

    /// A page in transit changed its record: whoever carries it knows the old one.
    fn follow(&self, job: &Job, core: &mut Recorded, page: PageId, state: State) {
        match state {
            State::Staged { slot, .. } | State::Storing { slot, .. } => {
                if let Some(body) = self.body.get() {
                    body.stage.rename(slot, page);
                }
            }
            State::Loading { .. } => {
                job.must(core.apply(page, Step::AbortLoad));
            }
            _ => {}
        }
    }

    /// The child starts with the parent's absent pages absent: it must find them too. Staged frames
    /// stay with the parent, so their bytes are kept in the store for both.
    fn forked(self: &Arc<Self>, job: &Job, child: Box<dyn Userfault>, mut kept: Kept) -> Born {
        let ranges = self.ranges.lock().clone();
        let child = job.add_space(self.group.clone(), child, ranges, Some(self.kin.family()));
        child.kin.inherit_from(self);
        // What children of its own find wiped is not registered in it either.
        child.traits.inherit_from(&self.traits);
        child
            .cookie_page
            .store(self.cookie_page.load(Relaxed), Relaxed);
        let (mut lost, mut copies) = (Vec::new(), Vec::new());
        let mut core = job.core();
        core.fork(self.id, child.id, |page, state| {
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
        child.lost.inherit(&self.lost, lost);
        Born(child)
    }

    /// Copies the bytes of every staged page into the store. Outside the core's lock: the exclusive
    /// gate keeps pages from coming and going, pins keep their frames.
    fn keep_staged(&self, job: &Job) -> Kept {
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

/// What an event does to places.
fn shape(event: &Event) -> Shape {
    match event {
        Event::Unmap(range) => Shape::Unmap(range.clone()),
        &Event::Remap { from, to, len } => Shape::Move {
            from: from..from + len,
            to: to..to + len,
        },
        Event::Remove(range) => Shape::Discard(range.clone()),
        Event::Fork(_) | Event::Fault { .. } => Shape::Still,
    }
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
