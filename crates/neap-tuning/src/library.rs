//! The library in each program. It is built without this crate, so that its values stand in `neap_wire::library`.

use neap_units::{Bytes, Nanos};
use neap_wire::library as wire;

crate::group! {
    /// The library in each program.
    library: Library {
        /// Stack of the agent, with its arguments.
        /// Chosen.
        agent_stack: Bytes = Bytes(wire::AGENT_STACK as u64);
        /// Stack of the task that starts the agent.
        /// It lies below the agent's. Chosen.
        starter_stack: Bytes = Bytes(wire::STARTER_STACK as u64);
        /// Stack of a forked child's first steps, where the kernel does not announce it.
        /// Twice the agent's, which does less. Chosen.
        fork_stack: Bytes = Bytes(wire::FORK_STACK as u64);
        /// How far into libc's fork its entry to the kernel is looked for.
        /// It is 28 bytes into that of glibc 2.36, and 66 into that of musl 1.2.3.
        fork_reach: Bytes = Bytes(wire::FORK_REACH as u64);
        /// How far before that the flags of the call are loaded, at most.
        /// It is 16 bytes in glibc 2.36.
        fork_flags: Bytes = Bytes(wire::FORK_FLAGS as u64);
        /// Looks for what that task said.
        /// It has said something when it ends, unless a filter lets nobody wait for children. Chosen.
        start_looks: u32 = wire::START_LOOKS;
        /// Pause between two such looks.
        /// Chosen.
        start_pause: Nanos = Nanos(wire::START_PAUSE as u64);
        /// Tries to tell the engine something.
        /// Two seconds in all: the program has no descriptor left, or may make no socket. Chosen.
        tell_tries: u32 = wire::TELL_TRIES;
        /// Pause between two such tries.
        /// Chosen.
        tell_pause: Nanos = Nanos(wire::TELL_PAUSE as u64);
        /// Naps after which a turn is taken from whoever has it.
        /// A quarter of a second; less where signals end the naps. Chosen.
        turn_naps: u32 = wire::TURN_NAPS;
        /// Longest nap.
        /// Chosen.
        turn_nap: Nanos = Nanos(wire::TURN_NAP as u64);
        /// Bytes that are populated in one step.
        /// Some 0.1 ms of the kernel's time.
        populate: Bytes = Bytes(wire::POPULATE_STEP as u64);
        /// Bytes from which on the engine is told of memory that will be filled.
        /// That takes some 0.1 ms, as one step does of sixteen.
        foresee: Bytes = Bytes(wire::FORESEE_FROM as u64);
        /// Bytes from which on memory that a file is read into is filled before it is read.
        /// In one call 60 MiB came before the kernel gave the cpu away; this is a quarter of that. Chosen.
        read_from: Bytes = Bytes(wire::READ_FROM as u64);
        /// Hints (madvise) of which the engine is told at once.
        /// A call of it is two faults. Chosen.
        hints_at_once: u64 = wire::HINTS_AT_ONCE;
        /// Cycles of the processor's clock after which it is told of another one.
        /// A few milliseconds at most, by the clock of the processor. Chosen.
        hint_cycles: u64 = wire::HINT_CYCLES;
        /// Looks at a mapping that changes.
        /// What became one mapping between two looks is one at the third.
        mapping_looks: usize = wire::MAPPING_LOOKS;
    }
}
