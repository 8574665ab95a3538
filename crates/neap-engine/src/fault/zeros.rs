//! Memory that is read before it is written.
//!
//! Such a page is the kernel's one page of zeros. It costs no memory, so no read waits, and the table does not have it. The
//! write that follows makes the kernel copy it, which is no fault of an absent page. So it is write-protected, and that
//! write is a fault of its own, which waits for room as any fresh page does.

use neap_sys::{Found, Pagemap, Word};
use neap_units::{Bytes, PageNr, Pages};

use super::{Fault, FaultThread, Served};
use crate::space::addresses;

impl FaultThread {
    /// Memory nobody has touched before is read. A thread that walks upwards gets a run of pages at once.
    pub(super) fn show_zeros(&mut self, fault: Fault) -> Served {
        let gate = self.space.gate.read();
        if !self.is_unknown(fault.page) {
            return Served::Later;
        }
        let want = self
            .read
            .wanted(fault.page, Pages(Pagemap::MOST_WORDS as u64));
        let run = self.run_of(fault.page, want, Word::is_empty);
        let filler = &mut self.loader.filler;
        let (progress, protected) = filler.zero(&self.space, addresses(fault.page, run));
        let filled = Bytes(progress.done).whole_pages();
        self.read.filled(fault.page, filled);
        if protected {
            self.note_written(fault.page, filled);
        } else {
            self.note_fresh(fault.page, filled); // nobody will hear of their first write
        }
        drop(gate);
        self.end_fill(fault.page, progress)
    }

    /// Another thread may have written to a page of zeros before it was protected: then it is memory of the program's.
    fn note_written(&self, first: PageNr, count: Pages) {
        let body = self.space.body.get();
        let Some(body) = body.filter(|body| count > Pages::ZERO && body.view.has_scan()) else {
            return;
        };
        let mut written = |run: std::ops::Range<u64>, found| {
            if found == Found::Pages {
                let pages = Bytes(run.end - run.start).whole_pages();
                self.note_fresh(PageNr::containing(run.start), pages);
            }
        };
        let run = addresses(first, count.as_usize());
        // Where it cannot be read the process is gone.
        let _ = body.view.present(run, &mut written);
    }

    /// The first write to a page of zeros. A thread that walks upwards may write to a run of them.
    pub(super) fn first_write(&mut self, fault: Fault) -> Served {
        if self.must_wait(&fault) {
            return Served::Held;
        }
        let gate = self.space.gate.read();
        if !self.is_unknown(fault.page) {
            return Served::Later;
        }
        // It may have been thrown away while it waited: what is not there must not be in the table.
        let there = self.space.leading(fault.page, 1, Word::is_protected);
        let want = self.written.wanted(fault.page, self.most_fresh());
        let run = there * self.run_of(fault.page, want, Word::is_protected);
        if run == 0 {
            drop(gate);
            return self.let_write(fault);
        }
        let range = addresses(fault.page, run);
        let progress = self.loader.filler.unprotect(&self.space, range);
        let freed = Bytes(progress.done).whole_pages();
        self.note_fresh(fault.page, freed);
        self.written.filled(fault.page, freed);
        // The kernel copies the others without a word to us.
        self.space.kin.explain(freed.0.saturating_sub(1));
        drop(gate);
        self.end_fill(fault.page, progress)
    }
}
