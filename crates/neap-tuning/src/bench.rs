//! `neap bench`.

use neap_units::{Bytes, Nanos};

use crate::Share;

crate::group! {
    /// `neap bench`.
    bench: Bench {
        /// Time between two looks at the memory of a run.
        /// A look costs some 20 us.
        looks: Nanos = Nanos::millis(10);
        /// Time between two looks for processes that are dying.
        /// Chosen.
        dying: Nanos = Nanos::millis(2);
        /// How much longer neap may take to tell of a run that was ended.
        /// Chosen.
        to_tell: Nanos = Nanos::secs(2);
        /// After how long neap's wait for what a command left behind is told of.
        /// Chosen.
        to_leave: Nanos = Nanos::secs(5);
        /// How often a group is tried to be removed while its last processes die.
        /// Chosen.
        removals: u32 = 1000;
        /// How often the lock is tried by who only reads.
        /// A tenth of a second is long for that.
        locks: u32 = 10;
        /// Pause between two such tries.
        /// Chosen.
        between_tries: Nanos = Nanos::millis(10);
        /// What a swap file leaves of what is free on its disk, and has beyond twice of what the command used.
        /// The first is for all others that write there. Chosen.
        spare: Bytes = Bytes::mib(64);
        /// What a pool can take that holds nothing.
        /// A zram device has a page from its start, of the allocator others.
        empty_pool: Bytes = Bytes::kib(16);
        /// What a run may take more than the size its table is of, as a share of it.
        /// A group's limit is kept within batches of pages (mm/memcontrol.c, MEMCG_CHARGE_BATCH), and pools grow after they
        /// were measured.
        excess: Share = Share::one_in(20);
        /// How much of standard error is kept: its last lines.
        /// Chosen.
        tail: Bytes = Bytes::kib(4);
        /// Bytes that are read at once.
        /// What a pipe holds (pipe(7)).
        read: Bytes = Bytes::kib(64);
        /// Time between two looks for a signal while standard input is read.
        /// Chosen.
        input_looks: Nanos = Nanos::millis(100);
        /// After how long it is said that standard input is still read.
        /// Chosen.
        input_hint: Nanos = Nanos::secs(3);
    }
}
