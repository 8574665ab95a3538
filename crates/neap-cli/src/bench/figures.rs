//! The measures of a run, and what several runs of one contender make of them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::plan::{Bound, Entrant};
use crate::choice::Contender;
use crate::exit::{Ending, name};

/// Everything measured of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Raw {
    /// The turn; 0 is the first run, which is not counted.
    pub turn: u32,
    /// What it ran under.
    #[serde(serialize_with = "by_name")]
    pub contender: Contender,
    /// The limit it ran under.
    pub limit_bytes: Option<u64>,
    /// Neap's limit left its pool out.
    pub pool_beside: bool,
    /// How it ended.
    #[serde(serialize_with = "by_line")]
    pub ending: Ending,
    /// The patience in seconds, when the run took longer and was ended for that.
    pub given_up_after_seconds: Option<u64>,
    /// The command had ended by then, and processes that it left had not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left_running: bool,
    /// From start to end.
    pub wall_seconds: f64,
    /// Processor time of the command outside the kernel.
    pub cpu_user_seconds: f64,
    /// Processor time of the command in the kernel.
    pub cpu_system_seconds: f64,
    /// Processor time of neap's own process.
    pub cpu_neap_seconds: f64,
    /// All three.
    pub cpu_all_seconds: f64,
    /// Most anonymous memory and pool together, sampled.
    pub peak_memory_bytes: u64,
    /// Most anonymous memory of the command's processes, sampled.
    pub peak_resident_bytes: u64,
    /// Most that the pool took.
    pub peak_pool_bytes: u64,
    /// Bytes of the pages in it then, those that take no room left out.
    pub pool_held_bytes: u64,
    /// The control group's own word, page cache included.
    pub group_peak_bytes: Option<u64>,
    /// The most that one process had resident, where no earlier run had more; for the first plain run alone.
    #[serde(skip)]
    pub max_rss_bytes: Option<u64>,
    /// Pages that left memory, compressed or not.
    pub pages_out: u64,
    /// Pages that came back.
    pub pages_in: u64,
    /// Faults that waited for a page.
    pub major_faults: u64,
    /// Bytes written to disk, swap included.
    pub disk_written_bytes: u64,
    /// Whose counters the pages are: `group`, `machine` or `neap`.
    pub counted: &'static str,
    /// Processes that the kernel killed for want of memory.
    pub kills: u64,
    /// How often memory was looked at.
    pub samples: u64,
    /// Bytes of standard output.
    pub stdout_bytes: u64,
    /// SHA-256 of standard output.
    pub stdout_sha256: String,
    /// What compressed, where the kernel did.
    pub compressor: Option<String>,
    /// Whether zswap's shrinker was on, or that the kernel has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrinker: Option<&'static str>,
    /// Kernel settings that were made for the run; null where the kernel has no such file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings_set: BTreeMap<String, Option<String>>,
    /// What neap says of its run.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub neap: Value,
    /// The end of standard error, of a run that failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

fn by_name<S: serde::Serializer>(contender: &Contender, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(contender)
}

fn by_line<S: serde::Serializer>(ending: &Ending, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&said(*ending))
}

/// `exited N` or `ended by NAME`.
#[must_use]
pub fn said(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exited {code}"),
        Ending::Signaled(signal) => format!("ended by {}", name(signal)),
    }
}

impl Raw {
    /// How it ended, in words.
    #[must_use]
    pub fn said(&self) -> String {
        match self.given_up_after_seconds {
            Some(seconds) if self.left_running => {
                format!("{}, and neap waits for them", left_behind(seconds))
            }
            Some(seconds) => too_long(seconds),
            None => said(self.ending),
        }
    }

    /// Whether it is one of an entrant's counted runs.
    #[must_use]
    pub fn is_of(&self, entrant: &Entrant) -> bool {
        let Bound { limit, pool_beside } = entrant.bound;
        self.turn > 0
            && self.contender == entrant.contender
            && self.limit_bytes == limit.map(|limit| limit.0)
            && self.pool_beside == pool_beside
    }

    /// What its limit held, at most.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        if self.pool_beside {
            self.peak_resident_bytes
        } else {
            self.peak_memory_bytes
        }
    }

    /// The same, and how many of its processes the kernel killed.
    #[must_use]
    pub fn fault(&self) -> String {
        match self.kills {
            0 => self.said(),
            n => format!("{}, {n} killed for want of memory", self.said()),
        }
    }

    /// Whether it ended by itself and with success, and no process of it was killed.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.given_up_after_seconds.is_none() && self.ending == Ending::Exited(0) && self.kills == 0
    }

    /// Whether it ended by itself, as the first plain run did and with no more processes killed for want
    /// of memory: no other can be compared. A status alone may be that of a shell whose child was killed.
    #[must_use]
    pub fn is_like(&self, plain: &Raw) -> bool {
        self.given_up_after_seconds.is_none()
            && self.ending == plain.ending
            && self.kills <= plain.kills
    }
}

/// Of a run that was ended for the time it took.
#[must_use]
pub fn too_long(seconds: u64) -> String {
    format!("did not end within {seconds} s")
}

/// The same, of one that was ended for what the command had left.
#[must_use]
pub fn left_behind(seconds: u64) -> String {
    format!("left processes behind that were still running after {seconds} s")
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A plain number.
    Count,
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Its name for people.
    pub title: &'static str,
    /// Its name in JSON.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Where it is in a run.
    pub of: fn(&Raw) -> f64,
}

/// Every measure, in the order of the table.
pub const MEASURES: [Measure; 13] = [
    measure("wall time", "wall_seconds", Unit::Seconds, |r| {
        r.wall_seconds
    }),
    measure("CPU, user", "cpu_user_seconds", Unit::Seconds, |r| {
        r.cpu_user_seconds
    }),
    measure("CPU, system", "cpu_system_seconds", Unit::Seconds, |r| {
        r.cpu_system_seconds
    }),
    measure("CPU, neap's own", "cpu_neap_seconds", Unit::Seconds, |r| {
        r.cpu_neap_seconds
    }),
    measure("CPU, all", "cpu_all_seconds", Unit::Seconds, |r| {
        r.cpu_all_seconds
    }),
    measure(
        "peak memory, pool counted",
        "peak_memory_bytes",
        Unit::Bytes,
        |r| r.peak_memory_bytes as f64,
    ),
    measure(
        "peak memory, resident",
        "peak_resident_bytes",
        Unit::Bytes,
        |r| r.peak_resident_bytes as f64,
    ),
    measure("peak of the pool", "peak_pool_bytes", Unit::Bytes, |r| {
        r.peak_pool_bytes as f64
    }),
    measure("held in that pool", "pool_held_bytes", Unit::Bytes, |r| {
        r.pool_held_bytes as f64
    }),
    measure("pages out", "pages_out", Unit::Count, |r| {
        r.pages_out as f64
    }),
    measure("pages in", "pages_in", Unit::Count, |r| r.pages_in as f64),
    measure("major faults", "major_faults", Unit::Count, |r| {
        r.major_faults as f64
    }),
    measure("written to disk", "disk_written_bytes", Unit::Bytes, |r| {
        r.disk_written_bytes as f64
    }),
];

const fn measure(
    title: &'static str,
    name: &'static str,
    unit: Unit,
    of: fn(&Raw) -> f64,
) -> Measure {
    Measure {
        title,
        name,
        unit,
        of,
    }
}

/// Several figures as three.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Half of the figures are not above it.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Summary {
    /// Of no figures there is none.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = figures.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let (least, most) = (*all.first()?, *all.last()?);
        let half = all.len() / 2;
        let median = match all.len() % 2 {
            1 => all[half],
            _ => f64::midpoint(all[half - 1], all[half]),
        };
        Some(Self {
            median,
            least,
            most,
        })
    }

    /// This median by that of the plain runs; `None` where that is nothing.
    #[must_use]
    pub fn ratio(&self, plain: Option<Summary>) -> Option<f64> {
        let plain = plain?.median;
        (plain > 0.0).then(|| self.median / plain)
    }
}

/// Whether the runs did the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All did.
    Same {
        /// How many were compared: those that ended as plain did, the first ones included.
        compared: usize,
        /// Their common output.
        sha256: String,
    },
    /// The command's output differs even plainly, so nothing can be said.
    Unsteady,
    /// Not even the first plain run ended in time.
    Unknown,
    /// Some wrote something else than the plain runs: a line for each.
    Different(Vec<String>),
}

impl Verdict {
    /// Compares outputs with those of the plain runs. Runs that ended otherwise are no part of it:
    /// what a killed program wrote says nothing.
    #[must_use]
    pub fn of(runs: &[Raw], entrants: &[Entrant]) -> Self {
        let is_plain = |run: &&Raw| run.contender == Contender::Plain;
        let Some(first) = runs.iter().find(is_plain) else {
            return Verdict::Unsteady;
        };
        if first.given_up_after_seconds.is_some() {
            return Verdict::Unknown;
        }
        let (mut compared, mut others) = (0, Vec::new());
        for run in runs.iter().filter(|run| run.is_like(first)) {
            compared += 1;
            let same = (run.stdout_bytes, &run.stdout_sha256)
                == (first.stdout_bytes, &first.stdout_sha256);
            match (same, is_plain(&run)) {
                (true, _) => {}
                (false, true) => return Verdict::Unsteady,
                (false, false) => others.push(difference(run, first, entrants)),
            }
        }
        match others.is_empty() {
            true => Verdict::Same {
                compared,
                sha256: first.stdout_sha256.clone(),
            },
            false => Verdict::Different(others),
        }
    }
}

/// Which run it is: a contender may have two in a turn, by each accounting.
#[must_use]
pub fn who(run: &Raw, entrants: &[Entrant]) -> String {
    let entrant = entrants.iter().find(|entrant| run.is_of(entrant));
    let name = entrant.map_or_else(|| run.contender.to_string(), Entrant::name);
    match run.turn {
        0 => format!("{name} in its first run"),
        turn => format!("{name} in turn {turn}"),
    }
}

/// A run that ended otherwise, in a line.
#[must_use]
pub fn failure(run: &Raw, plain: &Raw, entrants: &[Entrant]) -> String {
    let killed = match run.kills {
        0 => String::new(),
        n => format!("; the kernel killed {n} for want of memory"),
    };
    format!(
        "{} {}, plain {}{killed}",
        who(run, entrants),
        run.said(),
        plain.said()
    )
}

fn difference(run: &Raw, plain: &Raw, entrants: &[Entrant]) -> String {
    format!(
        "{}: {} bytes of output with SHA-256 {}, plain {} with {}",
        who(run, entrants),
        run.stdout_bytes,
        run.stdout_sha256,
        plain.stdout_bytes,
        plain.stdout_sha256
    )
}

#[cfg(test)]
pub mod tests;
