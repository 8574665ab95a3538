//! The first look for a program's memory, made by its fault thread: the kernel may keep whoever registers memory for
//! as long as a thread of the program that changes its mappings waits for a cpu, and others are not to wait for it.

use std::sync::atomic::{AtomicU8, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const UNASKED: u8 = 0;
const ASKED: u8 = 1;
const MADE: u8 = 2;

/// How far it is.
pub(crate) struct FirstLook(AtomicU8);

impl FirstLook {
    /// Nobody has asked for it yet.
    pub fn unasked() -> Self {
        Self(AtomicU8::new(UNASKED))
    }

    pub fn is_unasked(&self) -> bool {
        self.0.load(Relaxed) == UNASKED
    }

    /// The fault thread is to make it.
    pub fn ask(&self) {
        self.0.store(ASKED, Relaxed);
    }

    /// There is no fault thread.
    pub fn take_back(&self) {
        self.0.store(UNASKED, Relaxed);
    }

    pub fn is_asked(&self) -> bool {
        self.0.load(Relaxed) == ASKED
    }

    /// All later ones are the sampler's.
    pub fn set_made(&self) {
        self.0.store(MADE, Release);
    }

    pub fn is_made(&self) -> bool {
        self.0.load(Acquire) == MADE
    }
}
