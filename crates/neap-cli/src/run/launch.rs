//! Starts the command with nothing changed but the variables that bring the library in.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use neap_sys::hand_down;
use neap_tuning::TUNING;

use crate::failure::{Failure, is_missing};
use crate::run::command;

/// exec: the file has no format the kernel knows.
const ENOEXEC: i32 = 8;
/// exec: too little memory or too many processes, which says nothing about the command.
const OUT_OF_PROCESSES: [i32; 2] = [11, 12];

/// fork: as many processes and threads as this user may have. Threads of neap's own end while it starts.
const EAGAIN: i32 = 11;

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
        let start = || match self.command(extra).spawn() {
            Err(error) if error.raw_os_error() == Some(ENOEXEC) => self.shell(extra).spawn(),
            other => other,
        };
        let mut started = start();
        for _ in 0..TUNING.command.starts {
            match &started {
                Err(error) if error.raw_os_error() == Some(EAGAIN) => {
                    std::thread::sleep(TUNING.command.between_starts.duration())
                }
                _ => break,
            }
            started = start();
        }
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

    use super::*;

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
