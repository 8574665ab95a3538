//! Running an experiment over configurations and seeds, on any number of threads with one result.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::cost;
use super::kept::Kept;
use super::range::MOST_MIB;
use super::{Experiment, ExperimentFault, Outcome, Row, Run, Series, Setup, Values};
use crate::report::{Spread, sign_flip_p};

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many seeds.
    pub seeds: u64,
    /// The first seed.
    pub seed: u64,
    /// Scale, if not the experiment's own.
    pub scale: Option<f64>,
    /// `KEY=VALUE` for parameters.
    pub sets: Vec<String>,
    /// How many threads; does not change any result.
    pub threads: usize,
    /// Runs of an interrupted command, and where those of this one are kept.
    pub kept: Option<Arc<Kept>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seeds: 20,
            seed: 1,
            scale: None,
            sets: Vec::new(),
            threads: 1,
            kept: None,
        }
    }
}

type Ran = Result<Run, ExperimentFault>;

/// Runs an experiment. `progress` hears how many of how many runs are over; it is called from any of
/// the threads.
///
/// # Errors
///
/// When a setting is wrong or a run cannot end; of several, the first in order.
pub fn run(
    experiment: &'static Experiment,
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Outcome, ExperimentFault> {
    let values = Values::new(experiment.name, experiment.parameters, &options.sets)?;
    let scale = options.scale.unwrap_or(experiment.scale);
    let (least, most) = experiment.scales;
    if !(least..=most).contains(&scale) {
        return Err(ExperimentFault::Scale {
            experiment: experiment.name,
            scale,
            range: experiment.scales,
        });
    }
    fits(&values, scale)?;
    let seeds = options.seeds.max(1);
    let mut jobs = Vec::new();
    for seed in options.seed..options.seed + seeds {
        for &config in experiment.configs {
            jobs.push(Setup {
                config,
                seed,
                scale,
                values: &values,
            });
        }
    }
    let runs = all(experiment, &jobs, options, progress);
    let mut series: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    let mut order: Vec<(&'static str, &'static str)> = Vec::new();
    // Series of the first seed: others look alike, and every one would be a page.
    let mut over_time: Vec<Series> = Vec::new();
    for (setup, run) in jobs.iter().zip(runs) {
        let run = run?;
        if setup.seed == options.seed {
            over_time.extend(run.series);
        }
        for measure in run.measures {
            if !order.contains(&(measure.metric, measure.unit)) {
                order.push((measure.metric, measure.unit));
            }
            series
                .entry((measure.metric, setup.config))
                .or_default()
                .push(measure.value);
        }
    }
    let rows = rows(experiment, &order, &series);
    Ok(Outcome {
        experiment,
        seeds,
        seed: options.seed,
        scale,
        values,
        rows,
        series: over_time,
    })
}

/// Refuses settings that are each sound but need more together than the simulator can hold.
fn fits(values: &Values, scale: f64) -> Result<(), ExperimentFault> {
    let all: Vec<(&str, &str, f64)> = values
        .iter()
        .filter_map(|(parameter, value)| Some((parameter.key, parameter.unit, value.parse().ok()?)))
        .collect();
    let number = |key: &str| all.iter().find(|(known, ..)| *known == key);
    let refuse = |key: &str, value: f64, wanted: String| {
        Err(ExperimentFault::Value {
            key: key.to_owned(),
            value: value.to_string(),
            wanted,
        })
    };
    // Each of the first has as much as the second says.
    let pairs = [
        ("cgroups", "memory"),
        ("processes", "each"),
        ("jobs", "file"),
        ("units", "source"),
        ("units", "object"),
    ];
    for (many, each) in pairs {
        let (Some((_, _, count)), Some((_, unit, size))) = (number(many), number(each)) else {
            continue;
        };
        let most = match *unit {
            "MiB" => MOST_MIB,
            _ => MOST_MIB * 256.0,
        };
        if count * size * scale.max(1.0) > most {
            let wanted = format!(
                "a smaller number: with {each}={size} and scale {scale} it is more than 1 TiB in all"
            );
            return refuse(many, *count, wanted);
        }
    }
    let large = |(key, unit, value): &&(&str, &str, f64)| {
        *key != "ram" && *unit == "MiB" && value * scale > MOST_MIB
    };
    match all.iter().find(large) {
        Some((key, _, value)) => {
            let wanted = format!("a smaller number: with scale {scale} it is more than 1 TiB");
            refuse(key, *value, wanted)
        }
        None => Ok(()),
    }
}

/// One run, which is not run if it was kept, and kept if it was run.
fn one(experiment: &Experiment, setup: &Setup<'_>, kept: Option<&Kept>) -> Ran {
    let Some(kept) = kept else {
        return (experiment.run)(setup);
    };
    if let Some(run) = kept.find(experiment, setup) {
        return Ok(run);
    }
    let run = (experiment.run)(setup)?;
    let fault = |fault: super::KeptFault| ExperimentFault::Kept(fault.to_string());
    kept.keep(experiment, setup, &run).map_err(fault)?;
    Ok(run)
}

/// Every job's result, in the order of the jobs, whichever thread did it.
fn all(
    experiment: &Experiment,
    jobs: &[Setup<'_>],
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Ran> {
    let next = AtomicUsize::new(0);
    let over = AtomicUsize::new(0);
    let slots: Vec<Mutex<Ran>> = jobs
        .iter()
        .map(|_| Mutex::new(Ok(Run::default())))
        .collect();
    let work = || {
        while let Some((slot, setup)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            slots.get(i).zip(jobs.get(i))
        } {
            let run = one(experiment, setup, options.kept.as_deref());
            if let Ok(mut slot) = slot.lock() {
                *slot = run;
            }
            progress(over.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let result = |slot: Mutex<Ran>| {
        slot.into_inner()
            .unwrap_or_else(|poison| poison.into_inner())
    };
    slots.into_iter().map(result).collect()
}

/// Whether seeds matter: runs that are all alike are one run, however often it is repeated.
fn differ(values: &[f64]) -> bool {
    values.windows(2).any(|pair| pair[0] != pair[1]) || values.len() == 1
}

/// By how many per cent a value differs from its base.
fn change(value: f64, base: f64) -> f64 {
    match base {
        0.0 => 0.0,
        base => (value / base - 1.0) * 100.0,
    }
}

fn rows(
    experiment: &Experiment,
    order: &[(&'static str, &'static str)],
    series: &BTreeMap<(&str, &str), Vec<f64>>,
) -> Vec<Row> {
    let row = |metric: &str, config: &str, unit: &str, reported, values: &[f64]| {
        let spread = Spread::of(values);
        Row {
            metric: metric.to_owned(),
            config: config.to_owned(),
            unit: unit.to_owned(),
            reported,
            simulated: spread.median,
            low: spread.low,
            high: spread.high,
            p: None,
        }
    };
    let reported = |metric: &str, config: &str| {
        let mut all = experiment.reported.iter();
        let found = all.find(|r| r.metric == metric && r.config == config);
        found.map(|r| r.value)
    };
    let mut rows = Vec::new();
    let first = |metric: &str| experiment.headline.iter().position(|name| *name == metric);
    let mut ordered = order.to_vec();
    ordered.sort_by_key(|(metric, _)| first(metric).unwrap_or(usize::MAX));
    for (metric, unit) in ordered {
        for &config in experiment.configs {
            if let Some(values) = series.get(&(metric, config)) {
                rows.push(row(metric, config, unit, reported(metric, config), values));
            }
        }
        for effect in experiment
            .effects
            .iter()
            .filter(|effect| effect.metric == metric)
        {
            let (Some(new), Some(old)) = (
                series.get(&(metric, effect.config)),
                series.get(&(metric, effect.base)),
            ) else {
                continue;
            };
            let values: Vec<f64> = new.iter().zip(old).map(|(&n, &o)| change(n, o)).collect();
            let known = reported(metric, effect.config).zip(reported(metric, effect.base));
            let known = known.map(|(new, old)| change(new, old));
            let known = known.or_else(|| reported(effect.name, effect.config));
            rows.push(Row {
                p: differ(&values).then(|| sign_flip_p(&values)),
                ..row(effect.name, effect.config, "%", known, &values)
            });
        }
    }
    rows
}

/// Runs an experiment once for each value of each chosen parameter (or of `only`), all else as given.
/// Each outcome comes with the setting that made it.
///
/// # Errors
///
/// As [`run`].
pub fn sweep(
    experiment: &'static Experiment,
    only: Option<&str>,
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<(String, Outcome)>, ExperimentFault> {
    if let Some(key) = only {
        // Names a wrong key in the usual words.
        let mut all = experiment.parameters.iter();
        let value = all.find(|p| p.key == key).or_else(|| cost::find(key));
        let value = value.map_or("", |p| p.default);
        Values::new(
            experiment.name,
            experiment.parameters,
            &[format!("{key}={value}")],
        )?;
    }
    let mut outcomes = Vec::new();
    // Costs only where one is named: there are as many as parameters.
    let cost = only.and_then(cost::find);
    for parameter in experiment.parameters.iter().chain(cost) {
        let set = |set: &String| {
            set.split('=')
                .next()
                .is_some_and(|key| key.trim() == parameter.key)
        };
        if only.is_some_and(|key| key != parameter.key) || options.sets.iter().any(set) {
            continue;
        }
        for value in parameter.sweep {
            let setting = format!("{}={value}", parameter.key);
            let mut with = options.clone();
            with.sets.push(setting.clone());
            outcomes.push((setting, run(experiment, &with, progress)?));
        }
    }
    Ok(outcomes)
}
