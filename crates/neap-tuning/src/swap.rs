//! The swap file.

use neap_units::{Bytes, Nanos, Pages};

use crate::Share;

crate::group! {
    /// The swap file.
    swap: Swap {
        /// Length of an extent, of the longest write, and of a lane's aligned memory.
        /// Long enough that a disk is busy with it for longer than it takes to seek, short enough that one live record does not
        /// hold much.
        extent: Bytes = Bytes::kib(256);
        /// Rest of an extent that is not worth a batch of its own, as a share of one.
        /// Chosen.
        little: Share = Share::one_in(8);
        /// Dead extents that keep their disk space.
        /// They will be used again soon. Chosen.
        kept: usize = 8;
        /// Extents emptied in one call.
        /// Each may take a look at every entry. Chosen.
        emptied: usize = 4;
        /// Entries looked at for this under one hold of the lock.
        /// Chosen.
        looked_at: u32 = 4096;
        /// Least that must be free in a directory without a name for a swap file to be put there.
        /// Chosen.
        least_free: Bytes = Bytes::mib(64);
        /// Longest sleep of the thread that writes.
        /// It is called when there is something to write. Chosen.
        sleep: Nanos = Nanos::millis(200);
        /// Requests in flight at once in one ring.
        /// Enough to fill the queue of a disk, small enough that the rings of all lanes fit the memory that kernels before 5.12
        /// charge to RLIMIT_MEMLOCK.
        requests: usize = 32;
    }
}

impl Swap {
    /// Pages that do not compress that are written at once: an extent.
    #[must_use]
    pub const fn poor(&self) -> Pages {
        self.extent.whole_pages()
    }
}
