//! Where a page lives when it is not resident: compressors, the pool, the shrinker and the swap file.
//!
//! A page takes this way through the modules: `compress` makes it smaller, `pool` keeps it,
//! `entry` knows where it is and how old, `store` decides with the rules of `neap-policy` when it
//! goes on, and `swapfile` packs it into extents on disk. The crate makes no system call: memory
//! and disk are the traits [`Arena`] and [`BlockFile`].
#![forbid(unsafe_code)]

mod account;
mod arena;
mod compress;
mod entry;
mod keyed;
mod pool;
mod stats;
mod store;
mod swapfile;

pub use account::Account;
pub use arena::{Arena, VecArena};
pub use compress::{
    Codec, CodecError, Compressor, CompressorKind, Dictionary, KindError, Page, SCRATCH, TrainError,
};
pub use keyed::HashKey;
pub use pool::ADDRESSABLE;
pub use stats::{Group, Holding, Metric, MetricKind, OwnerStats, StoreStats};
pub use store::{
    Config, LoadError, Refused, ShrinkerError, ShrinkerKind, Shrunk, Source, Store, Trained,
};
pub use swapfile::{BLOCK, BlockFile, MemFile, NoFile};
