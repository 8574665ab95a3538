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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let spread = Spread::of(&[4.0, 1.0, 2.0, 3.0, 5.0]);
        assert_eq!((spread.median, spread.low, spread.high), (3.0, 1.4, 4.6));
        assert_eq!(Spread::of(&[7.0]).high, 7.0);
        assert_eq!(Spread::of(&[]), Spread::default());
    }
}
