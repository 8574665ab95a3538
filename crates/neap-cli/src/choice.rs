//! The words that flags and variables choose from, beside those of the store.

use std::fmt;
use std::str::FromStr;

use neap_tuning::TUNING;
use neap_units::{Bytes, Nanos};
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

/// For how long a process must do nothing before its memory leaves; 0: its memory stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime(pub Nanos);

impl FromStr for IdleTime {
    type Err = BadChoice;

    /// A number and its unit, or `off`.
    fn from_str(text: &str) -> Result<Self, BadChoice> {
        const UNITS: [(&str, u64); 5] = [
            ("ms", 1),
            ("s", 1000),
            ("m", 60_000),
            ("h", 3_600_000),
            ("d", 86_400_000),
        ];
        if text == "off" {
            return Ok(Self(Nanos::ZERO));
        }
        let bad = || {
            let (least, most) = (TUNING.idle.least, TUNING.idle.most);
            let (least, days) = (least.as_millis(), most.as_millis() / 86_400_000);
            BadChoice(format!(
                "{text:?} is no time of {least}ms to {days}d such as 90s or 10m, and not off"
            ))
        };
        let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(end);
        let each = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(bad)?
            .1;
        let number: u64 = number.parse().map_err(|_| bad())?;
        let time = number.checked_mul(each * 1_000_000).map(Nanos);
        let within = |time: &Nanos| (TUNING.idle.least..=TUNING.idle.most).contains(time);
        time.filter(within).map(Self).ok_or_else(bad)
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
    fn an_idle_time_has_a_unit_and_bounds() {
        let time = |text: &str| text.parse::<IdleTime>().ok().map(|time| time.0);
        assert_eq!(time("100ms"), Some(Nanos::millis(100)));
        assert_eq!(time("90s"), Some(Nanos::secs(90)));
        assert_eq!(time("10m"), Some(Nanos::secs(600)));
        assert_eq!(time("2h"), Some(Nanos::secs(7200)));
        assert_eq!(time("30d"), Some(TUNING.idle.most));
        assert_eq!(time("off"), Some(Nanos::ZERO));
        for bad in [
            "",
            "90",
            "s",
            "1.5s",
            "99ms",
            "0s",
            "31d",
            "5y",
            "-1s",
            "99999999999999999d",
        ] {
            assert_eq!(time(bad), None, "{bad}");
        }
        let said = "90".parse::<IdleTime>().unwrap_err().to_string();
        assert!(said.contains("100ms to 30d such as 90s"), "{said}");
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
