//! Amounts: pages, bytes, nanoseconds. Plain sums and differences, and saturating
//! differences where "none left" is the wanted answer.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::time::Duration;

use crate::PAGE_SHIFT;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Nothing.
            pub const ZERO: $name = $name(0);

            /// The difference, or zero when `other` is larger.
            #[inline]
            #[must_use]
            pub const fn saturating_sub(self, other: $name) -> $name {
                $name(self.0.saturating_sub(other.0))
            }

            /// The sum, or the largest value when it does not fit.
            #[inline]
            #[must_use]
            pub const fn saturating_add(self, other: $name) -> $name {
                $name(self.0.saturating_add(other.0))
            }
        }

        impl Add for $name {
            type Output = $name;
            #[inline]
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = $name;
            #[inline]
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }

        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: $name) {
                self.0 -= other.0;
            }
        }

        impl Mul<u64> for $name {
            type Output = $name;
            #[inline]
            fn mul(self, n: u64) -> $name {
                $name(self.0 * n)
            }
        }

        impl Div<u64> for $name {
            type Output = $name;
            #[inline]
            fn div(self, n: u64) -> $name {
                $name(self.0 / n)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = $name>>(iter: I) -> $name {
                $name(iter.map(|q| q.0).sum())
            }
        }
    };
}

quantity!(
    /// A number of base pages.
    Pages
);
quantity!(
    /// A number of bytes.
    Bytes
);
quantity!(
    /// A time span, or a point in time counted from a start the caller chose, in
    /// nanoseconds.
    Nanos
);

impl Pages {
    /// The number, to count with in memory.
    #[inline]
    #[must_use]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// What they hold.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 << PAGE_SHIFT)
    }
}

impl Bytes {
    /// The number, to count with in memory.
    #[inline]
    #[must_use]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// Whole pages that fit in these bytes.
    #[inline]
    #[must_use]
    pub const fn whole_pages(self) -> Pages {
        Pages(self.0 >> PAGE_SHIFT)
    }

    /// Pages needed to hold these bytes.
    #[inline]
    #[must_use]
    pub const fn pages_up(self) -> Pages {
        Pages((self.0 >> PAGE_SHIFT) + !self.0.is_multiple_of(1 << PAGE_SHIFT) as u64)
    }

    /// `n` KiB.
    #[must_use]
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// `n` MiB.
    #[must_use]
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// `n` GiB.
    #[must_use]
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }
}

impl Nanos {
    /// `n` seconds.
    #[must_use]
    pub const fn secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// As the standard library has it.
    #[inline]
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Whole milliseconds.
    #[inline]
    #[must_use]
    pub const fn as_millis(self) -> u32 {
        (self.0 / 1_000_000) as u32
    }

    /// `n` microseconds.
    #[must_use]
    pub const fn micros(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// `n` milliseconds.
    #[must_use]
    pub const fn millis(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} page{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Bytes {
    /// The exact number when it is small or odd, else the largest power of 1024
    /// that divides it or a decimal with one place: `4096 -> 4KiB`, `1.5GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut unit = 0;
        while unit + 1 < UNITS.len() && self.0 >= 1 << (10 * (unit + 1)) {
            unit += 1;
        }
        let one = 1u64 << (10 * unit);
        if self.0.is_multiple_of(one) {
            write!(f, "{}{}", self.0 / one, UNITS[unit])
        } else {
            write!(f, "{:.1}{}", self.0 as f64 / one as f64, UNITS[unit])
        }
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 10_000 => write!(f, "{n}ns"),
            n if n < 10_000_000 => write!(f, "{:.1}us", n as f64 / 1e3),
            n if n < 10_000_000_000 => write!(f, "{:.1}ms", n as f64 / 1e6),
            n => write!(f, "{:.1}s", n as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_print_for_people() {
        assert_eq!(Bytes(0).to_string(), "0B");
        assert_eq!(Bytes(4096).to_string(), "4KiB");
        assert_eq!(Bytes(1536 << 20).to_string(), "1.5GiB");
        assert_eq!(Bytes::gib(3).to_string(), "3GiB");
        assert_eq!(Pages(1).to_string(), "1 page");
        assert_eq!(Pages(2).to_string(), "2 pages");
        assert_eq!(Nanos(250).to_string(), "250ns");
        assert_eq!(Nanos::micros(42).to_string(), "42.0us");
        assert_eq!(Nanos::millis(42).to_string(), "42.0ms");
    }

    #[test]
    fn bytes_round_to_pages_both_ways() {
        assert_eq!(Bytes(4095).whole_pages(), Pages(0));
        assert_eq!(Bytes(4095).pages_up(), Pages(1));
        assert_eq!(Bytes(4096).pages_up(), Pages(1));
        assert_eq!(Bytes(u64::MAX).pages_up(), Pages(1 << 52));
        assert_eq!(Bytes(0).pages_up(), Pages(0));
    }

    #[test]
    fn sums_saturate_only_where_asked() {
        assert_eq!(Pages(3).saturating_sub(Pages(5)), Pages::ZERO);
        assert_eq!(Bytes(u64::MAX).saturating_add(Bytes(1)), Bytes(u64::MAX));
        assert_eq!([Bytes(1), Bytes(2)].into_iter().sum::<Bytes>(), Bytes(3));
        assert_eq!(Bytes::kib(4) * 2 / 4, Bytes::kib(2));
        assert_eq!(Bytes::mib(2) - Bytes::mib(1), Bytes::mib(1));
    }
}
