//! Runs that are kept as they end, so that an interrupted command goes on from there.
//!
//! A file of lines, each one JSON object: the first says which build of neap made it, each other is one run. A number
//! is written as text, which comes back as the same number to the last bit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use thiserror::Error;

use super::{Experiment, Measure, Run, Series, Setup};

/// Why a file cannot be gone on with.
#[derive(Debug, Error)]
pub enum KeptFault {
    /// Its first line is another.
    #[error("holds no runs of experiments")]
    Other,
    /// Another build made it, whose rules may be others.
    #[error("holds runs of another build of neap")]
    Build,
    /// A run could not be added.
    #[error("cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Runs of before, and where those of now go.
pub struct Kept {
    runs: BTreeMap<String, Run>,
    sink: Mutex<Box<dyn Write + Send>>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({} runs)", self.runs.len())
    }
}

/// What tells one run from all others.
fn key(experiment: &Experiment, setup: &Setup<'_>) -> String {
    let sets = setup.values.iter();
    let sets = sets.map(|(parameter, value)| format!(" {}={value}", parameter.key));
    format!(
        "{} {} {} {}{}",
        experiment.name,
        setup.config,
        setup.seed,
        setup.scale,
        sets.collect::<String>()
    )
}

/// Names of a file, each for as long as neap runs: they are few.
#[derive(Default)]
pub(super) struct Names(BTreeSet<&'static str>);

impl Names {
    fn of(&mut self, value: &Value) -> Option<&'static str> {
        let name = value.as_str()?;
        if let Some(known) = self.0.get(name) {
            return Some(known);
        }
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        self.0.insert(name);
        Some(name)
    }
}

fn text(number: f64) -> String {
    format!("{number:?}")
}

fn float(value: &Value) -> Option<f64> {
    value.as_str()?.parse().ok()
}

pub(super) fn write(key: &str, run: &Run) -> Value {
    let measure = |m: &Measure| json!([m.metric, m.unit, text(m.value)]);
    let point = |&(at, value): &(f64, f64)| json!([text(at), text(value)]);
    let series = |s: &Series| {
        let points: Vec<Value> = s.points.iter().map(point).collect();
        json!([s.metric, s.unit, s.config, points])
    };
    json!({
        "run": key,
        "measures": run.measures.iter().map(measure).collect::<Vec<_>>(),
        "series": run.series.iter().map(series).collect::<Vec<_>>(),
    })
}

pub(super) fn read(line: &str, names: &mut Names) -> Option<(String, Run)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let mut run = Run::default();
    for measure in value["measures"].as_array()? {
        run.measures.push(Measure {
            metric: names.of(&measure[0])?,
            unit: names.of(&measure[1])?,
            value: float(&measure[2])?,
        });
    }
    for series in value["series"].as_array()? {
        let points = series[3].as_array()?.iter();
        let point = |point: &Value| float(&point[0]).zip(float(&point[1]));
        run.series.push(Series {
            metric: names.of(&series[0])?,
            unit: names.of(&series[1])?,
            config: names.of(&series[2])?,
            points: points.map(point).collect::<Option<_>>()?,
        });
    }
    Some((value["run"].as_str()?.to_owned(), run))
}

/// The runs of a file. A line that was cut off is none, so that its run runs again.
fn parse(text: &str, build: &str) -> Result<BTreeMap<String, Run>, KeptFault> {
    let mut lines = text.lines();
    let Some(head) = lines.next() else {
        return Ok(BTreeMap::new());
    };
    let head: Value = serde_json::from_str(head).map_err(|_| KeptFault::Other)?;
    if head["schema"] != "neap.runs/1" {
        return Err(KeptFault::Other);
    }
    if head["build"] != build {
        return Err(KeptFault::Build);
    }
    let mut names = Names::default();
    Ok(lines.filter_map(|line| read(line, &mut names)).collect())
}

impl Kept {
    /// Goes on with what a file has, adding to its end.
    ///
    /// # Errors
    ///
    /// When it is another file or another build's, or cannot be written.
    pub fn new(
        before: &str,
        build: &str,
        mut sink: Box<dyn Write + Send>,
    ) -> Result<Kept, KeptFault> {
        let runs = parse(before, build)?;
        if before.is_empty() {
            let head = json!({"schema": "neap.runs/1", "build": build});
            sink.write_all(format!("{head}\n").as_bytes())?; // a part of it would be no file of runs
        } else if !before.ends_with('\n') {
            writeln!(sink)?;
        }
        sink.flush()?;
        Ok(Kept {
            runs,
            sink: Mutex::new(sink),
        })
    }

    /// How many runs there were before.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// A run of before.
    pub(super) fn find(&self, experiment: &Experiment, setup: &Setup<'_>) -> Option<Run> {
        self.runs.get(&key(experiment, setup)).cloned()
    }

    /// Keeps a run, as one write of one line.
    pub(super) fn keep(
        &self,
        experiment: &Experiment,
        setup: &Setup<'_>,
        run: &Run,
    ) -> Result<(), KeptFault> {
        let line = format!("{}\n", write(&key(experiment, setup), run));
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.write_all(line.as_bytes())?;
        Ok(sink.flush()?)
    }
}
