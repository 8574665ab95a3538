//! Records of what is decided: every call that may change the policy core, in the order in which it saw them, and every
//! question to the deciders beside it, each with its answer.
//!
//! | module | holds |
//! |---|---|
//! | `call` | calls and answers, and how they read as a line of text |
//! | `code` | one call and its answer as bytes |
//! | `decide` | the deciders beside the core, each with a recorder around it |
//! | `file` | the file: header, blocks with checksums, and its reader |
//! | `recorded` | the core with a recorder around it |
//! | `recorder` | what takes calls and decisions down |
//! | `replay` | the calls made again, the answers compared |
//! | `varint` | numbers as bytes, here and in traces of the simulator |
//!
//! Calls that only look ([`neap_policy::Core::find`], `state`, `for_range`) change nothing and are not
//! recorded. A clock, threads and files are the caller's.
#![forbid(unsafe_code)]

mod call;
mod code;
mod decide;
mod file;
mod recorded;
mod recorder;
mod replay;
#[cfg(test)]
mod tests;
mod varint;

pub use call::{Answer, Call, Counts, Moved, Place, counter_names};
pub use decide::{Decider, GateLimit, Noted, NotedShrinker, Offer, PacerOf, Who};
pub use file::{
    End, Header, MAGIC, OLDEST, Reader, RecordFault, VERSION, block, end_block, payload,
};
pub use recorded::Recorded;
pub use recorder::{Recorder, Sink};
pub use replay::{Replay, Replayed};
pub use varint::{Fault as VarintFault, pull as pull_varint, push as push_varint};
