//! What the tests of `neap bench` share.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::{Run, neap_binary};

/// MiB that the program fills.
pub const MIB: &str = "48";
/// The limit of a bench.
pub const LIMIT: &str = "24M";
/// The same in bytes.
pub const LIMIT_BYTES: u64 = 24 << 20;
/// Most that a bench of ours may take.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// What in `dir` begins with `prefix`, in order.
#[must_use]
pub fn names(dir: &str, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    let mut found: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    found.sort();
    found
}

/// Swap areas, groups and files of benches.
#[must_use]
pub fn leavings(dir: &Path) -> Vec<String> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let ours = |line: &&str| line.contains("neap-bench");
    let mut left: Vec<String> = swaps.lines().filter(ours).map(str::to_owned).collect();
    for place in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"] {
        left.extend(names(place, "neap-bench"));
    }
    left.extend(names(&dir.to_string_lossy(), "neap-bench"));
    left.extend(names("/run/neap-bench", "journal"));
    left
}

/// `neap bench` with its swap file and its report in `dir`.
///
/// # Panics
/// If there is no binary: tests ask for `Need::Neap` first.
#[must_use]
pub fn bench(dir: &TempDir, options: &[&str], command: &[OsString]) -> Run {
    let neap = neap_binary().expect("the binary of neap");
    let mut words: Vec<OsString> = vec![neap.into(), "bench".into(), "-m".into(), LIMIT.into()];
    words.extend(options.iter().map(OsString::from));
    words.extend(["--swap-dir".into(), dir.path().into()]);
    words.extend(["--json".into(), dir.path().join("bench.json").into()]);
    words.push("--".into());
    words.extend_from_slice(command);
    Run::new(words).limit(PATIENCE)
}

/// The report.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn json(dir: &TempDir) -> Value {
    let text = fs::read_to_string(dir.path().join("bench.json")).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

/// Most that a run under `limit` may take: the limit and neap's burst, a fiftieth and 4 MiB
/// (neap-cli, `run/limit.rs`).
#[must_use]
pub fn allowed(limit: u64) -> u64 {
    limit + limit / 50 + (4 << 20)
}

/// A directory on a disk, for swap files.
///
/// # Panics
/// If none can be made.
#[must_use]
pub fn disk() -> TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory")
}

/// Holds in the runs of the kernel's contenders alone.
pub const SWAPPING: &str = "grep -q neap-bench /proc/swaps";
