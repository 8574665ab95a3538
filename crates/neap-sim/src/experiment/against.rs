//! What `make lab` measured on a real kernel, beside what the simulator says of the same machine.

use serde::Serialize;
use serde_json::{Value, json};

use super::verify::{number, sets, text, whole};
use super::{Experiment, Options, Outcome, StoredFault, find};

/// A count this near to the measured one is a hit, in parts of it.
const NEAR: f64 = 0.2;
/// Units of time: an emulated machine has no times to compare.
const TIMES: &[&str] = &["s", "ms", "us", "ns"];

/// One number that was measured.
#[derive(Clone, PartialEq, Debug)]
struct MeasuredRow {
    metric: String,
    config: String,
    unit: String,
    measured: f64,
    low: f64,
    high: f64,
}

/// Measurements of one machine: an object of `make lab`'s file.
#[derive(Debug)]
pub struct LabResult {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// The release of the kernel.
    pub kernel: String,
    /// How often each configuration was booted.
    pub runs: u64,
    /// `KEY=VALUE` of the machine's parameters.
    pub sets: Vec<String>,
    rows: Vec<MeasuredRow>,
}

/// A number measured and simulated.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The metric.
    pub metric: String,
    /// The configuration.
    pub config: String,
    /// Its unit.
    pub unit: String,
    /// Median of what was measured, and the least and the most of it.
    pub measured: [f64; 3],
    /// Median of what was simulated, with the 10th and 90th percentile; none: the simulator does not count it.
    pub simulated: Option<[f64; 3]>,
    /// Simulated over measured; none: nothing was measured or nothing simulated.
    pub ratio: Option<f64>,
}

impl Comparison {
    /// Whether it counts something that is simulated, too, and that came on one side at least: zeros agree cheaply. Times of
    /// an emulated machine mean nothing.
    #[must_use]
    pub fn is_count(&self) -> bool {
        let came = |simulated: [f64; 3]| self.measured[0] != 0.0 || simulated[0] != 0.0;
        self.simulated.is_some_and(came) && !TIMES.contains(&self.unit.as_str())
    }

    /// Whether the simulator comes within a fifth of what was measured.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= NEAR)
    }
}

impl LabResult {
    /// Reads one object of the lab's file.
    ///
    /// # Errors
    ///
    /// When it is another object, or its experiment is not known.
    pub fn read(value: &Value) -> Result<LabResult, StoredFault> {
        if text(value, "schema")? != "neap.lab/1" {
            return Err(StoredFault::Missing("schema"));
        }
        let row = |row: &Value| {
            Ok(MeasuredRow {
                metric: text(row, "metric")?.to_owned(),
                config: text(row, "config")?.to_owned(),
                unit: text(row, "unit")?.to_owned(),
                measured: number(row, "measured")?,
                low: number(row, "low")?,
                high: number(row, "high")?,
            })
        };
        let rows = value["rows"].as_array();
        let rows = rows.ok_or(StoredFault::Missing("rows"))?.iter().map(row);
        Ok(LabResult {
            experiment: find(text(value, "name")?)?,
            kernel: text(value, "kernel")?.to_owned(),
            runs: whole(value, "seeds")?,
            sets: sets(value)?,
            rows: rows.collect::<Result<_, StoredFault>>()?,
        })
    }

    /// How to simulate the measured machine: its parameters, under what else is set.
    #[must_use]
    pub fn options(&self, wanted: &Options) -> Options {
        let sets = [&self.sets[..], &wanted.sets].concat();
        Options {
            sets,
            scale: None,
            ..wanted.clone()
        }
    }

    /// Each measured number beside the simulated one.
    #[must_use]
    pub fn compare(&self, outcome: &Outcome) -> Vec<Comparison> {
        let compare = |row: &MeasuredRow| {
            let found = outcome.row(&row.metric, &row.config);
            let simulated = found.map(|row| [row.simulated, row.low, row.high]);
            Comparison {
                metric: row.metric.clone(),
                config: row.config.clone(),
                unit: row.unit.clone(),
                measured: [row.measured, row.low, row.high],
                simulated,
                ratio: ratio(row.measured, simulated.map(|numbers| numbers[0])),
            }
        };
        self.rows.iter().map(compare).collect()
    }

    /// One object (`neap.against/1`) of a comparison.
    #[must_use]
    pub fn json(&self, outcome: &Outcome) -> Value {
        let rows = self.compare(outcome);
        json!({
            "schema": "neap.against/1",
            "name": self.experiment.name,
            "kernel": self.kernel,
            "runs": self.runs,
            "sets": self.sets,
            "rows": rows,
            "simulated": outcome.json(),
        })
    }
}

/// Simulated over measured. Nothing measured and nothing simulated is a hit.
fn ratio(measured: f64, simulated: Option<f64>) -> Option<f64> {
    match (measured, simulated?) {
        (0.0, 0.0) => Some(1.0),
        (0.0, _) => None,
        (measured, simulated) => Some(simulated / measured),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::run;

    fn lab() -> Value {
        let row = |metric: &str, config: &str, unit: &str, measured: f64| {
            json!({
                "metric": metric, "config": config, "unit": unit, "measured": measured, "low": measured,
                "high": measured + 1.0,
            })
        };
        json!({
            "schema": "neap.lab/1", "name": "lab-fairness", "kernel": "6.12.117+deb13-amd64", "seeds": 2,
            "parameters": {
                "kernel": {"value": "6.12"}, "cgroups": {"value": 4}, "writes": {"value": 2}, "warm_up": {"value": 1},
            },
            "rows": [
                row("pgsteal_sum_over_requested", "classic", "ratio", 1.0),
                row("eagain", "memcg-lru", "writes", 0.0),
                row("system_per_stolen", "classic", "us", 1e9),
                row("of no simulator", "classic", "pages", 7.0),
            ],
        })
    }

    #[test]
    fn a_measured_machine_is_simulated_and_each_number_stands_beside_its_own() {
        let measured = LabResult::read(&lab()).unwrap();
        assert_eq!((measured.runs, measured.rows.len()), (2, 4));
        let wanted = Options {
            seeds: 1,
            scale: Some(0.5),
            sets: vec!["writes=3".to_owned()],
            ..Options::default()
        };
        let options = measured.options(&wanted);
        assert_eq!(options.scale, None);
        let outcome = run(measured.experiment, &options, &|_, _| {}).unwrap();
        assert_eq!(outcome.values.number("cgroups"), 4.0);
        assert_eq!(
            outcome.values.number("writes"),
            3.0,
            "what is asked for counts"
        );
        let rows = measured.compare(&outcome);
        let [sum, again, time, other] = &rows[..] else {
            panic!("{rows:?}");
        };
        let simulated = outcome.row("pgsteal_sum_over_requested", "classic");
        assert_eq!(sum.ratio, Some(simulated.unwrap().simulated));
        assert_eq!(sum.measured, [1.0, 1.0, 2.0]);
        assert!(!again.is_count(), "none measured and none simulated");
        assert!(!time.is_count() && sum.is_count());
        assert_eq!((other.simulated, other.ratio), (None, None));
        assert!(!other.is_count() && !other.is_near());
        let value = measured.json(&outcome);
        assert_eq!(value["rows"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn a_fifth_is_near_and_more_is_not() {
        assert_eq!(ratio(10.0, Some(12.0)), Some(1.2));
        assert_eq!(ratio(0.0, Some(12.0)), None);
        let of = |simulated: f64| Comparison {
            metric: String::new(),
            config: String::new(),
            unit: "pages".to_owned(),
            measured: [100.0; 3],
            simulated: Some([simulated; 3]),
            ratio: ratio(100.0, Some(simulated)),
        };
        assert!(of(119.0).is_near() && of(81.0).is_near());
        assert!(!of(121.0).is_near() && !of(79.0).is_near());
    }

    #[test]
    fn what_the_lab_did_not_write_is_refused() {
        for key in ["schema", "name", "kernel", "seeds", "rows", "parameters"] {
            let mut other = lab();
            other[key] = Value::Null;
            assert!(LabResult::read(&other).is_err(), "{key}");
        }
        for key in ["metric", "config", "unit", "measured", "low", "high"] {
            let mut other = lab();
            other["rows"][1][key] = Value::Null;
            assert!(LabResult::read(&other).is_err(), "{key}");
        }
        let mut stored = lab();
        stored["schema"] = "neap.experiment/1".into();
        assert_eq!(
            LabResult::read(&stored).unwrap_err(),
            StoredFault::Missing("schema")
        );
    }
}
