//! What a fork shared is write-protected where copies of it could take the job over its limit.
//!
//! The first write to such a page has the kernel copy it, which nothing can hold up by itself. To a page that is write-protected as well
//! that write is a fault, and waits for room as one of fresh memory does. Most children copy next to nothing and execute another program, so
//! nothing is protected before a process is seen to copy.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use neap_sys::{Stop, Wake};
use neap_tuning::TUNING;
use neap_units::PageNr;

use super::Space;

#[derive(Debug)]
pub(crate) struct Cow {
    /// Copies are to be held up.
    wanted: AtomicBool,
    /// Pages may be write-protected that are not the page of zeros.
    holds: AtomicBool,
    /// Faults of the process that may have copied, when it was asked for last; [`Cow::NEVER`]: it was not looked at yet.
    faults: AtomicU64,
    /// Pages that were let be copied since.
    let_on: AtomicU64,
    /// Before then, in nanoseconds, copies are not held up again for what it copies.
    rests_until: AtomicU64,
}

impl Cow {
    const NEVER: u64 = u64::MAX;

    /// `forked`: the process has had no faults before.
    pub fn new(forked: bool) -> Self {
        Self {
            wanted: AtomicBool::new(false),
            holds: AtomicBool::new(false),
            faults: AtomicU64::new(if forked { 0 } else { Self::NEVER }),
            let_on: AtomicU64::new(0),
            rests_until: AtomicU64::new(0),
        }
    }

    /// The process has had so many faults that may have copied. Whether copies are to be held up for that.
    pub fn look(&self, faults: u64, now: u64) -> bool {
        let before = self.faults.load(Relaxed);
        if before == Self::NEVER {
            self.faults.store(faults, Relaxed);
            return false;
        }
        let unheld = (faults.saturating_sub(before)).saturating_sub(self.let_on.load(Relaxed));
        let many = unheld > TUNING.faults.copied_unheld.0;
        if many && now < self.rests_until.load(Relaxed) {
            return false;
        }
        if many {
            self.faults.store(faults, Relaxed);
            self.let_on.store(0, Relaxed);
            self.wanted.store(true, Relaxed);
        }
        many
    }

    /// All is write-protected, `now`, and that took so many nanoseconds.
    pub fn rest(&self, now: u64, took: u64) {
        let rest = took * TUNING.faults.holds_rest;
        self.rests_until.store(now + rest, Relaxed);
    }

    /// It forks, which begins a new account: what was let and not copied is shared again. `wanted`: copies are to be held up from now on, unless
    /// that was done a moment ago.
    pub fn fork(&self, wanted: bool, now: u64) {
        self.faults.store(Self::NEVER, Relaxed);
        self.let_on.store(0, Relaxed);
        if wanted && now >= self.rests_until.load(Relaxed) {
            self.want();
        }
    }

    /// Has copies held up.
    pub fn want(&self) {
        self.wanted.store(true, Relaxed);
    }

    /// Whether copies are to be held up: once.
    pub fn take_wanted(&self) -> bool {
        self.wanted.load(Relaxed) && self.wanted.swap(false, Relaxed)
    }

    /// Whether a page that is protected need not be the page of zeros.
    pub fn holds(&self) -> bool {
        self.holds.load(Relaxed)
    }

    /// A child has the protected pages of its parent.
    pub fn inherit_from(&self, parent: &Self) {
        self.holds.store(parent.holds(), Relaxed);
    }

    /// So many pages may be copied.
    pub fn note_let(&self, pages: u64) {
        self.let_on.fetch_add(pages, Relaxed);
    }
}

impl Space {
    /// Write-protects a part of what is registered from `from` on. Where to go on; `None`: that was all, or is not to be.
    ///
    /// The kernel itself writes to a thread's record when the thread ends, and does not wait then: that write would be lost. The
    /// only thread of a process ends with it. A thread that begins has its record written before, so that it is protected no more.
    pub fn hold_copies(&self, from: u64) -> Option<u64> {
        let body = self.body.get()?;
        if !self.kin.shares() || !body.view.has_scan() {
            return None;
        }
        let _gate = self.gate.write();
        if self.expects() {
            return Some(from);
        }
        let range = cut(self.ranges.lock().next(from)?);
        if !body.process.has_one_thread() {
            return None;
        }
        self.cow.holds.store(true, Relaxed);
        let stop = self.uffd.protect(range.clone()).stop;
        if !body.process.has_one_thread() {
            let _ = self.uffd.unprotect(range, Wake::Now); // the address space is gone
            return None;
        }
        match stop {
            Some(Stop::Retry) => Some(from),
            Some(Stop::Dead) => None,
            _ => Some(range.end),
        }
    }

    /// Lets these pages be written to, whatever that copies. The caller holds the gate exclusively.
    pub fn let_write(&self, needed: &[Range<PageNr>]) {
        if !self.cow.holds() {
            return;
        }
        for needed in needed {
            let place = needed.start.addr()..needed.end.addr();
            let ranges = self.ranges.lock().within(&place);
            for range in ranges {
                let _ = self.uffd.unprotect(range, Wake::Now); // nothing changes, so that this is done or the space is gone
            }
        }
    }
}

/// Its first part, which ends where a huge page does.
fn cut(range: Range<u64>) -> Range<u64> {
    let step = TUNING.faults.held_part.0;
    let end = (range.start / step + 1) * step;
    range.start..range.end.min(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_held_up_once_some_were_made_that_nobody_let() {
        let most = TUNING.faults.copied_unheld.0;
        let cow = Cow::new(true);
        assert!(!cow.look(most, 0));
        assert!(cow.look(most + 1, 0) && cow.take_wanted() && !cow.take_wanted());
        cow.note_let(1000);
        assert!(!cow.look(most + 1 + 1000 + most, 0));
        assert!(cow.look(most + 1 + 1000 + most + 1, 0));
    }

    #[test]
    fn what_a_process_did_before_it_forked_counts_for_nothing() {
        let cow = Cow::new(false);
        assert!(!cow.look(1 << 40, 0));
        assert!(!cow.look((1 << 40) + TUNING.faults.copied_unheld.0, 0));
        assert!(cow.look((1 << 40) + TUNING.faults.copied_unheld.0 + 1, 0));
    }

    #[test]
    fn who_copies_all_the_time_is_not_write_protected_all_the_time() {
        let many = TUNING.faults.copied_unheld.0 + 1;
        let cow = Cow::new(true);
        cow.rest(100, 10);
        let end = 100 + 10 * TUNING.faults.holds_rest;
        assert!(!cow.look(many, end - 1) && cow.look(many, end));
    }

    #[test]
    fn what_was_let_before_a_fork_counts_for_nothing_after_it() {
        let many = TUNING.faults.copied_unheld.0 + 1;
        let cow = Cow::new(true);
        cow.note_let(1 << 40);
        assert!(!cow.look(many, 0));
        cow.fork(false, 0);
        assert!(!cow.look(many, 0) && cow.look(2 * many, 0) && cow.take_wanted());
        cow.rest(0, 10);
        cow.fork(true, 0);
        assert!(!cow.take_wanted(), "that was done just now");
        cow.fork(true, 10 * TUNING.faults.holds_rest);
        assert!(cow.take_wanted());
    }

    #[test]
    fn a_part_ends_where_a_huge_page_does() {
        let part = TUNING.faults.held_part.0;
        assert!(part.is_multiple_of(2 << 20));
        assert_eq!(cut(part - 4096..10 * part), part - 4096..part);
        assert_eq!(cut(part..10 * part), part..2 * part);
        assert_eq!(cut(part..part + 4096), part..part + 4096);
    }
}
