//! Stopping a job and taking its memory out.

use neap_units::{Bytes, Nanos, Pages};

crate::group! {
    /// Stopping a job and taking its memory out.
    freeze: Freeze {
        /// Looks in a row that must find no process which runs.
        /// A process may be forked between two looks. Chosen.
        quiet_looks: u32 = 2;
        /// Longest wait for a process to stand still before its children are stopped.
        /// A parent that runs would be told that its child is stopped. One in vfork waits for its child. Chosen.
        parent: Nanos = Nanos::millis(50);
        /// Longest wait for a process that speaks with neap or forks before it is stopped.
        /// Stopped in the middle of that it keeps its memory. Chosen.
        busy: Nanos = Nanos::secs(1);
        /// Longest wait for a thread that waits in the kernel, for a disk or in vfork.
        /// It stops by itself once that is over. Chosen.
        waits: Nanos = Nanos::millis(200);
        /// Longest wait for all processes to stand still.
        /// Chosen.
        stop: Nanos = Nanos::secs(3);
        /// Pages that are progress of taking out.
        /// As many as one command to an agent takes. Chosen.
        progress: Pages = Pages(64);
        /// Passes of reclaim in a row that moved nothing, after which nothing more can leave.
        /// Some tens of milliseconds. Chosen.
        passes: u64 = 100;
        /// Memory that a process may keep without a word.
        /// Pages of libraries that were written to, and stacks in use. Chosen.
        kept: Bytes = Bytes::mib(2);
        /// Pages of the table that are looked at under one hold of the core.
        /// Chosen.
        walk: Pages = Pages(4096);
        /// Entries that are written to the swap file between two looks at whether they still are to be.
        /// Chosen.
        entries: u64 = 4096;
        /// Room below reclaim's mark that bringing back leaves.
        /// The program itself will want some. Chosen.
        room: Bytes = Bytes::mib(1);
    }
}
