//! Serving one fault: claim the page, find it, fill it.

use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Heat, State, Step};
use neap_sys::{Progress, Stop, Word};
use neap_tuning::TUNING;
use neap_units::{Bytes, PAGE_SIZE, PageNr, Pages};

use super::throttle::Throttled;
use super::{Fault, FaultThread, Served};
use crate::space::{Body, Phase, Space, Trait, addresses};

static ZEROS: [u8; TUNING.faults.fresh.0 as usize * PAGE_SIZE] =
    [0; TUNING.faults.fresh.0 as usize * PAGE_SIZE];

impl FaultThread {
    /// Whether some thread waits that could not be served at once.
    pub fn has_waiting(&self) -> bool {
        !self.inbox.waiting.is_empty()
    }

    pub(super) fn serve(&mut self, fault: Fault) -> Served {
        let before = self.space.charged.load(Relaxed);
        let served = self.find_and_fill(fault);
        let got = self.space.charged.load(Relaxed) - before;
        if got > 0 {
            let pages = got / PAGE_SIZE as u64;
            self.throttle.owe(&self.space.group, fault.thread, pages);
        }
        served
    }

    fn find_and_fill(&mut self, fault: Fault) -> Served {
        if self.space.expects() {
            return Served::Later; // only this thread reads and applies, so it stays true that it does not
        }
        if fault.page.addr() == self.space.cookie_page.load(Relaxed) {
            return self.answer_call(fault);
        }
        let found = {
            let mut core = self.job.core();
            core.fault(self.space.id, fault.page);
            match core.find(self.space.id, fault.page) {
                None => None,
                Some(id) => {
                    let state = core.state(id);
                    if let State::Isolated { .. } = state {
                        // Whoever carries the page looks at this when it has arrived.
                        core.want(id);
                    }
                    Some((id, state))
                }
            }
        };
        if let None | Some((_, State::Absent)) = found
            && let Some(why) = self.space.lost.why(fault.page)
        {
            return match self.job.lose(&self.space, fault.page, &why) {
                true => Served::Done,
                false => Served::Later,
            };
        }
        if fault.protected {
            let known = !matches!(found, None | Some((_, State::Absent)));
            return match (known, self.space.cow.holds()) {
                (_, true) => self.let_copy(fault, known),
                (false, _) => self.first_write(fault),
                (true, _) => self.let_write(fault),
            };
        }
        match found {
            None | Some((_, State::Absent)) if !fault.write => self.show_zeros(fault),
            None | Some((_, State::Absent)) => self.fresh(fault),
            Some((_, State::Resident { .. })) => self.doubt(fault.page),
            Some((_, State::Staged { .. } | State::Storing { .. })) => {
                self.loader.bring_home(&self.job, &self.space, fault.page)
            }
            Some((_, State::Stored { .. })) => {
                if self.must_wait(&fault) {
                    return Served::Held;
                }
                let (inbox, rank) = (&mut self.inbox, &mut self.rank);
                self.loader
                    .load(&self.job, &self.space, fault.page, || inbox.read(rank))
            }
            Some((_, State::Isolated { .. } | State::Returning { .. } | State::Loading { .. })) => {
                Served::Done
            }
        }
    }

    /// Whether a fill must wait for reclaim, which says when that is in vain. Our own agent never waits: it moves pages
    /// for reclaim.
    pub(super) fn must_wait(&mut self, fault: &Fault) -> bool {
        let agent = |body: &Body| body.agent.is_thread(fault.thread);
        let is_agent = || self.space.body.get().is_some_and(agent);
        let now = || self.job.clock.now();
        match self.throttle.holds(&self.space.group, fault.thread, now) {
            Throttled::No => {}
            _ if is_agent() => {}
            throttled => {
                self.held = true;
                if throttled == Throttled::Begins {
                    self.job.log.throttled(&self.job, &self.space.group);
                    self.job.reclaim.ring();
                }
                return true;
            }
        }
        let full = |space: &Space| !space.group.has_room();
        if full(&self.space) {
            self.job.room.wait(&self.space);
        }
        if !full(&self.space) {
            if std::mem::take(&mut self.held) {
                self.job.room.call(1); // there may be more
            }
            return false;
        }
        let body = self.space.body.get();
        if body.is_some_and(|body| body.agent.is_thread(fault.thread)) {
            return false;
        }
        self.held = true;
        self.space.group.count(|events| &events.held, 1);
        self.space.group.note_full();
        if self.space.group.excess() > 0 {
            self.job.reclaim.ring();
        } else {
            self.job.sampler.ring(); // it does not know yet
        }
        true
    }

    /// Memory nobody has touched before is written. A thread that walks upwards gets a run of pages at once.
    fn fresh(&mut self, fault: Fault) -> Served {
        if self.must_wait(&fault) {
            return Served::Held;
        }
        let gate = self.space.gate.read();
        if !self.is_unknown(fault.page) {
            return Served::Later;
        }
        let most = self.most_fresh();
        let run = self.run_of(
            fault.page,
            self.fresh.wanted(fault.page, most),
            Word::is_empty,
        );
        let bytes = &ZEROS[..run * PAGE_SIZE];
        let filler = &mut self.loader.filler;
        let progress = filler.copy(&self.space, fault.page.addr(), bytes);
        let filled = Bytes(progress.done).whole_pages();
        self.note_fresh(fault.page, filled);
        self.fresh.filled(fault.page, filled);
        drop(gate);
        self.end_fill(fault.page, progress)
    }

    /// Whether the table does not have the page. (One that was found by a scan and has left since the first look has
    /// bytes.)
    pub(super) fn is_unknown(&self, page: PageNr) -> bool {
        self.job.core().state_at(self.space.id, page) == State::Absent
    }

    /// What becomes of the fault that a fill was for.
    pub(super) fn end_fill(&mut self, page: PageNr, progress: Progress) -> Served {
        match progress.stop {
            _ if progress.done > 0 => Served::Done,
            None => Served::Done,
            Some(Stop::Retry | Stop::NoMemory) => Served::Later,
            Some(Stop::Dead) if self.space.look_for_life() => Served::Later,
            Some(Stop::Dead) => Served::Done,
            // Exists: another filled it. Absent: the mapping is gone. The thread finds out itself.
            Some(stop) => {
                if stop == Stop::Refused {
                    let _gate = self.space.gate.write();
                    self.space.leave_to_the_kernel(&self.job, page);
                }
                let page = addresses(page, 1);
                self.loader.filler.let_go(&self.space, page);
                Served::Done
            }
        }
    }

    /// Pages that nobody had touched are memory of the program's from now on.
    pub(super) fn note_fresh(&self, first: PageNr, count: Pages) {
        if count == Pages::ZERO {
            return;
        }
        let mut core = self.job.core();
        for number in first.0..first.0 + count.0 {
            let id = core.ensure(self.space.id, PageNr(number));
            if core.state(id) == State::Absent {
                self.job.must(core.apply(id, Step::Adopt(Heat::Hot)));
            }
        }
        drop(core);
        self.space.group.count(|events| &events.fresh, count.0);
        self.space.charge(count.bytes().0);
    }

    /// The most pages that may become memory for one fault, by the room there is.
    pub(super) fn most_fresh(&self) -> Pages {
        let room = Bytes(self.space.group.room()).whole_pages();
        room.clamp(TUNING.faults.fresh_near, TUNING.faults.fresh)
    }

    /// How many pages from `page` on, `want` at most, may be served with it: unknown to the table, within the registered
    /// range, and but for `page` itself `such`.
    pub(super) fn run_of(&self, page: PageNr, want: Pages, such: fn(Word) -> bool) -> usize {
        if want <= Pages(1) || self.space.traits.has(Trait::Exact) || self.space.lost.is_some() {
            return 1;
        }
        let Some(range) = self.space.registered(page) else {
            return 1;
        };
        let room = Bytes(range.end - page.addr()).whole_pages();
        let want = want.min(room).0;
        let known = {
            let core = self.job.core();
            let free = |at: &u64| core.find(self.space.id, PageNr(page.0 + at)).is_none();
            (1..want).take_while(free).count() + 1
        };
        // The page itself is no guard region: those never ask.
        1 + self.space.leading(PageNr(page.0 + 1), known - 1, such)
    }

    /// The table says that the page is there. Either another fault was served meanwhile, or the
    /// kernel dropped a page that the program had declared free (MADV_FREE): filling tells. Under the
    /// exclusive gate: a page that reclaim moves out between the look and the fill would be hidden by
    /// zeros.
    fn doubt(&mut self, page: PageNr) -> Served {
        self.loader.filler.wake(&self.space); // who has its page is not to wait for the gate
        let gate = self.space.gate.write();
        let state = self.job.core().state_at(self.space.id, page);
        if !matches!(state, State::Resident { .. }) {
            return Served::Later;
        }
        if self.is_lost(page) {
            if self.space.is_changing() {
                return Served::Later; // what is still to be read may explain it
            }
            let why = "it is neither in the program nor with neap";
            return match self.job.lose(&self.space, page, why) {
                true => Served::Done,
                false => Served::Later,
            };
        }
        let filler = &mut self.loader.filler;
        let (progress, _) = filler.zero(&self.space, addresses(page, 1));
        drop(gate);
        self.end_fill(page, progress)
    }

    /// Whether a page that must be there is not: the program has not declared it free, so that the kernel had
    /// none to drop.
    fn is_lost(&self, page: PageNr) -> bool {
        let frees = self.space.traits.has(Trait::Frees);
        let vouched = !frees && self.space.is_vouched_for(page.addr());
        let body = self.space.body.get().filter(|_| vouched);
        body.is_some_and(|body| body.view.holds(page.addr()).is_ok_and(|there| !there))
    }

    /// A write to a page that was protected while it was one of zeros, and that the table has by now.
    pub(super) fn let_write(&mut self, fault: Fault) -> Served {
        let _gate = self.space.gate.write();
        let range = addresses(fault.page, 1);
        match self
            .loader
            .filler
            .unprotect(&self.space, range.clone())
            .stop
        {
            Some(Stop::Retry) => Served::Later,
            None => Served::Done,
            _ => {
                self.loader.filler.let_go(&self.space, range);
                Served::Done
            }
        }
    }

    /// Its child asks who it is; or its library says that there is something to hear. What a program maps during the first look
    /// waits for nothing, so its thread waits for the end of that.
    fn answer_call(&mut self, fault: Fault) -> Served {
        let now = self.job.clock.now();
        let waits = match self.space.standing.phase() {
            Phase::Looking => {
                self.unheard = true;
                return Served::Later;
            }
            Phase::Managed if fault.tried_at.is_none() || std::mem::take(&mut self.unheard) => {
                self.hear(now);
                self.space.hints.are_called_for()
            }
            _ => fault.tried_at.is_some(),
        };
        if waits && self.space.hints.is_taking(now) {
            return Served::Later;
        }
        self.tell_cookie(fault.page)
    }

    fn tell_cookie(&mut self, page: PageNr) -> Served {
        let mut bytes = [0u8; PAGE_SIZE];
        let number = self.space.cookie;
        let proof = self.job.proof(number);
        let cookie = neap_wire::Cookie { number, proof };
        bytes[..size_of_val(&cookie)].copy_from_slice(bytemuck::bytes_of(&cookie));
        let _gate = self.space.gate.read();
        match self
            .loader
            .filler
            .copy(&self.space, page.addr(), &bytes)
            .stop
        {
            Some(Stop::Retry | Stop::NoMemory) => Served::Later,
            None => Served::Done,
            Some(_) => {
                self.loader.filler.let_go(&self.space, addresses(page, 1));
                Served::Done
            }
        }
    }
}
