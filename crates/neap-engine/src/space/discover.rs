//! Finding the program's private anonymous memory and registering it.
//!
//! glibc's own calls of mmap and brk cannot be interposed, so the kernel is asked: which mappings
//! there are, and which of their pages. Whole mappings are registered, since a part of one could no
//! longer be moved by mremap.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use neap_policy::{Heat, State, Step};
use neap_sys::{Found, Mapping, Mode};
use neap_units::{PAGE_SIZE, PageNr};

use super::kin::inherit;
use super::vouch::{gaps, widen};
use super::{Body, Space, addresses, pages};
use crate::job::Job;

/// A mapping that the kernel would not register is tried again after this, in nanoseconds: 1 s.
const TRY_AGAIN: u64 = 1_000_000_000;

/// No program has memory from here on: 2^47 on x86-64, 2^48 on arm64.
const HIGHEST: u64 = 1 << 48;

/// Absent pages, and the first write to one that was read before.
const MODE: Mode = Mode::MissingAndWp;

/// How often a mapping is looked at that could not be taken, and the pause before the next time.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_micros(50);

impl Space {
    /// Registers every mapping that can be managed and is not registered yet. Returns how many were
    /// new. Called again and again: mappings come and go. The first time in a forked child, all of them:
    /// its pages are not in the table, and not all its mappings are its parent's.
    pub fn discover(&self, job: &Job) -> usize {
        let Some(body) = self.body.get() else {
            return 0;
        };
        let asked = self.refused.lock().expect("refused lock").asked();
        let first = self.ranges.lock().expect("ranges lock").is_empty();
        let inherits = self.kin.inherits();
        if inherits && !self.forget_unregistered(job, body) {
            return 0;
        }
        let Ok(mappings) = body.maps.read() else {
            return 0;
        };
        if inherits {
            self.vouch_like_parent();
        }
        self.kin.end_inherits();
        self.find_threads();
        let mut new = 0;
        self.refused
            .lock()
            .expect("refused lock")
            .forget_unmapped(&mappings, asked);
        let mut wiped: Option<Vec<Range<u64>>> = None;
        for mapping in mappings.iter().filter(|mapping| manageable(mapping, body)) {
            let range = &mapping.range;
            let known = !inherits && self.ranges.lock().expect("ranges lock").covers(range);
            if known || self.is_refused(range) || self.failed_lately(range) {
                continue;
            }
            // Asking for flags makes the kernel walk every page: only where it must be, and once.
            let asks = self.wipes.load(Relaxed);
            if asks && wiped.is_none() {
                wiped = body.process.wiped_on_fork();
            }
            if asks && touches(wiped.as_ref(), range) {
                continue;
            }
            // Others may change mappings all the time, but not at every moment.
            new += usize::from((0..TRIES).any(|again| {
                if again > 0 {
                    std::thread::sleep(PAUSE);
                }
                self.adopt(job, body, range, first)
            }));
        }
        // From its registration on the program tells when it declares memory free.
        if first && body.process.declared_free() != Some(0) {
            self.frees.store(true, Relaxed);
        }
        new
    }

    /// A forked child has not all that its parent had registered (MADV_DONTFORK, or unmapped before the fork
    /// by another thread that has not told yet), and what comes to such a place is not registered: forgets
    /// what the table has of it. False: not now.
    fn forget_unregistered(&self, job: &Job, body: &Body) -> bool {
        let _gate = self.gate.write().expect("gate");
        let Some(registered) = body.traps_missing() else {
            return false;
        };
        // Asked afterwards: a mapping that moved since the last event has records at its old place.
        if self.is_dead() || self.expects() || self.is_changing() {
            return false;
        }
        self.forget_holes(job, &(0..HIGHEST), &registered);
        true
    }

    fn is_refused(&self, range: &Range<u64>) -> bool {
        self.refused.lock().expect("refused lock").touches(range)
    }

    fn failed_lately(&self, range: &Range<u64>) -> bool {
        let mut failed = self.failed.lock().expect("failed lock");
        let now = neap_sys::monotonic_nanos();
        failed.retain(|_, (_, until)| *until > now);
        failed
            .get(&range.start)
            .is_some_and(|(end, _)| *end == range.end)
    }

    /// Takes note again of pages that stayed when the program declared them free.
    pub fn end_quarantine(&self, job: &Job, now: u64) {
        let Some(body) = self.body.get() else {
            return;
        };
        let free = self.quarantine.lock().expect("quarantine lock").leave(now);
        for range in free {
            let _gate = self.gate.write().expect("gate");
            if self.is_dead() {
                return;
            }
            let registered = self.ranges.lock().expect("ranges lock").covers(&range);
            let place = std::slice::from_ref(&range);
            if registered && self.note_present(job, body, place).is_none() {
                let mut quarantine = self.quarantine.lock().expect("quarantine lock");
                quarantine.enter(range);
            }
        }
    }

    /// Registers one mapping and takes note of the pages it already has. Both happen under the
    /// exclusive gate: a thread that is throwing pages of the mapping away has either finished or
    /// waits for its event to be read, which comes after.
    fn adopt(&self, job: &Job, body: &Body, range: &Range<u64>, first: bool) -> bool {
        let _gate = self.gate.write().expect("gate");
        if self.is_dead() || self.expects() || self.is_changing() {
            return false; // what is recorded there may be another's
        }
        let before = self.ranges.lock().expect("ranges lock").clone();
        // As it is now: a part of a mapping must not be registered, mremap would fail.
        let now = body.maps.at(range.start).ok().flatten();
        let Some(mapping) = now.filter(|mapping| manageable(mapping, body)) else {
            return false;
        };
        let range = &mapping.range;
        if self.is_refused(range) {
            return false; // asked for meanwhile
        }
        let Some(known) = self.register(range) else {
            return false;
        };
        // Grown meanwhile: the rest must be registered too.
        let grown = body.maps.at(range.end).ok().flatten();
        let grown = grown.filter(|rest| rest.range.start == range.end && manageable(rest, body));
        let mut range = range.clone();
        if let Some(Mapping { range: rest, .. }) = grown
            && !self.is_refused(&rest)
            && self.uffd.register(rest.clone(), MODE).is_ok()
        {
            let mut ranges = self.ranges.lock().expect("ranges lock");
            ranges.insert(rest.clone());
            range.end = rest.end;
        }
        if self.wipes.load(Relaxed) {
            self.let_go_of_wiped(body, &range);
        }
        let (new, mut there) = (gaps(&range, &known), 0..0);
        let sure = self.keep_registered(body, &new);
        let kept = self.ranges.lock().expect("ranges lock").within(&range);
        let runs = match sure {
            true => self.note_present(job, body, &kept),
            false => None,
        };
        let Some(runs) = runs else {
            *self.ranges.lock().expect("ranges lock") = before;
            return false;
        };
        for run in &runs {
            widen(&mut there, run, &new);
        }
        for part in &kept {
            self.vouch(part, &known, if first { &(0..0) } else { &there });
        }
        !kept.is_empty()
    }

    /// Takes note of the pages that are in these places, and says which. Those of zeros, which cost nothing, are
    /// write-protected instead, so that the first write to one is a fault. Not if somebody has changed mappings meanwhile: the pages could be those of a mapping that moved there, which has records where it was. The
    /// caller holds the gate exclusively, and has looked at nothing before.
    fn note_present(
        &self,
        job: &Job,
        body: &Body,
        places: &[Range<u64>],
    ) -> Option<Vec<Range<u64>>> {
        let (mut runs, mut zeros) = (Vec::new(), Vec::new());
        for place in places {
            let mut keep = |run, found| match found {
                Found::Pages => runs.push(run),
                Found::Zeros => zeros.push(run),
            };
            body.pagemap.present(place.clone(), &mut keep).ok()?;
        }
        for run in zeros {
            self.uffd.protect(run).stop.map_or(Some(()), |_| None)?;
        }
        if self.expects() || self.is_changing() {
            return None;
        }
        for run in &runs {
            self.take_note(job, run);
        }
        Some(runs)
    }

    /// Registers a mapping; which parts of it were, already. `None`: it cannot be.
    fn register(&self, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
        if self.uffd.register(range.clone(), MODE).is_err() {
            // Unmapped meanwhile, or a kind of memory the kernel will not trap.
            let until = neap_sys::monotonic_nanos() + TRY_AGAIN;
            let mut failed = self.failed.lock().expect("failed lock");
            failed.insert(range.start, (range.end, until));
            return None;
        }
        let mut ranges = self.ranges.lock().expect("ranges lock");
        let known = ranges.within(range);
        ranges.insert(range.clone());
        Some(known)
    }

    /// A mapping that is not registered may leave, and another come, without a word, also between the look at the
    /// list of mappings and the registration, which then missed that. From the registration on changes are told: what
    /// of these places is not registered now is none of ours. False: not to be told now.
    fn keep_registered(&self, body: &Body, places: &[Range<u64>]) -> bool {
        let mut gone = Vec::new();
        for place in places {
            let mut at = place.start;
            while at < place.end {
                let Ok(next) = body.maps.from(at) else {
                    return false;
                };
                let mapping = next.map_or(place.end..place.end, |next| next.range);
                gone.push(at..mapping.start.min(place.end));
                let part = mapping.start.max(at)..mapping.end.min(place.end);
                at = part.end.max(mapping.start);
                if part.is_empty() {
                    continue;
                }
                let first = part.start..part.start + PAGE_SIZE as u64;
                match self.uffd.is_registered(first) {
                    Some(true) => {}
                    Some(false) => gone.push(part),
                    None => return false,
                }
            }
        }
        let mut ranges = self.ranges.lock().expect("ranges lock");
        gone.into_iter().for_each(|place| ranges.remove(place));
        true
    }

    /// Parts of a range that are mapped and not known to be registered. A mapping that grew is registered where
    /// it is new, and has records there of pages that were touched, before a look has found that.
    pub fn may_have_grown(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let body = self.body.get();
        let mappings = body.and_then(|body| body.maps.read().ok().map(|all| (body, all)));
        let Some((body, mappings)) = mappings else {
            return Vec::new();
        };
        let ranges = self.ranges.lock().expect("ranges lock");
        mappings
            .iter()
            .filter(|mapping| mapping.anonymous && !mapping.shared)
            .filter(|mapping| !overlaps_own(&mapping.range, body))
            .map(|mapping| mapping.range.start.max(range.start)..mapping.range.end.min(range.end))
            .filter(|part| !part.is_empty() && !ranges.covers(part))
            .collect()
    }

    /// So that a forked child finds its space's number there.
    pub fn register_cookie(&self) {
        let cookie = self.cookie_page.load(Relaxed);
        if cookie != 0 {
            let page = cookie..cookie + PAGE_SIZE as u64;
            let _ = self.uffd.register(page, Mode::Missing);
        }
    }

    pub fn unregister_cookie(&self) {
        let cookie = self.cookie_page.load(Relaxed);
        if cookie != 0 {
            let _ = self.uffd.unregister(cookie..cookie + PAGE_SIZE as u64);
        }
    }

    /// Unregisters what forked children find wiped of a range that was just registered. Looked at only
    /// now: from its registration on it cannot change its place unheard.
    fn let_go_of_wiped(&self, body: &Body, range: &Range<u64>) {
        let wiped = body.process.wiped_on_fork();
        let mut ranges = self.ranges.lock().expect("ranges lock");
        for part in ranges.within(range) {
            let meets = |other: &Range<u64>| other.start < part.end && part.start < other.end;
            let gone: Vec<Range<u64>> = match &wiped {
                Some(wiped) => wiped.iter().filter(|other| meets(other)).cloned().collect(),
                None => vec![part.clone()],
            };
            for wiped in gone {
                let wiped = wiped.start.max(part.start)..wiped.end.min(part.end);
                let _ = self.uffd.unregister(wiped.clone());
                ranges.remove(wiped);
            }
        }
    }

    /// Present pages enter the second youngest generation.
    fn take_note(&self, job: &Job, run: &Range<u64>) {
        /// Pages noted under one hold of the core.
        const CHUNK: usize = 512;
        let all = pages(run);
        let leaving = self.quarantine.lock().expect("quarantine lock").all();
        let parent = self.kin.parent();
        for first in (all.start.0..all.end.0).step_by(CHUNK) {
            let mut core = job.core();
            for number in first..(first + CHUNK as u64).min(all.end.0) {
                if leaving.touches(&addresses(PageNr(number), 1)) {
                    continue; // announced to go, perhaps still there for a moment
                }
                let id = core.ensure(self.id, PageNr(number));
                if core.state(id) == State::Absent {
                    job.must(core.apply(id, Step::Adopt(Heat::Warm)));
                    if let Some(parent) = &parent {
                        inherit(job, &mut core, parent, self, PageNr(number));
                    }
                }
            }
        }
    }
}

/// Whether a range meets one of those, or they are not known.
fn touches(ranges: Option<&Vec<Range<u64>>>, range: &Range<u64>) -> bool {
    ranges.is_none_or(|ranges| {
        ranges
            .iter()
            .any(|other| other.start < range.end && range.start < other.end)
    })
}

fn manageable(mapping: &Mapping, body: &Body) -> bool {
    let private_memory = mapping.anonymous && !mapping.shared && !mapping.special;
    // The staging area is readable and writable, and pages move only between equal protections.
    let movable = mapping.read && mapping.write && !mapping.exec;
    let worthwhile = mapping.range.end - mapping.range.start >= PAGE_SIZE as u64;
    private_memory && movable && worthwhile && !overlaps_own(&mapping.range, body)
}

/// A mapping that holds memory of neap's own: the kernel may have merged neighbours.
fn overlaps_own(range: &Range<u64>, body: &Body) -> bool {
    body.own
        .iter()
        .any(|own| own.start < range.end && range.start < own.end)
}
