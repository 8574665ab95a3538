//! A thread sleeps until somebody rings.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

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
