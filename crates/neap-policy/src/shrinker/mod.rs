//! Which compressed pages go to the swap file, and how many: zswap's shrinker (SPEC
//! 1.9-1.11), without the lists themselves.
//!
//! Two schemes say what is worth keeping. `ShrinkerScheme::Old` (kernel 6.8 to 6.11)
//! counts protected entries, and every insert erodes the count: a few stores undo it.
//! `ShrinkerScheme::SecondChance` (6.12 on) gives every entry one more round on the list and
//! holds back as many entries as were read back from disk since the last call.

mod generic;
mod lru;
mod worker;

pub use generic::{
    DEF_PRIORITY, DEFAULT_SEEKS, SHRINK_BATCH, ScanResult, ShrinkRound, Shrunk, do_shrink,
};
pub use lru::{LruState, Verdict};
pub use worker::{MAX_RECLAIM_RETRIES, PoolWorker, Visit};
