//! Why a page was not stored, and why one could not be loaded.

use std::io;

use neap_units::EntryId;

/// Why the store did not take a page. The page is where it was, and nothing of it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The pool reached its limit and is not down to its accept threshold: the pool worker
    /// ([`crate::Store::shrink_worker`]) should run.
    #[error("the pool is full")]
    PoolFull,
    /// The pool has as much of its account as it may (`memory.zswap.max`): [`crate::Store::relieve`] should run, if pages of
    /// the account may be written.
    #[error("its memory.zswap.max is reached")]
    ZswapMax,
    /// As many pages of its account are out as may be (`memory.swap.max`).
    #[error("its memory.swap.max is reached")]
    SwapMax,
    /// The page does not compress, and would not gain by being kept as it is.
    #[error("the page does not compress")]
    CompressPoor,
    /// The compressor failed.
    #[error("the compressor failed")]
    CompressFail,
    /// The arena is full, or there are as many entries as there can be.
    #[error("there is no room for the page")]
    NoSpace,
}

/// Why an entry could not be loaded. Its page is lost: a program that needs it must not go on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The swap file refused the read.
    #[error("reading {entry} from the swap file at byte {offset}: {source}")]
    Io {
        /// What was to be read.
        entry: EntryId,
        /// Where in the swap file.
        offset: u64,
        /// What the file said.
        source: io::Error,
    },
    /// What was read is not what was written.
    #[error("{entry} is corrupt ({what})")]
    Corrupt {
        /// What was to be read.
        entry: EntryId,
        /// How that was noticed.
        what: &'static str,
    },
}
