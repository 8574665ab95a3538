//! Limits in bytes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Bytes, PAGE_SHIFT, Pages};

/// A limit in bytes, or none. Having none is above every limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Limit {
    /// So many bytes.
    Bytes(Bytes),
    /// None: `max` in the files of a memory cgroup.
    Max,
}

impl Limit {
    /// No byte at all.
    pub const ZERO: Limit = Limit::Bytes(Bytes::ZERO);

    /// The bytes, if there is a limit.
    #[must_use]
    pub const fn bytes(self) -> Option<Bytes> {
        match self {
            Limit::Bytes(bytes) => Some(bytes),
            Limit::Max => None,
        }
    }

    /// Whole pages within it: without a limit, as many as addresses have room for.
    #[must_use]
    pub const fn whole_pages(self) -> Pages {
        match self {
            Limit::Bytes(bytes) => bytes.whole_pages(),
            Limit::Max => Pages(u64::MAX >> PAGE_SHIFT),
        }
    }

    /// How much of `used` is above it.
    #[must_use]
    pub const fn excess(self, used: Bytes) -> Bytes {
        match self {
            Limit::Bytes(bytes) => used.saturating_sub(bytes),
            Limit::Max => Bytes::ZERO,
        }
    }

    /// The limit that a number stands for in a request and in [`AtomicLimit`]: the largest is none.
    #[must_use]
    pub const fn of_word(word: u64) -> Limit {
        match word {
            u64::MAX => Limit::Max,
            bytes => Limit::Bytes(Bytes(bytes)),
        }
    }

    /// The number that stands for it there.
    #[must_use]
    pub const fn word(self) -> u64 {
        match self {
            Limit::Bytes(bytes) => bytes.0,
            Limit::Max => u64::MAX,
        }
    }
}

impl From<Option<Bytes>> for Limit {
    fn from(bytes: Option<Bytes>) -> Limit {
        bytes.map_or(Limit::Max, Limit::Bytes)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Bytes(bytes) => bytes.fmt(f),
            Limit::Max => f.write_str("max"),
        }
    }
}

/// A limit that threads share. Each load and store is relaxed: nothing else becomes visible by it.
#[derive(Debug)]
pub struct AtomicLimit(AtomicU64);

impl AtomicLimit {
    /// One that holds `limit`.
    #[must_use]
    pub const fn new(limit: Limit) -> AtomicLimit {
        AtomicLimit(AtomicU64::new(limit.word()))
    }

    /// What it holds.
    #[inline]
    #[must_use]
    pub fn load(&self) -> Limit {
        Limit::of_word(self.0.load(Relaxed))
    }

    /// Has it hold `limit`.
    #[inline]
    pub fn store(&self, limit: Limit) {
        self.0.store(limit.word(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn having_no_limit_is_above_every_limit() {
        let limit = Limit::Bytes(Bytes(8191));
        assert!(Limit::ZERO < limit && limit < Limit::Max);
        assert_eq!(limit.min(Limit::from(None)), limit);
        assert_eq!(
            (limit.bytes(), Limit::Max.bytes()),
            (Some(Bytes(8191)), None)
        );
        assert_eq!(limit.whole_pages(), Pages(1));
        assert_eq!(Limit::Max.whole_pages(), Pages((1 << 52) - 1));
        assert_eq!(limit.excess(Bytes(8200)), Bytes(9));
        assert_eq!(limit.excess(Bytes(9)), Bytes(0));
        assert_eq!(Limit::Max.excess(Bytes(u64::MAX)), Bytes(0));
        assert_eq!(Limit::Max.to_string(), "max");
        assert_eq!(
            Limit::from(Some(Bytes::mib(3))).to_string(),
            Bytes::mib(3).to_string()
        );
    }

    #[test]
    fn a_shared_limit_is_any_limit() {
        let shared = AtomicLimit::new(Limit::Max);
        for limit in [Limit::ZERO, Limit::Bytes(Bytes::gib(1)), Limit::Max] {
            assert_eq!(Limit::of_word(limit.word()), limit);
            shared.store(limit);
            assert_eq!(shared.load(), limit);
        }
    }
}
