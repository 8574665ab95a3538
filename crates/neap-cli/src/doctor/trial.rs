//! A program under neap: what the checks do not know of (a filter, a policy, a mount) shows here.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Check, Verdict};
use crate::run::command;
use crate::run::elf::{Caller, manageable};

/// Enough for a program that does nothing.
const LIMIT: &str = "64M";

/// Runs one that must be managed, and says whether it was.
pub fn managed() -> Check {
    let Some((program, arguments)) = subject() else {
        return nothing_to_try();
    };
    let output = std::env::current_exe().and_then(|neap| {
        Command::new(neap)
            .args(["run", "--require", "--no-swap", "-m", LIMIT, "--"])
            .arg(&program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
    });
    let said = match output {
        Ok(output) if output.status.success() => {
            let detail = format!("{} was managed", program.display());
            return check(Verdict::Ok, detail, None);
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let (detail, remedy) = cause(&said);
    check(Verdict::Missing, detail, Some(remedy))
}

fn check(verdict: Verdict, detail: String, remedy: Option<String>) -> Check {
    Check {
        name: "a program",
        verdict,
        detail,
        remedy,
    }
}

/// Programs that do nothing, and may be on the path.
const SUBJECTS: &[(&str, &[&str])] = &[
    ("true", &[]),
    ("sh", &["-c", ":"]),
    ("python3", &["-c", ""]),
    ("node", &["-e", ""]),
    ("perl", &["-e", ""]),
];

/// The first of them that is there and is linked as neap needs it: an image may have static ones only, or none.
fn subject() -> Option<(PathBuf, &'static [&'static str])> {
    let path = std::env::var_os("PATH");
    SUBJECTS.iter().find_map(|(name, arguments)| {
        let file = command::find(OsStr::new(name), path.as_deref()).ok()?;
        let fit = manageable(&file, Caller::own()).is_ok();
        fit.then_some((file, *arguments))
    })
}

fn nothing_to_try() -> Check {
    let detail =
        "no dynamically linked true, sh, python3, node or perl is on the path to try it with";
    let remedy = "neap run --require -m 64M -- PROGRAM, with a program of your own";
    check(Verdict::Missing, detail.to_owned(), Some(remedy.to_owned()))
}

/// The first message of neap, in two parts: what happened, and what to do.
fn cause(said: &str) -> (String, String) {
    let line = said.lines().next().unwrap_or_default();
    let line = line.rsplit("--require: ").next().unwrap_or(line);
    let line = line.strip_prefix("neap: ").unwrap_or(line);
    let (detail, remedy) = match line.split_once("; try: ") {
        Some((detail, remedy)) => (detail, remedy),
        None => (line, "neap run -v -m 64M -- true, which may say more"),
    };
    (detail.to_owned(), remedy.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_and_its_remedy_are_taken_apart() {
        let (detail, remedy) =
            cause("neap: error[E0103]: --require: a filter refuses; try: --device x\n");
        assert_eq!(
            (detail.as_str(), remedy.as_str()),
            ("a filter refuses", "--device x")
        );
        let (detail, remedy) =
            cause("neap: a process stays unmanaged: no descriptor\nneap: more\n");
        assert_eq!(detail, "a process stays unmanaged: no descriptor");
        assert!(remedy.starts_with("neap run -v"));
    }
}
