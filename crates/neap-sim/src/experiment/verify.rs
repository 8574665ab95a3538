//! Results that were stored as `neap.experiment/1`, run again and compared.

use serde_json::Value;
use thiserror::Error;

use super::{Experiment, ExperimentFault, Options, Outcome, find};

/// Numbers that differ by less than this share of themselves are one number: text keeps 15 digits for certain.
const SAME: f64 = 1e-12;

/// Why a file is no stored result.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum StoredFault {
    /// It lacks something, or has something else there.
    #[error(
        "is no stored result of an experiment, or a damaged one: {0} is missing or of another kind"
    )]
    Missing(&'static str),
    /// Of an experiment that there is not.
    #[error(transparent)]
    Experiment(#[from] ExperimentFault),
}

/// A number of a row, as it was stored.
#[derive(Clone, PartialEq, Debug)]
struct StoredRow {
    metric: String,
    config: String,
    numbers: [f64; 3],
}

/// A stored result: what ran, and what came out.
#[derive(Debug)]
pub struct Stored {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Its seeds, scale and parameters, with as many threads as are wanted.
    pub options: Options,
    /// Which version of neap stored it.
    pub version: String,
    rows: Vec<StoredRow>,
}

/// A row that came out otherwise.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The metric.
    pub metric: String,
    /// The configuration.
    pub config: String,
    /// Median and percentiles that were stored; none: there was no such row.
    pub stored: Option<[f64; 3]>,
    /// Those of now; none: there is no such row any more.
    pub now: Option<[f64; 3]>,
}

pub(super) fn whole(value: &Value, key: &'static str) -> Result<u64, StoredFault> {
    value[key].as_u64().ok_or(StoredFault::Missing(key))
}

pub(super) fn number(value: &Value, key: &'static str) -> Result<f64, StoredFault> {
    value[key].as_f64().ok_or(StoredFault::Missing(key))
}

pub(super) fn text<'a>(value: &'a Value, key: &'static str) -> Result<&'a str, StoredFault> {
    value[key].as_str().ok_or(StoredFault::Missing(key))
}

/// `KEY=VALUE` of each parameter.
pub(super) fn sets(value: &Value) -> Result<Vec<String>, StoredFault> {
    let parameters = value["parameters"].as_object();
    let parameters = parameters.ok_or(StoredFault::Missing("parameters"))?;
    let set = |(key, entry): (&String, &Value)| match &entry["value"] {
        Value::String(word) => Ok(format!("{key}={word}")),
        Value::Number(number) => Ok(format!("{key}={number}")),
        _ => Err(StoredFault::Missing("value")),
    };
    parameters.iter().map(set).collect()
}

impl Stored {
    /// Reads one object of `--json`.
    ///
    /// # Errors
    ///
    /// When it is another object, or its experiment is not known.
    pub fn read(value: &Value, threads: usize) -> Result<Stored, StoredFault> {
        if text(value, "schema")? != "neap.experiment/1" {
            return Err(StoredFault::Missing("schema"));
        }
        let row = |row: &Value| {
            Ok(StoredRow {
                metric: text(row, "metric")?.to_owned(),
                config: text(row, "config")?.to_owned(),
                numbers: [
                    number(row, "simulated")?,
                    number(row, "low")?,
                    number(row, "high")?,
                ],
            })
        };
        let rows = value["rows"].as_array();
        let rows = rows.ok_or(StoredFault::Missing("rows"))?.iter().map(row);
        Ok(Stored {
            experiment: find(text(value, "name")?)?,
            options: Options {
                seeds: whole(value, "seeds")?,
                seed: whole(value, "seed")?,
                scale: Some(number(value, "scale")?),
                sets: sets(value)?,
                threads,
                kept: None,
            },
            version: text(value, "version")?.to_owned(),
            rows: rows.collect::<Result<_, StoredFault>>()?,
        })
    }

    /// How many rows were stored.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The rows of which the numbers are not those of now.
    #[must_use]
    pub fn differences(&self, now: &Outcome) -> Vec<Difference> {
        let of_now = |metric: &str, config: &str| {
            let row = now.row(metric, config)?;
            Some([row.simulated, row.low, row.high])
        };
        let compare = |row: &StoredRow| {
            let found = of_now(&row.metric, &row.config);
            let same = found.is_some_and(|found| alike(&found, &row.numbers));
            (!same).then(|| Difference {
                metric: row.metric.clone(),
                config: row.config.clone(),
                stored: Some(row.numbers),
                now: found,
            })
        };
        let new = now.rows.iter().filter(|row| {
            let is =
                |stored: &StoredRow| stored.metric == row.metric && stored.config == row.config;
            !self.rows.iter().any(is)
        });
        let new = new.map(|row| Difference {
            metric: row.metric.clone(),
            config: row.config.clone(),
            stored: None,
            now: Some([row.simulated, row.low, row.high]),
        });
        self.rows.iter().filter_map(compare).chain(new).collect()
    }
}

fn alike(one: &[f64; 3], other: &[f64; 3]) -> bool {
    let same = |(a, b): (&f64, &f64)| (a - b).abs() <= SAME * a.abs().max(b.abs());
    one.iter().zip(other).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::run;

    fn stored() -> (Value, Outcome) {
        let options = Options {
            seeds: 2,
            seed: 3,
            scale: Some(0.05),
            sets: vec!["writes=2".to_owned(), "cost.scan=900".to_owned()],
            threads: 1,
            kept: None,
        };
        let outcome = run(find("memcg-lru-6.12").unwrap(), &options, &|_, _| {}).unwrap();
        let text = outcome.json().to_string();
        (serde_json::from_str(&text).unwrap(), outcome)
    }

    #[test]
    fn what_was_stored_runs_again_and_is_the_same() {
        let (value, _) = stored();
        let read = Stored::read(&value, 2).unwrap();
        assert_eq!((read.options.seed, read.options.seeds), (3, 2));
        let cost = |set: &String| set.starts_with("cost.scan=900");
        assert!(read.options.sets.iter().any(cost));
        let again = run(read.experiment, &read.options, &|_, _| {}).unwrap();
        assert_eq!(read.rows(), again.rows.len());
        assert_eq!(read.differences(&again), []);
    }

    #[test]
    fn each_number_of_each_row_counts() {
        let (value, outcome) = stored();
        for key in ["simulated", "low", "high"] {
            let mut other = value.clone();
            let old = other["rows"][1][key].as_f64().unwrap();
            other["rows"][1][key] = (old * 1.001 + 0.001).into();
            let found = Stored::read(&other, 1).unwrap().differences(&outcome);
            assert_eq!(found.len(), 1, "{key}");
            assert_eq!(found[0].metric, outcome.rows[1].metric);
        }
        let mut fewer = value.clone();
        fewer["rows"].as_array_mut().unwrap().remove(0);
        let found = Stored::read(&fewer, 1).unwrap().differences(&outcome);
        assert_eq!((found.len(), found[0].stored), (1, None));
        let mut more = value;
        more["rows"][0]["metric"] = "of old".into();
        let found = Stored::read(&more, 1).unwrap().differences(&outcome);
        assert_eq!((found.len(), found[0].now), (2, None));
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let (value, _) = stored();
        for key in ["schema", "name", "seeds", "scale", "rows", "parameters"] {
            let mut other = value.clone();
            other[key] = Value::Null;
            assert!(Stored::read(&other, 1).is_err(), "{key}");
        }
        let mut other = value;
        other["name"] = "of old".into();
        let fault = Stored::read(&other, 1).unwrap_err();
        assert!(matches!(fault, StoredFault::Experiment(_)));
    }
}
