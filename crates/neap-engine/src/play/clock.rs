//! Time that passes when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use neap_sys::Clock;
use neap_units::Nanos;

/// No time of a run is 0, which stands for "not yet" in many places.
const START: u64 = 1 << 40;

/// The time of whichever part of the engine is at work. Copies are the same one.
#[derive(Clone, Debug)]
pub(super) struct Time(Arc<AtomicU64>);

impl Time {
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START)))
    }

    /// It is so late from here on, since the run began.
    pub fn set(&self, now: Nanos) {
        self.0.store(START + now.0, Relaxed);
    }

    /// Time since the run began.
    pub fn get(&self) -> Nanos {
        Nanos(self.0.load(Relaxed) - START)
    }
}

impl Clock for Time {
    fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn sleep(&self, nanos: u64) {
        self.0.fetch_add(nanos, Relaxed);
    }

    fn pass(&self, nanos: u64) -> bool {
        self.sleep(nanos);
        true
    }
}
