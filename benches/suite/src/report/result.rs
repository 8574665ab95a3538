//! The figures of one row at one limit, out of the JSON of `neap bench`.

use serde_json::Value;

use super::{Entry, Gap};

/// Whose cost a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Nobody's.
    Resident,
    /// Everybody's own.
    Pooled,
}

impl Accounting {
    fn field(self) -> &'static str {
        match self {
            Accounting::Resident => "resident",
            Accounting::Pooled => "pooled",
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Accounting::Resident => "(a) equal resident memory, the pool counted for nobody",
            Accounting::Pooled => "(b) equal resident memory and pool together",
        }
    }
}

/// What the kernel has, in the order of the tables.
pub const KERNELS: [&str; 3] = ["zswap", "zram", "swap"];

/// One contender by one accounting.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    entry: &'a Value,
    runs: Vec<&'a Value>,
    /// The first plain run, which others are held against; null where there is none.
    plain: &'a Value,
}

impl<'a> Side<'a> {
    /// A contender by an accounting; `None` where it was not measured, or every run failed in another way
    /// than by taking too long.
    #[must_use]
    pub fn of(bench: &'a Value, contender: &str, accounting: Accounting) -> Option<Self> {
        let mut all = bench["contenders"].as_array()?.iter();
        let entry = all.find(|entry| {
            entry["contender"] == contender && !entry[accounting.field()].is_null()
        })?;
        let own = |run: &&Value| {
            run["contender"] == contender
                && run["limit_bytes"] == entry["limit_bytes"]
                && run["pool_beside"] == entry["pool_beside"]
                && run["turn"].as_u64() > Some(0)
        };
        let mut raw = bench["raw"].as_array()?.iter();
        let runs = raw.clone().filter(own).collect();
        let plain = raw
            .find(|run| run["contender"] == "plain")
            .unwrap_or(&Value::Null);
        let side = Self { entry, runs, plain };
        (side.wall().is_some() || side.at_least().is_some()).then_some(side)
    }

    /// The median of a measure.
    #[must_use]
    pub fn median(&self, measure: &str) -> Option<f64> {
        self.entry["measures"][measure]["median"].as_f64()
    }

    /// The median of wall time in seconds; `None` where [`at_least`](Self::at_least) says what is known of it.
    /// A run that was ended for taking too long counts as longer than all others.
    #[must_use]
    pub fn wall(&self) -> Option<f64> {
        if self.late().is_empty() {
            return self.median("wall_seconds");
        }
        let wall = |run: &&Value| match run["given_up_after_seconds"].as_f64() {
            Some(_) => Some(f64::INFINITY),
            None => run["wall_seconds"].as_f64().filter(|_| self.is_good(run)),
        };
        median(self.runs.iter().filter_map(wall).collect()).filter(|wall| wall.is_finite())
    }

    /// Whether a run that ended by itself ended as the first plain one, with no more processes killed: the rule of
    /// `neap bench` for what is in its medians.
    fn is_good(&self, run: &Value) -> bool {
        let kills = |run: &Value| run["kills"].as_u64().unwrap_or(0);
        let plain = self.plain["ending"].as_str().unwrap_or("exited 0");
        run["ending"] == plain && kills(run) <= kills(self.plain)
    }

    /// After how many seconds runs were ended.
    fn late(&self) -> Vec<f64> {
        let late = |run: &&Value| run["given_up_after_seconds"].as_f64();
        self.runs.iter().filter_map(late).collect()
    }

    /// What the median of wall time is above: the patience in seconds, where the first run or half of the
    /// counted ones were ended for it.
    #[must_use]
    pub fn at_least(&self) -> Option<f64> {
        let first = self.entry["given_up_after_seconds"].as_f64();
        first.or_else(|| {
            self.late()
                .first()
                .copied()
                .filter(|_| self.wall().is_none())
        })
    }

    /// Processor time in seconds: the command's and neap's.
    #[must_use]
    pub fn cpu(&self) -> Option<f64> {
        let parts = ["cpu_user_seconds", "cpu_system_seconds", "cpu_neap_seconds"];
        parts.iter().map(|part| self.median(part)).sum()
    }

    /// Whether some runs failed, which the figures leave out.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.entry["failed"].as_u64() > Some(0)
    }

    /// Program bytes held per byte of pool, when the pool was largest; `None` where there is no pool.
    #[must_use]
    pub fn density(&self) -> Option<f64> {
        let density = self.median("pool_held_bytes")? / self.median("peak_pool_bytes")?;
        (density.is_finite() && density > 0.0).then_some(density)
    }

    /// The part of neap's pool that held no compressed bytes when it was largest.
    #[must_use]
    pub fn fragmentation(&self) -> Option<f64> {
        let parts = self.runs.iter().filter_map(|run| {
            let memory = &run["neap"]["memory"];
            let compressed = memory["pool_compressed_bytes"].as_f64()?;
            let part = 1.0 - compressed / memory["peak_pool_bytes"].as_f64()?;
            part.is_finite().then_some(part)
        });
        median(parts.collect())
    }
}

/// Half of the figures are not above it.
#[must_use]
pub fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    match figures.len() {
        0 => None,
        n if n % 2 == 1 => Some(figures[half]),
        _ => Some(f64::midpoint(figures[half - 1], figures[half])),
    }
}

/// The nth root of the product.
#[must_use]
pub fn geometric_mean(figures: &[f64]) -> Option<f64> {
    let logs: f64 = figures.iter().map(|figure| figure.ln()).sum();
    (!figures.is_empty()).then(|| (logs / figures.len() as f64).exp())
}

/// What was not to be had, what failed and what differed, in a row at a limit.
pub fn gaps(entry: &Entry, percent: u64) -> Vec<Gap> {
    let bench = &entry.bench;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut gaps = Vec::new();
    let mut add = |who: &str, why: String| {
        gaps.push(Gap {
            what: format!("{} at {percent} %{who}", entry.name),
            why,
        });
    };
    for absent in list(&bench["unavailable"]) {
        let by = match absent["accounting"].as_str() {
            Some("resident") => " (a)",
            Some("pooled") => " (b)",
            _ => "",
        };
        add(
            &format!(", {}{by}", text(&absent["contender"])),
            text(&absent["reason"]),
        );
    }
    if bench["output"]["equal"].is_null() {
        add("", "the plain outputs differ among themselves".to_owned());
    }
    for entry in list(&bench["contenders"]) {
        if let (Some(seconds), Some(0)) = (
            entry["given_up_after_seconds"].as_u64(),
            entry["runs"].as_u64(),
        ) {
            let by = match (entry["resident"].is_null(), entry["pooled"].is_null()) {
                (false, true) => " (a)",
                (true, false) => " (b)",
                _ => "",
            };
            add(
                &format!(", {}{by}", text(&entry["contender"])),
                format!("did not end within {seconds} s in its first run"),
            );
        }
    }
    for kind in ["differences", "failures"] {
        for line in list(&bench["output"][kind]) {
            add("", text(&line));
        }
    }
    for warning in list(&bench["warnings"]) {
        let warning = text(&warning);
        // True of every row on such a machine; the guide says it.
        if !warning.contains("version 1 of cgroups") {
            add("", warning);
        }
    }
    gaps
}
