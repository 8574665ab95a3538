//! `neap sim`: the simulator's commands. Data goes to stdout, talk to stderr.

mod against;
mod experiment;
mod failure;
mod fit;
mod flags;
mod forecast;
mod output;
mod record;
mod resume;
mod trace;
mod verify;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

use neap_sim::WORKLOAD_SCHEMA;

use crate::talk;
use failure::Failure;
pub use flags::SimArgs;
use flags::SimCommand;

/// Runs one of the simulator's commands; 0 when it did what was asked, otherwise as the failure says.
pub fn run(args: &SimArgs) -> ExitCode {
    let done = match &args.command {
        SimCommand::Experiment(args) => experiment::run(args),
        SimCommand::Run(args) => workload::run(args),
        SimCommand::Import(args) => trace::import(args),
        SimCommand::Replay(args) => trace::replay(args),
        SimCommand::Forecast(args) => forecast::forecast(args),
        SimCommand::Fit(args) => fit::run(args),
        SimCommand::Schema => print(WORKLOAD_SCHEMA),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            talk::say(&failure.lines());
            ExitCode::from(failure.exit())
        }
    }
}

/// Writes to stdout. A reader that has seen enough is no failure.
fn print(content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout();
    match out.write_all(content.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Stdout(error)),
        _ => Ok(()),
    }
}
