//! Taking mappings over: registering them, and taking note of the pages that they have.

use std::ops::Range;

use neap_policy::{Heat, State, Step};
use neap_sys::{Found, Mapping, Mode, View};
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageNr};

use super::discover::{manageable, touches};
use super::kin::inherit;
use super::{Body, Ranges, Space, Trait, addresses, pages};
use crate::job::Job;

/// Absent pages, and the first write to one that was read before.
const MODE: Mode = Mode::MissingAndWp;

/// What a look is for.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// Nothing was registered before.
    pub first: bool,
    /// It is the first in a forked child: its parent's mappings are registered, and their pages not in the table.
    pub inherits: bool,
}

impl Space {
    /// Registers mappings and takes note of the pages that they already have. Both happen under the exclusive gate: a
    /// thread that is throwing pages of them away has either finished or waits for its event to be read, which comes
    /// after. False: not now.
    pub(super) fn adopt(&self, job: &Job, body: &Body, batch: &[Mapping], look: Look) -> bool {
        let _gate = self.gate.write();
        if self.is_dead() || self.expects() || self.is_changing() {
            return false; // what is recorded there may be another's
        }
        // As they are now: a part of a mapping must not be registered, mremap would fail.
        let mut now = Vec::new();
        for place in side_by_side(batch) {
            let whole = place[0].range.start..place[place.len() - 1].range.end;
            let Ok(found) = self.survey(body, &whole, look.inherits) else {
                return false;
            };
            now.extend(found);
        }
        let mut taken = Vec::new();
        for mappings in side_by_side(&now) {
            taken.extend(self.register(job, body, mappings));
        }
        let mut new = Vec::new();
        {
            let mut ranges = self.ranges.lock();
            for range in &taken {
                new.extend(ranges.gaps(range));
                ranges.insert(range.clone());
            }
        }
        if self.traits.has(Trait::Wipes) {
            self.let_go_of_wiped(body, &taken);
        }
        let sure = self.keep_registered(&*body.view, &new);
        let kept = self.registered_of(&taken);
        let runs = match sure {
            true => self.note_present(job, body, &kept),
            false => None,
        };
        let Some(runs) = runs else {
            let mut ranges = self.ranges.lock();
            let mut given_up = self.given_up.lock();
            for part in new {
                ranges.remove(part.clone());
                given_up.insert(part);
            }
            return false;
        };
        {
            // Nothing was on its way meanwhile: whoever is forked from now on has it.
            let mut given_up = self.given_up.lock();
            for range in taken {
                given_up.remove(range);
            }
        }
        self.mappings
            .found(now.iter().map(|mapping| mapping.range.start));
        self.vouch(
            &self.registered_of(&new),
            if look.first { &[] } else { &runs },
        );
        true
    }

    /// What of these places is registered, in order of address, though the places may overlap and come in any order.
    fn registered_of(&self, places: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut found = Ranges::default();
        let ranges = self.ranges.lock();
        for part in places.iter().flat_map(|place| ranges.within(place)) {
            found.insert(part);
        }
        found.iter().collect()
    }

    /// Registers mappings that lie side by side: in one call, unless the kernel refuses some of them. What was
    /// registered, in order of address.
    fn register(&self, job: &Job, body: &Body, mappings: &[Mapping]) -> Vec<Range<u64>> {
        let whole = mappings[0].range.start..mappings[mappings.len() - 1].range.end;
        let mut done = match self.uffd.register(whole.clone(), MODE) {
            Ok(()) => vec![whole.clone()],
            Err(_) => self.register_each(job, mappings),
        };
        // Grown meanwhile: the rest must be registered too.
        if let Some(last) = done.last_mut().filter(|last| last.end == whole.end)
            && let Some(Mapping { range: rest, .. }) = body
                .view
                .at(last.end)
                .ok()
                .flatten()
                .filter(|rest| rest.range.start == last.end && manageable(rest, body))
            && !self.is_refused(&rest)
            && self.uffd.register(rest.clone(), MODE).is_ok()
        {
            last.end = rest.end;
        }
        done
    }

    fn register_each(&self, job: &Job, mappings: &[Mapping]) -> Vec<Range<u64>> {
        let until = job.clock.now() + TUNING.looks.register_again.0;
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for range in mappings.iter().map(|mapping| mapping.range.clone()) {
            match self.uffd.register(range.clone(), MODE) {
                Ok(()) => done.push(range),
                // Unmapped meanwhile, or a kind of memory the kernel will not trap.
                Err(_) => failed.push((range.start, (range.end, until))),
            }
        }
        self.failed.lock().extend(failed);
        done
    }

    /// A mapping that is not registered may leave, and another come, without a word, also between the look at the
    /// list of mappings and the registration, which then missed that. From the registration on changes are told: what
    /// of these places is not registered now is none of ours. False: not to be told now.
    pub(super) fn keep_registered(&self, view: &dyn View, places: &[Range<u64>]) -> bool {
        let mut gone = Vec::new();
        for place in places {
            let Ok(mappings) = view.extents(place.clone()) else {
                return false;
            };
            let mut at = place.start;
            for mapping in mappings {
                let part = mapping.start.max(at)..mapping.end.min(place.end);
                if part.is_empty() {
                    continue;
                }
                gone.push(at..part.start);
                at = part.end;
                match self
                    .uffd
                    .is_registered(part.start..part.start + PAGE_SIZE as u64)
                {
                    Some(true) => {}
                    Some(false) => gone.push(part),
                    None => return false,
                }
            }
            gone.push(at..place.end);
        }
        let mut ranges = self.ranges.lock();
        gone.into_iter().for_each(|place| ranges.remove(place));
        true
    }

    /// Unregisters the mapping of a page that is none of private memory: one may have come between the look at the list of
    /// mappings and the registration. Where its pages are large (hugetlb) the kernel takes none of ours for it. Whether it
    /// was so. The caller holds the gate exclusively.
    pub fn leave_to_the_kernel(&self, job: &Job, page: PageNr) -> bool {
        let at = |body: &Body| body.view.at(page.addr()).ok().flatten();
        let mapping = self.body.get().and_then(at);
        let Some(Mapping { range, .. }) = mapping.filter(|mapping| !mapping.anonymous) else {
            return false;
        };
        // Else something may be on its way to that place.
        let left = !self.is_changing() && self.uffd.unregister(range.clone()).is_ok();
        if left {
            self.unmapped(job, &range);
        }
        left
    }

    /// Unregisters what forked children find wiped of ranges that were just registered. Looked at only
    /// now: from its registration on it cannot change its place unheard.
    fn let_go_of_wiped(&self, body: &Body, taken: &[Range<u64>]) {
        let wiped = body.memory_of().wiped_on_fork();
        for part in self.registered_of(taken) {
            let gone: Vec<Range<u64>> = match &wiped {
                Some(wiped) => wiped
                    .iter()
                    .filter(|other| touches(other, &part))
                    .cloned()
                    .collect(),
                None => vec![part.clone()],
            };
            for wiped in gone {
                let wiped = wiped.start.max(part.start)..wiped.end.min(part.end);
                let _ = self.uffd.unregister(wiped.clone());
                self.ranges.lock().remove(wiped);
            }
        }
    }

    /// Takes note of the pages that are in these places, and says which. Those of zeros, which cost nothing, are
    /// write-protected instead, so that the first write to one is a fault. Not if somebody has changed mappings meanwhile: the pages could be those of a mapping that moved there, which has records where it was. The
    /// caller holds the gate exclusively, and has looked at nothing before.
    pub(super) fn note_present(
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
            body.view.present(place.clone(), &mut keep).ok()?;
        }
        for run in zeros {
            self.uffd.protect(run).stop.map_or(Some(()), |_| None)?;
        }
        if self.expects() || self.is_changing() {
            return None;
        }
        self.take_note(job, &runs);
        Some(runs)
    }

    /// Present pages enter the second youngest generation.
    fn take_note(&self, job: &Job, runs: &[Range<u64>]) {
        let leaving = self.quarantine.lock().all();
        let parent = self.kin.parent();
        let numbers = |run| {
            let all = pages(run);
            all.start.0..all.end.0
        };
        let mut all = runs.iter().flat_map(numbers).map(PageNr).peekable();
        while all.peek().is_some() {
            let mut core = job.core();
            for page in all.by_ref().take(TUNING.looks.notes_at_once.as_usize()) {
                if leaving.touches(&addresses(page, 1)) {
                    continue; // announced to go, perhaps still there for a moment
                }
                let id = core.ensure(self.id, page);
                if core.state(id) == State::Absent {
                    job.must(core.apply(id, Step::Adopt(Heat::Warm)));
                    if let Some(parent) = &parent {
                        inherit(job, &mut core, parent, self, page);
                    }
                }
            }
        }
    }
}

/// Groups of mappings without a hole between them.
fn side_by_side(mappings: &[Mapping]) -> impl Iterator<Item = &[Mapping]> {
    mappings.chunk_by(|one, next| one.range.end == next.range.start)
}
