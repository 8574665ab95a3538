//! Times as people write them: `250ns`, `1.5ms`, `10s`, `2min`, `1h`.

use neap_units::Nanos;

/// Units and their nanoseconds, longest name first where one ends like another.
const UNITS: [(&str, f64); 6] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("min", 6e10),
    ("h", 3.6e12),
    ("s", 1e9),
];

/// The longest time, 366 days in nanoseconds: sums of several still fit in a clock.
const MOST: f64 = 366.0 * 8.64e13;

/// Reads a time of at most 366 days; `None` when it is none.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Nanos> {
    let (number, scale) = UNITS
        .iter()
        .find_map(|&(unit, scale)| text.strip_suffix(unit).map(|number| (number, scale)))?;
    let value = number.trim().parse::<f64>().ok()? * scale;
    (0.0..=MOST)
        .contains(&value)
        .then_some(Nanos(value.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        assert_eq!(parse_duration("1.5ms"), Some(Nanos(1_500_000)));
        assert_eq!(parse_duration("2 min"), Some(Nanos(120_000_000_000)));
        assert_eq!(parse_duration("10s"), Some(Nanos(10_000_000_000)));
        for wrong in [
            "",
            "10",
            "s",
            "-1s",
            "infs",
            "nans",
            "1e30h",
            "8785h",
            "5 parsecs",
        ] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
