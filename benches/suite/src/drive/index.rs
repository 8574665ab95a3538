//! What was run, where and when: `suite.json` beside the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::rows::{Class, Row};

/// The schema's name; fields are only ever added within a number.
const SCHEMA: &str = "neap.suite/1";

/// A run of the suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Index {
    /// Name and version of this format.
    pub schema: String,
    /// The day, in UTC.
    pub date: String,
    /// The name of the machine.
    pub machine: String,
    /// Its kernel.
    pub kernel: String,
    /// The commit that was measured; `+` where files had changed since.
    pub commit: String,
    /// Counted runs of each contender.
    pub runs: u32,
    /// Size of everything, in percent.
    pub scale: usize,
    /// Limits, in percent of the plain peak.
    pub percents: Vec<u64>,
    /// The rows, in order.
    pub rows: Vec<RowIndex>,
}

/// One row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowIndex {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub class: Class,
    /// Why it was not measured.
    pub missing: Option<String>,
    /// Anonymous memory that it takes without a limit.
    pub plain_peak_bytes: u64,
    /// One for each limit.
    pub results: Vec<Measured>,
}

/// One row at one limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The limit in percent of the plain peak.
    pub percent: u64,
    /// The report of `neap bench`.
    pub file: String,
    /// Why there is none.
    pub fault: Option<String>,
    /// What all its runs took together.
    pub seconds: f64,
    /// Load of the machine before, averages of 1, 5 and 15 minutes.
    pub load_before: String,
    /// The same after.
    pub load_after: String,
}

impl RowIndex {
    /// Of a row that is yet to run.
    #[must_use]
    pub fn new(row: &Row) -> Self {
        Self {
            name: row.name.to_owned(),
            class: row.class,
            missing: None,
            plain_peak_bytes: 0,
            results: Vec::new(),
        }
    }

    /// Of a row that cannot.
    #[must_use]
    pub fn without(mut self, missing: String) -> Self {
        self.missing = Some(missing);
        self
    }
}

impl Index {
    /// Of a run that begins.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let repository = repository();
        let git = |words: &[&str]| said(Command::new("git").arg("-C").arg(&repository).args(words));
        let commit = git(&["rev-parse", "--short=9", "HEAD"]).unwrap_or("unknown".to_owned());
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
        let plus = if changed.is_some_and(|text| !text.is_empty()) {
            "+"
        } else {
            ""
        };
        Self {
            schema: SCHEMA.to_owned(),
            date: said(Command::new("date").args(["-u", "+%Y-%m-%d"])).unwrap_or_default(),
            machine: proc("/proc/sys/kernel/hostname"),
            kernel: proc("/proc/sys/kernel/osrelease"),
            commit: commit + plus,
            runs: plan.runs,
            scale: plan.scale,
            percents: plan.percents.clone(),
            rows: Vec::new(),
        }
    }

    /// Makes `<date>-<machine>-<commit>` below `out`, with a number where that is there already.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_directory(&self, out: &Path) -> Result<PathBuf, String> {
        let name = format!("{}-{}-{}", self.date, self.machine, self.commit);
        fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
        for number in 1.. {
            let dir = match number {
                1 => out.join(&name),
                number => out.join(format!("{name}-{number}")),
            };
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(dir),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(format!("{}: {e}", dir.display())),
            }
        }
        Err("no name is free".to_owned())
    }

    /// Writes `suite.json`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        let file = dir.join("suite.json");
        fs::write(&file, text + "\n").map_err(|e| format!("{}: {e}", file.display()))
    }

    /// Reads `suite.json`.
    ///
    /// # Errors
    /// It is not there, or not what this program writes.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let file = dir.join("suite.json");
        let fault = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read_to_string(&file).map_err(|e| fault(&e))?;
        let index: Self = serde_json::from_str(&text).map_err(|e| fault(&e))?;
        match index.schema == SCHEMA {
            true => Ok(index),
            false => Err(fault(&format!(
                "its schema is {:?}, not {SCHEMA}",
                index.schema
            ))),
        }
    }
}

/// The top of the repository that this program was built from.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The load of the machine: three averages.
#[must_use]
pub fn load() -> String {
    let text = proc("/proc/loadavg");
    let three: Vec<&str> = text.split_whitespace().take(3).collect();
    three.join(" ")
}

fn proc(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}
