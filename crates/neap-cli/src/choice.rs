//! The words that flags and variables choose from.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A word that is not one of the choices.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadChoice(String);

/// What compresses a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compressor {
    /// Fast, and packs less.
    #[default]
    Lz4,
    /// With its level.
    Zstd(i32),
    /// With its level.
    Deflate(i32),
}

impl Compressor {
    /// Levels of zstd that make sense for single pages: the fast ones and the standard ones.
    const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -7..=22;
    /// Levels of libdeflate.
    const DEFLATE_LEVELS: std::ops::RangeInclusive<i32> = 1..=12;
}

impl FromStr for Compressor {
    type Err = BadChoice;

    fn from_str(text: &str) -> Result<Self, BadChoice> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let level = |allowed: std::ops::RangeInclusive<i32>, default| match level {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(level) if allowed.contains(&level) => Ok(level),
                _ => Err(BadChoice(format!(
                    "{name} has levels {} to {}, not {text:?}",
                    allowed.start(),
                    allowed.end()
                ))),
            },
        };
        match name {
            "lz4" if text == "lz4" => Ok(Self::Lz4),
            "lz4" => Err(BadChoice("lz4 has no levels".to_owned())),
            "zstd" => level(Self::ZSTD_LEVELS, 1).map(Self::Zstd),
            "deflate" => level(Self::DEFLATE_LEVELS, 1).map(Self::Deflate),
            _ => Err(BadChoice(format!(
                "{text:?} is none of lz4, zstd[:LEVEL], deflate[:LEVEL]"
            ))),
        }
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lz4 => write!(f, "lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
            Self::Deflate(level) => write!(f, "deflate:{level}"),
        }
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl FromStr for $name {
            type Err = BadChoice;
            fn from_str(text: &str) -> Result<Self, BadChoice> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(BadChoice(format!(
                        "{text:?} is none of {}", [$($word),*].join(", ")
                    ))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),* })
            }
        }
    };
}

words! {
    /// How the pool gives way to the swap file.
    Shrinker {
        /// zswap's newer scheme: a page that was touched gets another round.
        #[default]
        SecondChance = "second-chance",
        /// zswap's older scheme: recent pages are protected by number.
        Protection = "protection",
        /// Only the pool's own limit writes back.
        Off = "off",
    }
}

words! {
    /// What to do when nothing can be reclaimed any more.
    OnExhausted {
        /// Say so and let the command go over its limit.
        #[default]
        Open = "open",
        /// End the command.
        Kill = "kill",
    }
}

/// The share of the limit that the pool may take, in percent, 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMax(pub u8);

impl Default for PoolMax {
    /// The kernel's zswap has 20 % of RAM; here the pool lies inside the limit of one job and is its
    /// only place when there is no swap, so it may take half.
    fn default() -> Self {
        Self(50)
    }
}

impl FromStr for PoolMax {
    type Err = BadChoice;

    fn from_str(text: &str) -> Result<Self, BadChoice> {
        match text.strip_suffix('%').unwrap_or(text).parse() {
            Ok(share) if (1..=100).contains(&share) => Ok(Self(share)),
            _ => Err(BadChoice(format!(
                "{text:?} is not a percentage of 1 to 100"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressors_are_read_with_their_levels() {
        assert_eq!("lz4".parse(), Ok(Compressor::Lz4));
        assert_eq!("zstd".parse(), Ok(Compressor::Zstd(1)));
        assert_eq!("zstd:-3".parse(), Ok(Compressor::Zstd(-3)));
        assert_eq!("deflate:12".parse(), Ok(Compressor::Deflate(12)));
        for bad in [
            "",
            "lz4:1",
            "zstd:",
            "zstd:99",
            "deflate:0",
            "lzo",
            "zstd:x",
        ] {
            assert!(bad.parse::<Compressor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn compressors_print_as_they_are_written() {
        for text in ["lz4", "zstd:3", "deflate:1"] {
            assert_eq!(text.parse::<Compressor>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn words_are_read_and_printed_alike() {
        for text in ["second-chance", "protection", "off"] {
            assert_eq!(text.parse::<Shrinker>().unwrap().to_string(), text);
        }
        for text in ["open", "kill"] {
            assert_eq!(text.parse::<OnExhausted>().unwrap().to_string(), text);
        }
        let error = "of".parse::<Shrinker>().unwrap_err().to_string();
        assert!(error.contains("second-chance, protection, off"), "{error}");
    }

    #[test]
    fn the_pools_share_is_a_percentage() {
        assert_eq!("35".parse(), Ok(PoolMax(35)));
        assert_eq!("100%".parse(), Ok(PoolMax(100)));
        for bad in ["0", "101", "", "%", "-1", "5m"] {
            assert!(bad.parse::<PoolMax>().is_err(), "{bad}");
        }
    }
}
