//! Commands under `neap run`, with the statistics it leaves.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::bench::allowed;
use crate::{Outcome, Run, target_dir};

/// The release binary: `NEAP_BIN`, else `target/release/neap`.
///
/// # Errors
/// Where it was looked for, and how to build it.
pub fn neap_binary() -> Result<PathBuf, String> {
    let path = std::env::var_os("NEAP_BIN")
        .map_or_else(|| target_dir().join("release/neap"), PathBuf::from);
    std::fs::canonicalize(&path).map_err(|e| {
        format!(
            "{}: {e} (cargo build --release -p neap-cli makes it, NEAP_BIN names another)",
            path.display()
        )
    })
}

/// `neap run` with options, not yet with a command.
#[derive(Clone, Debug)]
pub struct Neap {
    options: Vec<OsString>,
    env: Vec<(String, OsString)>,
    wrapper: Vec<OsString>,
    binary: PathBuf,
}

/// An outcome, and the statistics of the run.
#[derive(Debug)]
pub struct Managed {
    outcome: Outcome,
    /// The object that `--stats` wrote; `Null` if there was none.
    pub stats: Value,
}

impl Deref for Managed {
    type Target = Outcome;
    fn deref(&self) -> &Outcome {
        &self.outcome
    }
}

impl Neap {
    /// `neap run -m LIMIT`.
    ///
    /// # Panics
    /// If there is no binary: tests ask for `Need::Neap` first.
    #[must_use]
    pub fn limit(limit: &str) -> Self {
        Neap {
            options: vec!["-m".into(), limit.into()],
            env: Vec::new(),
            wrapper: Vec::new(),
            binary: neap_binary().expect("the binary of neap"),
        }
    }

    /// A limit in bytes.
    #[must_use]
    pub fn limit_bytes(limit: u64) -> Self {
        Neap::limit(&limit.to_string())
    }

    /// One more option of `neap run`.
    #[must_use]
    pub fn option(mut self, word: impl AsRef<OsStr>) -> Self {
        self.options.push(word.as_ref().to_owned());
        self
    }

    /// A variable for neap and what it runs.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Words before neap itself: `setpriv` or the like.
    #[must_use]
    pub fn wrapped(mut self, words: impl IntoIterator<Item = OsString>) -> Self {
        self.wrapper = words.into_iter().collect();
        self
    }

    /// Words before those.
    #[must_use]
    pub fn around(mut self, words: impl IntoIterator<Item = OsString>) -> Self {
        self.wrapper.splice(0..0, words);
        self
    }

    /// The binary that it runs.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.binary
    }

    /// Another binary, such as a copy that every user may read.
    #[must_use]
    pub fn binary(mut self, binary: PathBuf) -> Self {
        self.binary = binary;
        self
    }

    /// The whole command, ready to run; statistics go to `stats` if given.
    #[must_use]
    pub fn command(&self, run: &Run, stats: Option<&OsStr>) -> Run {
        let mut words = self.wrapper.clone();
        words.extend([self.binary.clone().into_os_string(), "run".into()]);
        words.extend(self.options.iter().cloned());
        if let Some(file) = stats {
            words.extend(["--stats".into(), file.to_owned()]);
        }
        words.push("--".into());
        let run = run.clone().wrapped(words);
        self.env
            .iter()
            .fold(run, |run, (name, value)| run.env(name, value))
    }

    /// Runs a command under neap.
    ///
    /// # Panics
    /// As [`Run::go`].
    #[must_use]
    pub fn run(&self, run: &Run) -> Managed {
        self.run_with(run, |_| ())
    }

    /// As [`Neap::run`]; `meanwhile` gets the process id of neap.
    ///
    /// # Panics
    /// As [`Run::go`].
    #[must_use]
    pub fn run_with(&self, run: &Run, meanwhile: impl FnOnce(u32)) -> Managed {
        let dir = open_dir();
        let file = dir.path().join("stats.json");
        let outcome = self.command(run, Some(file.as_os_str())).go_with(meanwhile);
        let text = std::fs::read(&file).unwrap_or_default();
        Managed {
            outcome,
            stats: serde_json::from_slice(&text).unwrap_or(Value::Null),
        }
    }
}

/// A temporary folder in which every user may write.
fn open_dir() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777))
        .expect("our own folder");
    dir
}

impl Managed {
    /// A number of the statistics, by its path in the object.
    ///
    /// # Panics
    /// If it is not there.
    #[track_caller]
    #[must_use]
    pub fn number(&self, path: &str) -> u64 {
        let number = self.stats.pointer(path).and_then(Value::as_u64);
        number.unwrap_or_else(|| {
            panic!(
                "{}\nno number {path}\nstats: {}\nstderr: {}",
                self.command, self.stats, self.stderr
            )
        })
    }

    /// The outcome alone.
    #[must_use]
    pub fn into_outcome(self) -> Outcome {
        self.outcome
    }

    /// Pages that were stored: the proof that pressure was real.
    #[must_use]
    pub fn pages_out(&self) -> u64 {
        self.number("/vmstat/zswpout")
    }

    /// Fails unless it ended with 0 and pages really went out.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn must_have_paged(&self) -> &Self {
        self.must_exit(0);
        assert!(
            self.pages_out() > 0,
            "{}\nran without a page going out, so it proved nothing\nstats: {}\nstderr: {}",
            self.command,
            self.stats,
            self.stderr
        );
        self
    }

    /// Fails unless the memory stayed within the limit, 2 % and 4 MiB, by the kernel's accounting.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn must_be_within_limit(&self) -> &Self {
        let limit = self.number("/memory/limit_bytes");
        let peak = self.number("/memory/peak_bytes");
        let allowed = allowed(limit);
        assert!(
            limit > 0 && peak > 0,
            "{}\nno figures: {}\nstderr: {}",
            self.command,
            self.stats,
            self.stderr
        );
        assert!(
            peak <= allowed,
            "{}\npeak {peak} is over {allowed} (limit {limit})\nstats: {}",
            self.command,
            self.stats
        );
        if let Some(seen) = self.peak {
            assert!(
                seen.anon_bytes <= allowed,
                "{}\nRssAnon of the tree reached {} (neap says {peak}), over {allowed} (limit {limit})\nstats: {}",
                self.command,
                seen.anon_bytes,
                self.stats
            );
        }
        self
    }
}
