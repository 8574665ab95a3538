//! Averages of the time lost to waiting, as the kernel's pressure stall information has them (kernel/sched/psi.c, loadavg.h).

use neap_units::Nanos;

/// The kernel's period between two updates.
pub const PSI_PERIOD: Nanos = Nanos::secs(2);
/// Bits behind the point (FSHIFT).
const SHIFT: u32 = 11;
const ONE: u64 = 1 << SHIFT;
/// What is left of an average after a period: of 10, 60 and 300 s (EXP_10s, EXP_60s, EXP_300s).
const LEFT: [u64; 3] = [1677, 1981, 2034];

/// The averages of one kind of waiting, and the time of it so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    total: Nanos,
    averages: [u64; 3],
}

impl Pressure {
    /// Takes `waited` of the last `period`, before which `missed` whole ones passed in which nobody waited.
    pub fn update(&mut self, waited: Nanos, period: Nanos, missed: u64) {
        let waited = waited.min(period);
        self.total += waited;
        let percent = waited.0 * 100 / period.0.max(1) * ONE;
        for (average, left) in self.averages.iter_mut().zip(LEFT) {
            let faded = load(*average, power(left, missed), 0);
            *average = load(faded, left, percent);
        }
    }

    /// Time of it so far, as of the last update.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.total
    }

    /// The averages over 10, 60 and 300 s, in percent with two digits behind the point.
    #[must_use]
    pub fn averages(&self) -> [f64; 3] {
        let hundredths =
            |average: u64| (average >> SHIFT) * 100 + (((average & (ONE - 1)) * 100) >> SHIFT);
        self.averages
            .map(|average| hundredths(average) as f64 / 100.0)
    }
}

/// A period's step of an exponential average (calc_load).
fn load(average: u64, left: u64, active: u64) -> u64 {
    let rounds = if active >= average { ONE - 1 } else { 0 };
    (average * left + active * (ONE - left) + rounds) / ONE
}

/// `left` to the power of `n`, with so many bits behind the point (fixed_power_int).
fn power(mut left: u64, mut n: u64) -> u64 {
    let half = ONE / 2;
    let mut result = ONE;
    while n > 0 {
        if n & 1 == 1 {
            result = (result * left + half) >> SHIFT;
        }
        left = (left * left + half) >> SHIFT;
        n >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(periods: u64, percent: u64) -> Pressure {
        let mut pressure = Pressure::default();
        for _ in 0..periods {
            pressure.update(PSI_PERIOD * percent / 100, PSI_PERIOD, 0);
        }
        pressure
    }

    #[test]
    fn the_averages_follow_as_fast_as_they_are_long() {
        let first = after(1, 100).averages();
        // 100 * (1 - e^(-2/T)), as the kernel's constants have it.
        assert_eq!(first, [18.11, 3.27, 0.68]);
        let [ten, sixty, long] = after(5, 100).averages();
        assert!((63.0..64.0).contains(&ten), "10 s of it: {ten}");
        assert!((15.0..16.0).contains(&sixty) && (3.0..4.0).contains(&long));
        assert_eq!(after(5, 100).total(), PSI_PERIOD * 5);
        for average in after(1000, 40).averages() {
            assert!((39.9..=40.0).contains(&average), "{average}");
        }
    }

    #[test]
    fn what_was_missed_fades_as_periods_without_waiting_do() {
        let (mut missed, mut looked) = (after(20, 50), after(20, 50));
        missed.update(Nanos::ZERO, PSI_PERIOD, 9);
        (0..10).for_each(|_| looked.update(Nanos::ZERO, PSI_PERIOD, 0));
        for (one, other) in missed.averages().into_iter().zip(looked.averages()) {
            assert!((one - other).abs() < 0.1, "{one} {other}");
        }
        missed.update(Nanos::ZERO, PSI_PERIOD, 1 << 40);
        assert_eq!(missed.averages(), [0.0; 3]);
    }

    #[test]
    fn nobody_waits_longer_than_there_was() {
        let mut pressure = Pressure::default();
        pressure.update(PSI_PERIOD * 7, PSI_PERIOD, 0);
        assert_eq!(pressure.total(), PSI_PERIOD);
        pressure.update(Nanos(5), Nanos::ZERO, 0);
    }
}
