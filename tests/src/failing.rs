//! Runs of neap in which one of its calls fails, made to by a library that is preloaded into it
//! (`tests/programs/failing.c`).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::program::{library, source};
use crate::{Neap, Outcome, Run, install_for_everyone, program};

/// Memory of the program, and the limit it runs under.
const MIB: &str = "16";
/// A run takes seconds; what takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(90);
const OK: &str = "errands: ok\n";

/// How many calls of one kind were made, and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All.
    pub made: u64,
    /// Those that were made to fail.
    pub failed: u64,
}

/// What is to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of call, by its name in `failing.c`.
    pub call: String,
    /// An errno by name, or `short`.
    pub error: String,
    /// The first that fails; 1: the first of all.
    pub first: u64,
    /// Each how many-th after it fails as well; 0: none.
    pub every: u64,
}

impl Failure {
    /// As the library reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            call,
            error,
            first,
            every,
        } = self;
        format!("{call}:{error}:{first}:{every}")
    }
}

/// How a job ended in which a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It did all it had to, and each byte was right.
    WentOn,
    /// It was ended, or did not begin, with a line that says so.
    Told,
}

/// Where such runs are made, and by whom.
#[derive(Debug)]
pub struct Failing {
    neap: Neap,
    neap_path: PathBuf,
    library: PathBuf,
    program: PathBuf,
    dir: TempDir,
}

impl Failing {
    /// Runs of `neap`, which is to page by a swap file. What it needs is copied where every user may read it.
    ///
    /// # Panics
    /// If no temporary folder can be made.
    #[must_use]
    pub fn new(neap: Neap) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("our folder");
        let copy = |file: &Path| install_for_everyone(file, dir.path());
        Self {
            neap_path: fs::canonicalize(neap.path()).expect("the binary of neap"),
            neap: neap
                .option("--swap-dir")
                .option(dir.path())
                .option("--pool-max")
                .option("20"),
            library: copy(&library("failing")),
            program: copy(&program("errands")),
            dir,
        }
    }

    /// One run; `None`: nothing fails.
    ///
    /// # Panics
    /// As [`Run::go`].
    #[must_use]
    pub fn run(&self, failure: Option<&Failure>) -> (Outcome, Vec<(String, Calls)>) {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let counts = self.dir.path().join(format!("counts{number}"));
        let words: [OsString; 2] = [self.program.clone().into(), MIB.into()];
        let mut neap = self
            .neap
            .clone()
            .env("LD_PRELOAD", &self.library)
            .env("NEAP_FAIL_IN", &self.neap_path)
            .env("NEAP_FAIL_COUNTS", &counts);
        if let Some(failure) = failure {
            neap = neap.env("NEAP_FAIL", failure.text());
        }
        let run = Run::new(words).limit(PATIENCE).dir(self.dir.path());
        let outcome = neap.command(&run, None).go();
        let made = read_counts(&counts);
        let _ = fs::remove_file(&counts);
        let counted = made.iter().any(|(_, calls)| calls.made > 0);
        assert!(
            counted,
            "no call of neap was counted: is the library in it?"
        );
        (outcome, made)
    }
}

/// What was counted, by name.
fn read_counts(file: &Path) -> Vec<(String, Calls)> {
    let bytes = fs::read(file).unwrap_or_default();
    let mut numbers = bytes.as_chunks::<8>().0.iter();
    let mut next = || numbers.next().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let calls = names().into_iter();
    calls
        .map(|name| {
            let (made, failed) = (next(), next());
            (name, Calls { made, failed })
        })
        .collect()
}

/// The kinds of calls that can be made to fail.
fn names() -> Vec<String> {
    let text = fs::read_to_string(source("failing")).unwrap_or_default();
    let list = text.split("#define CALLS(X)").nth(1).unwrap_or_default();
    let list = list.split("\n\n").next().unwrap_or_default();
    let names = list.split("X(").skip(1);
    names
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

/// Whether a run ended as it may: with each byte right, or with a line that says why.
///
/// # Errors
/// What is wrong with it.
pub fn judge(run: &Outcome) -> Result<End, String> {
    let told = run.stderr.lines().any(|line| line.starts_with("neap: "));
    let fault = if let Some(threads) = &run.hung {
        format!("hung:\n{threads}")
    } else if run.stderr.contains("WRONG") {
        "a wrong byte".to_owned()
    } else if (run.code(), run.text().as_str()) == (0, OK) {
        return Ok(End::WentOn);
    } else if run.code() != 0 && told {
        return Ok(End::Told);
    } else {
        "it ended without a word, or not by its own end".to_owned()
    };
    Err(format!(
        "{fault}\nended with {} ({})\nstdout: {}\nstderr: {}",
        run.code(),
        run.status,
        run.text(),
        run.stderr
    ))
}
