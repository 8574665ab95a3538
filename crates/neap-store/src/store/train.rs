//! Making a dictionary of pages of a program, and trying it on others.

use neap_units::{PAGE_SIZE, SpaceId};

use super::Store;
use crate::compress::{Codec, CompressorKind, Dictionary, Packed, Page, TrainError};

/// A dictionary on offer to the owners of a store, until it is [withdrawn](Store::withdraw).
#[derive(Debug)]
#[must_use]
pub struct Trained {
    number: u8,
    /// Bytes of the pages that judged, without and with it.
    pub gain: (usize, usize),
}

impl Store {
    /// Makes a zstd dictionary of sample pages (one after another), if it makes pages that are not in it clearly smaller.
    ///
    /// Compresses half of the samples seven times: not for the way of a fault.
    ///
    /// # Errors
    ///
    /// As [`Dictionary::train`], or where there are as many dictionaries as have numbers.
    pub fn train(&self, samples: &[u8]) -> Result<Trained, TrainError> {
        let CompressorKind::Zstd(level) = self.compressor else {
            return Err(TrainError::Compressor);
        };
        let number = self.lock().dicts.reserve().ok_or(TrainError::TooMany)?;
        let (dictionary, gain) = match Dictionary::train(samples, level) {
            Ok(dictionary) => {
                let gain = dictionary.gain();
                (Some(dictionary), Ok(gain))
            }
            Err(refusal) => (None, Err(refusal)),
        };
        self.lock().dicts.settle(number, dictionary);
        gain.map(|gain| Trained { number, gain })
    }

    /// Bytes of a page without a dictionary, and with this one.
    pub fn compare(&self, with: &Trained, page: &Page, codec: &mut Codec) -> [usize; 2] {
        let dict = self.lock().dicts.peek(with.number); // on offer, so it stays
        [None, dict.as_deref()].map(|dict| match codec.pack(page, dict) {
            Packed::Bytes(len) => len,
            Packed::Poor | Packed::Failed => PAGE_SIZE,
        })
    }

    /// Compresses an owner's pages with it from now on, or with none. Entries stored with another keep that alive.
    pub fn compress_with(&self, owner: SpaceId, dictionary: Option<&Trained>) {
        let mut inner = self.lock();
        let number = dictionary.map_or(0, |trained| trained.number);
        inner.dicts.get(number);
        let old = std::mem::replace(&mut inner.owner(owner).dict, number);
        inner.dicts.put(old);
    }

    /// No other owner will use it: it goes with the last entry and the last owner that do.
    pub fn withdraw(&self, dictionary: Trained) {
        self.lock().dicts.withdraw(dictionary.number);
    }
}
