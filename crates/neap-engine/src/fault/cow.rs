//! The first write to a page that a fork shared, where those are write-protected ([`crate::space::Space::hold_copies`]): the kernel
//! copies it once it may.

use std::ops::Range;

use neap_sys::Found;
use neap_tuning::TUNING;
use neap_units::{Bytes, PAGE_SIZE, PageNr, Pages};

use super::{Fault, FaultThread, Served};

impl FaultThread {
    /// Write-protects a part of what a fork shared, where that is wanted or goes on. Faults are served between two parts.
    pub fn hold_copies(&mut self) {
        // Before a child has told of itself nothing is seen of it. While a fork is seen through, its thread must not wait.
        if self.space.body.get().is_none() || self.space.window.holds() {
            return;
        }
        if self.unheld.is_none() && self.space.cow.take_wanted() {
            self.unheld = Some((0, 0));
        }
        let Some((from, took)) = self.unheld else {
            return;
        };
        let start = self.job.clock.now();
        let next = self.space.hold_copies(from);
        let end = self.job.clock.now();
        let took = took + end - start;
        self.unheld = next.map(|next| (next, took));
        match next {
            None => self.space.cow.rest(end, took),
            Some(next) if next == from => self.job.clock.sleep(TUNING.faults.again.0), // mappings change
            Some(_) => {}
        }
    }

    /// Lets a run of pages be copied, once there is room: more where a thread walks upwards. `known`: the table has the page.
    ///
    /// How many will be is told by the faults of the process later. Until the next look all of them count.
    pub(super) fn let_copy(&mut self, fault: Fault, known: bool) -> Served {
        let shares = self.space.kin.shares();
        if shares && self.must_wait(&fault) {
            return Served::Held;
        }
        let gate = self.space.gate.read();
        let most = self.most_copied(shares);
        let want = if shares {
            self.copied.wanted(fault.page, most).0
        } else {
            most.0
        };
        let Some(range) = self.shared_run(fault.page, want) else {
            drop(gate);
            return match known {
                true => self.let_write(fault),
                false => self.first_write(fault),
            };
        };
        let filler = &mut self.loader.filler;
        let progress = filler.unprotect(&self.space, range);
        if shares && progress.done > 0 {
            let pages = Bytes(progress.done).whole_pages();
            self.copied.filled(fault.page, pages);
            self.space.cow.note_let(pages.0);
            self.space.charge(progress.done);
            self.copies = true;
        }
        drop(gate);
        self.end_fill(fault.page, progress)
    }

    /// How many pages may be copied for one fault.
    fn most_copied(&self, shares: bool) -> Pages {
        let (near, most) = (TUNING.faults.copied_near, TUNING.faults.copied);
        if !shares {
            return most;
        }
        let part = TUNING.faults.copied_share.of(self.space.group.room());
        Bytes(part).whole_pages().clamp(near, most)
    }

    /// The pages from this one on that are there, and not the page of zeros, `most` at most. `None`: this one is not. Of a child
    /// that has told nothing of itself that cannot be seen.
    fn shared_run(&self, page: PageNr, most: u64) -> Option<Range<u64>> {
        let registered = self.space.registered(page)?;
        let end = registered.end.min(page.addr() + most * PAGE_SIZE as u64);
        let Some(body) = self.space.body.get() else {
            return Some(page.addr()..end);
        };
        let mut first = None;
        let mut note = |run: Range<u64>, found| _ = first.get_or_insert((run, found));
        body.view.present(page.addr()..end, &mut note).ok()?;
        let (run, _) = first.filter(|(_, found)| *found == Found::Pages)?;
        (run.start == page.addr()).then_some(run)
    }
}
