//! A stored page comes back: find the bytes, fill, wake; with it its neighbours, in one go.

use neap_policy::{Core, Heat, State, Step, Stride, WalkReadahead};
use neap_record::{Noted, Recorder};
use neap_store::Source;
use neap_sys::Stop;
use neap_tuning::TUNING;
use neap_units::{EntryId, PAGE_SIZE, PageId, PageNr, Pages, SpaceId};
use std::sync::atomic::Ordering::Relaxed;

use super::desk::Desk;
use super::{Filler, return_staged};
use crate::fault::Served;
use crate::job::Job;
use crate::space::{Space, addresses};

/// One page on its way in. The store's reference taken for it keeps its bytes while the table may
/// forget it.
#[derive(Clone, Copy, Debug)]
struct Inbound {
    id: PageId,
    entry: EntryId,
    page: PageNr,
    /// Place in the buffer, in pages; `None`: the bytes could not be had.
    at: Option<usize>,
    /// Where they came from.
    source: Source,
    /// It is in, or was given up: what becomes of the page now is nothing to this loader.
    done: bool,
}

impl Inbound {
    /// Whether its record is still that of the claim. It may have been given up since with the page, and be another
    /// space's by now, whose page comes from the same entry since a fork.
    fn is_claimed(&self, core: &Core, space: SpaceId) -> bool {
        let owner = core.try_locate(self.id).map(|(owner, _)| owner);
        let entry = self.entry;
        owner == Some(space) && core.state(self.id) == State::Loading { entry }
    }
}

/// Whether pages that come from there leave their copies.
#[derive(Clone, Copy)]
struct Keep {
    pool: bool,
    disk: bool,
}

/// What one fault thread keeps in mind from load to load.
pub(crate) struct Loader {
    pub filler: Filler,
    inbound: Vec<Inbound>,
    readahead: Noted<WalkReadahead>,
    stride: Noted<Stride>,
}

impl Loader {
    pub fn new(recorder: &Recorder) -> Self {
        Self {
            filler: Filler::at_once(),
            inbound: Vec::with_capacity(TUNING.loads.window.as_usize()),
            readahead: Noted::new(recorder, ()),
            stride: Noted::new(recorder, ()),
        }
    }

    /// Brings `page` back, which the table says is staged, and what readahead wants with it.
    pub fn bring_home(&mut self, job: &Job, space: &Space, page: PageNr) -> Served {
        let _gate = space.gate.read();
        if space.is_dead() {
            return Served::Done;
        }
        if space.expects() {
            return Served::Later;
        }
        let core = job.core();
        let staged = |&at: &u64| {
            let state = core.state_at(space.id, PageNr(at));
            matches!(state, State::Staged { .. } | State::Storing { .. })
        };
        if !staged(&page.0) {
            return Served::Later; // it moved on meanwhile
        }
        let there = |range| core.are_resident(space.id, range);
        let window = self.readahead.fault(page, Pages(1), there);
        // As far as it is staged it comes back now.
        let end = (page.0 + 1..window.end.0).find(|at| !staged(at));
        self.readahead.ends_at(end.map_or(window.end, PageNr));
        drop(core);
        return_staged(job, space, &mut self.filler, page, &window, false)
    }

    /// Loads `page`, which the table says is stored, and what readahead wants with it. While the address
    /// space is changing the bytes are kept, and `let_change` is called before they are tried again: with
    /// a read of the swap file for every try, a program that changes it all the time would never get on.
    pub fn load(
        &mut self,
        job: &Job,
        space: &Space,
        page: PageNr,
        let_change: impl FnMut(),
    ) -> Served {
        if !self.claim(job, space, page) {
            return Served::Later;
        }
        space.group.count(|events| &events.pgmajfault, 1);
        space.came_back.fetch_add(1, Relaxed);
        self.carry(job, space, page, let_change)
    }

    /// Gets the bytes of what was claimed and fills it in.
    fn carry(
        &mut self,
        job: &Job,
        space: &Space,
        page: PageNr,
        mut let_change: impl FnMut(),
    ) -> Served {
        if self
            .inbound
            .iter()
            .any(|inbound| job.store.is_on_disk(inbound.entry))
        {
            self.filler.wake(space); // those of other faults are not to wait for the disk
        }
        let mut desk = job.desks.take(&job.store);
        self.get_bytes(job, space, page, &mut desk);
        let mut served = Served::Later;
        for tries_left in (0..TUNING.loads.tries).rev() {
            served = self.fill(job, space, page, &desk.buffer, tries_left == 0);
            if served == Served::Done {
                break;
            }
            self.filler.wake(space); // what is in is not to wait for the rest
            let_change();
        }
        job.desks.leave(desk);
        for inbound in self.inbound.drain(..) {
            job.store.put(inbound.entry);
        }
        served
    }

    /// Loads a page before it is touched, if it is still stored, and with it what readahead wants. How many came.
    pub fn load_ahead(&mut self, job: &Job, space: &Space, page: PageNr) -> u64 {
        if !self.claim(job, space, page) {
            return 0;
        }
        space.group.count(|events| &events.swap_ra, 1);
        let came = self.inbound.len() as u64;
        self.carry(job, space, page, || job.clock.sleep(TUNING.talk.look.0));
        came
    }

    /// Claims the page and what will be wanted next of those that are stored: its neighbours in the window, or
    /// the next pages of a walk. From here on nobody else loads them.
    fn claim(&mut self, job: &Job, space: &Space, page: PageNr) -> bool {
        let _gate = space.gate.read();
        if space.is_dead() || space.expects() {
            return false;
        }
        // Nothing that nobody asked for is filled unseen.
        let seen = space
            .registered(page)
            .filter(|_| space.body.get().is_some());
        let bounds = seen.unwrap_or(addresses(page, 1));
        let mut core = job.core();
        let State::Stored { entry } = core.state_at(space.id, page) else {
            return false;
        };
        let there = |range| core.are_resident(space.id, range);
        let window = self.readahead.fault(page, space.group.around(), there);
        let first = window.start.max(PageNr::containing(bounds.start));
        let last = window.end.min(PageNr::containing(bounds.end));
        // A page from the pool is not worth a read of the swap file for its neighbours.
        let on_disk = job.store.is_on_disk(entry);
        let room = space.group.room() / PAGE_SIZE as u64;
        let most = room.clamp(TUNING.loads.window_near.0, TUNING.loads.window.0) as usize;
        self.inbound.clear();
        let inbound = &mut self.inbound;
        let mut claim = |at, id, state| {
            if let State::Stored { entry } = state
                && (inbound.len() < most || at == page)
                && (at == page || on_disk || !job.store.is_on_disk(entry))
            {
                inbound.push(Inbound {
                    id,
                    entry,
                    page: at,
                    at: None,
                    source: Source::Pool,
                    done: false,
                });
            }
        };
        core.for_range(space.id, first..last.max(PageNr(page.0 + 1)), &mut claim);
        for at in self.stride.fault(page, TUNING.loads.window.0 as u32 - 1) {
            let within = bounds.contains(&at.addr()) && !window.contains(&at);
            if let Some(id) = core.find(space.id, at).filter(|_| within) {
                claim(at, id, core.state(id));
            }
        }
        self.inbound.sort_unstable_by_key(|inbound| inbound.page);
        let mut in_window = self.inbound.iter().map(|inbound| inbound.page);
        if let Some(last) = in_window.rfind(|page| window.contains(page)) {
            self.readahead.ends_at(PageNr(last.0 + 1));
        }
        for inbound in &self.inbound {
            job.store.get(inbound.entry);
            job.must(core.apply(inbound.id, Step::BeginLoad));
        }
        drop(core);
        let ahead = self.inbound.len() as u64 - 1;
        space.group.count(|events| &events.swap_ra, ahead);
        true
    }

    /// Gets the bytes, without any lock; those in the swap file in one batch.
    fn get_bytes(&mut self, job: &Job, space: &Space, wanted: PageNr, desk: &mut Desk) {
        let entries: Vec<EntryId> = self.inbound.iter().map(|inbound| inbound.entry).collect();
        let buffer = &mut desk.buffer[..entries.len() * PAGE_SIZE];
        let loaded = job.store.load_cluster(&entries, buffer, &mut desk.codec);
        for (at, (inbound, loaded)) in self.inbound.iter_mut().zip(loaded).enumerate() {
            match loaded {
                Ok(source) => {
                    inbound.at = Some(at);
                    inbound.source = source;
                }
                Err(error) if inbound.page == wanted => {
                    job.lose(space, wanted, &error.to_string());
                }
                Err(_) => {} // nobody asked for this one yet
            }
        }
    }

    /// Which of the pages that were found leave a copy where they were.
    fn keep(&self, job: &Job, space: &Space) -> Keep {
        // A copy is out as well as the page, as to memory.swap.max.
        let roomy = !space.group.account.is_half_out();
        // A block around a fault is no walk.
        let block = space.group.around().0 as usize;
        Keep {
            pool: roomy
                && self.inbound.len() >= TUNING.loads.keep_from.max(block + 1)
                && job.keeps_copies(TUNING.loads.keep_below)
                && space.copies.wanted(),
            disk: roomy
                && self
                    .inbound
                    .iter()
                    .any(|inbound| inbound.source == Source::SwapFile)
                && job.store.keeps_swapped(),
        }
    }

    /// Puts the pages into the program, run by run. `last`: those that cannot be filled now stay stored.
    fn fill(
        &mut self,
        job: &Job,
        space: &Space,
        wanted: PageNr,
        buffer: &[u8],
        last: bool,
    ) -> Served {
        let _gate = space.gate.read();
        if space.is_dead() {
            return Served::Done;
        }
        self.look_again(&job.core(), space.id);
        let keep = self.keep(job, space);
        let mut served = Served::Done;
        let mut from = 0;
        while from < self.inbound.len() {
            if self.inbound[from].done {
                from += 1;
                continue;
            }
            let run = self.without_guards(space, from, self.run_at(from), wanted);
            let done = match self.inbound[from].at {
                Some(_) if space.expects() => Err(Some(Stop::Retry)),
                Some(at) if run > 0 => {
                    let bytes = &buffer[at * PAGE_SIZE..(at + run) * PAGE_SIZE];
                    self.fill_run(job, space, from, bytes, keep, wanted)
                }
                _ => Err(None),
            };
            match done {
                Ok(count) => {
                    let filled = &mut self.inbound[from..from + count];
                    filled.iter_mut().for_each(|inbound| inbound.done = true);
                    from += count;
                }
                Err(Some(Stop::Retry)) if !last => return Served::Later,
                Err(stop) => {
                    self.give_up(job, space, from);
                    let passes = matches!(stop, Some(Stop::Retry | Stop::NoMemory | Stop::Dead));
                    if self.inbound[from].page == wanted && passes {
                        served = Served::Later;
                    }
                    from += 1;
                }
            }
        }
        served
    }

    /// Events may have been applied since the claim: pages were removed, or moved elsewhere.
    fn look_again(&mut self, core: &Core, space: SpaceId) {
        for inbound in self.inbound.iter_mut().filter(|inbound| !inbound.done) {
            if inbound.is_claimed(core, space) {
                inbound.page = core.locate(inbound.id).1;
            } else {
                inbound.at = None;
            }
        }
        self.inbound.sort_by_key(|inbound| inbound.page);
    }

    /// How many pages from `from` on follow each other in the program and in the buffer.
    fn run_at(&self, from: usize) -> usize {
        let first = self.inbound[from];
        let follows = |(i, inbound): &(usize, &Inbound)| {
            inbound.page.0 == first.page.0 + *i as u64
                && inbound.at.is_some()
                && !inbound.done
                && inbound.at == first.at.map(|at| at + i)
        };
        self.inbound[from..]
            .iter()
            .enumerate()
            .take_while(follows)
            .count()
            .max(1)
    }

    /// How many pages of a run may be filled. A page that is a guard region now stays stored: its record says what
    /// the kernel has zapped, but here, where events may still be unread, it may also be that of a page that has moved
    /// away. The page that is wanted is no guard region: those never ask.
    fn without_guards(&self, space: &Space, from: usize, run: usize, wanted: PageNr) -> usize {
        let first = self.inbound[from].page;
        if first == wanted {
            let second = PageNr(first.0 + 1);
            return 1 + space.leading(second, run - 1, |word| !word.may_guard());
        }
        let clear = space.leading(first, run, |word| !word.may_guard());
        if first.0 + clear as u64 == wanted.0 && clear < run {
            return clear + 1;
        }
        clear
    }

    /// Puts the pages from `from` on into the program, whose bytes follow each other. How many it were.
    fn fill_run(
        &mut self,
        job: &Job,
        space: &Space,
        from: usize,
        bytes: &[u8],
        keep: Keep,
        wanted: PageNr,
    ) -> Result<usize, Option<Stop>> {
        let first = self.inbound[from].page;
        let progress = self.filler.copy(space, first.addr(), bytes);
        let mut done = (progress.done / PAGE_SIZE as u64) as usize;
        let exists = done == 0 && progress.stop == Some(Stop::Exists);
        if exists {
            self.filler.let_go(space, addresses(first, 1));
            done = 1;
        }
        if done == 0 {
            match progress.stop {
                Some(Stop::Dead) => _ = space.look_for_life(),
                Some(Stop::Retry | Stop::NoMemory) => {}
                _ => {
                    self.filler.let_go(space, addresses(first, 1));
                }
            }
            // A run that crosses two mappings is refused whole: page by page it goes.
            if bytes.len() > PAGE_SIZE && progress.stop == Some(Stop::Absent) {
                return self.fill_run(job, space, from, &bytes[..PAGE_SIZE], keep, wanted);
            }
            return Err(progress.stop);
        }
        let mut freed = Vec::new();
        let mut core = job.core();
        for inbound in &self.inbound[from..from + done] {
            let heat = if inbound.page == wanted {
                Heat::Hot
            } else {
                Heat::Warm
            };
            let keep = match inbound.source {
                Source::SwapFile => keep.disk,
                Source::Pool | Source::SameFilled => keep.pool,
                Source::Whole => false, // the copy takes as much as the page
            };
            let step = Step::EndLoad {
                keep: keep && !exists,
                heat,
            };
            freed.push(job.must(core.apply(inbound.id, step)));
        }
        drop(core);
        for effect in freed {
            job.release(space, effect);
        }
        space.charge((done * PAGE_SIZE) as u64);
        Ok(done)
    }

    /// The page stays stored. Threads that came to wait for it meanwhile try again.
    fn give_up(&mut self, job: &Job, space: &Space, at: usize) {
        self.inbound[at].done = true; // from here on others may claim it
        let inbound = self.inbound[at];
        let mut core = job.core();
        if inbound.is_claimed(&core, space.id) {
            job.must(core.apply(inbound.id, Step::AbortLoad));
            drop(core);
            self.filler.let_go(space, addresses(inbound.page, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use neap_units::SlotId;

    use super::*;

    const ENTRY: EntryId = EntryId(7);
    const PAGE: PageNr = PageNr(100);

    /// A page of the space that is on its way in from [`ENTRY`].
    fn inbound(core: &mut Core, space: SpaceId) -> Inbound {
        let id = core.ensure(space, PAGE);
        for step in [
            Step::Adopt(Heat::Warm),
            Step::Isolate,
            Step::Stage(SlotId(0)),
            Step::BeginStore,
            Step::CommitStore(ENTRY),
            Step::BeginLoad,
        ] {
            core.apply(id, step).unwrap();
        }
        Inbound {
            id,
            entry: ENTRY,
            page: PAGE,
            at: Some(0),
            source: Source::Pool,
            done: false,
        }
    }

    #[test]
    fn a_record_that_another_space_has_by_now_is_not_claimed() {
        let mut core = Core::new();
        let (parent, child) = (core.add_space(), core.add_space());
        let claim = inbound(&mut core, parent);
        assert!(claim.is_claimed(&core, parent));
        core.remove_range(parent, PAGE..PageNr(PAGE.0 + 1));
        assert!(!claim.is_claimed(&core, parent), "it is nobody's");
        let theirs = inbound(&mut core, child);
        assert_eq!(theirs.id, claim.id, "the record is used anew");
        assert!(theirs.is_claimed(&core, child));
        assert!(!claim.is_claimed(&core, parent));
    }
}
