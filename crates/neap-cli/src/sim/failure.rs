//! What can go wrong in `neap sim`: a code, a cause and, where one helps, a remedy.

use std::io;
use std::path::PathBuf;

use neap_record::RecordFault;
use neap_sim::{ExperimentFault, ImportFault, KeptFault, StoredFault, TraceFault, WorkloadFault};
use thiserror::Error;

/// A failure of a simulator command.
#[derive(Debug, Error)]
pub enum Failure {
    /// Standard output could not be written.
    #[error("stdout: {0}")]
    Stdout(#[source] io::Error),
    /// An output file could not be written.
    #[error("{path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// An input file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// An experiment cannot run.
    #[error(transparent)]
    Experiment(#[from] ExperimentFault),
    /// A workload file cannot be used.
    #[error("{path}: {source}")]
    Workload {
        /// The file.
        path: PathBuf,
        /// What is wrong where.
        source: WorkloadFault,
    },
    /// A file is no trace.
    #[error("{path}: {source}")]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong where.
        source: TraceFault,
    },
    /// A recording cannot be imported.
    #[error("{path}: {source}")]
    Import {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ImportFault,
    },
    /// A record is damaged from the start, or another file.
    #[error("{path}: {source}")]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: RecordFault,
    },
    /// A record of which no decision can be read.
    #[error("{path}: it is damaged before its first decision, so that nothing was compared")]
    Nothing {
        /// The file.
        path: PathBuf,
    },
    /// The core decides otherwise than it did.
    #[error("{path}: {different} of {calls} decisions differ")]
    Differs {
        /// The file.
        path: PathBuf,
        /// Answers that are not as recorded.
        different: u64,
        /// All answers.
        calls: u64,
    },
    /// A file is no stored result of an experiment.
    #[error("{path}: {source}")]
    Stored {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: StoredFault,
    },
    /// A file is not what `make lab` writes.
    #[error("{path}: {source}")]
    Lab {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: StoredFault,
    },
    /// A file of `--resume` is another, or of another build.
    #[error("{path}: {source}")]
    Kept {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: KeptFault,
    },
    /// Stored results came out otherwise.
    #[error("{path}: {different} of {rows} rows differ")]
    Unlike {
        /// The file.
        path: PathBuf,
        /// Rows that are not as stored.
        different: usize,
        /// All rows.
        rows: usize,
    },
    /// What is to be written is read, too, or written by another flag.
    #[error("{flag}: {path} is the file of {other}, too: nothing was written")]
    Same {
        /// The flag.
        flag: &'static str,
        /// The file it names.
        path: PathBuf,
        /// What else names that file.
        other: &'static str,
    },
    /// A flag's value makes no sense.
    #[error("{flag}: {fault}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What is wrong and what to write.
        fault: String,
    },
}

impl Failure {
    /// The code that documentation lists.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Stdout(_) | Self::Write { .. } => "E0201",
            Self::Read { .. } => "E0202",
            Self::Experiment(ExperimentFault::Endless { .. }) => "E0208",
            Self::Experiment(ExperimentFault::Kept(_)) => "E0201",
            Self::Experiment(_) => "E0203",
            Self::Workload { .. } => "E0204",
            Self::Trace { .. } => "E0205",
            Self::Import { .. } | Self::Record { .. } | Self::Nothing { .. } => "E0206",
            Self::Flag { .. } | Self::Same { .. } => "E0207",
            Self::Differs { .. } => "E0209",
            Self::Stored { .. } | Self::Lab { .. } | Self::Kept { .. } => "E0210",
            Self::Unlike { .. } => "E0211",
        }
    }

    /// What to try next; `None` when the cause says it all.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Write { .. } => Some("a file in a directory you may write to"),
            Self::Same { .. } => Some("another file to write to"),
            Self::Import {
                source: ImportFault::Compressed(tool),
                ..
            } => Some(match *tool {
                "gzip" => {
                    "to decompress it first, or gzip -dc FILE | neap sim import ... - -o TRACE"
                }
                "xz" => "to decompress it first, or xz -dc FILE | neap sim import ... - -o TRACE",
                _ => "to decompress it first, or zstd -dc FILE | neap sim import ... - -o TRACE",
            }),
            Self::Import {
                source: ImportFault::Empty,
                ..
            }
            | Self::Trace {
                source: TraceFault::Empty,
                ..
            } => Some("to record it again: nothing was written to it"),
            Self::Import {
                source: ImportFault::Untouched,
                ..
            } => Some("neap run --record under a smaller limit (-m)"),
            Self::Trace { .. } => Some("neap sim import makes traces of other recordings"),
            Self::Import { .. } => Some("--from with the format the file has"),
            Self::Record { .. } | Self::Nothing { .. } => Some("neap run --record makes records"),
            Self::Differs { .. } => Some("the version of neap that made the record"),
            Self::Stored { .. } => Some("neap sim experiment NAME --json FILE makes one"),
            Self::Lab { .. } => Some("make lab makes one, target/lab/lab.json"),
            Self::Kept { .. } => Some("another file, or to remove this one and run all again"),
            Self::Unlike { .. } => Some("the version of neap that stored them"),
            Self::Stdout(_)
            | Self::Read { .. }
            | Self::Experiment(_)
            | Self::Workload { .. }
            | Self::Flag { .. } => None,
        }
    }

    /// The exit code: 2 when what was asked for or what was to be read makes no sense, as for a wrong
    /// flag; 1 when the work failed.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::Stdout(_)
            | Self::Write { .. }
            | Self::Differs { .. }
            | Self::Unlike { .. }
            | Self::Experiment(ExperimentFault::Endless { .. } | ExperimentFault::Kept(_)) => 1,
            _ => 2,
        }
    }

    /// The lines for stderr.
    #[must_use]
    pub fn lines(&self) -> String {
        let remedy = self.remedy();
        let remedy = remedy.map_or_else(String::new, |remedy| format!("\n  try: {remedy}"));
        format!("neap: error[{}]: {self}{remedy}", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_failed_is_told_from_what_makes_no_sense() {
        let endless = ExperimentFault::Endless {
            config: "a",
            seed: 1,
            hours: 2,
            advice: "b",
        };
        let setting = ExperimentFault::Setting("x".to_owned());
        let full = || io::Error::from_raw_os_error(28);
        let cases = [
            (Failure::Experiment(endless), "E0208", 1),
            (Failure::Stdout(full()), "E0201", 1),
            (Failure::Experiment(setting), "E0203", 2),
        ];
        for (failure, code, status) in cases {
            assert_eq!((failure.code(), failure.exit()), (code, status));
        }
    }
}
