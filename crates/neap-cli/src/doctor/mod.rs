//! `neap doctor`: what this machine allows, and the remedy for what it does not.

mod checks;
mod render;
mod trial;
mod tuning;

use std::io::{self, Write};
use std::process::ExitCode;

use neap_tuning::TUNING;
use serde::Serialize;

use crate::flags::DoctorArgs;
use crate::machine::Root;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All is there.
    Ok,
    /// neap works, by a slower way.
    Limited,
    /// neap cannot manage programs fully.
    Missing,
    /// A fact that decides nothing.
    Info,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// What was found.
    pub verdict: Verdict,
    /// The same in words.
    pub detail: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// Runs every check and prints them; 0 when nothing is missing, 1 otherwise.
pub fn run(args: &DoctorArgs) -> ExitCode {
    if args.tuning {
        return print(&tuned(args.json), true);
    }
    let root = Root::real();
    let mut checks = checks::all(&root, args.swap_dir.as_deref());
    // Nothing that is read shows as much as a program that was managed.
    if healthy(&checks) {
        checks.push(trial::managed());
        let events = checks.iter().find(|check| check.name == "fork events");
        let announced = events.is_some_and(|check| check.verdict == Verdict::Ok);
        let remedy = events.and_then(|check| check.remedy.clone());
        if healthy(&checks) {
            checks.push(trial::forks(announced, remedy));
        }
    }
    let text = if args.json {
        render::json(&checks)
    } else {
        render::table(&checks)
    };
    print(&text, healthy(&checks))
}

fn tuned(json: bool) -> String {
    let list = TUNING.list();
    match json {
        true => tuning::json(&list),
        false => tuning::table(&list),
    }
}

fn print(text: &str, fine: bool) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            crate::talk::warn(&format!("stdout: {error}"));
            ExitCode::from(1)
        }
        _ if fine => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}

fn healthy(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.verdict != Verdict::Missing)
}
