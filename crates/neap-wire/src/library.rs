//! What the library in a program chose, in plain integers: it has no other types. `neap-tuning` lists these values, with
//! their reasons, beside those of the engine.

/// Bytes of the agent's stack, with its arguments.
pub const AGENT_STACK: usize = 32 << 10;
/// Bytes of the stack of the task that starts the agent: below the agent's.
pub const STARTER_STACK: usize = 8 << 10;
/// Bytes of the stack of a forked child's first steps, where the kernel does not announce it.
pub const FORK_STACK: usize = 64 << 10;
/// How far into libc's fork its entry to the kernel is looked for, in bytes.
pub const FORK_REACH: usize = 512;
/// How far before that the flags of the call are loaded, at most, in bytes.
pub const FORK_FLAGS: usize = 48;
/// Looks for what that task said, and the nanoseconds between two.
pub const START_LOOKS: u32 = 2000;
/// See [`START_LOOKS`].
pub const START_PAUSE: u32 = 1_000_000;
/// Tries to tell the engine something, and the nanoseconds between two.
pub const TELL_TRIES: u32 = 200;
/// See [`TELL_TRIES`].
pub const TELL_PAUSE: u32 = 10_000_000;
/// Looks, [`START_PAUSE`] apart, whether an engine that gave no answer has ended.
pub const END_LOOKS: u32 = 50;
/// Naps after which a turn is taken from whoever has it, and the nanoseconds of one.
pub const TURN_NAPS: u32 = 25;
/// See [`TURN_NAPS`].
pub const TURN_NAP: u32 = 10_000_000;
/// Bytes that are populated in one step.
pub const POPULATE_STEP: usize = 256 << 10;
/// Bytes from which on the engine is told of memory that will be filled.
pub const FORESEE_FROM: usize = 16 * POPULATE_STEP;
/// Bytes from which on memory that a file is read into is filled before it is read.
pub const READ_FROM: usize = 16 << 20;
/// Hints of which the engine is told at once, and cycles of the clock that every processor has after which it is told of
/// another one. Of others it hears when it looks by itself.
pub const HINTS_AT_ONCE: u64 = 64;
/// See [`HINTS_AT_ONCE`]: for processors whose clock counts some 1,000,000,000 cycles a second.
pub const HINT_CYCLES: u64 = 4_000_000;
/// Looks at a mapping that changes before it is taken as it is.
pub const MAPPING_LOOKS: usize = 3;
