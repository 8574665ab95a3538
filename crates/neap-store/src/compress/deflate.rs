//! Deflate: what hardware engines such as IAA speak.

use libdeflater::{CompressionError, CompressionLvl, Compressor as Encoder, Decompressor};
use neap_units::PAGE_SIZE;

use super::{CodecError, Compressor, Dictionary, Page};

pub(super) struct Deflate {
    encoder: Encoder,
    decoder: Decompressor,
}

impl Deflate {
    pub fn new(level: i32) -> Self {
        let level = CompressionLvl::new(level).unwrap_or_else(|_| CompressionLvl::fastest());
        Self {
            encoder: Encoder::new(level),
            decoder: Decompressor::new(),
        }
    }
}

impl Compressor for Deflate {
    fn compress(
        &mut self,
        page: &Page,
        _: Option<&Dictionary>,
        out: &mut [u8],
    ) -> Result<usize, CodecError> {
        let room = out.len().min(PAGE_SIZE - 1);
        match self.encoder.deflate_compress(page, &mut out[..room]) {
            Ok(0) => Err(CodecError::Failed),
            Ok(len) => Ok(len),
            Err(CompressionError::InsufficientSpace) => Err(CodecError::Poor),
        }
    }

    fn decompress(
        &mut self,
        data: &[u8],
        _: Option<&Dictionary>,
        page: &mut Page,
    ) -> Result<(), CodecError> {
        match self.decoder.deflate_decompress(data, page) {
            Ok(PAGE_SIZE) => Ok(()),
            _ => Err(CodecError::Damaged),
        }
    }

    fn memory_bytes(&self) -> usize {
        // libdeflate does not tell; its fastest encoder and its decoder take about this much.
        300 << 10
    }
}
