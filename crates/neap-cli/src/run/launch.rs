//! Starts the command with nothing changed but the variables that bring the library in.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use neap_sys::hand_down;

use crate::failure::{Failure, is_missing};
use crate::run::command;

/// File name of the preload library.
const LIBRARY: &str = "libneap_preload.so";
/// The dynamic linker's variable.
const LD_PRELOAD: &str = "LD_PRELOAD";
/// exec: the file has no format the kernel knows.
const ENOEXEC: i32 = 8;
/// exec: too little memory or too many processes, which says nothing about the command.
const OUT_OF_PROCESSES: [i32; 2] = [11, 12];

/// The preload library: beside the executable, or in ../lib/neap (an installed tree).
#[must_use]
pub fn library(executable: &Path) -> Option<PathBuf> {
    let dir = executable.parent()?;
    let beside = dir.join(LIBRARY);
    let installed = dir.parent().map(|up| up.join("lib/neap").join(LIBRARY));
    [Some(beside), installed]
        .into_iter()
        .flatten()
        .find(|path| path.is_file())
}

/// LD_PRELOAD with the library appended, unless it is there already (a nested run). `None` when the
/// library's path cannot be written there: the linker splits at spaces and colons.
#[must_use]
pub fn preload(existing: Option<&OsStr>, library: &Path) -> Option<OsString> {
    let library = library.as_os_str();
    let separator = |byte: &u8| matches!(byte, b' ' | b':');
    if library.as_bytes().iter().any(separator) {
        return None;
    }
    let Some(existing) = existing.filter(|value| !value.is_empty()) else {
        return Some(library.to_owned());
    };
    let listed = existing.as_bytes().split(|byte| separator(byte));
    if listed.into_iter().any(|entry| entry == library.as_bytes()) {
        return Some(existing.to_owned());
    }
    let mut value = existing.to_owned();
    value.push(":");
    value.push(library);
    Some(value)
}

/// The variable that brings the library in. `None` as for [`preload`].
#[must_use]
pub fn preload_variable(library: &Path) -> Option<(OsString, OsString)> {
    let value = preload(std::env::var_os(LD_PRELOAD).as_deref(), library)?;
    Some((LD_PRELOAD.into(), value))
}

/// The command line and the file it runs.
#[derive(Clone, Debug)]
pub struct Target {
    /// What execve gets.
    pub file: PathBuf,
    /// `argv`, the name as the user wrote it first.
    pub argv: Vec<OsString>,
}

impl Target {
    /// Starts the command with `extra` added to the environment.
    ///
    /// # Errors
    /// 126 and 127 as the kernel's answer has it; 125 when there is no process to be had.
    pub fn spawn(&self, extra: &[(OsString, OsString)]) -> Result<Child, Failure> {
        let started = match self.command(extra).spawn() {
            Err(error) if error.raw_os_error() == Some(ENOEXEC) => self.shell(extra).spawn(),
            other => other,
        };
        started.map_err(|error| self.explain(error))
    }

    /// Becomes the command: for when neap has nothing to do beside it. Returns only on failure.
    pub fn replace(&self) -> Failure {
        let mut error = self.command(&[]).exec();
        if error.raw_os_error() == Some(ENOEXEC) {
            error = self.shell(&[]).exec();
        }
        self.explain(error)
    }

    /// The command, ready to start.
    #[must_use]
    pub fn command(&self, extra: &[(OsString, OsString)]) -> Command {
        let mut command = Command::new(&self.file);
        command.args(&self.argv[1..]).envs(extra.iter().cloned());
        command.arg0(&self.argv[0]);
        hand_down(&mut command);
        command
    }

    /// Text without `#!`, which execvp(3) gives to the shell.
    fn shell(&self, extra: &[(OsString, OsString)]) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg(&self.file).args(&self.argv[1..]);
        command.envs(extra.iter().cloned());
        hand_down(&mut command);
        command
    }

    fn explain(&self, error: io::Error) -> Failure {
        match error.raw_os_error() {
            Some(errno) if OUT_OF_PROCESSES.contains(&errno) => Failure::Spawn(error),
            _ if is_missing(&error) && self.file.exists() => {
                Failure::NotFound(format!("{}: the interpreter it names", self.file.display()))
            }
            _ => command::failure(&self.argv[0], self.file.clone(), error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_library_is_appended_once() {
        let library = Path::new("/opt/libneap_preload.so");
        let with = |existing: &str| preload(Some(OsStr::new(existing)), library).unwrap();
        assert_eq!(preload(None, library).unwrap(), library);
        assert_eq!(with(""), library);
        assert_eq!(with("/a.so b.so"), "/a.so b.so:/opt/libneap_preload.so");
        assert_eq!(
            with("/a.so:/opt/libneap_preload.so"),
            "/a.so:/opt/libneap_preload.so"
        );
    }

    #[test]
    fn a_path_that_the_linker_would_split_is_refused() {
        assert_eq!(preload(None, Path::new("/my dir/lib.so")), None);
        assert_eq!(preload(None, Path::new("/a:b/lib.so")), None);
    }

    #[test]
    fn the_library_is_found_beside_the_program_or_installed() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        let lib = dir.path().join("lib/neap");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        let program = bin.join("neap");
        assert_eq!(library(&program), None);
        fs::write(lib.join(LIBRARY), "").unwrap();
        assert_eq!(library(&program), Some(lib.join(LIBRARY)));
        fs::write(bin.join(LIBRARY), "").unwrap();
        assert_eq!(library(&program), Some(bin.join(LIBRARY)));
    }

    #[test]
    fn a_missing_interpreter_is_127_and_rubbish_is_126() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("script");
        let spawn = |text: &str| {
            // Written by another process: one that this one forks meanwhile for another test
            // would hold it open for writing, and then nobody can execute it.
            let written = Command::new("sh")
                .args(["-c", r#"printf %s "$0" >"$1" && chmod 755 "$1""#, text])
                .arg(&file)
                .status();
            assert!(written.unwrap().success());
            let target = Target {
                file: file.clone(),
                argv: vec!["script".into()],
            };
            target
                .spawn(&[])
                .map(|mut child| child.wait().unwrap().code())
        };
        let missing = spawn("#!/no/such/interpreter\n").unwrap_err();
        assert_eq!(missing.exit(), 127);
        assert!(missing.to_string().contains("interpreter"), "{missing}");
        assert_eq!(spawn("exit 7\n").unwrap(), Some(7));
        assert_eq!(spawn("#!/bin/sh\nexit 8\n").unwrap(), Some(8));
    }
}
