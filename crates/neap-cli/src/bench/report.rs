//! Everything a bench found, and its JSON.

use neap_units::Bytes;
use serde_json::{Map, Value, json};

use super::figures::{MEASURES, Measure, Raw, Summary, Verdict, failure};
use super::plan::{Absent, Accounting, Entrant};
use super::site::Site;
use crate::choice::Contender;

/// The schema's name; fields are only ever added within a number.
pub const SCHEMA: &str = "neap.bench/1";

/// A finished bench.
#[derive(Debug)]
pub struct Report<'a> {
    /// The command line.
    pub command: &'a [String],
    /// The limit that was asked for.
    pub size: Bytes,
    /// How often each ran.
    pub runs: u32,
    /// Seconds after which a run was ended.
    pub patience: Option<u64>,
    /// When it began, as RFC 3339 has it.
    pub date: &'a str,
    /// Where it ran.
    pub machine: &'a Site,
    /// Who ran.
    pub entrants: &'a [Entrant],
    /// Who could not.
    pub absent: &'a [Absent],
    /// Every run, in order, the first ones included.
    pub raw: &'a [Raw],
    /// Whether they did the same.
    pub verdict: Verdict,
    /// What the reader must know.
    pub warnings: Vec<String>,
}

impl Report<'_> {
    /// The counted runs of an entrant.
    #[must_use]
    pub fn runs_of(&self, entrant: &Entrant) -> Vec<&Raw> {
        self.raw.iter().filter(|run| run.is_of(entrant)).collect()
    }

    /// The run that is not counted, at the limit that was asked for.
    #[must_use]
    pub fn first_run_of(&self, entrant: &Entrant) -> Option<&Raw> {
        let own = |run: &&Raw| run.turn == 0 && run.contender == entrant.contender;
        self.raw.iter().find(own)
    }

    /// Those that ended as the first plain run did: only they can be compared.
    #[must_use]
    pub fn good_runs_of(&self, entrant: &Entrant) -> Vec<&Raw> {
        let runs = self.runs_of(entrant).into_iter();
        runs.filter(|run| self.is_good(run)).collect()
    }

    /// The plain runs by a measure, by which ratios are.
    #[must_use]
    pub fn plain(&self, measure: &Measure) -> Option<Summary> {
        let mut all = self.entrants.iter();
        let plain = all.find(|entrant| entrant.contender == Contender::Plain)?;
        let runs = self.good_runs_of(plain);
        Summary::of(runs.iter().map(|run| (measure.of)(run)))
    }

    /// Whether a run ended as the first plain one did.
    #[must_use]
    pub fn is_good(&self, run: &Raw) -> bool {
        self.raw.first().is_none_or(|first| run.is_like(first))
    }

    /// The runs that ended otherwise, each in a line. A first run that did is the reason why its
    /// contender was not measured, and stands there.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let Some(plain) = self.raw.first() else {
            return Vec::new();
        };
        let bad = self
            .raw
            .iter()
            .filter(|run| run.turn > 0 && !self.is_good(run));
        bad.map(|run| failure(run, plain, self.entrants)).collect()
    }

    /// Whether all that was counted ended as plain did, with the same output.
    #[must_use]
    pub fn is_unanimous(&self) -> bool {
        self.failures().is_empty() && !matches!(self.verdict, Verdict::Different(_))
    }

    /// One JSON object and a newline.
    #[must_use]
    pub fn json(&self) -> String {
        let mut text = self.value().to_string();
        text.push('\n');
        text
    }

    fn value(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "version": env!("CARGO_PKG_VERSION"),
            "date": self.date,
            "command": self.command,
            "memory_bytes": self.size.0,
            "runs": self.runs,
            "patience_seconds": self.patience,
            "machine": self.machine.value(),
            "accountings": {
                "resident": "equal resident memory, the pool counted for nobody",
                "pooled": "equal resident memory and pool together",
            },
            "contenders": self.entrants.iter().map(|e| self.entrant(e)).collect::<Vec<_>>(),
            "unavailable": self.absent.iter().map(absent).collect::<Vec<_>>(),
            "output": self.output(),
            "warnings": self.warnings,
            "raw": self.raw,
        })
    }

    fn entrant(&self, entrant: &Entrant) -> Value {
        let good = self.good_runs_of(entrant);
        let mut measures = Map::new();
        for measure in MEASURES {
            let summary = Summary::of(good.iter().map(|run| (measure.of)(run)));
            let mut value = json!(summary);
            if let Some(summary) = summary {
                value["ratio"] = json!(summary.ratio(self.plain(&measure)));
            }
            measures.insert(measure.name.to_owned(), value);
        }
        let label = |accounting: Accounting| entrant.label(accounting);
        json!({
            "contender": entrant.contender.to_string(),
            "limit_bytes": entrant.bound.limit.map(|limit| limit.0),
            "pool_beside": entrant.bound.pool_beside,
            "resident": label(Accounting::Resident),
            "pooled": label(Accounting::Pooled),
            "runs": self.runs_of(entrant).len(),
            "failed": self.runs_of(entrant).len() - good.len(),
            "given_up_after_seconds": entrant.given_up,
            "measures": measures,
        })
    }

    fn output(&self) -> Value {
        let mut value = match &self.verdict {
            Verdict::Same { compared, sha256 } => {
                json!({"equal": true, "compared": compared, "sha256": sha256, "differences": []})
            }
            Verdict::Unsteady | Verdict::Unknown => json!({"equal": null, "differences": []}),
            Verdict::Different(lines) => json!({"equal": false, "differences": lines}),
        };
        value["failures"] = json!(self.failures());
        value
    }
}

fn absent(absent: &Absent) -> Value {
    json!({
        "contender": absent.contender.to_string(),
        "accounting": absent.accounting.map(Accounting::name),
        "reason": absent.missing.reason,
        "remedy": absent.missing.remedy,
    })
}

#[cfg(test)]
pub mod tests {
    use super::super::figures::tests::raw;
    use super::super::missing::Missing;
    use super::super::plan::{First, entrants};
    use super::*;

    /// A small report that lives as long as the test.
    pub fn report() -> Report<'static> {
        let size = Bytes::mib(64);
        let first = First {
            contender: Contender::Neap,
            pool: Bytes::ZERO,
            charged: true,
            late: None,
            left_running: false,
        };
        let (entrants, _) = entrants(size, &[first]);
        let limited = |turn, wall| Raw {
            limit_bytes: Some(size.0),
            ..raw(Contender::Neap, turn, wall)
        };
        let runs = vec![
            raw(Contender::Plain, 0, 9.0),
            raw(Contender::Plain, 1, 1.0),
            limited(1, 2.0),
            raw(Contender::Plain, 2, 1.0),
            limited(2, 4.0),
        ];
        let absent = Absent {
            contender: Contender::Zram,
            accounting: None,
            missing: Missing::new("no zram").remedy("modprobe zram"),
        };
        let raw: &[Raw] = runs.leak();
        Report {
            command: vec!["hog".to_owned()].leak(),
            size,
            runs: 2,
            patience: None,
            date: "2026-01-02T03:04:05Z",
            machine: Box::leak(Box::new(Site::default())),
            entrants: entrants.leak(),
            absent: vec![absent].leak(),
            verdict: Verdict::of(raw, &[]),
            raw,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn json_has_every_run_and_every_summary() {
        let text = report().json();
        assert!(text.ends_with("}\n"));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(value["date"], "2026-01-02T03:04:05Z");
        assert_eq!(value["raw"].as_array().unwrap().len(), 5);
        let neap = &value["contenders"][1];
        assert_eq!(neap["contender"], "neap");
        assert_eq!(neap["measures"]["wall_seconds"]["median"], 3.0);
        assert_eq!(neap["measures"]["wall_seconds"]["ratio"], 3.0);
        assert!(neap["measures"]["pages_in"]["ratio"].is_null());
        assert_eq!((&neap["runs"], &neap["failed"]), (&json!(2), &json!(0)));
        assert_eq!(value["unavailable"][0]["remedy"], "modprobe zram");
        assert_eq!(value["output"]["equal"], true);
    }

    #[test]
    fn runs_that_failed_are_not_in_the_figures() {
        let mut runs = report().raw.to_vec();
        runs[4].ending = crate::exit::Ending::Signaled(9);
        let failed = Report {
            raw: &runs,
            verdict: Verdict::of(&runs, &[]),
            ..report()
        };
        let value = failed.value();
        assert_eq!(value["contenders"][1]["failed"], 1);
        assert_eq!(
            value["contenders"][1]["measures"]["wall_seconds"]["median"],
            2.0
        );
        assert_eq!(value["output"]["equal"], true, "no other output");
        let line = "neap in turn 2 ended by SIGKILL, plain exited 0";
        assert_eq!(value["output"]["failures"], json!([line]));
        assert!(!failed.is_unanimous());
    }

    /// The same with a contender whose first run did not end in time.
    pub fn given_up() -> Report<'static> {
        let mut runs = report().raw.to_vec();
        runs.retain(|run| run.contender == Contender::Plain);
        let mut late = Raw {
            limit_bytes: Some(64 << 20),
            ..raw(Contender::Neap, 0, 30.1)
        };
        late.ending = crate::exit::Ending::Signaled(9);
        late.given_up_after_seconds = Some(30);
        runs.insert(1, late);
        let mut entrants = report().entrants.to_vec();
        entrants[1].given_up = Some(30);
        Report {
            patience: Some(30),
            entrants: entrants.leak(),
            verdict: Verdict::of(&runs, &[]),
            raw: runs.leak(),
            ..report()
        }
    }

    #[test]
    fn a_contender_that_was_given_up_says_after_how_long() {
        let report = given_up();
        let value = report.value();
        assert_eq!(value["patience_seconds"], 30);
        let neap = &value["contenders"][1];
        assert_eq!(neap["given_up_after_seconds"], 30);
        assert_eq!((&neap["runs"], &neap["failed"]), (&json!(0), &json!(0)));
        assert!(neap["measures"]["wall_seconds"].is_null());
        assert!(value["contenders"][0]["given_up_after_seconds"].is_null());
        assert_eq!(value["raw"][1]["given_up_after_seconds"], 30);
        assert_eq!(value["output"]["compared"], 3);
        assert!(report.is_unanimous(), "a first run is not counted");
    }

    #[test]
    fn a_first_run_that_failed_is_no_difference() {
        let mut runs = report().raw.to_vec();
        let mut first = raw(Contender::Swap, 0, 1.0);
        first.ending = crate::exit::Ending::Signaled(9);
        first.stdout_sha256 = "cd".to_owned();
        runs.insert(1, first);
        let report = Report {
            raw: &runs,
            verdict: Verdict::of(&runs, &[]),
            ..report()
        };
        assert!(report.is_unanimous() && report.failures().is_empty());
        assert_eq!(report.value()["output"]["compared"], 5);
    }
}
