//! From a page to fewer bytes and back: same-filled pages, and one trait over the compressors.
//!
//! A page is compressed alone: a swap-in needs one page, and a longer unit would have to be
//! decompressed whole for it. Nothing is written but the compressed data itself; length, checksum
//! and dictionary are kept by the caller, so frames carry no magic number, size or checksum.

mod codec;
mod deflate;
mod dict;
mod kind;
mod lz4;
mod same;
mod zstd;

use neap_units::PAGE_SIZE;

pub use codec::Codec;
pub(crate) use codec::Packed;
pub use dict::{Dictionary, TrainError};
pub use kind::{CompressorKind, KindError};
pub(crate) use same::same_filled;

/// A page of bytes.
pub type Page = [u8; PAGE_SIZE];

/// Bytes of scratch a compressor may write into: what lz4 asks for in the worst case.
pub const SCRATCH: usize = lz4_flex::block::get_maximum_output_size(PAGE_SIZE);

/// One way to make a page smaller. A value belongs to one thread and keeps its tables between
/// pages, so that nothing is allocated on the store path.
pub trait Compressor: Send {
    /// Compresses `page` into `out` (at least [`SCRATCH`] bytes) and returns the length, or
    /// [`CodecError::Poor`] when that is not less than a page. `dict`, if given, is one that
    /// [`Compressor::takes_dictionary`] allows.
    fn compress(
        &mut self,
        page: &Page,
        dict: Option<&Dictionary>,
        out: &mut [u8],
    ) -> Result<usize, CodecError>;

    /// The inverse, with the dictionary used then. Refuses data that does not give a whole page;
    /// never reads or writes out of bounds, whatever the data.
    fn decompress(
        &mut self,
        data: &[u8],
        dict: Option<&Dictionary>,
        page: &mut Page,
    ) -> Result<(), CodecError>;

    /// Whether a dictionary may be passed.
    fn takes_dictionary(&self) -> bool {
        false
    }

    /// Bytes of its tables.
    fn memory_bytes(&self) -> usize;
}

/// Why a page was not compressed or decompressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// The result would not be smaller than a page.
    #[error("the page does not compress")]
    Poor,
    /// The compressor gave up for another reason.
    #[error("the compressor failed")]
    Failed,
    /// The data is not what the compressor once wrote.
    #[error("the compressed data is damaged")]
    Damaged,
}

#[cfg(test)]
mod tests;
