//! Agents: how long they are waited for, and what each takes.

use neap_units::{Bytes, Nanos, Pages};

crate::group! {
    /// Agents: how long they are waited for, and what each takes.
    agents: Agents {
        /// Pages that one command moves at most, those of a staging block, and those that reclaim takes at a time.
        /// Both ends must have the same: a reply has a byte for each page. A block keeps in 64 bits which of its pages live.
        block: Pages = Pages(neap_wire::BLOCK_PAGES);
        /// A reply that takes longer is late.
        /// A hundred times what it needs.
        reply: Nanos = Nanos::millis(20);
        /// A program that takes longer to say who it is is not waited for at the end.
        /// It may be stopped. Chosen.
        handshake: Nanos = Nanos::secs(2);
        /// Time between two looks whether it has.
        /// Chosen.
        handshake_look: Nanos = Nanos::micros(100);
        /// An agent that was told to end and is still there after this is killed.
        /// Somebody has stopped it. Chosen.
        leave: Nanos = Nanos::millis(200);
        /// Memory of a process before an exec, from which on the program that it becomes waits until it has gone.
        /// Less is within what a burst may take, and a start is not to be slower. Chosen.
        former: Bytes = Bytes::mib(1);
        /// One that is stopped and has kept a command for so long is killed.
        /// Chosen.
        stopped: Nanos = Nanos::millis(500);
        /// Who ends within this time of its agent is not told of.
        /// The last signal goes to all of a user's processes. Chosen.
        together: Nanos = Nanos::secs(1);
        /// Rest of a space of whose pages none moved.
        /// Chosen.
        stuck_rest: Nanos = Nanos::millis(20);
        /// Descriptors that are to be there for each.
        /// What it takes to know an agent: its pidfd, its folder in /proc, how much memory it has, and a look at that.
        descriptors: usize = 4;
        /// Staging area of each process, in bytes of addresses.
        /// Chosen.
        stage: Bytes = Bytes::mib(64);
        /// Spaces of one process that are served at a time.
        /// An exec leaves one behind for a moment. Chosen.
        spaces: usize = 8;
    }
}
