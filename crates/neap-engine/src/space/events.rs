//! Keeping the picture true: what the kernel says of forks and of changed mappings.
//!
//! Everything here runs under the exclusive gate. From the read of a change until it is applied nothing is
//! filled and nothing leaves: [`Space::expects`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{Advice, Hint, State, Step};
use neap_record::Recorded;
use neap_sys::Event;
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageId, PageNr, Pages};

use super::births::{Born, Kept, Since};
use super::order::{Births, Registered, Shape, in_order, places_to_ask, places_to_ask_children};
use super::{Ranges, Space, Trait, addresses, pages};
use crate::job::Job;

/// A change that was read and not applied yet.
pub(crate) struct News {
    pub(super) event: Event,
    /// Of a fork: its parent may end before it is applied, and what is staged with it.
    kept: Kept,
    /// Of a fork: what its child has changed by itself.
    pub(super) since: Since,
}

impl Space {
    /// Takes one event that is not a fault. What it changes is applied by [`Self::settle`].
    pub fn hear(&self, job: &Job, event: Event) {
        self.window.hear(&event);
        match event {
            Event::Fault { .. } => {}
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
        let since = Since::new();
        news.push(News { event, kept, since });
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
        let mut news = std::mem::take(&mut *self.news.lock());
        match self.order(job, &mut news) {
            Some(order) => self.apply(job, news, order),
            None => {
                *self.news.lock() = news;
                Vec::new()
            }
        }
    }

    /// The same where nothing more will be heard: a child that was forked before is served.
    pub fn settle_now(self: &Arc<Self>, job: &Job) -> Vec<Born> {
        let mut news = std::mem::take(&mut *self.news.lock());
        let read = shapes(&news);
        let taken = self.taken(job, &read);
        let unsure = self.given_up.lock().clone();
        let places = places_to_ask_children(&read, &taken, &unsure);
        let births = Births {
            unsure,
            ..Self::births(&mut news, &places).unwrap_or_default()
        };
        let order = in_order(&read, &taken, &Registered::new(), &births);
        self.apply(job, news, order)
    }

    /// The order in which changes were made, as indices. `None`: it is not to be told now.
    fn order(&self, job: &Job, news: &mut [News]) -> Option<Vec<usize>> {
        let read = shapes(news);
        let taken = self.taken(job, &read);
        let now = self.ask(places_to_ask(&read))?;
        let forks = news.iter().any(|news| matches!(news.event, Event::Fork(_)));
        let unsure = self.given_up.lock().clone();
        let places = match forks {
            true => places_to_ask_children(&read, &taken, &unsure),
            false => Vec::new(),
        };
        let births = Births {
            now: self.ask(places.iter().copied())?,
            unsure,
            ..Self::births(news, &places)?
        };
        let asked = !now.is_empty() || !places.is_empty();
        if asked && self.is_changing() {
            return None; // what was seen may be what a later change has left
        }
        Some(in_order(&read, &taken, &now, &births))
    }

    /// Where something is registered now, as far as it is known. `None`: the address space is changing.
    fn ask(&self, places: impl IntoIterator<Item = u64>) -> Option<Registered> {
        let mut now = Registered::new();
        for at in places {
            let page = addresses(PageNr::containing(at), 1);
            match self.uffd.is_registered(page) {
                Some(answer) => _ = now.insert(at, answer),
                None if self.is_changing() => return None,
                None => break, // it has ended
            }
        }
        Some(now)
    }

    fn apply(self: &Arc<Self>, job: &Job, news: Vec<News>, order: Vec<usize>) -> Vec<Born> {
        let mut born = Vec::new();
        let mut news: Vec<Option<News>> = news.into_iter().map(Some).collect();
        for at in order {
            let Some(News { event, kept, since }) = news[at].take() else {
                continue;
            };
            match event {
                Event::Fork(child) => born.push(self.forked(job, child, kept, since)),
                Event::Remap { from, to, len } => self.remapped(job, from, to, len),
                Event::Remove(range) => self.removed(job, &range),
                Event::Unmap(range) => self.unmapped(job, &range),
                Event::Fault { .. } => {}
            }
        }
        *self.given_up.lock() = Ranges::default();
        self.unsure.store(false, Relaxed);
        born
    }

    /// Where mappings were before these changes, of the places that they are about: what is registered, as far as it
    /// was seen, and where the table has pages. Nothing if none moves and there is no fork: then nobody asks.
    fn taken(&self, job: &Job, changes: &[Shape]) -> Ranges {
        let mut taken = Ranges::default();
        let forks = changes.contains(&Shape::Still);
        let moves = |change: &Shape| matches!(change, Shape::Move { .. });
        if !forks && !changes.iter().any(moves) {
            return taken;
        }
        {
            let ranges = self.ranges.lock();
            let given_up = self.given_up.lock();
            let mut note = |place| {
                let known = ranges.within(place).into_iter();
                let known = known.chain(given_up.within(place));
                known.for_each(|part| taken.insert(part));
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
        let mut note = |place| {
            core.for_range(self.id, pages(place), |page, _, _| {
                taken.insert(addresses(page, 1));
            });
        };
        for change in changes {
            match change {
                Shape::Move { to, .. } if !forks => note(to),
                Shape::Move { from, to } => [from, to].into_iter().for_each(&mut note),
                Shape::Unmap(range) if forks => note(range),
                _ => {}
            }
        }
        taken
    }

    pub(super) fn unmapped(&self, job: &Job, range: &Range<u64>) {
        self.still.forget(); // what was there may be elsewhere now
        self.ranges.lock().remove(range.clone());
        self.quarantine.lock().forget(range);
        let mut vouched = self.vouched.lock();
        vouched.remove(range.clone());
        drop(vouched);
        self.forget_hints(job, range);
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
                self.forget_hints(job, &hole);
                self.forget(job, pages(&hole));
            }
        }
    }

    /// What was said of memory is not true of what comes to its place.
    fn forget_hints(&self, job: &Job, range: &Range<u64>) {
        let mut core = job.core();
        if core.has_hints(self.id) {
            core.hint(self.id, pages(range), Hint::Use(Advice::Normal));
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
        self.still.forget();
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
}

fn shapes(news: &[News]) -> Vec<Shape> {
    news.iter().map(|news| shape(&news.event)).collect()
}

/// What an event does to places.
pub(super) fn shape(event: &Event) -> Shape {
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
