//! The seam to the engine: the only file here that knows its options and errors.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use neap_engine::{Control, Engine as Inner, Exhausted, Options, StartError, Stat, probe};
use serde_json::{Map, Value};

use crate::choice::OnExhausted;
use crate::failure::Failure;
use crate::run::plan::Plan;

const DOCTOR: &str = "neap doctor";

/// What neap cannot do without, and how to have it: pages are read and mappings are known by way of /proc.
pub const NO_PROC: (&str, &str) = (
    "/proc is not mounted",
    "mount -t proc proc /proc, or a container or chroot that has it",
);

/// Whether /proc is there.
pub fn has_proc() -> bool {
    Path::new("/proc/self/maps").exists()
}

/// An engine at work.
pub struct Engine(Inner);

impl Engine {
    /// Starts an engine that follows `plan`, and records what it does in `record`.
    ///
    /// # Errors
    /// Why there can be none and what to try, in one line; the command then runs unmanaged. Or its name is another job's.
    pub fn start(plan: &Plan, record: Option<File>, control: Control) -> Result<Self, Failure> {
        if !has_proc() {
            let (why, remedy) = NO_PROC;
            return Err(Failure::Unmanaged(format!("{why}; try: {remedy}")));
        }
        let options = Options {
            record: record.map(Arc::new),
            control: Some(control),
            ..options(plan)
        };
        Inner::start(options)
            .map(Self)
            .map_err(|error| match error {
                StartError::Taken(name) => Failure::Taken(name.to_string()),
                error => Failure::Unmanaged(line(&error)),
            })
    }

    /// The variables that lead the library to the engine.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.0.environment()
    }

    /// Processes that ever attached.
    pub fn attached(&self) -> usize {
        self.0.attached()
    }

    /// Whether a process has spoken to the engine, attached or not.
    pub fn was_met(&self) -> bool {
        self.0.was_met()
    }

    /// Answers who looks at the job or steers it, from here on.
    pub fn open(&mut self) {
        self.0.open();
    }

    /// Tells all figures as they are, from any thread.
    pub fn viewer(&self) -> impl Fn() -> Stat + Send + 'static {
        self.0.viewer()
    }

    /// Ends the engine and returns its report.
    pub fn finish(self) -> Map<String, Value> {
        match serde_json::to_value(self.0.finish()) {
            Ok(Value::Object(report)) => report,
            // Numbers, strings and maps with string keys always make an object.
            _ => Map::new(),
        }
    }
}

fn options(plan: &Plan) -> Options {
    Options {
        limit: plan.limit.bytes,
        swap: plan.swap.clone(),
        writeback: plan.writeback,
        pool_max: plan.pool_most,
        pool_percent: plan.pool_max.0,
        pool_beside: plan.pool_beside,
        compressor: plan.compressor,
        shrinker: plan.shrinker,
        on_exhausted: match plan.on_exhausted {
            OnExhausted::Open => Exhausted::Open,
            OnExhausted::Kill => Exhausted::Kill,
        },
        record: None,
        require: plan.require,
        verbose: plan.verbose,
        control: None,
    }
}

fn line(error: &StartError) -> String {
    let remedy = match error {
        StartError::Refused(refusal) => &refusal.remedy,
        StartError::TooOld => {
            let found = probe().checks.into_iter();
            let missing = |check: &neap_engine::Check| !check.ok && !check.optional;
            let remedy = found.filter(missing).map(|check| check.remedy).next();
            return format!("{error}; try: {}", remedy.as_deref().unwrap_or(DOCTOR));
        }
        StartError::Taken(_) => "another --name",
        StartError::SwapFile { .. } => "another --swap-dir, or --no-swap",
        StartError::Threads(error) | StartError::Random(error) => {
            neap_sys::shortage(error).unwrap_or(DOCTOR)
        }
        StartError::Sys(error) | StartError::Userfaultfd(error) => {
            let no_room = "raise `ulimit -v` and `ulimit -d`";
            let advice = error.shortage();
            advice.unwrap_or(if error.is_no_room() { no_room } else { DOCTOR })
        }
        StartError::Shelter(error) => {
            neap_sys::shortage(error).unwrap_or("a TMPDIR that this user may write to")
        }
    };
    format!("{error}; try: {remedy}")
}
