//! What a tunable may be, and how it is written.

use std::fmt;

use neap_units::{Bytes, Nanos, Pages};

/// A part of something: 1/16, or so many in a hundred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    part: u64,
    whole: u64,
}

impl Share {
    /// One part in so many.
    #[must_use]
    pub const fn one_in(whole: u64) -> Self {
        Self { part: 1, whole }
    }

    /// So many in a hundred.
    #[must_use]
    pub const fn percent(part: u64) -> Self {
        Self { part, whole: 100 }
    }

    /// This share of `all`, rounded down.
    #[must_use]
    pub const fn of(self, all: u64) -> u64 {
        // Twice as wide, so that no product overflows. The result is no more than `all`.
        (all as u128 * self.part as u128 / self.whole as u128) as u64
    }

    /// Whether this share of `all` is more than `part`.
    #[must_use]
    pub const fn is_more_than(self, part: u64, all: u64) -> bool {
        all as u128 * self.part as u128 > part as u128 * self.whole as u128
    }

    /// As a number.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        self.part as f64 / self.whole as f64
    }

    /// In hundredths, rounded down.
    #[must_use]
    pub const fn as_percent(self) -> u64 {
        self.part * 100 / self.whole
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.whole {
            100 => write!(f, "{}%", self.part),
            whole => write!(f, "{}/{whole}", self.part),
        }
    }
}

/// The value of a tunable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A time span.
    Time(Nanos),
    /// Bytes of memory, of addresses or of a file.
    Bytes(Bytes),
    /// Pages of 4 KiB.
    Pages(Pages),
    /// A part of something.
    Share(Share),
    /// A count, a factor or a level.
    Number(i64),
}

impl Value {
    /// The number alone, in [`Self::unit`].
    #[must_use]
    pub fn amount(self) -> f64 {
        match self {
            Self::Time(time) => time.0 as f64,
            Self::Bytes(bytes) => bytes.0 as f64,
            Self::Pages(pages) => pages.0 as f64,
            Self::Share(share) => share.as_f64(),
            Self::Number(number) => number as f64,
        }
    }

    /// What [`Self::amount`] counts.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time(_) => "nanoseconds",
            Self::Bytes(_) => "bytes",
            Self::Pages(_) => "pages",
            Self::Share(_) => "share",
            Self::Number(_) => "number",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => {
                let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
                let whole = units.iter().find(|(unit, _)| time.0 % unit == 0);
                let (unit, name) = whole.unwrap_or(&(1, "ns"));
                write!(f, "{}{name}", time.0 / unit)
            }
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Pages(pages) => pages.fmt(f),
            Self::Share(share) => share.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

macro_rules! values {
    ($($of:ty => $variant:ident,)+) => {
        $(impl From<$of> for Value {
            fn from(value: $of) -> Self {
                Self::$variant(value)
            }
        })+
    };
}

values! {
    Nanos => Time,
    Bytes => Bytes,
    Pages => Pages,
    Share => Share,
}

macro_rules! numbers {
    ($($of:ty)+) => {
        $(impl From<$of> for Value {
            fn from(value: $of) -> Self {
                Self::Number(value as i64)
            }
        })+
    };
}

numbers!(u8 i32 u32 u64 usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_exactly_with_their_unit() {
        let said = |value: Value| (value.to_string(), value.amount(), value.unit());
        let time = |nanos| said(Nanos(nanos).into());
        assert_eq!(time(2_000_000_000), ("2s".to_owned(), 2e9, "nanoseconds"));
        assert_eq!(time(1_500_000).0, "1500us");
        assert_eq!(time(7).0, "7ns");
        assert_eq!(said(Bytes::kib(256).into()).0, "256KiB");
        assert_eq!(said(Pages(64).into()).0, "64 pages");
        let eighth = ("1/8".to_owned(), 0.125, "share");
        assert_eq!(said(Share::one_in(8).into()), eighth);
        assert_eq!(said(Share::percent(25).into()).0, "25%");
        assert_eq!(said((-1i32).into()), ("-1".to_owned(), -1.0, "number"));
    }

    #[test]
    fn a_share_is_rounded_down_and_does_not_overflow() {
        assert_eq!(Share::one_in(16).of(33), 2);
        assert_eq!(Share::percent(75).of(1001), 750);
        assert_eq!(Share::percent(50).of(u64::MAX), u64::MAX / 2);
        assert_eq!(Share::one_in(4).as_percent(), 25);
        let quarter = Share::percent(25);
        assert!(quarter.is_more_than(1, 5) && !quarter.is_more_than(1, 4));
    }
}
