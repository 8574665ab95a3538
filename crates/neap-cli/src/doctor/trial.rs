//! A program under neap: what the checks do not know of (a filter, a policy, a mount) shows here.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
    let said = match try_run(&program, arguments) {
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

/// Says what becomes of forks, `announced` or not: a shell prints its own mappings, and the library has written to that of a libc whose fork
/// it has taken over.
pub fn forks(announced: bool, remedy: Option<String>) -> Check {
    let said = |verdict, detail: &str, remedy| Check {
        name: "forks",
        verdict,
        detail: detail.to_owned(),
        remedy,
    };
    if announced {
        return said(Verdict::Ok, "announced by the kernel", None);
    }
    let path = std::env::var_os("PATH");
    let shell = command::find(OsStr::new("sh"), path.as_deref()).ok();
    let shell = shell.filter(|file| manageable(file, Caller::own()).is_ok());
    let output = shell.and_then(|shell| try_run(&shell, &["-c", PRINT_MAPPINGS]).ok());
    let printed = output.filter(|output| output.status.success());
    match printed.and_then(|output| has_own_libc(&String::from_utf8_lossy(&output.stdout))) {
        Some(true) => said(
            Verdict::Ok,
            "passed on: libc's fork is known here, and its child is given what is out",
            None,
        ),
        Some(false) => said(
            Verdict::Limited,
            "libc's fork is not known here: all pages of a process come back before each fork, over the limit if they do not fit",
            remedy,
        ),
        None => said(
            Verdict::Info,
            "whether libc's fork is known here cannot be told: there is no dynamically linked sh on the path to try it with",
            None,
        ),
    }
}

const PRINT_MAPPINGS: &str = "while read -r line; do echo \"$line\"; done < /proc/self/smaps";

/// Whether a process has pages of its own of libc's code. `None`: it has no such libc.
fn has_own_libc(smaps: &str) -> Option<bool> {
    let mut found = None;
    let mut is_libc = false;
    for line in smaps.lines() {
        if let Some(kib) = line.strip_prefix("Anonymous:") {
            let own = kib.trim().trim_end_matches(" kB") != "0";
            if is_libc {
                found = Some(own || found == Some(true));
            }
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let is_mapping = words.next().is_some_and(|word| word.contains('-'));
        if is_mapping && let Some(access) = words.next() {
            let name = line.rsplit('/').next().unwrap_or_default();
            let named = ["libc.so", "libc-", "libc.musl", "ld-musl"]
                .iter()
                .any(|start| name.starts_with(start));
            is_libc = named && access.contains('x');
        }
    }
    found
}

fn try_run(program: &Path, arguments: &[&str]) -> io::Result<Output> {
    Command::new(std::env::current_exe()?)
        .args(["run", "--require", "--no-swap", "-m", LIMIT, "--"])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
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
    fn a_libc_whose_code_is_partly_its_own_was_taken_over() {
        let of = |name: &str, own: u32| {
            format!(
                "7f00-7f10 r--p 00000000 00:00 1 {name}\nAnonymous: 8 kB\n\
                 7f10-7f20 r-xp 00026000 fe:00 326269   {name}\nRss: 960 kB\nAnonymous:       {own} kB\n"
            )
        };
        for libc in [
            "/usr/lib/libc.so.6",
            "/lib/libc-2.34.so",
            "/lib/ld-musl-x86_64.so.1",
        ] {
            assert_eq!(has_own_libc(&of(libc, 4)), Some(true), "{libc}");
            assert_eq!(has_own_libc(&of(libc, 0)), Some(false), "{libc}");
        }
        assert_eq!(has_own_libc(&of("/usr/bin/dash", 4)), None);
    }

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
