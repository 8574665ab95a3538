//! Median and spread over seeds.

/// Median, 10th and 90th percentile.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spread {
    /// The 50th percentile.
    pub median: f64,
    /// The 10th percentile.
    pub low: f64,
    /// The 90th percentile.
    pub high: f64,
}

impl Spread {
    /// Of these values, in any order; zeros when there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Spread {
            median: quantile(&sorted, 0.5),
            low: quantile(&sorted, 0.1),
            high: quantile(&sorted, 0.9),
        }
    }
}

/// The quantile `q` of sorted values, linear between neighbours; 0 when there are none.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// Runs up to which every choice of signs is tried.
const EXACT: usize = 20;

/// Two-sided probability that changes measured in pairs (same seed, two configurations) come out on one side as far as
/// these by chance: the share of all choices of their signs whose sum is as large as theirs (Fisher's sign-flip test). With
/// more than 20 values a million choices stand for all. 1 when there are none or all are 0.
#[must_use]
pub fn sign_flip_p(values: &[f64]) -> f64 {
    let observed = values.iter().sum::<f64>().abs();
    let scale: f64 = values.iter().map(|value| value.abs()).sum();
    if scale == 0.0 || !scale.is_finite() {
        return 1.0;
    }
    // Sums of the same numbers in another order differ in the last digits.
    let least = observed - scale * 1e-9;
    let as_far = |sum: &f64| sum.abs() >= least;
    let choices = 1u64 << values.len().min(EXACT);
    let hits = if values.len() <= EXACT {
        let mut sum: f64 = values.iter().sum();
        let mut signs = vec![1.0; values.len()];
        // In Gray's order one sign turns at a time.
        let turn = |choice: u64| {
            if choice > 0 {
                let at = choice.trailing_zeros() as usize;
                signs[at] = -signs[at];
                sum += 2.0 * signs[at] * values[at];
            }
            sum
        };
        (0..choices).map(turn).filter(as_far).count()
    } else {
        let mut rng = crate::workload::Rng::new(1, 0);
        let mut draw = || {
            let flip = |value: &f64| if rng.below(2) == 0 { *value } else { -value };
            values.iter().map(flip).sum::<f64>()
        };
        (0..choices).map(|_| draw()).filter(as_far).count()
    };
    hits as f64 / choices as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_the_share_of_signs_that_go_as_far() {
        // All on one side: of 2^n choices that one and its opposite.
        assert_eq!(sign_flip_p(&[1.0, 2.0, 3.0, 4.0]), 2.0 / 16.0);
        assert_eq!(sign_flip_p(&[-1.0; 5]), 2.0 / 32.0);
        // 1 + 2 - 3: the sum is 0, and every choice goes as far.
        assert_eq!(sign_flip_p(&[1.0, 2.0, -3.0]), 1.0);
        assert_eq!(sign_flip_p(&[3.0, 2.0, -1.0]), 4.0 / 8.0);
        assert_eq!((sign_flip_p(&[]), sign_flip_p(&[0.0; 9])), (1.0, 1.0));
        assert_eq!(sign_flip_p(&[0.1; 20]), 2.0 / f64::from(1 << 20));
    }

    #[test]
    fn many_values_are_sampled() {
        let even: Vec<f64> = (0..30)
            .map(|n| if n % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        assert_eq!(sign_flip_p(&even), 1.0);
        let one_side: Vec<f64> = (0..30).map(|n| 1.0 + f64::from(n)).collect();
        assert!(sign_flip_p(&one_side) < 1e-4);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let spread = Spread::of(&[4.0, 1.0, 2.0, 3.0, 5.0]);
        assert_eq!((spread.median, spread.low, spread.high), (3.0, 1.4, 4.6));
        assert_eq!(Spread::of(&[7.0]).high, 7.0);
        assert_eq!(Spread::of(&[]), Spread::default());
    }
}
