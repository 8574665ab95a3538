//! The words that flags and variables choose from, beside those of the store.

use std::fmt;
use std::str::FromStr;

use neap_units::Bytes;
use thiserror::Error;

/// A word that is not one of the choices.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadChoice(String);

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
    /// What to do when nothing can be reclaimed any more.
    OnExhausted {
        /// Say so and let the command go over its limit.
        #[default]
        Open = "open",
        /// End the command.
        Kill = "kill",
    }
}

words! {
    /// What a command is run under by `neap bench`.
    Contender {
        /// Nothing: no limit.
        #[default]
        Plain = "plain",
        /// `neap run`.
        Neap = "neap",
        /// The kernel's compressed cache, with a swap file behind it.
        Zswap = "zswap",
        /// A swap file alone.
        Swap = "swap",
        /// A compressed swap device in memory.
        Zram = "zram",
    }
}

words! {
    /// In which order a service's reclaim visits jobs.
    WalkChoice {
        /// By the memcg LRU.
        #[default]
        MemcgLru = "memcg-lru",
        /// Through all of them each time.
        Full = "full",
        /// From where the last walk stopped.
        Cookie = "cookie",
    }
}

/// The share that the pool may take, in percent, 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMax(pub u8);

impl PoolMax {
    /// The share of `whole`.
    #[must_use]
    pub const fn of(self, whole: Bytes) -> Bytes {
        Bytes((whole.0 as u128 * self.0 as u128 / 100) as u64)
    }
}

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
    fn words_are_read_and_printed_alike() {
        for text in ["open", "kill"] {
            assert_eq!(text.parse::<OnExhausted>().unwrap().to_string(), text);
        }
        let error = "of".parse::<OnExhausted>().unwrap_err().to_string();
        assert!(error.contains("open, kill"), "{error}");
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
