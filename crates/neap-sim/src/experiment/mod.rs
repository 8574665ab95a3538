//! The published experiments, each one file: its parameters with where they come from, the configurations
//! it compares, the numbers reported for them, and how to run it once.
//!
//! What is common is here: running over seeds, medians and spreads, reported beside simulated, sweeps.

mod against;
mod alternatives;
mod build;
mod cost;
mod fairness;
mod fault;
mod headline;
mod hints;
mod kept;
#[cfg(test)]
mod kept_tests;
mod lab;
mod lab_small;
mod mail;
mod memcg_lru;
mod mthp;
mod mthp_reported;
mod mthp_v10;
mod open;
mod outcome;
mod parameter;
mod prefix;
mod questions;
mod range;
mod rotation;
mod runner;
mod second_chance;
mod series;
mod verify;

pub use against::{Comparison, LabResult};
pub use fault::ExperimentFault;
pub use headline::{HEADLINES, Headline, Overview, overview};
pub use kept::{Kept, KeptFault};
pub use mail::Mail;
pub use outcome::{Outcome, Row};
pub use parameter::{Origin, Parameter, Values};
pub use runner::{Options, run, sweep};
pub use series::Series;
pub use verify::{Difference, Stored, StoredFault};

/// A number measured in one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measure {
    /// The kernel's or the seed document's name.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The number.
    pub value: f64,
}

/// What one run gave.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// Its numbers.
    pub measures: Vec<Measure>,
    /// Numbers over time, of experiments that show them.
    pub series: Vec<Series>,
}

impl From<Vec<Measure>> for Run {
    fn from(measures: Vec<Measure>) -> Run {
        Run {
            measures,
            series: Vec::new(),
        }
    }
}

/// A number the seed documents report.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reported {
    /// Of this metric.
    pub metric: &'static str,
    /// In this configuration.
    pub config: &'static str,
    /// The number.
    pub value: f64,
}

/// A change between two configurations that is worth a row, in percent of the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effect {
    /// Name of the row.
    pub name: &'static str,
    /// Of this metric.
    pub metric: &'static str,
    /// In this configuration.
    pub config: &'static str,
    /// Against this one.
    pub base: &'static str,
}

/// One run: a configuration, a seed, a scale and the parameters.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// One of [`Experiment::configs`].
    pub config: &'static str,
    /// Seed of everything random.
    pub seed: u64,
    /// Size of machine and work, as a share of what was reported; 1 is the same.
    pub scale: f64,
    /// The parameters.
    pub values: &'a Values,
}

impl Setup<'_> {
    /// A parameter that is a number.
    #[must_use]
    pub fn number(&self, key: &str) -> f64 {
        self.values.number(key)
    }

    /// A parameter that is a word.
    #[must_use]
    pub fn word(&self, key: &str) -> &str {
        self.values.word(key)
    }

    /// A parameter that grows with the scale, as a whole number, at least `least`.
    #[must_use]
    pub fn scaled(&self, key: &str, least: u64) -> u64 {
        ((self.number(key) * self.scale).round() as u64).max(least)
    }
}

/// The largest scale of any experiment.
const MOST_SCALE: f64 = 16.0;
/// The scales of an experiment that shrinks and grows with them as a whole.
const ANY_SCALE: (f64, f64) = (1e-4, MOST_SCALE);

/// A published experiment.
pub struct Experiment {
    /// How it is called.
    pub name: &'static str,
    /// What it shows, in one line.
    pub title: &'static str,
    /// Which document reports it.
    pub source: &'static str,
    /// The mails that posted it; none: the question is ours or a review's.
    pub mails: &'static [&'static Mail],
    /// The configurations, in the order of reports.
    pub configs: &'static [&'static str],
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// What was reported.
    pub reported: &'static [Reported],
    /// Changes between configurations.
    pub effects: &'static [Effect],
    /// Metrics that lead the report and are drawn.
    pub headline: &'static [&'static str],
    /// The scale if none is given: what runs in minutes.
    pub scale: f64,
    /// The smallest and the largest scale at which it is the same experiment, and ends.
    pub scales: (f64, f64),
    /// CPU time of all configurations with one seed at that scale and with no parameter set, in whole seconds:
    /// measured once, so that a user knows whether to wait for seconds, minutes or hours.
    pub seconds: u32,
    /// What a reader must know to judge the numbers.
    pub notes: &'static [&'static str],
    /// One run.
    pub run: fn(&Setup<'_>) -> Result<Run, ExperimentFault>,
}

impl Experiment {
    /// The scale nearest to the wanted one at which it runs; its own if none is wanted.
    #[must_use]
    pub fn nearest_scale(&self, wanted: Option<f64>) -> f64 {
        let (low, high) = self.scales;
        wanted.unwrap_or(self.scale).clamp(low, high)
    }

    /// Order of magnitude of the CPU time, in seconds, of so many seeds at a scale. It grows with the scale.
    #[must_use]
    pub fn seconds_of(&self, seeds: u64, scale: Option<f64>) -> f64 {
        let scale = self.nearest_scale(scale) / self.scale;
        f64::from(self.seconds) * seeds as f64 * scale
    }
}

/// All experiments, in the order of reports.
pub const EXPERIMENTS: &[&Experiment] = &[
    &second_chance::SECOND_CHANCE,
    &second_chance::COLD_DATA,
    &memcg_lru::MEMCG_LRU,
    &memcg_lru::MEMCG_LRU_6_12,
    &mthp::MTHP_STORE,
    &mthp_v10::MTHP_STORE_V10,
    &alternatives::ALTERNATIVES,
    &alternatives::WALK_COST,
    &hints::RECENCY,
    &hints::NOREUSE,
    &rotation::ROTATION,
    &open::CONCURRENT,
    &open::USEFUL,
    &open::PENALTY,
    &questions::FULL_POOL,
    &questions::RATIO_SCOPE,
    &prefix::LARGE_STORE_LIMIT,
    &lab::FAIRNESS,
    &lab_small::ZSWAP,
    &lab_small::HINTS,
];

/// The experiment of this name.
///
/// # Errors
///
/// When there is none; the fault lists those there are.
pub fn find(name: &str) -> Result<&'static Experiment, ExperimentFault> {
    let found = EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name);
    found.copied().ok_or_else(|| ExperimentFault::Unknown {
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who compares configurations claims signs, and a sign wants a test over seeds.
    #[test]
    fn every_experiment_tests_its_changes_between_configurations_that_it_has() {
        for experiment in EXPERIMENTS {
            let Experiment { name, effects, .. } = experiment;
            assert!(!effects.is_empty(), "{name} tests no change");
            for effect in *effects {
                for config in [effect.config, effect.base] {
                    assert!(experiment.configs.contains(&config), "{name}: {config}");
                }
            }
        }
    }
}
