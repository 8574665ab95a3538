//! Puts pages into a program, and keeps in mind who is to be woken for them.

use std::ops::Range;

use neap_sys::{Progress, Stop, Wake};

use crate::space::Space;

/// How the threads that wait for filled pages are woken: by the fill itself, or once all is done and nothing is held.
pub(crate) struct Filler {
    wake: Wake,
    /// All who are to be woken wait in here, and others may.
    owed: Option<Range<u64>>,
    called: bool,
    /// Until then, in nanoseconds, a fill is tried again that comes while the address space changes; 0: it is not.
    insists_until: u64,
}

impl Filler {
    /// Wakes with each fill.
    pub fn at_once() -> Self {
        Self {
            wake: Wake::Now,
            owed: None,
            called: false,
            insists_until: 0,
        }
    }

    /// From here on.
    pub fn set(&mut self, wake: Wake) {
        self.wake = wake;
    }

    /// Until then, in nanoseconds, fills and protections are tried again and again while the address space changes.
    pub fn insist_until(&mut self, end: u64) {
        self.insists_until = end;
    }

    /// Between two changes of each other thread there is a moment in which the kernel takes a fill.
    fn insisting(&self, mut fill: impl FnMut() -> Progress) -> Progress {
        let mut progress = fill();
        while self.insists_until > 0
            && progress.done == 0
            && progress.stop == Some(Stop::Retry)
            && neap_sys::monotonic_nanos() < self.insists_until
        {
            progress = fill();
        }
        progress
    }

    /// Fills absent pages from `bytes`.
    pub fn copy(&mut self, space: &Space, target: u64, bytes: &[u8]) -> Progress {
        let progress = self.insisting(|| space.uffd.copy(target, bytes, self.wake));
        self.note(target, progress)
    }

    /// Maps the page of zeros over absent pages, write-protected: the first write to one is a fault again. False: they
    /// are not protected, as the address space is changing.
    pub fn zero(&mut self, space: &Space, range: Range<u64>) -> (Progress, bool) {
        let progress = self.insisting(|| space.uffd.zero(range.clone(), Wake::Later));
        if progress.done == 0 {
            return (progress, true);
        }
        let filled = range.start..range.start + progress.done;
        let protected = self.insisting(|| space.uffd.protect(filled.clone()));
        let protected = protected.stop.is_none();
        self.let_go(space, filled);
        (progress, protected)
    }

    /// Lets the program write to pages that are protected.
    pub fn unprotect(&mut self, space: &Space, range: Range<u64>) -> Progress {
        let progress = self.insisting(|| space.uffd.unprotect(range.clone(), self.wake));
        self.note(range.start, progress)
    }

    fn note(&mut self, first: u64, progress: Progress) -> Progress {
        if self.wake == Wake::Later && progress.done > 0 {
            self.owe(first..first + progress.done);
        }
        progress
    }

    fn owe(&mut self, range: Range<u64>) {
        let all = self.owed.take().unwrap_or(range.clone());
        self.owed = Some(all.start.min(range.start)..all.end.max(range.end));
    }

    /// Wakes who waits in `range`, which was not filled here: they look for themselves.
    pub fn let_go(&mut self, space: &Space, range: Range<u64>) {
        match self.wake {
            Wake::Now => {
                let _ = space.uffd.wake(range); // the address space is gone
            }
            Wake::Later => self.owe(range),
        }
    }

    /// Where somebody may wait who is to be woken.
    pub fn owed(&self) -> Option<Range<u64>> {
        self.owed.clone()
    }

    /// Wakes them.
    pub fn wake(&mut self, space: &Space) {
        if let Some(range) = self.owed.take() {
            let _ = space.uffd.wake(range); // the address space is gone
        }
    }

    /// Another thread is about to be asked for something that wakes the program's: where this one is behind it might
    /// not have the cpu for the answer, and goes ahead.
    pub fn before_call(&mut self, space: &Space) {
        if self.wake == Wake::Later {
            neap_sys::raise_to_realtime();
            self.wake(space);
            self.called = true;
        }
    }

    /// Whether that was so since the last question.
    pub fn has_called(&mut self) -> bool {
        std::mem::take(&mut self.called)
    }
}
