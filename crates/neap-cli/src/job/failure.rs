//! Failures of commands about a running job. Each has a code, a cause and a remedy.

use std::io;

use neap_control::Refusal;
use neap_units::SizeError;
use thiserror::Error;

/// Nothing was done, or less than was asked for.
pub const NOT_DONE: u8 = 1;

/// Why a command about a job failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// No job at all.
    #[error("no job of this user runs")]
    NoJobs,
    /// No such job.
    #[error("no job of this user is called {0:?} or has such a process")]
    NoJob(String),
    /// A path at which no job can listen.
    #[error("{0}: {1}")]
    NoSocket(String, &'static str),
    /// More than one.
    #[error("there are several: {0}")]
    Several(String),
    /// Nobody answers.
    #[error("{name}: {why}")]
    Silent {
        /// The job.
        name: String,
        /// Why not.
        why: String,
    },
    /// The job said no.
    #[error("{name}: {message}")]
    Refused {
        /// The job.
        name: String,
        /// What it said.
        message: String,
    },
    /// Less than was asked for.
    #[error("{name}: {message} (EAGAIN)")]
    Short {
        /// The job.
        name: String,
        /// What it said.
        message: String,
    },
    /// A setting that cannot be read.
    #[error("{0}")]
    Setting(String),
    /// A size that cannot be read. The caret needs lines of its own.
    #[error("{what}: {source}")]
    Size {
        /// Its name.
        what: String,
        /// The fault, and its place in the word.
        source: SizeError,
    },
    /// Nothing is to be taken.
    #[error("SIZE is {0:?}, and takes nothing away")]
    Nothing(String),
    /// A run over time that cannot be had.
    #[error("{path}: {why}")]
    Stats {
        /// The statistics file, or the job.
        path: String,
        /// Why not.
        why: String,
    },
    /// The result cannot be written.
    #[error("{what}: {source}")]
    Output {
        /// Where.
        what: String,
        /// The kernel's word.
        source: io::Error,
    },
}

impl Failure {
    /// What a job's refusal means for the user.
    #[must_use]
    pub fn of(name: &str, refusal: Refusal) -> Self {
        let name = name.to_owned();
        match refusal {
            Refusal::No { code, message, .. } if code == "EAGAIN" => Self::Short { name, message },
            Refusal::No { message, .. } => Self::Refused { name, message },
            other => Self::Silent {
                name,
                why: other.to_string(),
            },
        }
    }

    /// The code that documentation lists.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoJobs | Self::NoJob(_) | Self::NoSocket(..) => "E0301",
            Self::Several(_) => "E0302",
            Self::Silent { .. } => "E0303",
            Self::Refused { .. } => "E0304",
            Self::Short { .. } => "E0305",
            Self::Setting(_) | Self::Size { .. } | Self::Nothing(_) => "E0306",
            Self::Output { .. } => "E0307",
            Self::Stats { .. } => "E0308",
        }
    }

    /// What to try next; `None` when the cause says it all.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoJobs => Some("neap run -m 2G -- COMMAND starts one"),
            Self::NoJob(_) => {
                Some("neap ps lists them; a job of another user is that user's to see")
            }
            Self::Several(_) => Some("one of these names"),
            Self::NoSocket(..) => {
                Some("the name that neap ps shows, or the path of a job's control socket")
            }
            Self::Nothing(_) => Some("neap reclaim JOB 100M"),
            Self::Silent { .. } => Some("again when its process runs; neap ps shows which do"),
            Self::Short { .. } => Some("less, or neap stat to see what is left to take"),
            Self::Setting(_) => Some("neap set JOB memory.max=3G zswap.max_pool_percent=25"),
            Self::Stats { .. } => Some("a file that neap run --stats FILE wrote"),
            Self::Refused { .. } | Self::Size { .. } => None,
            Self::Output { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => Some("another port or path: somebody listens there"),
                io::ErrorKind::Other => None, // neap's own words
                _ => Some("a place that this user may write to"),
            },
        }
    }

    /// The lines for stderr: the cause, and the remedy if there is one.
    #[must_use]
    pub fn lines(&self) -> String {
        let remedy = self.remedy().map(|remedy| format!("\n  try: {remedy}"));
        let remedy = remedy.unwrap_or_default();
        format!("neap: error[{}]: {self}{remedy}", self.code())
    }
}
