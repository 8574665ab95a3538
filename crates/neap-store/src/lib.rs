//! Where a page lives when it is not resident: compressors, the pool, the shrinker and the swap file.
#![forbid(unsafe_code)]

mod arena;
mod compress;
mod pool;

pub use arena::{Arena, VecArena};
pub use compress::{
    Codec, CodecError, Compressor, CompressorKind, Dictionary, KindError, Page, SCRATCH, TrainError,
};
