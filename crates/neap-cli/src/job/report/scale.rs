//! Axes: round numbers between nothing and the most, in the unit of the field.

use neap_units::Bytes;

/// What an axis counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Memory.
    Bytes,
    /// Pages, or faults, of each second.
    Rate,
    /// A share.
    Percent,
}

impl Unit {
    /// What one is called where the largest value is `most`, and how much it is.
    #[must_use]
    pub fn of(self, most: f64) -> (&'static str, f64) {
        let one = |shift: u32| 2f64.powi(shift as i32);
        // Up to four digits before the point.
        let limit = 10.0;
        match self {
            Self::Bytes if most >= limit * one(40) => ("TiB", one(40)),
            Self::Bytes if most >= limit * one(30) => ("GiB", one(30)),
            Self::Bytes if most >= one(20) => ("MiB", one(20)),
            Self::Bytes => ("KiB", Bytes::kib(1).0 as f64),
            Self::Rate if most >= 1e8 => ("million pages/s", 1e6),
            Self::Rate if most >= 1e5 => ("thousand pages/s", 1e3),
            Self::Rate => ("pages/s", 1.0),
            Self::Percent => ("%", 1.0),
        }
    }
}

/// A number with as many places as are of use.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        all if all < 0.005 => "0".to_owned(),
        few if few < 9.995 => format!("{value:.2}"),
        some if some < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Marks at equal distances from 0 on: as many as are wanted, or some more or fewer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Marks {
    /// From one to the next.
    pub step: f64,
    /// How many, without that at 0.
    pub count: usize,
}

impl Marks {
    /// For values up to `most`, which the last mark reaches.
    #[must_use]
    pub fn up_to(most: f64, wanted: usize) -> Self {
        let most = if most.is_finite() && most > 0.0 {
            most
        } else {
            1.0
        };
        let least = most / wanted as f64;
        let power = 10f64.powf(least.log10().floor());
        let round = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
        // What is a hair above a round number is that number.
        let step = round.into_iter().find(|step| step * 1.000_001 >= least);
        let step = step.unwrap_or(round[3]);
        let count = (most / step - 1e-6).ceil().max(1.0) as usize;
        Self { step, count }
    }

    /// The last one.
    #[must_use]
    pub fn top(&self) -> f64 {
        self.step * self.count as f64
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = f64> {
        (0..=self.count).map(move |at| at as f64 * self.step)
    }
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// Distance between marks of time, in seconds, for so many seconds.
#[must_use]
pub fn time_step(seconds: f64, wanted: usize) -> f64 {
    const STEPS: [f64; 22] = [
        0.1,
        0.2,
        0.5,
        1.0,
        2.0,
        5.0,
        10.0,
        20.0,
        MINUTE / 2.0,
        MINUTE,
        2.0 * MINUTE,
        5.0 * MINUTE,
        10.0 * MINUTE,
        20.0 * MINUTE,
        HOUR / 2.0,
        HOUR,
        2.0 * HOUR,
        6.0 * HOUR,
        DAY / 2.0,
        DAY,
        7.0 * DAY,
        28.0 * DAY,
    ];
    let least = seconds / wanted as f64;
    let step = STEPS.into_iter().find(|step| *step >= least);
    step.unwrap_or_else(|| Marks::up_to(seconds / DAY, wanted).step * DAY)
}

/// A time since the beginning, in words.
#[must_use]
pub fn time(seconds: f64) -> String {
    let (one, name) = match seconds {
        few if few < 2.0 * MINUTE => (1.0, "s"),
        some if some < 2.0 * HOUR => (MINUTE, "min"),
        many if many < 2.0 * DAY => (HOUR, "h"),
        _ => (DAY, "d"),
    };
    let value = format!("{:.1}", seconds / one);
    format!("{} {name}", value.strip_suffix(".0").unwrap_or(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_reach_the_most() {
        for (most, step, count) in [
            (100.0, 20.0, 5),
            (64.0, 20.0, 4),
            (0.0, 0.2, 5),
            (f64::NAN, 0.2, 5),
            (1.0, 0.2, 5),
            (7.0, 2.0, 4),
            (26.0, 10.0, 3),
            (123_456.0, 50_000.0, 3),
        ] {
            let marks = Marks::up_to(most, 5);
            assert!((marks.step / step - 1.0).abs() < 1e-9, "{most}: {marks:?}");
            assert_eq!(marks.count, count, "{most}: {marks:?}");
        }
        for power in -30..60 {
            for digits in 1..100 {
                let most = f64::from(digits) * 2f64.powi(power);
                let marks = Marks::up_to(most, 5);
                let fits = marks.top() >= most * 0.999 && marks.count <= 6;
                assert!(fits && marks.top() <= most * 2.51, "{most} {marks:?}");
            }
        }
    }

    #[test]
    fn sizes_have_up_to_four_digits() {
        let unit = |bytes: u64| Unit::Bytes.of(bytes as f64).0;
        assert_eq!(
            [0, 1 << 19, 1 << 20, 9 << 30].map(unit),
            ["KiB", "KiB", "MiB", "MiB"]
        );
        assert_eq!(
            [10 << 30, 10 << 40, u64::MAX].map(unit),
            ["GiB", "TiB", "TiB"]
        );
        assert_eq!(
            [0.001, 1.0, 9.999, 12.34, 512.3].map(number),
            ["0", "1.00", "10.0", "12.3", "512"]
        );
    }

    #[test]
    fn times_have_marks_that_people_count_in() {
        let step = |seconds| time_step(seconds, 8);
        assert_eq!([0.0, 0.9, 8.0, 100.0].map(step), [0.1, 0.2, 1.0, 20.0]);
        assert_eq!([480.0, 86_400.0].map(step), [60.0, 21_600.0]);
        assert!(step(1e12) >= 1e12 / 8.0);
        let said = [0.0, 0.5, 90.0, 120.0, 5400.0, 7200.0, 172_800.0].map(time);
        assert_eq!(
            said,
            ["0 s", "0.5 s", "90 s", "2 min", "90 min", "2 h", "2 d"]
        );
    }
}
