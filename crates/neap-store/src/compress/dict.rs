//! A zstd dictionary made of a program's own pages, adopted only if it pays.
//!
//! Pages of one program repeat strings, pointers and layouts that a single page of 4 KiB is too
//! short to teach the compressor. A dictionary holds them once. It costs memory itself, so it is
//! adopted only when pages that are not in it become smaller by a clear margin.
//!
//! It is some of the pages themselves, the best of a few choices, and mostly how the codes of others are
//! distributed. zstd's own trainer takes 12 MiB while it works, which a job at its limit does not have, and what
//! it makes served two of three programs no better (`docs/adr/0007-dictionaries.md`).

use neap_sys::finalize_dictionary;
use neap_tuning::TUNING;
use neap_units::{Bytes, PAGE_SIZE};
use zstd_safe::{CDict, DDict};

use super::zstd::Zstd;
use super::{Compressor, Page, SCRATCH};

/// What would make zstd read a dictionary as more than its content.
const MAGIC: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

/// A dictionary, ready to compress and decompress.
pub struct Dictionary {
    encoder: CDict<'static>,
    decoder: DDict<'static>,
    /// Bytes of the pages that judged, without and with it.
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
    /// zstd takes none of the choices.
    #[error("no dictionary can be made of the sample pages")]
    Unusable,
    /// It does not make unseen pages enough smaller.
    #[error("the dictionary saves too little: {with} instead of {without} bytes")]
    NotWorthIt {
        /// Bytes of the pages that judge, compressed without it.
        without: usize,
        /// Bytes of the same pages with it.
        with: usize,
    },
    /// All dictionary numbers are in use by entries still stored.
    #[error("too many dictionaries are in use")]
    TooMany,
}

impl Dictionary {
    /// Chooses among `samples` (pages one after another) for zstd at `level`. Every second page judges
    /// what the others make of it.
    ///
    /// # Errors
    ///
    /// When there are too few pages, or a dictionary would not pay.
    pub fn train(samples: &[u8], level: i32) -> Result<Self, TrainError> {
        let pages: Vec<&Page> = samples
            .chunks_exact(PAGE_SIZE)
            .filter_map(|chunk| <&Page>::try_from(chunk).ok())
            .filter(|page| super::same_filled(page).is_none())
            .collect();
        let least = TUNING.dictionaries.samples().as_usize();
        if pages.len() < least {
            return Err(TrainError::TooFew {
                got: pages.len(),
                least,
            });
        }
        let every_second = |from: usize| pages.iter().skip(from).step_by(2).copied();
        let judges: Vec<&Page> = every_second(1).collect();
        let judged_at = level.min(TUNING.dictionaries.most_level);
        let mut zstd = Zstd::new(judged_at);
        let without = total(&mut zstd, &judges, None);
        let apart = every_second(0).count() / TUNING.dictionaries.pages.as_usize();
        let is_part =
            |choice: usize, at: usize| at % apart == choice * apart / TUNING.dictionaries.choices;
        let chosen = |choice: usize, part: bool| -> Vec<u8> {
            let all = every_second(0)
                .take(apart * TUNING.dictionaries.pages.as_usize())
                .enumerate();
            let pages = all.filter(|(at, _)| is_part(choice, *at) == part);
            pages.flat_map(|(_, page)| page).copied().collect()
        };
        let mut judge = |content: &[u8]| {
            let made = Self::of(content, judged_at)?;
            Some(total(&mut zstd, &judges, Some(&made)))
        };
        let best = (0..TUNING.dictionaries.choices)
            .filter_map(|choice| {
                let content = Some(chosen(choice, true)).filter(|it| !it.starts_with(&MAGIC))?;
                Some((judge(&content)?, choice, content))
            })
            .min_by_key(|(with, ..)| *with);
        let (mut with, choice, mut content) = best.ok_or(TrainError::Unusable)?;
        let others = chosen(choice, false);
        if let Some(tables) = finalize_dictionary(&content, &others, PAGE_SIZE, judged_at)
            && let Some(total) = judge(&tables)
            && total <= with + TUNING.dictionaries.tables_may_cost.of(with as u64) as usize
            && TUNING.dictionaries.pays(without, total)
        {
            (with, content) = (total, tables);
        }
        if !TUNING.dictionaries.pays(without, with) {
            return Err(TrainError::NotWorthIt { without, with });
        }
        let mut best = Self::of(&content, level).ok_or(TrainError::Unusable)?;
        best.gain = (without, with);
        Ok(best)
    }

    fn of(content: &[u8], level: i32) -> Option<Self> {
        Some(Self {
            encoder: CDict::try_create(content, level)?,
            decoder: DDict::try_create(content)?,
            gain: (0, 0),
        })
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

    /// Bytes of the pages that judged it, compressed without and with it.
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

fn total(zstd: &mut Zstd, pages: &[&Page], dict: Option<&Dictionary>) -> usize {
    let mut out = vec![0; SCRATCH];
    pages
        .iter()
        .map(|page| zstd.compress(page, dict, &mut out).unwrap_or(PAGE_SIZE))
        .sum()
}
