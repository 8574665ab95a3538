//! Acts that change mappings: what each does at once, and what it tells afterwards.

use std::ops::Range;

use crate::PAGE;
use crate::areas::{Area, Prot};
use crate::errno::{EFAULT, EINVAL, ENOMEM};
use crate::machine::{Core, Mm, SpaceNr, ThreadNr, Truth};
use crate::pages::Pte;
use crate::thread::{Act, Outcome, Step, Thread, Touch, What};

/// What came of a change: what is told of it, in order.
type Told = Result<Vec<What>, i32>;

/// A move, or a change of size.
struct Remap {
    from: Range<u64>,
    to: u64,
    len: u64,
    stays: bool,
}

impl Core {
    pub(crate) fn act(&mut self, nr: SpaceNr, thread: ThreadNr, act: Act) {
        let done = [Step::End(Outcome::Done)];
        let touch = |page: u64, how| {
            let page = page / PAGE;
            [Step::Touch { page, how }]
        };
        let told = match act {
            Act::Read(at) => return self.mm(nr).threads[thread.0].next(touch(at, Touch::Read)),
            Act::Write(at, word, value) => {
                let steps = touch(at, Touch::Write(word, value));
                return self.mm(nr).threads[thread.0].next(steps);
            }
            Act::Noise(at, seed) => {
                return self.mm(nr).threads[thread.0].next(touch(at, Touch::Noise(seed)));
            }
            Act::Populate(range) => {
                let steps = populate(&range, true).chain(done);
                return self.mm(nr).threads[thread.0].next(steps.collect::<Vec<_>>());
            }
            Act::Discard(range) => {
                let step = Step::Advise { range, free: false };
                return self.mm(nr).threads[thread.0].next([step]);
            }
            Act::Free(range) => {
                let step = Step::Advise { range, free: true };
                return self.mm(nr).threads[thread.0].next([step]);
            }
            Act::Fork => {
                let child = self.fork(nr);
                self.tell(nr, thread, vec![What::Fork(child)], Outcome::Child(child));
                return;
            }
            Act::Lock(range, on) => return self.lock(nr, thread, &range, on),
            Act::Map(range, prot) => self.map(nr, &range, prot),
            Act::Unmap(range) => Ok(self.unmap(nr, &range)),
            Act::Resize { from, len } => self.resize(nr, &from, len),
            Act::Move {
                from,
                to,
                len,
                stays,
            } => self.move_to(
                nr,
                Remap {
                    from,
                    to,
                    len,
                    stays,
                },
            ),
            Act::Protect(range, prot) => self.change(nr, &range, |area| area.prot = prot),
            Act::Keep(range) => self.change(nr, &range, |area| area.kept = true),
            Act::Guard(range, on) => self.guard(nr, &range, on),
        };
        match told {
            Ok(told) => self.tell(nr, thread, told, Outcome::Done),
            Err(errno) => self.mm(nr).threads[thread.0].end(Outcome::Failed(errno)),
        }
    }

    /// A change was made, and its thread will tell of it: from here on fills are refused.
    fn tell(&mut self, nr: SpaceNr, thread: ThreadNr, told: Vec<What>, outcome: Outcome) {
        let mm = self.mm(nr);
        mm.changing += told.len() as u32;
        let steps = told.into_iter().map(Step::Tell).chain([Step::End(outcome)]);
        mm.threads[thread.0].next(steps.collect::<Vec<_>>());
    }

    fn map(&mut self, nr: SpaceNr, range: &Range<u64>, prot: Prot) -> Told {
        let told = self.unmap(nr, range);
        let area = Area {
            end: range.end,
            prot,
            mode: None,
            locked: false,
            kept: false,
            wiped: false,
            origin: range.start,
        };
        self.mm(nr).areas.put(range.start, area);
        Ok(told)
    }

    /// What is told of it: the whole range, if something in it is registered.
    fn unmap(&mut self, nr: SpaceNr, range: &Range<u64>) -> Vec<What> {
        let taken = self.mm(nr).areas.take(range);
        self.zap(nr, range);
        let pages = range.start / PAGE..range.end / PAGE;
        let truth = &mut self.mm(nr).truth;
        let gone: Vec<u64> = truth.range(pages).map(|(&page, _)| page).collect();
        for page in gone {
            truth.remove(&page);
        }
        match taken.iter().any(|(_, area)| area.mode.is_some()) {
            true => vec![What::Unmap(range.clone())],
            false => Vec::new(),
        }
    }

    fn resize(&mut self, nr: SpaceNr, from: &Range<u64>, len: u64) -> Told {
        let old = from.end - from.start;
        let mm = self.mm(nr);
        let whole = mm.areas.whole(from).ok_or(EFAULT)?.clone();
        if len <= old {
            let tail = from.start + len..from.end;
            return Ok(if len < old {
                self.unmap(nr, &tail)
            } else {
                Vec::new()
            });
        }
        let new = from.end..from.start + len;
        if whole.end != from.end || !mm.areas.within(&new).is_empty() {
            return Err(ENOMEM);
        }
        let start = mm.areas.at(from.start).map_or(0, |(start, _)| start);
        let mut area = mm.areas.0.remove(&start).ok_or(EFAULT)?;
        area.end = new.end;
        mm.areas.put(start, area);
        Ok(Vec::new())
    }

    fn move_to(&mut self, nr: SpaceNr, remap: Remap) -> Told {
        let Remap {
            mut from,
            to,
            len,
            stays,
        } = remap;
        let target = to..to + len;
        let meets = from.start < target.end && target.start < from.end;
        if meets || stays && len != from.end - from.start {
            return Err(EINVAL);
        }
        let mut told = self.unmap(nr, &target);
        let mut late = Vec::new();
        if len < from.end - from.start {
            late = self.unmap(nr, &(from.start + len..from.end));
            from.end = from.start + len;
        }
        let Some(area) = self.mm(nr).areas.whole(&from).cloned() else {
            // The target is gone all the same, and is told of.
            return if told.is_empty() {
                Err(EFAULT)
            } else {
                Ok(told)
            };
        };
        let start = self
            .mm(nr)
            .areas
            .at(from.start)
            .map_or(0, |(start, _)| start);
        let registered = area.mode.is_some();
        self.carry(nr, &from, to);
        let moved = Area {
            end: target.end,
            origin: area.origin.wrapping_add(from.start - start),
            locked: area.locked,
            ..area
        };
        if registered {
            told.push(What::Remap {
                from: from.start,
                to,
                len: from.end - from.start,
            });
        }
        told.extend(late);
        if !stays {
            told.extend(self.unmap(nr, &from));
        }
        self.mm(nr).areas.put(to, moved);
        Ok(told)
    }

    /// Pages, and what is true of them, go to another place.
    fn carry(&mut self, nr: SpaceNr, from: &Range<u64>, to: u64) {
        let since = self.stamp();
        let mm = self.mm(nr);
        for page in from.start / PAGE..from.end / PAGE {
            let new = page - from.start / PAGE + to / PAGE;
            if let Some(pte) = mm.ptes.remove(&page) {
                mm.ptes.insert(new, pte);
            }
            if let Some(truth) = mm.truth.remove(&page) {
                mm.truth.insert(new, Truth { since, ..truth });
            }
        }
    }

    fn change(&mut self, nr: SpaceNr, range: &Range<u64>, how: impl Fn(&mut Area)) -> Told {
        let areas = &mut self.mm(nr).areas;
        if !areas.covers(range) {
            return Err(ENOMEM);
        }
        areas.change(range, how);
        Ok(Vec::new())
    }

    fn lock(&mut self, nr: SpaceNr, thread: ThreadNr, range: &Range<u64>, on: bool) {
        let told = self.change(nr, range, |area| area.locked = on);
        let me = &mut self.mm(nr).threads[thread.0];
        match told {
            Err(errno) => me.end(Outcome::Failed(errno)),
            Ok(_) => {
                let steps = populate(range, on).chain([Step::End(Outcome::Done)]);
                me.next(steps.collect::<Vec<_>>());
            }
        }
    }

    fn guard(&mut self, nr: SpaceNr, range: &Range<u64>, on: bool) -> Told {
        let areas = self.mm(nr).areas.within(range);
        if areas.iter().any(|(_, area)| area.locked) {
            return Err(EINVAL);
        }
        if !self.mm(nr).areas.covers(range) {
            return Err(ENOMEM);
        }
        if on {
            self.zap(nr, range);
            self.forget_truth(nr, range);
        }
        let ptes = &mut self.mm(nr).ptes;
        for page in range.start / PAGE..range.end / PAGE {
            match on {
                true => _ = ptes.insert(page, Pte::Guard),
                false if ptes.get(&page) == Some(&Pte::Guard) => _ = ptes.remove(&page),
                false => {}
            }
        }
        Ok(Vec::new())
    }

    fn forget_truth(&mut self, nr: SpaceNr, range: &Range<u64>) {
        let truth = &mut self.mm(nr).truth;
        for page in range.start / PAGE..range.end / PAGE {
            truth.remove(&page);
        }
    }

    /// One mapping of a madvise: it is told of before anything is done, if it is registered.
    pub(crate) fn advise(&mut self, nr: SpaceNr, thread: ThreadNr, range: Range<u64>, free: bool) {
        let told = self.stamp();
        let mm = self.mm(nr);
        let next = mm.areas.within(&range).into_iter().next();
        let Some((start, area)) = next.filter(|_| !range.is_empty()) else {
            return mm.threads[thread.0].end(Outcome::Done);
        };
        if area.locked {
            return mm.threads[thread.0].end(Outcome::Failed(EINVAL));
        }
        let part = start.max(range.start)..area.end.min(range.end);
        let rest = Step::Advise {
            range: part.end..range.end,
            free,
        };
        let zap = Step::Zap {
            range: part.clone(),
            free,
            told,
        };
        if area.mode.is_some() {
            // From here on what is there may be gone, also where another thread moves it away in between: nobody can
            // tell which of the two came first.
            for (_, truth) in mm.truth.range_mut(part.start / PAGE..part.end / PAGE) {
                truth.free = true;
            }
            mm.changing += 1;
            mm.threads[thread.0].next([Step::Tell(What::Remove(part)), zap, rest]);
        } else {
            // Nobody registers it in between: the kernel's lock is held from the look on.
            mm.threads[thread.0].next([rest]);
            self.discard(nr, thread, part, free, told);
        }
    }

    /// Throws pages away, or declares them free: of what is mapped there by now. `told`: when that was told, or begun.
    pub(crate) fn discard(
        &mut self,
        nr: SpaceNr,
        thread: ThreadNr,
        range: Range<u64>,
        free: bool,
        told: u64,
    ) {
        let mm = self.mm(nr);
        let Some(end) = mm.areas.at(range.start).map(|(_, area)| area.end) else {
            return mm.threads[thread.0].end(Outcome::Failed(ENOMEM));
        };
        for page in range.start / PAGE..range.end.min(end) / PAGE {
            let mm = &mut self.mms[nr.0];
            match mm.ptes.get_mut(&page) {
                Some(Pte::Guard) => continue,
                Some(Pte::Frame {
                    frame,
                    exclusive: true,
                    free: is_free,
                    ..
                }) if free && self.frames.users(*frame) == 1 => *is_free = true,
                Some(Pte::Frame { .. }) if free => continue,
                _ => self.zap(nr, &(page * PAGE..(page + 1) * PAGE)),
            }
            let truth = &mut self.mm(nr).truth;
            match truth.get_mut(&page) {
                // Written since: either may have come first. Others may declare it free meanwhile, who know no more.
                Some(truth) if free || truth.since > told => truth.free = true,
                _ => _ = truth.remove(&page),
            }
        }
    }

    pub(crate) fn drop_free_pages(&mut self, nr: SpaceNr) {
        let mm = &self.mms[nr.0];
        let free = |(&page, pte): (&u64, &Pte)| match pte {
            Pte::Frame { free: true, .. } => Some(page),
            _ => None,
        };
        let gone: Vec<u64> = mm.ptes.iter().filter_map(free).collect();
        for page in gone {
            self.zap(nr, &(page * PAGE..(page + 1) * PAGE));
        }
    }

    /// The same by somebody to whom no forks are announced: nothing of the child is registered.
    pub(crate) fn fork_untold(&mut self, nr: SpaceNr) -> SpaceNr {
        let child = self.fork(nr);
        let mm = self.mm(child);
        mm.unborn = false;
        mm.areas.0.values_mut().for_each(|area| area.mode = None);
        mm.ptes.values_mut().for_each(|pte| pte.protect(false));
        child
    }

    fn fork(&mut self, nr: SpaceNr) -> SpaceNr {
        let mm = &mut self.mms[nr.0];
        let mut child = Mm {
            alive: true,
            unborn: true,
            areas: mm.areas.clone(),
            threads: vec![Thread::default()],
            ..Mm::default()
        };
        child.areas.0.retain(|_, area| !area.kept);
        for area in child.areas.0.values_mut() {
            area.locked = false;
        }
        let has = |page: &u64| {
            child
                .areas
                .at(page * PAGE)
                .is_some_and(|(_, area)| !area.wiped)
        };
        for (page, pte) in &mut mm.ptes {
            if !has(page) {
                continue;
            }
            if let Pte::Frame {
                frame, exclusive, ..
            } = pte
            {
                *exclusive = false;
                self.frames.share(*frame);
            }
            child.ptes.insert(*page, *pte);
        }
        let truth = mm.truth.iter().filter(|(page, _)| has(page));
        child.truth = truth
            .map(|(&page, truth): (&u64, &Truth)| (page, truth.clone()))
            .collect();
        self.mms.push(child);
        SpaceNr(self.mms.len() - 1)
    }
}

/// A touch of each page.
fn populate(range: &Range<u64>, on: bool) -> impl DoubleEndedIterator<Item = Step> + use<> {
    let pages = range.start / PAGE..if on {
        range.end / PAGE
    } else {
        range.start / PAGE
    };
    pages.map(|page| Step::Touch {
        page,
        how: Touch::Populate,
    })
}
