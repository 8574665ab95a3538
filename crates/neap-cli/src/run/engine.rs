//! The seam to the engine: the only file here that knows its options and errors.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use neap_control::Join;
use neap_engine::{Control, Engine as Inner, Exhausted, Options, StartError, Walk, probe};
use neap_units::{Bytes, Limit};
use serde_json::{Map, Value};

use crate::choice::{OnExhausted, WalkChoice};
use crate::failure::Failure;
use crate::run::member::Member;
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

/// An engine at work: of this process, or of a service that the job has joined.
pub enum Engine {
    /// Of this process.
    Own(Inner),
    /// Of a service.
    Joined(Member),
}

impl Engine {
    /// Starts an engine that follows `plan`, and records what it does in `record`; or joins the service that has one.
    ///
    /// # Errors
    /// Why there can be none and what to try, in one line; the command then runs unmanaged. Or its name is another job's.
    pub fn start(plan: &Plan, record: Option<File>, control: Control) -> Result<Self, Failure> {
        must_have_proc()?;
        if let Some(service) = &plan.service {
            let join = Join {
                name: control.name,
                high: plan.settings.high.into(),
                low: Limit::Bytes(plan.settings.low),
                min: Limit::Bytes(plan.settings.min),
                swap_max: plan.settings.swap_max.into(),
                zswap_max: plan.settings.zswap_max.into(),
                max: plan.own_limit().into(),
                writeback: plan.writeback,
                idle: plan.idle.map(|time| time.as_millis().into()),
                require: plan.require,
                command: Join::words(&control.command),
            };
            return service.join(&join).map(Self::Joined);
        }
        let options = Options {
            record: record.map(Arc::new),
            control: Some(control),
            ..options(plan)
        };
        start(options)
    }

    /// Starts an engine that jobs join.
    ///
    /// # Errors
    /// Why there can be none and what to try.
    pub fn serve(plan: &Plan, walk: WalkChoice, control: Control) -> Result<Self, Failure> {
        must_have_proc()?;
        let options = Options {
            control: Some(control),
            serves: true,
            walk: match walk {
                WalkChoice::MemcgLru => Walk::MemcgLru,
                WalkChoice::Full => Walk::Full,
                WalkChoice::Cookie => Walk::Cookie,
            },
            ..options(plan)
        };
        start(options)
    }

    /// The variables that lead the library to the engine.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        match self {
            Self::Own(engine) => engine.environment(),
            Self::Joined(member) => member.environment(),
        }
    }

    /// Answers who looks at the job or steers it, from here on.
    pub fn open(&mut self) {
        if let Self::Own(engine) = self {
            engine.open();
        }
    }

    /// Tells all figures as they are, from any thread.
    pub fn viewer(&self) -> Box<dyn Fn() -> Value + Send> {
        match self {
            Self::Own(engine) => {
                let stat = engine.viewer();
                Box::new(move || serde_json::to_value(stat()).unwrap_or_default())
            }
            Self::Joined(member) => Box::new(member.viewer()),
        }
    }

    /// Lets the job go on if it is frozen, from any thread.
    pub fn thawer(&self) -> Box<dyn Fn() + Send> {
        match self {
            Self::Own(engine) => Box::new(engine.thawer()),
            Self::Joined(member) => Box::new(member.thawer()),
        }
    }

    /// The limit, where it is not the plan's: that of the service which a job without one of its own has joined.
    pub fn limit(&self) -> Option<Bytes> {
        match self {
            Self::Own(_) => None,
            Self::Joined(member) => Some(member.limit()),
        }
    }

    /// Asks all jobs of a service to end.
    pub fn ask_to_stop(&self) {
        if let Self::Own(engine) = self {
            engine.ask_to_stop();
        }
    }

    /// Has nobody join a service any more, if it has no job. Whether it is so.
    pub fn close_if_idle(&self) -> bool {
        match self {
            Self::Own(engine) => engine.close_if_idle(),
            Self::Joined(_) => false,
        }
    }

    /// Jobs that a service has.
    pub fn jobs(&self) -> usize {
        match self {
            Self::Own(engine) => engine.jobs(),
            Self::Joined(_) => 0,
        }
    }

    /// Ends the engine, or leaves the service.
    pub fn finish(self) -> End {
        match self {
            Self::Own(engine) => {
                let (attached, met) = (engine.attached() > 0, engine.was_met());
                let report = match serde_json::to_value(engine.finish()) {
                    Ok(Value::Object(report)) => report,
                    // Numbers, strings and maps with string keys always make an object.
                    _ => Map::new(),
                };
                End {
                    report,
                    attached,
                    met,
                }
            }
            Self::Joined(member) => {
                let report = member.leave();
                let is =
                    |name: &str| report.get("neap").and_then(|neap| neap[name].as_u64()) != Some(0);
                let (attached, met) = (is("attached"), is("met"));
                End {
                    report,
                    attached,
                    met,
                }
            }
        }
    }
}

/// What an engine has come to.
#[derive(Debug, Default)]
pub struct End {
    /// The figures.
    pub report: Map<String, Value>,
    /// Some process was managed.
    pub attached: bool,
    /// Some process has spoken to the engine, managed or not.
    pub met: bool,
}

fn must_have_proc() -> Result<(), Failure> {
    let (why, remedy) = NO_PROC;
    match has_proc() {
        true => Ok(()),
        false => Err(Failure::Unmanaged(format!("{why}; try: {remedy}"))),
    }
}

fn start(options: Options) -> Result<Engine, Failure> {
    Inner::start(options)
        .map(Engine::Own)
        .map_err(|error| match error {
            StartError::Taken(name) => Failure::Taken(name.to_string()),
            error => Failure::Unmanaged(line(&error)),
        })
}

fn options(plan: &Plan) -> Options {
    Options {
        limit: plan.limit.bytes,
        high: plan.settings.high,
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
        idle: plan.idle,
        require: plan.require,
        serves: false,
        walk: Walk::default(),
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
        StartError::Unreachable(_, remedy) => remedy,
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
