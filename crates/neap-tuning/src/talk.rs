//! Meeting processes, and doing what their libraries ask for.

use neap_units::{Bytes, Nanos};

crate::group! {
    /// Meeting processes, and doing what their libraries ask for.
    talk: Talk {
        /// Callers that are kept.
        /// Chosen.
        callers: usize = 1024;
        /// Callers of one process that are kept.
        /// Chosen.
        callers_of_one: usize = 64;
        /// One that has been silent for so long gives its place to another that needs it.
        /// Chosen.
        silent: Nanos = Nanos::secs(2);
        /// Callers that are spoken with at once.
        /// Chosen.
        at_once: usize = 64;
        /// The same of one process.
        /// One that stalls keeps each of its conversations for seconds; others are to find a thread meanwhile. Chosen.
        at_once_of_one: usize = 16;
        /// Threads that wait for a caller.
        /// Chosen.
        idle_threads: usize = 2;
        /// How long such a thread waits.
        /// Chosen.
        idle: Nanos = Nanos::secs(1);
        /// Descriptors that a caller takes, kept for when there are no others.
        /// Its connection, what it is known by, and one to look with.
        descriptors: usize = 3;
        /// What no thread could be had for is tried for so long.
        /// Chosen.
        no_thread: Nanos = Nanos::secs(2);
        /// Pause before what a resource limit refused is tried again.
        /// Chosen.
        pause: Nanos = Nanos::millis(10);
        /// How often a thread that must be there is tried to be started.
        /// Another may end meanwhile. Chosen.
        starts: u32 = 200;
        /// Stack of each thread of the engine, in bytes of addresses.
        /// Chosen.
        stack: Bytes = Bytes::kib(256);
        /// Time between two looks at an address space that is changing.
        /// Chosen.
        look: Nanos = Nanos::micros(200);
        /// Looks, with that time between them, for which a process that asks is waited for to be in place.
        /// It was just told that it is managed. Chosen.
        looks: u32 = 10_000;
        /// Time for which memory that a process will have filled is waited for to be registered.
        /// Chosen.
        foresee: Nanos = Nanos::secs(2);
        /// Bytes of the stack of a thread that forks, below its end, which are in memory while it does.
        /// More than the library uses there between the engine's answer and the fork.
        fork_stack: Bytes = Bytes::kib(32);
        /// Time for which nothing is read of a process that forks.
        /// What a fork is to be told apart from is read after it. A fork takes some milliseconds for each GiB in memory. A
        /// thread that needs a page before its fork gets it after that. Chosen.
        fork_quiet: Nanos = Nanos::millis(100);
        /// Time between two looks at whether a fork is over.
        /// Chosen.
        fork_look: Nanos = Nanos::micros(50);
        /// Time after a fork for which the next one of the same process waits if there is something to be read.
        /// Other threads of a process that forks all the time are to be served, too. Chosen.
        fork_between: Nanos = Nanos::millis(2);
        /// Times that a proof is written into a space that is changing.
        /// Chosen.
        proofs: usize = 100;
        /// Bytes that prove what a process handed over to be its own.
        /// Chosen.
        proof: Bytes = Bytes(32);
        /// Bytes of the secret in the name of the run's folder.
        /// Chosen.
        secret: Bytes = Bytes(16);
        /// Names that are tried for that folder, where one is taken or was swept away.
        /// Chosen.
        names: u32 = 16;
    }
}
