//! Zstandard without frame trimmings, and with a dictionary where one has been trained.

use neap_units::PAGE_SIZE;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

use super::{CodecError, Compressor, Dictionary, Page};

/// Length of the magic number that starts a standard frame.
const MAGIC: usize = 4;

pub(super) struct Zstd {
    encoder: CCtx<'static>,
    decoder: DCtx<'static>,
}

impl Zstd {
    pub fn new(level: i32) -> Self {
        let mut encoder = CCtx::create();
        let mut decoder = DCtx::create();
        let plain = [
            CParameter::CompressionLevel(level),
            CParameter::Format(FrameFormat::Magicless),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
        ];
        for parameter in plain {
            encoder
                .set_parameter(parameter)
                .expect("zstd takes these parameters in any order");
        }
        decoder
            .set_parameter(DParameter::Format(FrameFormat::Magicless))
            .expect("zstd reads frames without magic number");
        Self { encoder, decoder }
    }
}

impl Compressor for Zstd {
    fn compress(
        &mut self,
        page: &Page,
        dict: Option<&Dictionary>,
        out: &mut [u8],
    ) -> Result<usize, CodecError> {
        let result = match dict {
            None => {
                let room = out.len().min(PAGE_SIZE - 1);
                self.encoder.compress2(&mut out[..room], page)
            }
            Some(dict) => {
                // This call always writes the magic number.
                let room = out.len().min(PAGE_SIZE - 1 + MAGIC);
                let result =
                    self.encoder
                        .compress_using_cdict(&mut out[..room], page, dict.encoder());
                result.map(|len| {
                    out.copy_within(MAGIC..len, 0);
                    len - MAGIC
                })
            }
        };
        match result {
            Ok(0) => Err(CodecError::Failed),
            Ok(len) => Ok(len),
            Err(code) if is_too_small(code) => Err(CodecError::Poor),
            Err(_) => Err(CodecError::Failed),
        }
    }

    fn decompress(
        &mut self,
        data: &[u8],
        dict: Option<&Dictionary>,
        page: &mut Page,
    ) -> Result<(), CodecError> {
        let result = match dict {
            None => self.decoder.decompress(&mut page[..], data),
            Some(dict) => self
                .decoder
                .decompress_using_ddict(&mut page[..], data, dict.decoder()),
        };
        match result {
            Ok(PAGE_SIZE) => Ok(()),
            _ => Err(CodecError::Damaged),
        }
    }

    fn takes_dictionary(&self) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        self.encoder.sizeof() + self.decoder.sizeof()
    }
}

/// zstd's way to say that the result does not fit. Its error codes are not part of its stable
/// interface, their names are.
fn is_too_small(code: zstd_safe::ErrorCode) -> bool {
    zstd_safe::get_error_name(code) == "Destination buffer is too small"
}
