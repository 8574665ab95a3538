//! How people write sizes: `512m`, `1.5G`, `2GiB`, `50%`.
//!
//! A number, whole or with a decimal point, then one of b k m g t in either case,
//! optionally followed by `B`, `i` or `iB`. All are powers of 1024, as in docker's
//! `--memory`. A number alone is bytes. `%` is a share of something the caller
//! knows (RAM), so it comes back as a number.

use std::fmt;

use thiserror::Error;

use crate::Bytes;

/// A size as written: absolute, or a share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Size {
    /// An absolute size.
    Bytes(Bytes),
    /// A share in percent, above 0 and at most 100.
    Percent(f64),
}

impl Size {
    /// The size in bytes when shares are shares of `whole`.
    #[must_use]
    pub fn of(self, whole: Bytes) -> Bytes {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(share) => Bytes((whole.0 as f64 * share / 100.0) as u64),
        }
    }
}

/// What is wrong with a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SizeFault {
    /// Nothing was written.
    #[error("expected a size such as 512M, 1.5G or 50%")]
    Empty,
    /// No digit where the number must start.
    #[error("expected a digit")]
    NoNumber,
    /// A decimal point without digits after it.
    #[error("expected a digit after the decimal point")]
    NoFraction,
    /// Not one of b, k, m, g, t or %.
    #[error("unknown unit; use b, k, m, g, t or %")]
    UnknownUnit,
    /// Something after a complete size.
    #[error("nothing may follow the size")]
    Trailing,
    /// More than a 64-bit count of bytes.
    #[error("too large")]
    TooLarge,
    /// Part of a byte.
    #[error("not a whole number of bytes")]
    PartOfByte,
    /// A share outside (0, 100].
    #[error("a share must be above 0% and at most 100%")]
    ShareOutOfRange,
}

/// A size that could not be read. Displays as three lines: the fault, the text, and
/// a caret under the place.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct SizeError {
    text: String,
    at: usize,
    fault: SizeFault,
}

impl SizeError {
    /// What is wrong.
    #[must_use]
    pub fn fault(&self) -> SizeFault {
        self.fault
    }

    /// Byte offset of the fault in the text.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A control character would move the caret away from its place.
        let shown: String = self
            .text
            .chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect();
        let before = self.text[..self.at].chars().count();
        write!(
            f,
            "not a size: {}\n  {shown}\n  {:before$}^",
            self.fault, ""
        )
    }
}

/// Reads a size.
///
/// ```
/// use neap_units::{Bytes, Size, parse_size};
/// assert_eq!(parse_size("1.5GiB").unwrap(), Size::Bytes(Bytes(1536 << 20)));
/// assert_eq!(
///     parse_size("30MK").unwrap_err().to_string(),
///     "not a size: nothing may follow the size\n  30MK\n     ^"
/// );
/// ```
///
/// # Errors
/// [`SizeError`] says what is wrong and where.
pub fn parse_size(text: &str) -> Result<Size, SizeError> {
    let fail = |at, fault| SizeError {
        text: text.to_owned(),
        at,
        fault,
    };
    let number = Number::read(text).map_err(|(at, fault)| fail(at, fault))?;
    let unit_at = number.len;
    let mut rest = text[unit_at..].chars();
    let shift = match rest.next().map(|c| c.to_ascii_lowercase()) {
        None | Some('b') => 0,
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        Some('%') => {
            if !rest.as_str().is_empty() {
                return Err(fail(unit_at + 1, SizeFault::Trailing));
            }
            return number
                .share()
                .map(Size::Percent)
                .map_err(|fault| fail(0, fault));
        }
        Some(_) => return Err(fail(unit_at, SizeFault::UnknownUnit)),
    };
    // A bare "b" is the whole unit; only the others take "B", "i" or "iB".
    let suffix = rest.as_str();
    let accepted = if shift == 0 { 0 } else { suffix_len(suffix) };
    if accepted != suffix.len() {
        return Err(fail(
            text.len() - suffix.len() + accepted,
            SizeFault::Trailing,
        ));
    }
    number
        .scaled(shift)
        .map(|n| Size::Bytes(Bytes(n)))
        .map_err(|fault| fail(0, fault))
}

/// How many leading bytes of `suffix` belong to the unit: `B`, `i`, `iB` or nothing.
fn suffix_len(suffix: &str) -> usize {
    match suffix.as_bytes() {
        [b'i' | b'I', b'b' | b'B', ..] => 2,
        [b'i' | b'I' | b'b' | b'B', ..] => 1,
        _ => 0,
    }
}

/// A decimal number as digits, so that nothing is lost before the unit is known.
struct Number<'a> {
    whole: &'a str,
    fraction: &'a str,
    len: usize,
}

impl<'a> Number<'a> {
    fn read(text: &'a str) -> Result<Self, (usize, SizeFault)> {
        if text.is_empty() {
            return Err((0, SizeFault::Empty));
        }
        let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
        let whole = digits(text);
        if whole == 0 {
            return Err((0, SizeFault::NoNumber));
        }
        if text.as_bytes().get(whole) != Some(&b'.') {
            return Ok(Number {
                whole: &text[..whole],
                fraction: "",
                len: whole,
            });
        }
        let fraction = digits(&text[whole + 1..]);
        if fraction == 0 {
            return Err((whole + 1, SizeFault::NoFraction));
        }
        let len = whole + 1 + fraction;
        Ok(Number {
            whole: &text[..whole],
            fraction: &text[whole + 1..len],
            len,
        })
    }

    /// The number times 2^shift, exactly; a decimal is rounded down to whole bytes
    /// unless the unit is the byte itself.
    fn scaled(&self, shift: u32) -> Result<u64, SizeFault> {
        if shift == 0 && self.fraction.bytes().any(|digit| digit != b'0') {
            return Err(SizeFault::PartOfByte);
        }
        let whole: u64 = self.whole.parse().map_err(|_| SizeFault::TooLarge)?;
        let whole = u128::from(whole) << shift;
        // 18 digits decide far below one byte of a TiB; more cannot change the result
        // by a byte that anybody meant.
        let used = &self.fraction[..self.fraction.len().min(18)];
        let numerator = used
            .bytes()
            .fold(0u128, |n, digit| n * 10 + u128::from(digit - b'0'));
        let part = (numerator << shift) / 10u128.pow(used.len() as u32);
        u64::try_from(whole + part).map_err(|_| SizeFault::TooLarge)
    }

    fn share(&self) -> Result<f64, SizeFault> {
        let share: f64 = format!("{}.{}0", self.whole, self.fraction)
            .parse()
            .map_err(|_| SizeFault::ShareOutOfRange)?;
        if share > 0.0 && share <= 100.0 {
            Ok(share)
        } else {
            Err(SizeFault::ShareOutOfRange)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: &str) -> u64 {
        match parse_size(text) {
            Ok(Size::Bytes(bytes)) => bytes.0,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn sizes_are_powers_of_1024_in_any_case() {
        for (text, want) in [
            ("0", 0),
            ("4096", 4096),
            ("4096b", 4096),
            ("4096B", 4096),
            ("1k", 1 << 10),
            ("1K", 1 << 10),
            ("1kb", 1 << 10),
            ("1KiB", 1 << 10),
            ("1kib", 1 << 10),
            ("512m", 512 << 20),
            ("2GiB", 2 << 30),
            ("2Gi", 2 << 30),
            ("512mi", 512 << 20),
            ("3T", 3 << 40),
            ("1.5G", 1536 << 20),
            ("0.5k", 512),
            ("1.0b", 1),
        ] {
            assert_eq!(bytes(text), want, "{text}");
        }
    }

    #[test]
    fn shares_are_kept_for_the_caller() {
        assert_eq!(parse_size("50%"), Ok(Size::Percent(50.0)));
        assert_eq!(parse_size("12.5%"), Ok(Size::Percent(12.5)));
        assert_eq!(parse_size("100%").unwrap().of(Bytes(4096)), Bytes(4096));
        assert_eq!(parse_size("1k").unwrap().of(Bytes(7)), Bytes(1024));
    }

    #[test]
    fn faults_are_named_and_placed() {
        use SizeFault::*;
        for (text, at, fault) in [
            ("", 0, Empty),
            ("m", 0, NoNumber),
            ("-1", 0, NoNumber),
            (" 1", 0, NoNumber),
            ("1.", 2, NoFraction),
            ("1.m", 2, NoFraction),
            ("30MK", 3, Trailing),
            ("30x", 2, UnknownUnit),
            ("30 M", 2, UnknownUnit),
            ("1bb", 2, Trailing),
            ("1kibs", 4, Trailing),
            ("1kis", 3, Trailing),
            ("1bi", 2, Trailing),
            ("5%%", 2, Trailing),
            ("0%", 0, ShareOutOfRange),
            ("101%", 0, ShareOutOfRange),
            ("1.5", 0, PartOfByte),
            ("99999999999999999999", 0, TooLarge),
            ("16777216T", 0, TooLarge),
            ("1\u{e9}", 1, UnknownUnit),
        ] {
            let error = parse_size(text).unwrap_err();
            assert_eq!((error.offset(), error.fault()), (at, fault), "{text:?}");
        }
    }

    #[test]
    fn the_caret_stands_under_the_fault() {
        let shown = parse_size("30MK").unwrap_err().to_string();
        assert_eq!(
            shown,
            "not a size: nothing may follow the size\n  30MK\n     ^"
        );
        assert!(
            parse_size("1\n")
                .unwrap_err()
                .to_string()
                .ends_with("\n  1\u{fffd}\n   ^")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_with_a_place_inside_it(text in ".{0,12}") {
            if let Err(error) = parse_size(&text) {
                prop_assert!(error.offset() <= text.len());
                prop_assert!(error.to_string().contains('^'));
            }
        }

        #[test]
        fn whole_sizes_round_trip(n in 0u64..1 << 20, unit in 0usize..5) {
            let text = format!("{n}{}", ["b", "k", "m", "g", "t"][unit]);
            prop_assert_eq!(bytes(&text), n << (10 * unit));
        }

        #[test]
        fn decimals_stay_within_a_byte(n in 0u64..1000, fraction in 0u64..1000, unit in 1usize..5) {
            let text = format!("{n}.{fraction:03}{}", ["", "k", "m", "g", "t"][unit]);
            let one = 1u128 << (10 * unit);
            let want = (u128::from(n) * 1000 + u128::from(fraction)) * one / 1000;
            prop_assert_eq!(u128::from(bytes(&text)), want);
        }
    }
}
