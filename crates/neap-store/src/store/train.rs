//! Making a dictionary of a program's own pages.

use neap_units::SpaceId;

use super::Store;
use crate::compress::{CompressorKind, Dictionary, TrainError};

impl Store {
    /// Makes a zstd dictionary of sample pages of `owner` (one after another) and, if it makes
    /// pages that are not in it clearly smaller, compresses the owner's pages with it from now on.
    /// Returns the bytes of those pages without and with it.
    ///
    /// Compresses half of the samples seven times: not for the way of a fault. A second
    /// dictionary replaces the first; entries stored with that keep it alive.
    pub fn train(&self, owner: SpaceId, samples: &[u8]) -> Result<(usize, usize), TrainError> {
        let CompressorKind::Zstd(level) = self.compressor else {
            return Err(TrainError::Compressor);
        };
        let number = self.lock().dicts.reserve().ok_or(TrainError::TooMany)?;
        let trained = Dictionary::train(samples, level);
        let mut inner = self.lock();
        match trained {
            Ok(dictionary) => {
                let gain = dictionary.gain();
                inner.dicts.settle(number, Some(dictionary));
                let old = std::mem::replace(&mut inner.owner(owner).dict, number);
                inner.dicts.put(old);
                Ok(gain)
            }
            Err(error) => {
                inner.dicts.settle(number, None);
                Err(error)
            }
        }
    }
}
