//! Finding the program's private anonymous memory, to have it registered.
//!
//! glibc's own calls of mmap and brk cannot be interposed, so the kernel is asked: which mappings
//! there are, where none is registered yet. What changes of those that are, the kernel tells. Whole mappings are
//! registered, since a part of one could no longer be moved by mremap; and those that nobody may touch as well, such as
//! guard pages of stacks and the reserve of a heap. Then what such a reserve turns into is known from its first page on,
//! and stacks side by side are one range and one call.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use neap_sys::{Mapping, Mode, View};
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageNr};

use super::adopt::Look;
use super::{Body, Space, Trait, addresses, pages};
use crate::job::Job;

/// No program has memory from here on: 2^47 on x86-64, 2^48 on arm64.
const HIGHEST: u64 = 1 << 48;

impl Space {
    /// Registers every mapping that can be managed and is not registered yet. Called again and again: mappings come
    /// and go. The first time in a forked child, all of them: its pages are not in the table, and not all its
    /// mappings are its parent's.
    pub fn discover(&self, job: &Job) {
        let Some(body) = self.body.get() else {
            return;
        };
        let look = Look {
            first: self.ranges.lock().is_empty(),
            inherits: self.kin.inherits(),
        };
        if look.inherits && !self.forget_unregistered(job, &*body.view) {
            return;
        }
        self.forget_refused(body);
        let Ok(mut found) = self.survey(body, &(0..u64::MAX), look.inherits) else {
            self.still.forget();
            return;
        };
        if look.inherits {
            self.vouch_like_parent();
        }
        self.kin.end_inherits();
        self.find_threads();
        self.leave_out_failed(job, &mut found);
        // Asking for flags makes the kernel walk every page: only where it must be, and once.
        if self.traits.has(Trait::Wipes) && !found.is_empty() {
            let wiped = body.memory_of().wiped_on_fork();
            let meets = |range: &Range<u64>| {
                wiped
                    .as_ref()
                    .is_none_or(|all| all.iter().any(|one| touches(one, range)))
            };
            found.retain(|mapping| !meets(&mapping.range));
        }
        let tries = if look.inherits {
            TUNING.looks.tries_of_child
        } else {
            TUNING.looks.tries
        };
        let most = if body.view.has_query() {
            TUNING.looks.mappings_at_once
        } else {
            usize::MAX
        };
        for batch in found.chunks(most) {
            self.adopt_soon(job, body, batch, look, tries);
        }
        // From its registration on the program tells when it declares memory free.
        if look.first && body.memory_of().declared_free() != Some(0) {
            self.traits.note(Trait::Frees);
        }
    }

    /// Notes a place that a mapping just left and where another has come, as mmap over a part of a reserve does. It is
    /// registered as soon as the change is applied, and not before: what is registered tells in which order changes were made.
    pub fn note_replaced(&self, place: &Range<u64>) {
        let Some(body) = self.body.get().filter(|_| self.is_managed()) else {
            return;
        };
        let came = self.survey(body, place, true).unwrap_or_default();
        let mut places = self.replaced.lock();
        if !came.is_empty() && places.len() < TUNING.looks.places {
            places.push(place.clone()); // of what is left out the next look for mappings takes note
        }
    }

    /// Whether there is such a place.
    pub fn has_replaced(&self) -> bool {
        !self.replaced.lock().is_empty()
    }

    /// Registers what has come to such places, once nothing is still to come.
    pub fn discover_replaced(&self, job: &Job) {
        if self.expects() {
            return;
        }
        let places = std::mem::take(&mut *self.replaced.lock());
        let body = self.body.get().filter(|_| !self.kin.inherits());
        let Some(body) = body.filter(|_| !self.traits.has(Trait::Wipes)) else {
            return; // the next look for mappings has more to do for them
        };
        let look = Look {
            first: false,
            inherits: false,
        };
        for place in places {
            let mut found = self.survey(body, &place, false).unwrap_or_default();
            self.leave_out_failed(job, &mut found);
            if !found.is_empty() {
                self.adopt_soon(job, body, &found, look, TUNING.looks.tries);
            }
        }
    }

    /// Others may change mappings all the time, but not at every moment.
    fn adopt_soon(&self, job: &Job, body: &Body, batch: &[Mapping], look: Look, tries: u32) {
        for again in 0..tries {
            if again > 0 {
                job.clock.sleep(TUNING.looks.between_tries.0);
            }
            if self.adopt(job, body, batch, look) || self.is_dead() {
                return;
            }
        }
        self.still.forget();
    }

    /// Mappings of a place that can be managed, and of which some part is not registered. `again`: also where all is.
    pub(super) fn survey(
        &self,
        body: &Body,
        place: &Range<u64>,
        again: bool,
    ) -> neap_sys::Result<Vec<Mapping>> {
        let mut known = |at| match again {
            true => None,
            false => Some(self.ranges.lock().find(at)?.end),
        };
        let mut found = body.view.survey(place.clone(), &mut known)?;
        found.retain(|mapping| manageable(mapping, body) && !self.is_refused(&mapping.range));
        Ok(found)
    }

    /// A forked child has not all that its parent had registered (MADV_DONTFORK, or unmapped before the fork
    /// by another thread that has not told yet), and what comes to such a place is not registered: forgets
    /// what the table has of it. False: not now.
    fn forget_unregistered(&self, job: &Job, view: &dyn View) -> bool {
        let _gate = self.gate.write();
        if self.is_dead() {
            return false; // its number may be another's
        }
        let all = || self.ranges.lock().iter().collect();
        let inherited: Vec<Range<u64>> = all();
        if !self.keep_registered(view, &inherited) || !self.find_grown(job, view) {
            return false;
        }
        // Asked afterwards: a mapping that moved since the last event has records at its old place.
        if self.is_dead() || self.expects() || self.is_changing() {
            return false;
        }
        let registered: Vec<Range<u64>> = all();
        self.forget_holes(job, &(0..HIGHEST), &registered);
        true
    }

    /// What a mapping of its parent had grown by is registered, and has records though no look had found it when the child was
    /// forked. Takes note of such places, as far as the table has pages there. False: not to be told now.
    fn find_grown(&self, job: &Job, view: &dyn View) -> bool {
        let holes = self.ranges.lock().gaps(&(0..HIGHEST));
        for hole in holes {
            let mut known: Option<Range<u64>> = None;
            job.core().for_range(self.id, pages(&hole), |page, _, _| {
                let start = known.as_ref().map_or(page.addr(), |known| known.start);
                known = Some(start..addresses(page, 1).end);
            });
            let Some(known) = known else { continue };
            let Ok(mappings) = view.extents(known) else {
                return false;
            };
            for mapping in mappings {
                let part = mapping.start.max(hole.start)..mapping.end.min(hole.end);
                match self
                    .uffd
                    .is_registered(addresses(PageNr::containing(part.start), 1))
                {
                    Some(true) => self.ranges.lock().insert(part),
                    Some(false) => {}
                    None => return false,
                }
            }
        }
        true
    }

    /// [`Self::forget_unregistered`] before the child goes on, where its parent is known to have memory that it has not. What
    /// the child maps there, or grows by, would be taken for that. If it cannot be done now the first look does it.
    pub fn forget_at_birth(&self, job: &Job, view: &dyn View) {
        for _ in 0..TUNING.looks.tries {
            if self.forget_unregistered(job, view) || self.is_dead() {
                break;
            }
            job.clock.sleep(TUNING.looks.between_tries.0);
        }
    }

    /// Whether the table has no record but of memory that the space has; it is made so, if it can be now.
    pub fn has_its_own(&self, job: &Job) -> bool {
        let body = self.body.get().filter(|_| self.kin.inherits());
        body.is_none_or(|body| self.forget_unregistered(job, &*body.view))
    }

    /// What the program asked to be left alone is forgotten with its mapping.
    fn forget_refused(&self, body: &Body) {
        let (mut refused, asked) = self.refused.lock().all();
        let is_unmapped = |range: &Range<u64>| match body.view.from(range.start) {
            Ok(next) => next.is_none_or(|next| next.range.start >= range.end),
            Err(_) => false,
        };
        refused.retain(is_unmapped);
        self.refused.lock().forget(refused, asked);
    }

    pub(super) fn is_refused(&self, range: &Range<u64>) -> bool {
        self.refused.lock().touches(range)
    }

    /// Not those that the kernel would not register a moment ago.
    fn leave_out_failed(&self, job: &Job, found: &mut Vec<Mapping>) {
        let mut failed = self.failed.lock();
        let now = job.clock.now();
        failed.retain(|_, (_, until)| *until > now);
        found.retain(|Mapping { range, .. }| {
            let failed = failed.get(&range.start);
            failed.is_none_or(|(end, _)| *end != range.end)
        });
    }

    /// Takes note again of pages that stayed when the program declared them free.
    pub fn end_quarantine(&self, job: &Job, now: u64) {
        let Some(body) = self.body.get() else {
            return;
        };
        let free = self.quarantine.lock().leave(now);
        for range in free {
            let _gate = self.gate.write();
            if self.is_dead() {
                return;
            }
            let registered = self.ranges.lock().covers(&range);
            let place = std::slice::from_ref(&range);
            if registered && self.note_present(job, body, place).is_none() {
                let mut quarantine = self.quarantine.lock();
                quarantine.enter(range);
            }
        }
    }

    /// Parts of a range that are mapped and not known to be registered. A mapping that grew is registered where
    /// it is new, and has records there of pages that were touched, before a look has found that.
    pub fn may_have_grown(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let body = self.body.get();
        let mut known = |at| Some(self.ranges.lock().find(at)?.end);
        let mut found = |body: &Body| body.view.survey(range.clone(), &mut known).ok();
        let mappings = body.and_then(|body| Some((body, found(body)?)));
        let Some((body, mappings)) = mappings else {
            return Vec::new();
        };
        let ranges = self.ranges.lock();
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
}

/// Whether two ranges meet.
pub(super) fn touches(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Whether a mapping is private memory that pages can leave, or that nobody may touch now.
pub(super) fn manageable(mapping: &Mapping, body: &Body) -> bool {
    let private_memory = mapping.anonymous && !mapping.shared && !mapping.special;
    // The staging area is readable and writable, and pages move only between equal protections.
    let movable = mapping.read && mapping.write && !mapping.exec;
    // It may be large: without a scan each of its pages would be asked about.
    let bare = !mapping.read && !mapping.write && !mapping.exec;
    let reserved = bare && body.view.has_scan();
    private_memory && (movable || reserved) && !overlaps_own(&mapping.range, body)
}

/// A mapping that holds memory of neap's own: the kernel may have merged neighbours.
fn overlaps_own(range: &Range<u64>, body: &Body) -> bool {
    body.own.iter().any(|own| touches(own, range))
}
