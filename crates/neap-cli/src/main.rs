//! The neap command.
//!
//! `neap run` puts a command under the engine; `neap doctor` says what the machine allows; `neap sim`
//! runs the policies on an imagined one; `neap bench` compares `neap run` with what the kernel has.
//! Readers of this crate start at [`run`].
#![forbid(unsafe_code)]

mod bench;
mod choice;
mod copy;
mod doctor;
mod env;
mod exit;
mod failure;
mod flags;
mod job;
mod jupyter;
mod machine;
mod manual;
mod run;
mod serve;
mod sim;
mod talk;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use flags::{Cli, Command};

/// The code of a wrong flag, which clap tells of.
const WRONG_FLAG: &str = "E0113";

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => {
            machine::outlive_file_limit(&machine::Root::real());
            match cli.command {
                Command::Run(args) => run::run(&args),
                Command::Serve(args) => serve::run(&args),
                Command::Doctor(args) => doctor::run(&args),
                Command::Ps(args) => job::ps(&args),
                Command::Stat(args) => job::stat(&args),
                Command::Set(args) => job::set(&args),
                Command::Reclaim(args) => job::reclaim(&args),
                Command::Freeze(args) => job::freeze::freeze(&args),
                Command::Thaw(args) => job::freeze::thaw(&args),
                Command::Events(args) => job::events(&args),
                Command::Top(args) => job::show_top(&args),
                Command::Metrics(args) => job::tell_metrics(&args),
                Command::Report(args) => job::report::report(&args),
                Command::Bench(args) => bench::run(&args),
                Command::Sim(args) => sim::run(&args),
                Command::Jupyter { what } => jupyter::run(&what),
                Command::Copy(args) => copy::run(&args),
                Command::Completions(args) => manual::completions(&args),
                Command::Man(args) => manual::pages(&args),
            }
        }
        Err(error) => {
            match complaint(&error) {
                Some(lines) => talk::say(&lines),
                // A closed stdout leaves nobody to tell.
                None => error.print().unwrap_or_default(),
            }
            ExitCode::from(usage_status(error.kind(), std::env::args_os().nth(1)))
        }
    }
}

/// A wrong flag in the style of the house; `None` for help and the version.
fn complaint(error: &clap::Error) -> Option<String> {
    let text = error.render().to_string();
    let said = text.strip_prefix("error: ")?.lines();
    let lines: Vec<_> = said
        .filter(|line| !line.is_empty())
        .map(|line| match line {
            "For more information, try '--help'." => "  try: --help".to_owned(),
            _ => line.replacen("Usage: ", "  usage: ", 1),
        })
        .collect();
    Some(format!("neap: error[{WRONG_FLAG}]: {}", lines.join("\n")))
}

/// Help asked for is success. A wrong flag of `run` must not look like a status of the command, so it
/// is 125 as with env and timeout; elsewhere it is the usual 2.
fn usage_status(kind: ErrorKind, subcommand: Option<std::ffi::OsString>) -> u8 {
    match kind {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
        _ if subcommand.is_some_and(|word| word == "run" || word == "serve") => exit::FAILED,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_flag_has_a_code_and_help_has_none() {
        let said = |words: &[&str]| complaint(&Cli::try_parse_from(words).unwrap_err());
        for wrong in [
            &["neap", "run", "--frob", "ls"][..],
            &["neap", "frob"],
            &["neap", "bench", "ls"],
            &["neap", "run", "--pool-max", "900", "ls"],
        ] {
            let lines = said(wrong).unwrap();
            assert!(lines.starts_with("neap: error[E0113]: "), "{lines}");
            assert!(lines.ends_with("\n  try: --help"), "{lines}");
            assert!(!lines.contains("\n\n"), "{lines}");
        }
        let bad = said(&["neap", "bench", "--runs", "0", "ls"]).unwrap();
        assert_eq!(bad.lines().count(), 2, "{bad}");
        for help in [&["neap"][..], &["neap", "--help"], &["neap", "--version"]] {
            assert_eq!(said(help), None);
        }
    }

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
