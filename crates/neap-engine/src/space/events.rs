//! Keeping the picture true: what the kernel says of forks and of changed mappings.
//!
//! Everything here runs under the exclusive gate, between the read of the event and any other look
//! at the table.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Heat, State, Step};
use neap_record::Recorded;
use neap_sys::{Event, Piece, Uffd};
use neap_units::{EntryId, PAGE_SIZE, PageId, PageNr, Pages, SlotId};

use super::{Body, Space, pages};
use crate::job::Job;

/// A look at all mappings that was in vain is repeated after so many times what it took.
const LOOK_REST: u64 = 10;

/// A forked child, and what takes longer than its parent's gate may be held.
pub(crate) enum Born {
    /// It waits for what it touches until it is served. A page may have been lost, and why.
    Child(Arc<Space>, Option<(PageNr, String)>),
    /// It has no space, and waits as long as its userfaultfd is open.
    Unserved(Uffd),
}

impl Born {
    /// Serves the child, or ends what cannot be served.
    pub fn attend(self, job: &Arc<Job>) {
        match self {
            Self::Child(child, lost) => {
                if let Some((page, why)) = lost {
                    job.lose(&child, page, &format!("no copy for a forked child: {why}"));
                }
                job.start_serving(&child);
            }
            Self::Unserved(_uffd) => job.lose_all("a forked child could not be served"),
        }
    }
}

impl Space {
    /// Applies one event that is not a fault. A forked child is to be attended to without the gate.
    pub fn apply(self: &Arc<Self>, job: &Job, event: Event) -> Option<Born> {
        match event {
            Event::Fork(child) => return Some(self.forked(job, child)),
            other => self.changed(job, other),
        }
        None
    }

    fn changed(&self, job: &Job, event: Event) {
        match event {
            Event::Fault { .. } | Event::Fork(_) => {}
            Event::Remap { from, to, len } => self.remapped(job, from, to, len),
            Event::Remove(range) => {
                self.frees.store(true, Relaxed);
                self.quarantine
                    .lock()
                    .expect("quarantine lock")
                    .enter(range.clone());
                self.removed(job, &range);
            }
            Event::Unmap(range) => {
                let mut order = self.order.lock().expect("order lock");
                if order.was_left(&range) {
                    // The end of an mremap, whose records have moved; so it seems.
                    self.unsure.store(true, Relaxed);
                    return;
                }
                if let Some(parked) = order.unpark(&range) {
                    // A newcomer is there already; what was unmapped is what it found.
                    self.forget(job, pages(&(parked..parked + (range.end - range.start))));
                    return;
                }
                if order.was_expected(&range) {
                    self.unsure.store(true, Relaxed);
                    return;
                }
                drop(order);
                self.ranges
                    .lock()
                    .expect("ranges lock")
                    .remove(range.clone());
                self.quarantine
                    .lock()
                    .expect("quarantine lock")
                    .forget(&range);
                self.forget(job, pages(&range));
            }
        }
    }

    /// Whether something is expected of events that are still to come.
    pub fn expects(&self) -> bool {
        self.order.lock().expect("order lock").expects()
    }

    /// Ends what was expected of earlier events, if none is still to come. The caller holds the gate
    /// exclusively.
    pub fn settle(&self, job: &Job) {
        let (expects, doubts) = {
            let order = self.order.lock().expect("order lock");
            (order.expects(), order.doubts())
        };
        let start = neap_sys::monotonic_nanos();
        let rests = doubts && start < self.settles_at.load(Relaxed);
        if !expects || rests || self.is_changing() {
            return;
        }
        // Read first: if nothing is to come after that, it was true.
        let registered = match self.body.get() {
            Some(body) if doubts => body.traps_missing(),
            _ => None,
        };
        if self.is_changing() {
            let end = neap_sys::monotonic_nanos();
            self.settles_at
                .store(end + (end - start) * LOOK_REST, Relaxed);
            return;
        }
        let settled = self.order.lock().expect("order lock").settle();
        for parked in settled.parked {
            self.forget(job, pages(&parked));
        }
        // Where the kernel does not tell, the mark is believed.
        if let Some(registered) = registered {
            for doubtful in settled.doubtful {
                self.forget_holes(job, &doubtful, &registered);
            }
        }
        self.unsure.store(false, Relaxed);
    }

    /// Forgets what the table has of a range where nothing is registered. `registered` in order of address.
    pub(super) fn forget_holes(&self, job: &Job, range: &Range<u64>, registered: &[Range<u64>]) {
        let mut start = range.start;
        let end = range.end..range.end;
        for there in registered.iter().chain([&end]) {
            let hole = start..there.start.min(range.end);
            start = start.max(there.end);
            if hole.start < hole.end {
                self.ranges
                    .lock()
                    .expect("ranges lock")
                    .remove(hole.clone());
                self.forget(job, pages(&hole));
            }
        }
    }

    /// The pages will be thrown away after this event. They leave the generation lists at once, so
    /// nothing evicts them before the kernel has dropped them; they return by a fault.
    fn removed(&self, job: &Job, range: &Range<u64>) {
        let mut own = self.own_discards.lock().expect("own discards lock");
        if own.is_empty() {
            drop(own);
            self.forget(job, pages(range));
            return;
        }
        // A page may be thrown away by our agent and by the program at the same time. The first
        // event is taken for ours and the second for the program's: in either order, the page is
        // dropped once both have come.
        let all = pages(range);
        for number in all.start.0..all.end.0 {
            if own.remove(&PageNr(number)) {
                self.discard_goes_on.store(true, Relaxed);
            } else {
                self.forget(job, PageNr(number)..PageNr(number + 1));
            }
        }
    }

    fn forget(&self, job: &Job, range: Range<PageNr>) {
        let effects = job.core().remove_range(self.id, range.clone());
        for effect in effects {
            job.release(self, effect);
        }
        // Threads that waited for a page in transit look again, and find what the program left there.
        let _ = self.uffd.wake(range.start.addr()..range.end.addr());
    }

    fn remapped(&self, job: &Job, from: u64, to: u64, len: u64) {
        let mut ranges = self.ranges.lock().expect("ranges lock");
        ranges.remove(from..from + len);
        // Who was there has been unmapped, and its event is still to come.
        let unmapped = ranges.touches(&(to..to + len));
        ranges.insert(to..to + len);
        drop(ranges);
        self.quarantine
            .lock()
            .expect("quarantine lock")
            .forget(&(from..from + len));
        let mut order = self.order.lock().expect("order lock");
        let source = order.unpark(&(from..from + len)).unwrap_or(from);
        order.arrive(&(to..to + len));
        if unmapped {
            order.expect(to..to + len);
        }
        order.leave(from..from + len);
        let mut core = job.core();
        let (source, target) = (PageNr::containing(source), PageNr::containing(to));
        let count = Pages(len / PAGE_SIZE as u64);
        let mut moved = Vec::new();
        let mut taken = false;
        core.for_range(self.id, target..PageNr(target.0 + count.0), |_, _, _| {
            taken = true
        });
        if taken {
            // Whoever was there has left or been unmapped, and its event is still to come.
            let parking = PageNr::containing(order.park(to..to + len));
            core.remap_with(self.id, target, parking, count, |_, new, state| {
                moved.push((new, state));
            });
        }
        drop(order);
        let effects = core.remap_with(self.id, source, target, count, |_, new, state| {
            moved.push((new, state));
        });
        for (new, state) in moved {
            self.follow(job, &mut core, new, state);
        }
        self.end_older_way(job, &mut core, target..PageNr(target.0 + count.0));
        drop(core);
        for effect in effects {
            job.release(self, effect);
        }
        // Faults that came in for the old place look again.
        let _ = self.uffd.wake(to..to + len);
    }

    /// Pages that changed their place while the older way out had them: it knows the old place only, and
    /// may have read that after they had left it. So it ends for them.
    fn end_older_way(&self, job: &Job, core: &mut Recorded, range: Range<PageNr>) {
        let mut ended = Vec::new();
        core.for_range(self.id, range, |_, id, state| match state {
            // Stays protected until the first write, which finds it resident.
            State::Protected { .. } => ended.push((id, Step::Putback(Heat::Hot))),
            // It may be there as well; then nothing asks for its copy.
            State::Discarding { .. } => ended.push((id, Step::Discarded)),
            _ => {}
        });
        for (id, step) in ended {
            job.must(core.apply(id, step));
        }
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
    fn forked(self: &Arc<Self>, job: &Job, child: Uffd) -> Born {
        let ranges = self.ranges.lock().expect("ranges lock").clone();
        let child = match job.add_space(child, ranges) {
            Ok(child) => child,
            Err(uffd) => return Born::Unserved(uffd),
        };
        child.kin.set_parent(self);
        // What children of its own find wiped is not registered in it either.
        child.wipes.store(self.wipes.load(Relaxed), Relaxed);
        child.frees.store(self.frees.load(Relaxed), Relaxed);
        child
            .cookie_page
            .store(self.cookie_page.load(Relaxed), Relaxed);
        let mut kept = self.keep_staged(job);
        let mut lost = Vec::new();
        let mut freed = Vec::new();
        let mut core = job.core();
        core.fork(self.id, child.id, |page, state| {
            let entry = match state {
                State::Stored { entry }
                | State::Loading { entry }
                | State::Discarding { entry } => Some(entry),
                // Write-protected pages are still there: the child has them.
                State::Protected { .. } => return None,
                _ => match kept.get(&page) {
                    Some(Ok(entry)) => Some(*entry),
                    Some(Err(why)) => {
                        lost.push((page, why.clone()));
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
        for (page, entry) in kept.drain() {
            let Ok(entry) = entry else { continue };
            match core
                .find(self.id, page)
                .map(|id| core.apply(id, Step::SetCopy(entry)))
            {
                Some(Ok(effect)) => freed.push(effect),
                _ => job.store.put(entry), // compressed meanwhile
            }
        }
        drop(core);
        for effect in freed {
            job.release(self, effect);
        }
        Born::Child(child, lost.into_iter().next())
    }

    /// Copies the bytes of every staged page into the store. Outside the core's lock: the exclusive
    /// gate keeps pages from coming and going, pins keep their frames.
    fn keep_staged(&self, job: &Job) -> HashMap<PageNr, Result<EntryId, String>> {
        let Some(body) = self.body.get() else {
            return HashMap::new();
        };
        let mut staged = Vec::new();
        let everything = PageNr(0)..PageNr(u64::MAX);
        job.core().for_range(self.id, everything, |page, _, state| {
            if let State::Staged { slot, .. } | State::Storing { slot, .. } = state {
                body.stage.pin(slot);
                staged.push((page, slot));
            }
        });
        let keep = |(page, slot)| {
            let bytes = read_slot(body, slot).map_err(|error| error.to_string());
            let entry = bytes.and_then(|bytes| {
                let stored = job.store.store_raw(self.id, &bytes);
                stored.map_err(|refused| refused.to_string())
            });
            body.stage.unpin(slot);
            (page, entry)
        };
        staged.into_iter().map(keep).collect()
    }
}

/// The bytes of a staged page, surely from this address space.
fn read_slot(body: &Body, slot: SlotId) -> neap_sys::Result<[u8; PAGE_SIZE]> {
    let mut bytes = [0u8; PAGE_SIZE];
    let mut pieces = [Piece {
        from: body.stage.address(slot),
        to: &mut bytes,
    }];
    body.remote.read_bound(&mut pieces)?;
    Ok(bytes)
}
