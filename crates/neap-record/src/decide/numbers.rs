//! Questions and answers of deciders as numbers.

use std::ops::Range;

use neap_units::{Bytes, Nanos, PageNr, Pages};

/// No count of pages and no page number that the kernel can mean reaches this.
pub(crate) const PAGES: u64 = 1 << 52;
/// No clock reaches this.
const NANOS: u64 = 1 << 62;

/// The numbers that are still to be taken.
pub type Taken<'a> = std::iter::Copied<std::slice::Iter<'a, u64>>;

/// A value that is recorded as numbers.
pub trait Numbers: Sized {
    /// Appends its numbers.
    fn put(&self, out: &mut Vec<u64>);

    /// Takes its numbers. None: they mean no such value.
    fn take(from: &mut Taken<'_>) -> Option<Self>;

    /// All of its numbers.
    fn numbers(&self) -> Vec<u64> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// The value that has just these numbers.
    fn of_numbers(numbers: &[u64]) -> Option<Self> {
        let mut from = numbers.iter().copied();
        let value = Self::take(&mut from)?;
        from.next().is_none().then_some(value)
    }
}

/// Has a struct be its fields, and an enum the number of its variant and then its fields.
macro_rules! numbers {
    (struct $name:ty { $($field:ident),* $(,)? }) => {
        impl $crate::decide::Numbers for $name {
            fn put(&self, out: &mut Vec<u64>) {
                $($crate::decide::Numbers::put(&self.$field, out);)*
            }

            fn take(from: &mut $crate::decide::Taken<'_>) -> Option<Self> {
                Some(Self { $($field: $crate::decide::Numbers::take(from)?),* })
            }
        }
    };
    (enum $name:ty { $($number:literal = $variant:ident $({ $($field:ident),* })?),* $(,)? }) => {
        impl $crate::decide::Numbers for $name {
            fn put(&self, out: &mut Vec<u64>) {
                match self {
                    $(Self::$variant { $($($field),*)? } => {
                        out.push($number);
                        $($($crate::decide::Numbers::put($field, out);)*)?
                    })*
                }
            }

            fn take(from: &mut $crate::decide::Taken<'_>) -> Option<Self> {
                match from.next()? {
                    $($number => Some(Self::$variant {
                        $($($field: $crate::decide::Numbers::take(from)?),*)?
                    }),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use numbers;

/// Has a type of one number be that number, where it is less than a bound.
macro_rules! number {
    ($($name:ty: $value:expr, $make:expr, $below:expr;)*) => { $(
        impl Numbers for $name {
            fn put(&self, out: &mut Vec<u64>) {
                let value: fn(&$name) -> u64 = $value;
                out.push(value(self));
            }

            fn take(from: &mut Taken<'_>) -> Option<Self> {
                let make: fn(u64) -> Option<$name> = $make;
                from.next().filter(|&number| number <= $below).and_then(make)
            }
        }
    )* };
}

number! {
    u64: |number| *number, Some, u64::MAX;
    u32: |number| u64::from(*number), |number| u32::try_from(number).ok(), u64::MAX;
    u8: |number| u64::from(*number), |number| u8::try_from(number).ok(), u64::MAX;
    bool: |flag| u64::from(*flag), |number| Some(number == 1), 1;
    Bytes: |bytes| bytes.0, |number| Some(Bytes(number)), u64::MAX;
    Nanos: |nanos| nanos.0, |number| Some(Nanos(number)), NANOS;
    Pages: |pages| pages.0, |number| Some(Pages(number)), PAGES;
    PageNr: |page| page.0, |number| Some(PageNr(number)), PAGES;
}

impl Numbers for () {
    fn put(&self, _: &mut Vec<u64>) {}

    fn take(_: &mut Taken<'_>) -> Option<()> {
        Some(())
    }
}

impl<T: Numbers> Numbers for Option<T> {
    fn put(&self, out: &mut Vec<u64>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Taken<'_>) -> Option<Self> {
        match bool::take(from)? {
            true => T::take(from).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Numbers> Numbers for Range<T> {
    fn put(&self, out: &mut Vec<u64>) {
        self.start.put(out);
        self.end.put(out);
    }

    fn take(from: &mut Taken<'_>) -> Option<Self> {
        Some(T::take(from)?..T::take(from)?)
    }
}

/// Takes all numbers that are left: it is the last of its kind.
impl<T: Numbers> Numbers for Vec<T> {
    fn put(&self, out: &mut Vec<u64>) {
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut Taken<'_>) -> Option<Self> {
        let mut values = Vec::new();
        while from.len() > 0 {
            values.push(T::take(from)?);
        }
        Some(values)
    }
}
