//! What a load works with. There are as many as load at once, and not one for each process: with its decoder it is
//! a third of a MiB.

use neap_store::{Codec, Store};
use neap_sys::Lock;
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

/// A codec, and room for the pages of a window.
pub(crate) struct Desk {
    pub codec: Codec,
    pub buffer: Vec<u8>,
}

/// Those that nobody works with.
pub(crate) struct Desks {
    free: Lock<Vec<Desk>, 7>,
    /// So many are kept: more loads than cpus do not work at once, they only wait.
    most: usize,
}

impl Default for Desks {
    fn default() -> Self {
        Self {
            free: Lock::default(),
            most: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}

impl Desks {
    /// The one that was left last. Who holds the lock may wait for a cpu: nobody waits for that.
    pub fn take(&self, store: &Store) -> Desk {
        let left = self.free.try_lock().and_then(|mut free| free.pop());
        left.unwrap_or_else(|| Desk {
            codec: store.codec(),
            buffer: vec![0; TUNING.loads.window.as_usize() * PAGE_SIZE],
        })
    }

    /// Leaves it to the next.
    pub fn leave(&self, desk: Desk) {
        if let Some(mut free) = self.free.try_lock()
            && free.len() < self.most
        {
            free.push(desk);
        }
    }
}
