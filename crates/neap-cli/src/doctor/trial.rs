//! A program under neap: what the checks do not know of (a filter, a policy, a mount) shows here.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Check, Verdict};
use crate::run::command;

/// Enough for a program that does nothing.
const LIMIT: &str = "64M";

/// Runs one that must be managed, and says whether it was.
pub fn managed() -> Check {
    let (program, argument) = subject();
    let output = std::env::current_exe().and_then(|neap| {
        Command::new(neap)
            .args(["run", "--require", "--no-swap", "-m", LIMIT, "--"])
            .arg(&program)
            .args(argument)
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

/// A program that does nothing: where there is not even `true`, neap itself.
fn subject() -> (PathBuf, Option<OsString>) {
    let path = std::env::var_os("PATH");
    match command::find(OsStr::new("true"), path.as_deref()) {
        Ok(file) => (file, None),
        Err(_) => (
            std::env::current_exe().unwrap_or_default(),
            Some("--version".into()),
        ),
    }
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
