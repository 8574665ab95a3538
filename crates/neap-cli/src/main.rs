//! The neap command.
//!
//! `neap run` puts a command under the engine; `neap doctor` says what the machine allows; `neap sim`
//! runs the policies on an imagined one; `neap bench` compares `neap run` with what the kernel has.
//! Readers of this crate start at [`run`].
#![forbid(unsafe_code)]

mod bench;
mod choice;
mod doctor;
mod env;
mod exit;
mod failure;
mod flags;
mod machine;
mod run;
mod sim;
mod talk;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use flags::{Cli, Command};

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => match cli.command {
            Command::Run(args) => run::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Bench(args) => bench::run(&args),
            Command::Sim(args) => sim::run(&args),
        },
        Err(error) => {
            // A closed stdout or stderr leaves nobody to tell.
            let _ = error.print();
            ExitCode::from(usage_status(error.kind(), std::env::args_os().nth(1)))
        }
    }
}

/// Help asked for is success. A wrong flag of `run` must not look like a status of the command, so it
/// is 125 as with env and timeout; elsewhere it is the usual 2.
fn usage_status(kind: ErrorKind, subcommand: Option<std::ffi::OsString>) -> u8 {
    match kind {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
        _ if subcommand.is_some_and(|word| word == "run") => exit::FAILED,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_flags_of_run_have_a_status_of_their_own() {
        let wrong = ErrorKind::UnknownArgument;
        assert_eq!(usage_status(wrong, Some("run".into())), 125);
        assert_eq!(usage_status(wrong, Some("doctor".into())), 2);
        assert_eq!(usage_status(ErrorKind::DisplayHelp, Some("run".into())), 0);
        let bare = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        assert_eq!(usage_status(bare, None), 2);
    }
}
