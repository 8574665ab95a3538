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
    /// The same, but disk swap-ins hold nothing back: what the second chance does alone.
    Referenced,
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
            Self::SecondChance | Self::Referenced | Self::Off => ShrinkerScheme::SecondChance,
        }
    }

    /// Whether disk swap-ins hold the shrinker back.
    pub(crate) fn counts_disk_swapins(self) -> bool {
        self != Self::Referenced
    }
}

/// A shrinker name that means nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no shrinker is called {0:?}: use second-chance, referenced, protection or off")]
pub struct ShrinkerError(String);

impl FromStr for ShrinkerKind {
    type Err = ShrinkerError;

    fn from_str(text: &str) -> Result<Self, ShrinkerError> {
        match text {
            "second-chance" => Ok(Self::SecondChance),
            "referenced" => Ok(Self::Referenced),
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
            Self::Referenced => "referenced",
            Self::Protection => "protection",
            Self::Off => "off",
        })
    }
}

/// How a store behaves. The defaults are the kernel's, with a pool and a swap file of no size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// What compresses.
    pub compressor: CompressorKind,
    /// What feeds the swap file.
    pub shrinker: ShrinkerKind,
    /// Most pages of memory the pool may hold before it refuses.
    pub pool_max: Pages,
    /// The most that `pool_max` may be raised to later.
    pub pool_room: Pages,
    /// Share of `pool_max` in percent at which a pool that was full accepts again.
    pub accept_threshold_percent: u8,
    /// Largest length of the swap file; zero for none. Used in whole extents of 256 KiB, and up
    /// to 128 GiB.
    pub swap_size: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            compressor: CompressorKind::default(),
            shrinker: ShrinkerKind::default(),
            pool_max: Pages::ZERO,
            pool_room: Pages::ZERO,
            accept_threshold_percent: 90,
            swap_size: Bytes::ZERO,
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
            ShrinkerKind::Referenced,
            ShrinkerKind::Protection,
            ShrinkerKind::Off,
        ] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "on".parse::<ShrinkerKind>().expect_err("no such shrinker");
        assert!(error.to_string().contains("second-chance"));
    }
}
