//! What a machine must offer, and how a test that cannot run says so.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{cgroup, neap};

/// What a test needs of the machine, beside threads and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The release binary of neap.
    Neap,
    /// A userfaultfd that also serves the kernel's own faults.
    Userfaultfd,
    /// The superuser.
    Root,
    /// A memory cgroup that this process may create, of either version.
    Cgroup,
    /// A program on the path.
    Tool(&'static str),
}

impl Need {
    /// Why the machine does not offer it.
    fn missing(self) -> Option<String> {
        match self {
            Need::Neap => neap::neap_binary().err(),
            Need::Userfaultfd => (!has_userfaultfd()).then(|| {
                "this user may not handle kernel faults by userfaultfd (root, /dev/userfaultfd or \
                 vm.unprivileged_userfaultfd=1 would do)"
                    .to_owned()
            }),
            Need::Root => (!is_root()).then(|| "not root".to_owned()),
            Need::Cgroup => cgroup::unavailable(),
            Need::Tool(name) => tool(name)
                .is_none()
                .then(|| format!("{name} is not installed")),
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

fn has_userfaultfd() -> bool {
    let sysctl = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
    sysctl.trim() == "1"
        || OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/userfaultfd")
            .is_ok()
        || (is_root() && !sysctl.is_empty())
}

/// The full path of a program, looked up as a shell would.
#[must_use]
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}

/// Whether everything is there; if not, says `SKIP name: reason`.
#[must_use]
pub fn require(name: &str, needs: &[Need]) -> bool {
    let missing = needs.iter().find_map(|n| n.missing());
    if let Some(reason) = &missing {
        skip(name, reason);
    }
    missing.is_none()
}

/// Says aloud that a test is skipped: on standard error, past the test harness's capture, where `make test` finds and
/// counts it. Unit tests of other crates write the same line.
pub fn skip(name: &str, reason: &str) {
    let line = format!("SKIP {name}: {reason}\n");
    // `eprint!` would be captured; a write to the handle is not. Nobody to tell if it fails.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

static ALONE: Mutex<()> = Mutex::new(());

/// Held by tests that load the machine or measure memory: one at a time.
pub fn exclusive() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this machine can do what a test needs that pages. It may run beside another.
#[must_use]
pub fn pages(test: &str) -> bool {
    require(test, &[Need::Neap, Need::Userfaultfd])
}

/// What a test holds that pages alone: nothing if this machine cannot, which is said.
#[must_use]
pub fn paging(test: &str) -> Option<MutexGuard<'static, ()>> {
    require(test, &[Need::Neap, Need::Userfaultfd]).then(exclusive)
}
