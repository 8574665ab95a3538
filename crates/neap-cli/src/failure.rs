//! What can go wrong before the command runs: each failure has a code, a cause, a remedy and an exit
//! code. After the command runs, its own ending is what counts.

use std::io;
use std::path::PathBuf;

use neap_units::{Bytes, SizeError};
use thiserror::Error;

use crate::exit;

/// A failure of neap itself.
#[derive(Debug, Error)]
pub enum Failure {
    /// Neither flag nor cgroup gives a limit.
    #[error("no memory limit: --memory is not given and {0}")]
    NoLimit(&'static str),
    /// A size that cannot be read. The caret needs lines of its own.
    #[error("{flag}: {source}")]
    Size {
        /// The flag or variable it was written at.
        flag: &'static str,
        /// What is wrong where.
        source: SizeError,
    },
    /// A share where only a size makes sense.
    #[error("{0}: a percentage has nothing to be a share of here")]
    Share(&'static str),
    /// A word that is none of the choices, in a variable.
    #[error("{name}: {fault}")]
    Choice {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        fault: String,
    },
    /// A variable that is not text.
    #[error("{0} is not valid UTF-8")]
    NotText(&'static str),
    /// A limit that neap itself would not fit in.
    #[error("a limit of {0} is too small: the least is {1}")]
    LimitTooSmall(Bytes, Bytes),
    /// The amount of RAM is unknown, so a share of it is too.
    #[error("cannot read how much RAM there is from /proc/meminfo")]
    NoRam,
    /// The command is not there.
    #[error("{0}: command not found")]
    NotFound(String),
    /// The command is there and cannot be executed.
    #[error("{path}: cannot be executed: {source}")]
    NotExecutable {
        /// The command's path.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// No process could be made.
    #[error("cannot start a process: {0}")]
    Spawn(#[source] io::Error),
    /// An output file could not be made.
    #[error("{flag} {path}: {source}")]
    Output {
        /// The flag that named it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// The directory given for the swap file cannot be used.
    #[error("{by} {path}: {source}")]
    SwapDir {
        /// The flag or variable that named it.
        by: &'static str,
        /// The directory.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// The name is another job's.
    #[error("a job named {0} runs already")]
    Taken(String),
    /// There is no service of this name.
    #[error("no service named {0} runs")]
    NoService(String),
    /// A service that says no, or cannot be started.
    #[error("{0}")]
    Service(String),
    /// A service that this machine does not let manage programs.
    #[error("{0}")]
    NoEngine(String),
    /// `--require`, and the command would run unmanaged.
    #[error("--require: {0}")]
    Unmanaged(String),
    /// A Python that is no kernel for Jupyter.
    #[error("{0}: no Python that has the module ipykernel")]
    NoKernel(PathBuf),
    /// Nowhere to put a kernel for Jupyter.
    #[error("no folder for kernels: HOME is not set")]
    NoHome,
    /// What can be read only once cannot be kept for each run.
    #[error("standard input is a pipe, and cannot be kept in {dir} for each run to read: {source}")]
    Input {
        /// The temporary folder.
        dir: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// What was to be printed could not be.
    #[error("standard output: {0}")]
    Stdout(#[source] io::Error),
    /// Something neap cannot do without, of the machine.
    #[error("{what}: {source}")]
    Machine {
        /// What was tried.
        what: &'static str,
        /// The kernel's word.
        source: io::Error,
    },
}

/// Exec errors that mean the file is not there (as env and timeout have it).
pub fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

impl Failure {
    /// The code that documentation lists.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoLimit(_) => "E0101",
            Self::Size { .. } | Self::Share(_) => "E0102",
            Self::Unmanaged(_) | Self::NoEngine(_) => "E0103",
            Self::NotFound(_) => "E0104",
            Self::NotExecutable { .. } => "E0105",
            Self::Spawn(_) => "E0106",
            Self::Output { .. } => "E0107",
            Self::SwapDir { .. } => "E0108",
            Self::Choice { .. } | Self::NotText(_) => "E0109",
            Self::LimitTooSmall(..) => "E0110",
            Self::NoRam => "E0111",
            Self::Taken(_) => "E0114",
            Self::NoKernel(_) => "E0115",
            Self::NoHome => "E0116",
            Self::NoService(_) | Self::Service(_) => "E0117",
            Self::Input { .. } | Self::Stdout(_) | Self::Machine { .. } => "E0112",
        }
    }

    /// What to try next; `None` when the cause says it all.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoLimit(_) => Some("-m 2G, or -m 50% for half of RAM"),
            Self::Size { .. } | Self::Choice { .. } => None,
            Self::Unmanaged(_) | Self::NoEngine(_) | Self::Service(_) => None,
            Self::Share(_) => Some("a size such as 4G"),
            Self::Taken(_) => Some("another name; neap ps lists those that run"),
            Self::NoKernel(_) => {
                Some("python3 -m pip install ipykernel, or --python with one that has it")
            }
            Self::NoHome => Some("--prefix DIR"),
            Self::NoService(_) => {
                Some("neap serve NAME -m SIZE, or --budget NAME:SIZE, which starts it")
            }
            Self::NotText(_) => Some("unset it, or give the flag"),
            Self::LimitTooSmall(..) => Some("a larger --memory"),
            Self::NoRam => Some("--memory with a size instead of a percentage"),
            Self::NotFound(name) if name.contains('/') => Some("a path that is there"),
            Self::NotFound(_) => Some("the full path, or check PATH"),
            Self::NotExecutable { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
                Some("a program in it")
            }
            Self::NotExecutable { .. } => Some("chmod +x, or name its interpreter"),
            Self::Spawn(source) => {
                Some(neap_sys::shortage(source).unwrap_or("check `ulimit -u` and free memory"))
            }
            Self::Input { .. } => Some("< FILE instead of a pipe, or TMPDIR with room"),
            Self::Stdout(_) => {
                Some("free room where standard output goes, or another place for it")
            }
            Self::Output { .. } => Some("a file in a directory you may write to"),
            Self::SwapDir { .. } => Some("another directory (neap run also takes --no-swap)"),
            Self::Machine { source, .. } => {
                Some(neap_sys::shortage(source).unwrap_or("neap doctor"))
            }
        }
    }

    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::NotFound(_) => exit::NOT_FOUND,
            Self::NotExecutable { .. } => exit::NOT_EXECUTABLE,
            _ => exit::FAILED,
        }
    }

    /// The lines for stderr: the cause, and the remedy if there is one.
    #[must_use]
    pub fn lines(&self) -> String {
        let remedy = self
            .remedy()
            .map_or_else(String::new, |remedy| format!("\n  try: {remedy}"));
        format!("neap: error[{}]: {self}{remedy}", self.code())
    }
}

#[cfg(test)]
mod tests {
    use neap_units::parse_size;

    use super::*;

    #[test]
    fn a_failure_names_its_code_cause_and_remedy() {
        let text = Failure::NotFound("frob".to_owned()).lines();
        assert_eq!(
            text,
            "neap: error[E0104]: frob: command not found\n  try: the full path, or check PATH"
        );
    }

    #[test]
    fn a_bad_size_keeps_its_caret() {
        let failure = Failure::Size {
            flag: "--memory",
            source: parse_size("30MK").unwrap_err(),
        };
        assert!(
            failure.lines().ends_with("\n  30MK\n     ^"),
            "{}",
            failure.lines()
        );
        assert_eq!(failure.exit(), 125);
    }

    #[test]
    fn a_remedy_is_for_the_cause() {
        let remedy = |failure: Failure| failure.remedy().unwrap_or_default();
        let error = io::Error::from_raw_os_error;
        assert!(remedy(Failure::Spawn(error(24))).contains("ulimit -n"));
        assert!(remedy(Failure::Spawn(error(11))).contains("ulimit -u"));
        assert!(remedy(Failure::Stdout(error(28))).contains("standard output"));
    }

    #[test]
    fn missing_and_unexecutable_commands_have_their_own_codes() {
        assert_eq!(Failure::NotFound(String::new()).exit(), 127);
        let denied = Failure::NotExecutable {
            path: "/etc/passwd".into(),
            source: io::Error::from_raw_os_error(13),
        };
        assert_eq!(denied.exit(), 126);
        assert!(is_missing(&io::Error::from_raw_os_error(2)));
        assert!(!is_missing(&io::Error::from_raw_os_error(13)));
    }
}
