//! `neap sim`: the simulator's commands. Data goes to stdout, talk to stderr.

mod experiment;
mod failure;
mod fit;
mod flags;
mod record;
mod trace;
mod workload;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use neap_sim::WORKLOAD_SCHEMA;

use crate::talk;
use failure::Failure;
pub use flags::SimArgs;
use flags::SimCommand;

/// Runs one of the simulator's commands; 0 when it did what was asked, 1 otherwise.
pub fn run(args: &SimArgs) -> ExitCode {
    let done = match &args.command {
        SimCommand::Experiment(args) => experiment::run(args),
        SimCommand::Run(args) => workload::run(args),
        SimCommand::Import(args) => trace::import(args),
        SimCommand::Replay(args) => trace::replay(args),
        SimCommand::Forecast(args) => trace::forecast(args),
        SimCommand::Fit(args) => fit::run(args),
        SimCommand::Schema => print(WORKLOAD_SCHEMA),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            talk::say(&failure.lines());
            ExitCode::from(1)
        }
    }
}

/// Writes to stdout. A reader that has seen enough is no failure.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Stdout(error)),
        _ => Ok(()),
    }
}

/// Writes a file, or stdout when it is called `-`.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(text);
    }
    fs::write(path, text).map_err(|source| Failure::Write {
        path: path.to_owned(),
        source,
    })
}
