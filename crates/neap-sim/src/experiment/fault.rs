//! Why an experiment cannot run, in one line that says what to do.

use thiserror::Error;

use super::EXPERIMENTS;
use crate::nearest::nearest;

/// Why an experiment cannot run.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ExperimentFault {
    /// No experiment has this name.
    #[error("no experiment is called {name:?}: {}there are {}", meant(name, &names()), names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// No parameter has this name.
    #[error(
        "{experiment} has no parameter {key:?}: {}it has {known}",
        meant(key, known)
    )]
    Key {
        /// The experiment.
        experiment: &'static str,
        /// What was asked for.
        key: String,
        /// What there is.
        known: String,
    },
    /// A value the parameter cannot have.
    #[error("{key}={value}: write {wanted}")]
    Value {
        /// The parameter.
        key: String,
        /// The value.
        value: String,
        /// What it takes.
        wanted: String,
    },
    /// A setting that is not KEY=VALUE.
    #[error("{0:?} is not KEY=VALUE")]
    Setting(String),
    /// A scale at which the experiment is another one, or never ends.
    #[error("{experiment} has no scale {scale}: write a number from {} to {}", range.0, range.1)]
    Scale {
        /// The experiment.
        experiment: &'static str,
        /// What was asked for.
        scale: f64,
        /// The smallest and the largest it has.
        range: (f64, f64),
    },
    /// Tasks did not end in the time they were given: the machine is too small for them.
    #[error(
        "{config} with seed {seed} did not end within {hours} simulated hours: {advice}; a larger --scale may help, too"
    )]
    Endless {
        /// The configuration.
        config: &'static str,
        /// The seed.
        seed: u64,
        /// How long it was given.
        hours: u64,
        /// What may help.
        advice: &'static str,
    },
    /// A run could not be written to the file that keeps them.
    #[error("a run could not be kept: the file {0}")]
    Kept(String),
}

/// The nearest of some words, as a question.
fn meant(written: &str, known: &str) -> String {
    nearest(written, known.split(", "))
        .map_or_else(String::new, |near| format!("did you mean {near}? "))
}

fn names() -> String {
    let names: Vec<&str> = EXPERIMENTS
        .iter()
        .map(|experiment| experiment.name)
        .collect();
    names.join(", ")
}
