//! Records of the policy core: every call that may change it, in the order in which it saw them, and
//! what it answered.
//!
//! | module | holds |
//! |---|---|
//! | `call` | calls and answers, and how they read as a line of text |
//! | `code` | one call and its answer as bytes |
//! | `file` | the file: header, blocks with checksums, and its reader |
//! | `recorded` | the core with a recorder around it |
//! | `replay` | the calls made again, the answers compared |
//! | `varint` | numbers as bytes, here and in traces of the simulator |
//!
//! Calls that only look ([`neap_policy::Core::find`], `state`, `for_range`) change nothing and are not
//! recorded. A clock, threads and files are the caller's.
#![forbid(unsafe_code)]

mod call;
mod code;
mod file;
mod recorded;
mod replay;
#[cfg(test)]
mod tests;
mod varint;

pub use call::{Answer, Call, Counts, Moved, Place, counter_names};
pub use file::{End, Header, MAGIC, Reader, RecordFault, VERSION, block, end_block};
pub use recorded::{Recorded, Sink};
pub use replay::{Replay, Replayed};
pub use varint::{Fault as VarintFault, pull as pull_varint, push as push_varint};
