//! A zstd dictionary trained from a program's own pages, adopted only if it pays.
//!
//! Pages of one program repeat strings, pointers and layouts that a single page of 4 KiB is too
//! short to teach the compressor. A dictionary holds them once. It costs memory itself, so it is
//! adopted only when pages it was not trained on become smaller by a clear margin.

use neap_units::{Bytes, PAGE_SIZE};
use zstd_safe::{CDict, DDict};

use super::zstd::Zstd;
use super::{Compressor, Page, SCRATCH};

/// Longest dictionary in bytes. On pages of text 64 KiB save twice what 16 KiB do; with its tables
/// it takes 200 KiB at level 1.
const MAX_DICT: usize = 64 << 10;

/// Shortest dictionary in bytes, for few samples.
const MIN_DICT: usize = 16 << 10;

/// Bytes of samples for each byte of dictionary, so that it does not just repeat them.
const SAMPLES_PER_DICT: usize = 16;

/// Fewest pages worth training on; zstd fails outright on very few.
const MIN_SAMPLES: usize = 64;

/// One page in four is kept back to judge the result.
const HELD_OUT: usize = 4;

/// Gain on the pages held back, in percent of their size without dictionary, below which the
/// dictionary is not worth its memory and the longer compression.
const MIN_GAIN_PERCENT: usize = 5;

/// A trained dictionary, ready to compress and decompress.
pub struct Dictionary {
    encoder: CDict<'static>,
    decoder: DDict<'static>,
    /// Held-out bytes without and with it.
    gain: (usize, usize),
}

/// Why there is no dictionary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrainError {
    /// The compressor in use takes no dictionary.
    #[error("only zstd takes a dictionary")]
    Compressor,
    /// Too few pages to learn from.
    #[error("{got} sample pages are too few to train on: {least} are needed")]
    TooFew {
        /// Pages given that are not filled with one word.
        got: usize,
        /// Pages needed.
        least: usize,
    },
    /// The trainer found nothing that repeats.
    #[error("the sample pages have nothing in common")]
    NothingLearnt,
    /// It does not make unseen pages enough smaller.
    #[error("the dictionary saves too little: {with} instead of {without} bytes")]
    NotWorthIt {
        /// Bytes of the pages held back, compressed without it.
        without: usize,
        /// Bytes of the same pages with it.
        with: usize,
    },
    /// All dictionary numbers are in use by entries still stored.
    #[error("too many dictionaries are in use")]
    TooMany,
}

impl Dictionary {
    /// Trains on `samples` (pages one after another) for zstd at `level`, and judges the result on
    /// samples it has not seen. `number` (1 to 255) goes into each frame.
    pub(crate) fn train(samples: &[u8], level: i32, number: u8) -> Result<Self, TrainError> {
        let pages: Vec<&Page> = samples
            .chunks_exact(PAGE_SIZE)
            .filter_map(|chunk| <&Page>::try_from(chunk).ok())
            .filter(|page| super::same_filled(page).is_none())
            .collect();
        if pages.len() < MIN_SAMPLES {
            return Err(TrainError::TooFew {
                got: pages.len(),
                least: MIN_SAMPLES,
            });
        }
        let held = |i: &usize| i % HELD_OUT == HELD_OUT - 1;
        let all = || pages.iter().enumerate();
        let learn: Vec<u8> = all()
            .filter(|(i, _)| !held(i))
            .flat_map(|(_, p)| p.iter().copied())
            .collect();
        let mut raw = vec![0; (learn.len() / SAMPLES_PER_DICT).clamp(MIN_DICT, MAX_DICT)];
        let sizes = vec![PAGE_SIZE; learn.len() / PAGE_SIZE];
        let len = zstd_safe::train_from_buffer(&mut raw[..], &learn, &sizes)
            .map_err(|_| TrainError::NothingLearnt)?;
        raw.truncate(len);
        set_number(&mut raw, number);
        let mut dictionary = Self {
            encoder: CDict::try_create(&raw, level).ok_or(TrainError::NothingLearnt)?,
            decoder: DDict::try_create(&raw).ok_or(TrainError::NothingLearnt)?,
            gain: (0, 0),
        };
        let judges: Vec<&Page> = all().filter(|(i, _)| held(i)).map(|(_, p)| *p).collect();
        dictionary.judge(&judges, level)?;
        Ok(dictionary)
    }

    fn judge(&mut self, pages: &[&Page], level: i32) -> Result<(), TrainError> {
        let mut zstd = Zstd::new(level);
        let mut out = vec![0; SCRATCH];
        let mut total = |dict: Option<&Dictionary>| -> usize {
            pages
                .iter()
                .map(|page| zstd.compress(page, dict, &mut out).unwrap_or(PAGE_SIZE))
                .sum()
        };
        let (without, with) = (total(None), total(Some(self)));
        if with * 100 > without * (100 - MIN_GAIN_PERCENT) {
            return Err(TrainError::NotWorthIt { without, with });
        }
        self.gain = (without, with);
        Ok(())
    }

    pub(crate) fn encoder(&self) -> &CDict<'static> {
        &self.encoder
    }

    pub(crate) fn decoder(&self) -> &DDict<'static> {
        &self.decoder
    }

    /// Bytes it takes, with its tables.
    #[must_use]
    pub fn memory_bytes(&self) -> Bytes {
        Bytes((self.encoder.sizeof() + self.decoder.sizeof()) as u64)
    }

    /// Bytes of the pages held back at training, compressed without and with it.
    #[must_use]
    pub fn gain(&self) -> (usize, usize) {
        self.gain
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary")
            .field("gain", &self.gain)
            .finish_non_exhaustive()
    }
}

/// Replaces the trainer's random number (bytes 4-7 of a dictionary) by a small one, which takes
/// one byte of each frame instead of four.
fn set_number(raw: &mut [u8], number: u8) {
    if let Some(field) = raw.get_mut(4..8) {
        field.copy_from_slice(&u32::from(number).to_le_bytes());
    }
}
