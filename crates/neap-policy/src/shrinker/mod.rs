//! Which compressed pages go to the swap file, and how many: zswap's shrinker and pool worker
//! (SPEC 1.9-1.11), over lists and owners that lie elsewhere. The simulated Linux and the store
//! of neap run the same walks, calls and rounds.
//!
//! Two schemes say what is worth keeping. `ShrinkerScheme::Old` (kernel 6.8 to 6.11)
//! counts protected entries, and every insert erodes the count: a few stores undo it.
//! `ShrinkerScheme::SecondChance` (6.12 on) gives every entry one more round on the list and
//! holds back as many entries as were read back from disk since the last call.

mod call;
mod generic;
mod lru;
mod walk;
mod worker;

pub use call::{ShrinkCall, ShrinkerRules};
pub use generic::{DEF_PRIORITY, SHRINK_BATCH, Shrunk};
pub use lru::{LruState, Verdict};
pub use walk::{Walk, WalkStep, Writeback, WritebackLists};
pub use worker::{MAX_RECLAIM_RETRIES, NextOwner, Owners, PoolWorker, Visit};
