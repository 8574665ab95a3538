//! LZ4, block format.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};
use neap_units::PAGE_SIZE;

use super::{CodecError, Compressor, Dictionary, Page};

pub(super) struct Lz4 {
    /// Cleared for each page, allocated once.
    table: CompressTable,
}

impl Lz4 {
    pub fn new() -> Self {
        Self {
            table: CompressTable::small(),
        }
    }
}

impl Compressor for Lz4 {
    fn compress(
        &mut self,
        page: &Page,
        _: Option<&Dictionary>,
        out: &mut [u8],
    ) -> Result<usize, CodecError> {
        match compress_into_with_table(page, out, &mut self.table) {
            Ok(0) | Err(_) => Err(CodecError::Failed),
            Ok(len) if len >= PAGE_SIZE => Err(CodecError::Poor),
            Ok(len) => Ok(len),
        }
    }

    fn decompress(
        &mut self,
        data: &[u8],
        _: Option<&Dictionary>,
        page: &mut Page,
    ) -> Result<(), CodecError> {
        match decompress_into(data, page) {
            Ok(PAGE_SIZE) => Ok(()),
            _ => Err(CodecError::Damaged),
        }
    }

    fn memory_bytes(&self) -> usize {
        // 4096 positions of two bytes.
        8 << 10
    }
}
