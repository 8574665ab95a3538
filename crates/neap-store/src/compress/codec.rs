//! What a thread needs to store and load pages: one compressor and some scratch.

use neap_units::PAGE_SIZE;

use super::same::fill;
use super::{CodecError, Compressor, CompressorKind, Dictionary, Page, SCRATCH};

/// Compressor and scratch of one thread, made by [`crate::Store::codec`]. All memory is allocated
/// when it is made, except what write-back needs, which grows at its first use.
pub struct Codec {
    compressor: Box<dyn Compressor>,
    /// Compressed bytes of the page at hand.
    packed: Box<[u8]>,
    /// A page to compare with.
    page: Box<Page>,
    /// Blocks read, or records to be written.
    pub(crate) blocks: Vec<u8>,
}

/// What a page became.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packed {
    /// This many bytes, in [`Codec::packed`].
    Bytes(usize),
    /// It does not compress.
    Poor,
    /// The compressor failed.
    Failed,
}

impl Codec {
    pub(crate) fn new(kind: CompressorKind) -> Self {
        Self {
            compressor: kind.build(),
            packed: vec![0; SCRATCH].into_boxed_slice(),
            page: Box::new([0; PAGE_SIZE]),
            blocks: Vec::new(),
        }
    }

    /// Compresses a page into the scratch.
    pub(crate) fn pack(&mut self, page: &Page, dict: Option<&Dictionary>) -> Packed {
        let dict = dict.filter(|_| self.compressor.takes_dictionary());
        match self.compressor.compress(page, dict, &mut self.packed) {
            Ok(len) => Packed::Bytes(len),
            Err(CodecError::Poor) => Packed::Poor,
            Err(_) => Packed::Failed,
        }
    }

    /// The scratch that [`Codec::pack`] fills and [`Codec::unpack`] reads.
    pub(crate) fn packed(&mut self) -> &mut [u8] {
        &mut self.packed
    }

    /// Decompresses the first `len` bytes of the scratch; a whole page's worth is the page itself.
    pub(crate) fn unpack(
        &mut self,
        len: usize,
        dict: Option<&Dictionary>,
        out: &mut Page,
    ) -> Result<(), CodecError> {
        if len == PAGE_SIZE {
            out.copy_from_slice(&self.packed[..PAGE_SIZE]);
            return Ok(());
        }
        self.compressor.decompress(&self.packed[..len], dict, out)
    }

    /// Decompresses `data` from outside the scratch.
    pub(crate) fn unpack_from(
        &mut self,
        data: &[u8],
        dict: Option<&Dictionary>,
        out: &mut Page,
    ) -> Result<(), CodecError> {
        if data.len() == PAGE_SIZE {
            out.copy_from_slice(data);
            return Ok(());
        }
        self.compressor.decompress(data, dict, out)
    }

    /// Whether the first `len` bytes of the scratch are `page`, compressed.
    pub(crate) fn packed_equals(
        &mut self,
        len: usize,
        dict: Option<&Dictionary>,
        page: &Page,
    ) -> bool {
        if len == PAGE_SIZE {
            return self.packed[..PAGE_SIZE] == page[..];
        }
        let unpacked = self
            .compressor
            .decompress(&self.packed[..len], dict, &mut self.page);
        unpacked.is_ok() && *self.page == *page
    }

    /// Writes the page that `word` fills.
    pub(crate) fn fill(word: u64, out: &mut Page) {
        fill(word, out);
    }

    /// Bytes this codec takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.compressor.memory_bytes() + self.packed.len() + PAGE_SIZE + self.blocks.capacity()
    }
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codec")
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}
