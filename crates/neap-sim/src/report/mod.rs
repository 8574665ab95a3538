//! How results are shown: tables for people, JSON for programs, one offline page with plots.

mod html;
mod stats;
mod svg;
mod table;

pub use html::{Part, page};
pub use stats::{Spread, quantile, sign_flip_p};
pub use svg::{Bars, Curve, Group, Plot};
pub use table::{Align, Table};

/// A number as people read it: six significant digits at most, no exponent, thousands parted.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let places = match value.abs() {
        n if n >= 1000.0 || n == 0.0 => 0,
        n if n >= 100.0 => 1,
        n if n >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.places$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |d| ("-", d));
    let parted = parted(digits);
    let dot = if rest.is_empty() { "" } else { "." };
    format!("{sign}{parted}{dot}{rest}")
}

/// A count for people: whole, with its thousands apart.
#[must_use]
pub fn count(value: u64) -> String {
    parted(&value.to_string())
}

fn parted(digits: &str) -> String {
    let mut parted = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            parted.push(',');
        }
        parted.push(digit);
    }
    parted
}

#[cfg(test)]
mod tests {
    use super::{count, number};

    #[test]
    fn numbers_are_short_and_parted() {
        assert_eq!(number(227_300.5), "227,300");
        assert_eq!(number(-58.35), "-58.35");
        assert_eq!(number(0.268), "0.2680");
        assert_eq!(number(263.89), "263.9");
        assert_eq!(number(999.96), "1,000.0");
        assert_eq!(number(1e9), "1,000,000,000");
        assert_eq!(number(f64::NAN), "-");
        assert_eq!(number(0.0), "0");
        assert_eq!(count(12), "12");
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
