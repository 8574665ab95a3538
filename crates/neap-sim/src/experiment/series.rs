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
/// Steps that are shown before a burst begins, and from then on: two seconds and eight.
const AROUND: (usize, usize) = (8, 32);

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

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The steps with most stores, those with most first; the last step, which nothing follows, is none.
fn bursts(stores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..stores.len().saturating_sub(1)).collect();
    order.sort_by(|&a, &b| stores[b].total_cmp(&stores[a]).then(a.cmp(&b)));
    order.truncate((order.len() / BURSTS).max(1));
    order
}

/// A rate around the beginnings of bursts, against its mean: seconds from the beginning, and times the mean. A burst begins
/// with a step that no other of them comes right before.
fn around_bursts(stores: &[f64], rate: &[f64]) -> Vec<(f64, f64)> {
    let all = bursts(stores);
    let begins = |at: &usize| *at == 0 || !all.contains(&(at - 1));
    let begun: Vec<usize> = all.iter().copied().filter(begins).collect();
    let whole = mean(rate);
    let (before, after) = AROUND;
    let point = |step: usize| {
        let of = |&at: &usize| rate.get((at + step).checked_sub(before)?).copied();
        let values: Vec<f64> = begun.iter().filter_map(of).collect();
        let seconds = (step as f64 - before as f64) * STEP.0 as f64 / 1e9;
        (!values.is_empty() && whole > 0.0).then(|| (seconds, mean(&values) / whole))
    };
    (0..before + after).filter_map(point).collect()
}

/// Write-back in the steps that follow those with most stores, against that of the average step. The protection of the old
/// scheme decays with stores, so that write-back shoots up after them; fresh entries of the second chance are spared.
fn after_bursts(samples: &[Sample]) -> f64 {
    let stores = growth(samples, |sample| sample.stores);
    let written = growth(samples, |sample| sample.written_back);
    let after: Vec<f64> = bursts(&stores).iter().map(|&at| written[at + 1]).collect();
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
    let stores = growth(samples, |sample| sample.stores);
    let around = |metric, of| Series {
        metric,
        unit: "times the mean",
        config,
        points: around_bursts(&stores, &growth(samples, of)),
    };
    let level = |of: fn(&Sample) -> u64| samples.iter().map(|sample| of(sample) as f64).collect();
    vec![
        series("zswpout", "pages/s", rate(|sample| sample.stores)),
        series("zswpwb", "pages/s", rate(|sample| sample.written_back)),
        series("pool_pages", "pages", level(|sample| sample.pool)),
        series("nr_deferred", "objects", level(|sample| sample.deferred)),
        around("zswpout_around_bursts", |sample| sample.stores),
        around("zswpwb_around_bursts", |sample| sample.written_back),
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
    fn a_rate_around_bursts_begins_before_the_first_step_of_each() {
        // 42 steps; a tenth of the 41 that others follow are bursts: 10 and 11, 25, and 0.
        let mut steps = vec![(10, 4); 42];
        (steps[10].0, steps[11].0, steps[25].0) = (900, 800, 700);
        (steps[12].1, steps[27].1) = (40, 20);
        steps[0].0 = 11;
        let found = series(&samples(&steps), "old", 1.0);
        let around = |metric: &str| {
            let of = found.iter().find(|s| s.metric == metric).unwrap();
            let at = |second: f64| of.points.iter().find(|point| point.0 == second);
            move |second| at(second).map(|point| point.1)
        };
        let written = (40.0 * 4.0 + 60.0) / 42.0;
        let wrote = around("zswpwb_around_bursts");
        // Half a second after steps 0, 10 and 25.
        assert_eq!(wrote(0.5), Some((4.0 + 40.0 + 20.0) / 3.0 / written));
        assert_eq!(
            wrote(-2.0),
            Some(4.0 / written),
            "step 0 has none before it"
        );
        let stored = around("zswpout_around_bursts");
        let mean = (900.0 + 800.0 + 700.0 + 11.0 + 38.0 * 10.0) / 42.0;
        assert_eq!(stored(0.0), Some((11.0 + 900.0 + 700.0) / 3.0 / mean));
        assert!(stored(7.75).is_some() && stored(8.0).is_none());
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
