//! A thread sleeps until somebody rings, or looks at all spaces once somebody has raised a flag.

use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use neap_sys::Clock;

/// A bell that one thread waits for and any may ring.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        *self.rung.lock().expect("bell lock") = true;
        self.ring.notify_one();
    }

    /// Waits until the bell rings.
    pub fn wait_for_ring(&self) {
        let rung = self.rung.lock().expect("bell lock");
        let rung = self.ring.wait_while(rung, |rung| !*rung);
        *rung.expect("bell lock") = false;
    }

    /// The same by a clock: where all of time is imagined nobody else would ring, and it passes.
    pub fn wait_by(&self, clock: &dyn Clock, limit: Duration) -> bool {
        if clock.pass(limit.as_nanos() as u64) {
            return self.take();
        }
        self.wait(limit)
    }

    /// Whether it was rung since somebody waited for it last.
    pub fn take(&self) -> bool {
        std::mem::take(&mut *self.rung.lock().expect("bell lock"))
    }

    /// Waits until the bell rings or `limit` passes. Whether it rang.
    pub fn wait(&self, limit: Duration) -> bool {
        let rung = self.rung.lock().expect("bell lock");
        let (mut rung, _) = self
            .ring
            .wait_timeout_while(rung, limit, |rung| !*rung)
            .expect("bell lock");
        std::mem::take(&mut rung)
    }
}

/// Some space has something to do, and whoever does it finds out which. Without that no space need be looked at.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

/// What some space wants, so that nobody need look at all of them.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// Its agent has not replied yet.
    pub late: Flag,
    /// Its program has said something of its memory.
    pub wishes: Flag,
    /// It will soon have much filled: memory is to be registered.
    pub foreseen: AtomicBool,
}

impl Flag {
    /// There is something, which was put in its place before.
    pub fn raise(&self) {
        self.0.store(true, Release);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Whether it was raised since somebody took it last. All that was put in its place before then is seen.
    pub fn take(&self) -> bool {
        self.is_raised() && self.0.swap(false, AcqRel)
    }
}
