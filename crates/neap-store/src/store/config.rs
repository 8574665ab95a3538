//! How a store behaves.

use std::fmt;
use std::str::FromStr;

use neap_policy::ShrinkerScheme;
use neap_units::{Bytes, Pages};

use crate::compress::CompressorKind;

/// Which scheme feeds the swap file, if any (SPEC 1.9-1.11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ShrinkerKind {
    /// Kernel 6.12 on.
    #[default]
    SecondChance,
    /// Kernel 6.8 to 6.11.
    Protection,
    /// No shrinker; the pool worker still writes back when the pool is full.
    Off,
}

impl ShrinkerKind {
    /// The scheme entries are kept by; without a shrinker that of the newest kernels.
    pub(crate) fn scheme(self) -> ShrinkerScheme {
        match self {
            Self::Protection => ShrinkerScheme::Old,
            Self::SecondChance | Self::Off => ShrinkerScheme::SecondChance,
        }
    }
}

/// A shrinker name that means nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no shrinker is called {0:?}: use second-chance, protection or off")]
pub struct ShrinkerError(String);

impl FromStr for ShrinkerKind {
    type Err = ShrinkerError;

    fn from_str(text: &str) -> Result<Self, ShrinkerError> {
        match text {
            "second-chance" => Ok(Self::SecondChance),
            "protection" => Ok(Self::Protection),
            "off" => Ok(Self::Off),
            _ => Err(ShrinkerError(text.to_owned())),
        }
    }
}

impl fmt::Display for ShrinkerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SecondChance => "second-chance",
            Self::Protection => "protection",
            Self::Off => "off",
        })
    }
}

/// What becomes of a page that does not compress (SPEC 1.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Incompressible {
    /// Kept as it is if there is a swap file, to which it goes before all that compresses
    /// (`docs/adr/0013-pages-that-do-not-compress.md`); refused otherwise. The kernel (6.18 on) keeps the order of age.
    #[default]
    StoreRaw,
    /// Refused (kernel up to 6.17).
    Reject,
}

/// How a store behaves. The defaults are the kernel's, with a pool and a swap file of no size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Whether pages are stored at all.
    pub enabled: bool,
    /// What compresses.
    pub compressor: CompressorKind,
    /// What feeds the swap file.
    pub shrinker: ShrinkerKind,
    /// Most pages of memory the pool may hold before it refuses.
    pub pool_max: Pages,
    /// Share of `pool_max` in percent at which a pool that was full accepts again.
    pub accept_threshold_percent: u8,
    /// Largest length of the swap file; zero for none. Used in whole extents of 256 KiB, and up
    /// to 128 GiB.
    pub swap_size: Bytes,
    /// Whether entries may be written back at all (the kernel's `memory.zswap.writeback`).
    pub writeback: bool,
    /// Whether folios of more than one page are stored (whole or not at all).
    pub store_large_folios: bool,
    /// What becomes of pages that do not compress.
    pub incompressible: Incompressible,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: true,
            compressor: CompressorKind::default(),
            shrinker: ShrinkerKind::default(),
            pool_max: Pages::ZERO,
            accept_threshold_percent: 90,
            swap_size: Bytes::ZERO,
            writeback: true,
            store_large_folios: true,
            incompressible: Incompressible::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinker_names_parse_and_print() {
        for kind in [
            ShrinkerKind::SecondChance,
            ShrinkerKind::Protection,
            ShrinkerKind::Off,
        ] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "on".parse::<ShrinkerKind>().expect_err("no such shrinker");
        assert!(error.to_string().contains("second-chance"));
    }
}
