//! A build over time: stores, write-back, the pool and what its shrinkers put off.

use neap_policy::Counter;
use neap_units::Nanos;
use serde::Serialize;

use super::Measure;
use crate::clock::Machine;
use crate::kernel::MemcgId;

/// A number over time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// What it is.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// In this configuration.
    pub config: &'static str,
    /// Seconds, and the number.
    pub points: Vec<(f64, f64)>,
}

/// From one sample to the next.
const STEP: Nanos = Nanos::millis(250);
/// One step of so many is a burst: those with most stores.
const BURSTS: usize = 10;
/// Points of a series that is shown, at most.
const POINTS: usize = 200;

/// The state at the end of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    stores: u64,
    written_back: u64,
    pool: u64,
    deferred: u64,
}

/// A machine that is looked at every quarter of a second until its tasks are over; none: they were not by `limit`.
pub(super) fn watch(machine: &mut Machine, memcg: MemcgId, limit: Nanos) -> Option<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut at = STEP;
    while !machine.finish(at) {
        if at >= limit {
            return None;
        }
        let kernel = machine.kernel();
        let (pool, deferred) = kernel.pool_and_deferred();
        let counters = kernel.vmstat(memcg);
        samples.push(Sample {
            stores: counters[Counter::Zswpout],
            written_back: counters[Counter::Zswpwb],
            pool,
            deferred,
        });
        at = at.saturating_add(STEP);
    }
    Some(samples)
}

/// Growth of a counter in each step.
fn growth(samples: &[Sample], of: fn(&Sample) -> u64) -> Vec<f64> {
    let before = [0].into_iter().chain(samples.iter().map(of));
    let steps = samples.iter().map(of).zip(before);
    steps.map(|(now, before)| (now - before) as f64).collect()
}

/// Write-back in the steps that follow those with most stores, against that of the average step. The protection of the old
/// scheme decays with stores, so that write-back shoots up after them; fresh entries of the second chance are spared.
fn after_bursts(samples: &[Sample]) -> f64 {
    let stores = growth(samples, |sample| sample.stores);
    let written = growth(samples, |sample| sample.written_back);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mut order: Vec<usize> = (0..stores.len().saturating_sub(1)).collect();
    order.sort_by(|&a, &b| stores[b].total_cmp(&stores[a]).then(a.cmp(&b)));
    order.truncate((order.len() / BURSTS).max(1));
    let after: Vec<f64> = order.iter().map(|&at| written[at + 1]).collect();
    match mean(&written) {
        0.0 => 0.0,
        all => mean(&after) / all,
    }
}

/// What samples come to as one number.
pub(super) fn measure(samples: &[Sample]) -> Measure {
    Measure {
        metric: "zswpwb_after_bursts",
        unit: "times the mean",
        value: after_bursts(samples),
    }
}

/// The series of one configuration: counts by second, on a machine so much smaller.
pub(super) fn series(samples: &[Sample], config: &'static str, scale: f64) -> Vec<Series> {
    let step = STEP.0 as f64 / 1e9;
    let thin = samples.len().div_ceil(POINTS).max(1);
    let series = |metric, unit, values: Vec<f64>| {
        let means = values.chunks(thin).enumerate().map(|(n, chunk)| {
            let mean = chunk.iter().sum::<f64>() / chunk.len() as f64;
            ((n * thin + chunk.len()) as f64 * step, mean / scale)
        });
        Series {
            metric,
            unit,
            config,
            points: means.collect(),
        }
    };
    let rate = |of| growth(samples, of).into_iter().map(|n| n / step).collect();
    let level = |of: fn(&Sample) -> u64| samples.iter().map(|sample| of(sample) as f64).collect();
    vec![
        series("zswpout", "pages/s", rate(|sample| sample.stores)),
        series("zswpwb", "pages/s", rate(|sample| sample.written_back)),
        series("pool_pages", "pages", level(|sample| sample.pool)),
        series("nr_deferred", "objects", level(|sample| sample.deferred)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(steps: &[(u64, u64)]) -> Vec<Sample> {
        let mut sum = Sample::default();
        let mut next = |&(stores, written): &(u64, u64)| {
            sum.stores += stores;
            sum.written_back += written;
            sum
        };
        steps.iter().map(&mut next).collect()
    }

    #[test]
    fn write_back_after_a_burst_is_told_from_that_within_it() {
        let mut steps = vec![(10, 4); 20];
        steps[7] = (900, 0);
        steps[8] = (10, 40);
        let found = samples(&steps);
        // 18 steps of 4, one of 0 and one of 40, which follows the burst.
        let mean = (18.0 * 4.0 + 40.0) / 20.0;
        assert!((after_bursts(&found) - 40.0 / mean).abs() < 1e-9);
        assert_eq!(after_bursts(&[]), 0.0);
    }

    #[test]
    fn series_are_rates_by_second_of_the_whole_machine() {
        let found = series(&samples(&[(10, 4), (30, 0)]), "old", 0.5);
        let of = |metric: &str| {
            found
                .iter()
                .find(|s| s.metric == metric)
                .unwrap()
                .points
                .clone()
        };
        assert_eq!(of("zswpout"), [(0.25, 80.0), (0.5, 240.0)]);
        assert_eq!(of("zswpwb"), [(0.25, 32.0), (0.5, 0.0)]);
        let long = series(&samples(&vec![(1, 1); 1000]), "old", 1.0);
        assert_eq!(long[0].points.len(), POINTS);
    }
}
