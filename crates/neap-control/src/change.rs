//! Changes to a job that runs.

use neap_tuning::{Idle, TUNING};
use neap_units::Limit;
use serde_json::Value;

use crate::request::Fault;

/// One thing that is to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `memory.max`: the limit.
    MemoryMax(Limit),
    /// `memory.high`: above it memory is reclaimed and who takes more waits.
    MemoryHigh(Limit),
    /// `memory.low`: what others of the service do not take from it while they have any; [`Limit::Max`]: all of it.
    MemoryLow(Limit),
    /// `memory.min`: what is never taken from it for others; [`Limit::Max`]: all of it.
    MemoryMin(Limit),
    /// `swap.max`: the most of its pages that may be out.
    SwapMax(Limit),
    /// `zswap.max`: the most that its pages may take in the pool.
    ZswapMax(Limit),
    /// `zswap.max_pool_percent`: the most of the limit that the pool may take.
    MaxPoolPercent(u8),
    /// `zswap.writeback`: whether pages may be written to the swap file.
    Writeback(bool),
    /// `memory.pressure`: the share of time, in percent, that threads may wait before an event is told; 0: none is.
    MemoryPressure(u8),
    /// `idle`: for how many milliseconds a process must do nothing before its memory leaves; 0: it stays.
    Idle(u64),
}

impl Change {
    /// The keys that there are.
    pub const KEYS: [&'static str; 10] = [
        "memory.max",
        "memory.high",
        "memory.low",
        "memory.min",
        "swap.max",
        "zswap.max",
        "zswap.max_pool_percent",
        "zswap.writeback",
        "idle",
        "memory.pressure",
    ];

    /// The key that a word stands for. The files of a memory cgroup have some under longer names, which are taken, too.
    #[must_use]
    pub fn key(word: &str) -> &str {
        match word {
            "memory.swap.max" | "memory.zswap.max" | "memory.zswap.writeback" => {
                &word["memory.".len()..]
            }
            _ => word,
        }
    }

    /// A size in bytes; `max` is no limit, as in the files of a memory cgroup.
    pub(crate) fn size(key: &'static str, value: &Value) -> Result<Limit, Fault> {
        let no_limit = (value == "max").then_some(Limit::Max);
        let size = value.as_u64().map(Limit::of_word).or(no_limit);
        size.ok_or(Fault::Field(key, "a number of bytes, or max"))
    }

    /// The change of `key` to `value`.
    ///
    /// # Errors
    /// There is no such key, or it does not hold such a value.
    pub fn new(key: &str, value: &Value) -> Result<Self, Fault> {
        let number = value.as_u64();
        let size = |key| Self::size(key, value);
        match Self::key(key) {
            "memory.max" => size("memory.max").map(Self::MemoryMax),
            "memory.low" => size("memory.low").map(Self::MemoryLow),
            "memory.min" => size("memory.min").map(Self::MemoryMin),
            "memory.high" => size("memory.high").map(Self::MemoryHigh),
            "swap.max" => size("swap.max").map(Self::SwapMax),
            "zswap.max" => size("zswap.max").map(Self::ZswapMax),
            "zswap.max_pool_percent" => number
                .and_then(|percent| u8::try_from(percent).ok())
                .filter(|percent| (1..=100).contains(percent))
                .map(Self::MaxPoolPercent)
                .ok_or(Fault::Field(
                    "zswap.max_pool_percent",
                    "a number from 1 to 100",
                )),
            "zswap.writeback" => match number {
                Some(0) => Ok(Self::Writeback(false)),
                Some(1) => Ok(Self::Writeback(true)),
                _ => Err(Fault::Field("zswap.writeback", "0 or 1")),
            },
            "memory.pressure" => number
                .and_then(|percent| u8::try_from(percent).ok())
                .filter(|&percent| percent <= 100)
                .map(Self::MemoryPressure)
                .ok_or(Fault::Field(
                    "memory.pressure",
                    "a number from 1 to 100, or off",
                )),
            "idle" => number
                .filter(|&millis| Self::is_idle_time(millis))
                .map(Self::Idle)
                .ok_or(Fault::Field("idle", "a time of 100 ms to 30 days, or off")),
            _ => Err(Fault::Key(key.chars().take(40).collect())),
        }
    }

    /// Whether a process may have to do nothing for so many milliseconds.
    fn is_idle_time(millis: u64) -> bool {
        let Idle { least, most, .. } = TUNING.idle;
        millis == 0 || (least.as_millis().into()..=most.as_millis().into()).contains(&millis)
    }

    /// Its key, and the value as a number.
    #[must_use]
    pub fn entry(self) -> (&'static str, u64) {
        match self {
            Self::MemoryMax(limit) => (Self::KEYS[0], limit.word()),
            Self::MemoryHigh(limit) => (Self::KEYS[1], limit.word()),
            Self::MemoryLow(limit) => (Self::KEYS[2], limit.word()),
            Self::MemoryMin(limit) => (Self::KEYS[3], limit.word()),
            Self::SwapMax(limit) => (Self::KEYS[4], limit.word()),
            Self::ZswapMax(limit) => (Self::KEYS[5], limit.word()),
            Self::MaxPoolPercent(percent) => (Self::KEYS[6], percent.into()),
            Self::Writeback(on) => (Self::KEYS[7], on.into()),
            Self::Idle(millis) => (Self::KEYS[8], millis),
            Self::MemoryPressure(percent) => (Self::KEYS[9], percent.into()),
        }
    }
}
