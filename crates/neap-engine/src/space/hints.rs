//! What a program says of its memory (madvise): heard from the notes of its library, or seen in the flags of its mappings,
//! and kept until somebody carries it out.
//!
//! The fault thread hears, and nobody else: what a program puts in the place of its notes may keep a reader waiting. Reclaim does what is about pages that are there (`reclaim/hints.rs`), and a thread of
//! its own what takes long (`load/ahead.rs`).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytemuck::cast_slice_mut;
use neap_policy::{Advice, Hint};
use neap_sys::{Lock, Piece};
use neap_tuning::TUNING;
use neap_units::PageNr;
use neap_wire::notes::{WORDS, advice};
use neap_wire::{Hearing, Note};

use super::{Space, pages};
use crate::job::Job;

/// Something that is to be done about registered pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The core is to know.
    Tell(Hint, Range<PageNr>),
    /// The resident pages are to be taken out.
    TakeOut(Range<PageNr>),
    /// What is out is to come back.
    Bring(Range<PageNr>),
}

/// What was heard of a library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// It calls for a look for new memory.
    pub looks: bool,
    /// There were notes. Others may follow of which it does not tell.
    pub notes: bool,
}

#[derive(Default)]
pub(crate) struct Hints {
    hearing: Lock<Hearing, 4>,
    wishes: Lock<VecDeque<Wish>, 6>,
    /// Wishes to take out that were heard and not carried out yet, and when the last page left for one, in nanoseconds.
    taking: AtomicU64,
    took_at: AtomicU64,
    /// Such a wish was heard, and nobody has called for it yet.
    uncalled: AtomicBool,
    /// How often it was said how memory will be used.
    said: AtomicU64,
    /// Some notes were lost.
    missed: AtomicBool,
    /// When to look at flags next, in nanoseconds.
    flags_due: AtomicU64,
    /// How many pages had been scanned at the last look, and how much processor time the process had had.
    scanned: AtomicU64,
    ran: AtomicU64,
}

impl Hints {
    /// The next thing to do.
    pub fn next(&self) -> Option<Wish> {
        self.wishes.lock().pop_front()
    }

    /// What is left of a wish comes first the next time.
    pub fn put_back(&self, wish: Wish) {
        self.wishes.lock().push_front(wish);
    }

    pub fn are_waiting(&self) -> bool {
        !self.wishes.lock().is_empty()
    }

    fn push(&self, wish: Wish, now: u64) {
        let pages = match &wish {
            Wish::TakeOut(range) => Some(range.end.0 - range.start.0),
            _ => None,
        };
        let mut wishes = self.wishes.lock();
        if wishes.len() >= TUNING.hints.waiting {
            return;
        }
        wishes.push_back(wish);
        drop(wishes);
        if let Some(pages) = pages {
            if pages >= TUNING.hints.waits_from.0 {
                self.uncalled.store(true, Relaxed);
            }
            self.taking.fetch_add(1, Relaxed);
            self.note_taken(now);
        }
    }

    /// Pages have left for such a wish.
    pub fn note_taken(&self, now: u64) {
        self.took_at.store(now, Relaxed);
    }

    /// A wish to take out is over.
    pub fn end_taking(&self) {
        let less = |taking: u64| taking.checked_sub(1);
        let _ = self.taking.fetch_update(Relaxed, Relaxed, less);
    }

    /// Whether the one who calls now calls for pages to be taken out.
    pub fn are_called_for(&self) -> bool {
        self.uncalled.swap(false, Relaxed)
    }

    /// Whether a thread of the program is to wait, since pages are being taken out.
    pub fn is_taking(&self, now: u64) -> bool {
        let since = now.saturating_sub(self.took_at.load(Relaxed));
        self.taking.load(Relaxed) > 0 && since < TUNING.hints.patience.0
    }

    /// Changes whenever it is said how memory will be used.
    pub fn said(&self) -> u64 {
        self.said.load(Relaxed)
    }
}

impl Space {
    /// Hears what its library has noted since. One that has no notes calls for a look for new memory.
    pub fn hear_notes(&self, job: &Job) -> Heard {
        let Some((looks, notes)) = self.read_notes() else {
            return Heard {
                looks: true,
                notes: false,
            };
        };
        for note in &notes {
            self.take_note_of(job, note);
        }
        Heard {
            looks,
            notes: !notes.is_empty(),
        }
    }

    /// Whether its library has called for a look since somebody heard last, and what it has noted. `None`: it has no notes.
    pub fn read_notes(&self) -> Option<(bool, Vec<Note>)> {
        let body = self.body.get().filter(|body| body.notes != 0)?;
        let (mut once, mut again) = ([0u64; WORDS], [0u64; WORDS]);
        let mut notes = Vec::new();
        let mut hearing = self.hints.hearing.lock();
        let read = |words: &mut [u64; WORDS]| {
            let mut pieces = [Piece {
                from: body.notes,
                to: cast_slice_mut(words),
            }];
            body.view.read(&mut pieces).is_ok()
        };
        if !read(&mut once) || !read(&mut again) {
            return None;
        }
        let heard = hearing.hear(&once, &again, |note| notes.push(note));
        if heard.missed {
            self.hints.missed.store(true, Relaxed);
        }
        Some((heard.looks, notes))
    }

    /// Has what is registered of a range treated as the program says.
    pub fn take_note_of(&self, job: &Job, note: &Note) {
        let wish: fn(Range<PageNr>) -> Wish = match note.advice {
            advice::NORMAL => |range| Wish::Tell(Hint::Use(Advice::Normal), range),
            advice::RANDOM => |range| Wish::Tell(Hint::Use(Advice::Random), range),
            advice::SEQUENTIAL => |range| Wish::Tell(Hint::Use(Advice::Sequential), range),
            advice::COLD => |range| Wish::Tell(Hint::Cold, range),
            advice::WILLNEED => Wish::Bring,
            advice::PAGEOUT => Wish::TakeOut,
            _ => return,
        };
        let uses = [advice::NORMAL, advice::RANDOM, advice::SEQUENTIAL];
        let now = job.clock.now();
        if uses.contains(&note.advice) {
            self.hints.said.fetch_add(1, Relaxed);
            // It may not be registered yet; what is not memory of the program's has no pages.
            self.hints.push(wish(pages(&note.range)), now);
        } else {
            let registered = self.ranges.lock().within(&note.range);
            for range in registered {
                self.hints.push(wish(pages(&range)), now);
            }
        }
        job.flags.wishes.raise();
        job.reclaim.ring();
    }

    /// Whether a look at the flags of its mappings may tell something new: pages were chosen since and the process has run,
    /// or notes were lost.
    pub fn wants_flags(&self, job: &Job) -> bool {
        let Some(body) = self.body.get().filter(|_| self.is_managed()) else {
            return false;
        };
        if job.clock.now() < self.hints.flags_due.load(Relaxed) {
            return false;
        }
        if self.hints.missed.load(Relaxed) {
            return !self.is_dead();
        }
        if body.process.cpu_nanos() == Some(self.hints.ran.load(Relaxed)) {
            return false;
        }
        let _gate = self.gate.read();
        let scanned = || job.core().vmstat_of(self.id).pgscan;
        !self.is_dead() && scanned() != self.hints.scanned.load(Relaxed)
    }

    /// Looks at the flags of its mappings, which tell of advice by whatever way it was given, and has the core know.
    pub fn look_at_flags(self: &Arc<Self>, job: &Job) {
        let Some(body) = self.body.get() else {
            return;
        };
        let said = self.hints.said();
        let start = job.clock.now();
        self.hints.missed.store(false, Relaxed);
        let ran = body.process.cpu_nanos().unwrap_or_default(); // what it does from now on is seen the next time
        self.hints.ran.store(ran, Relaxed);
        let seen = body.memory_of().without_recency();
        let end = job.clock.now();
        // All processes together have that share of a cpu.
        let all = job.spaces().len().max(1) as u64;
        let rest = (end - start) * TUNING.hints.flags_rest * all;
        let due = end + rest.max(TUNING.hints.flags.0);
        self.hints.flags_due.store(due, Relaxed);
        let Some(seen) = seen else {
            return;
        };
        let registered: Vec<Range<u64>> = self.ranges.lock().iter().collect();
        let _gate = self.gate.read();
        if self.is_dead() {
            return;
        }
        let scanned = job.core().vmstat_of(self.id).pgscan;
        self.hints.scanned.store(scanned, Relaxed);
        if self.expects() || self.hints.are_waiting() || self.hints.said() != said {
            self.hints.missed.store(true, Relaxed); // what was seen may be older than what was heard
            return;
        }
        let known = job.core().without_recency(self.id);
        for (range, advice) in differences(&registered, &seen, &known) {
            self.hints.push(Wish::Tell(Hint::Use(advice), range), end);
        }
        job.flags.wishes.raise();
        job.reclaim.ring();
    }
}

/// What the core must be told to know what was seen of these ranges.
fn differences(
    registered: &[Range<u64>],
    seen: &[Range<u64>],
    known: &[Range<PageNr>],
) -> Vec<(Range<PageNr>, Advice)> {
    let (mut is, mut was) = (super::Ranges::default(), super::Ranges::default());
    seen.iter().for_each(|range| is.insert(range.clone()));
    for range in known {
        was.insert(range.start.addr()..range.end.addr());
    }
    let mut told = Vec::new();
    for part in registered {
        let new = is
            .within(part)
            .into_iter()
            .flat_map(|range| was.gaps(&range));
        told.extend(new.map(|range| (pages(&range), Advice::Sequential)));
        let old = was
            .within(part)
            .into_iter()
            .flat_map(|range| is.gaps(&range));
        told.extend(old.map(|range| (pages(&range), Advice::Normal)));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_as_far_as_they_are_news() {
        let page = 4096;
        let known = [PageNr(2)..PageNr(4), PageNr(20)..PageNr(22)];
        let seen = [3 * page..6 * page, 30 * page..31 * page];
        let registered = vec![page..5 * page, 5 * page..10 * page];
        let told = differences(&registered, &seen, &known);
        let want = [
            (PageNr(4)..PageNr(5), Advice::Sequential),
            (PageNr(2)..PageNr(3), Advice::Normal),
            (PageNr(5)..PageNr(6), Advice::Sequential),
        ];
        assert_eq!(told, want);
    }

    #[test]
    fn wishes_are_carried_out_in_order_and_no_more_than_some_wait() {
        let hints = Hints::default();
        let wish = |page| Wish::TakeOut(PageNr(page)..PageNr(page + 64));
        (0..2 * TUNING.hints.waiting as u64).for_each(|page| hints.push(wish(page), 7));
        assert!(hints.is_taking(7));
        assert!(!hints.is_taking(7 + TUNING.hints.patience.0));
        let mut count = 0;
        while let Some(next) = hints.next() {
            assert_eq!(next, wish(count));
            hints.end_taking();
            count += 1;
        }
        assert_eq!(count, TUNING.hints.waiting as u64);
        assert!(!hints.is_taking(7));
    }
}
