//! Finding, describing and ending all processes of one run, daemons included.
//!
//! Each run carries a marker among its resource limits: its own size of message queues (RLIMIT_MSGQUEUE), which no
//! program here uses. A process that left its session, its parent, its descriptors and its environment behind still
//! has it, and the kernel tells it of whomever without a look into the process: its memory may be out, and whoever
//! would bring it back may be dead or stuck.

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The kernel's own size of message queues, in bytes; markers are smaller.
const USUAL: u64 = 819_200;
/// Runs of one test binary before its markers may meet those of another.
const RUNS: u64 = 1000;

static NEXT: AtomicU32 = AtomicU32::new(0);
/// A child has the limits that this process has while it starts it.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts what belongs to no run: it must not have the limit that a run is being started with.
///
/// # Errors
/// If it cannot be started.
pub fn spawn_unmarked(command: &mut Command) -> io::Result<Child> {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// A limit that no other run has.
#[derive(Clone, Debug)]
pub struct Marker(u64);

impl Marker {
    /// A fresh one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is different")]
    pub fn new() -> Self {
        let n = u64::from(NEXT.fetch_add(1, Ordering::Relaxed));
        Marker(1 + (u64::from(std::process::id()) * RUNS + n) % (USUAL - 1))
    }

    /// Starts `command` and marks it.
    ///
    /// # Errors
    /// If it cannot be started.
    ///
    /// # Panics
    /// If the limits of this process cannot be set.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let own = getrlimit(Resource::Msgqueue);
        let current = Some(self.0);
        setrlimit(Resource::Msgqueue, Rlimit { current, ..own }).expect("a smaller limit");
        let child = command.spawn();
        setrlimit(Resource::Msgqueue, own).expect("the limit that was");
        child
    }

    /// The marked processes that are alive (zombies are not).
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let Ok(dir) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|&pid| limit_of(pid) == Some(self.0) && !is_zombie(pid))
            .collect()
    }

    /// Ends all of them by KILL, also those that are being born.
    pub fn kill(&self) {
        for _ in 0..50 {
            let pids = self.pids();
            if pids.is_empty() {
                return;
            }
            kill(&pids);
            sleep(Duration::from_millis(20));
        }
    }

    /// What each thread of each process is doing, for the report of a run that hangs.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut out = String::new();
        for pid in self.pids() {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
                continue;
            };
            for task in tasks.filter_map(Result::ok) {
                let path = task.path();
                let read = |f: &str| {
                    fs::read_to_string(path.join(f))
                        .unwrap_or_default()
                        .trim()
                        .to_owned()
                };
                let state = state(&read("stat"));
                let stack = read("stack")
                    .lines()
                    .take(8)
                    .collect::<Vec<_>>()
                    .join(" < ");
                out.push_str(&format!(
                    "  {pid}/{} {} {state} wchan={} syscall={} {stack}\n",
                    task.file_name().to_string_lossy(),
                    read("comm"),
                    read("wchan"),
                    read("syscall").split(' ').next().unwrap_or_default(),
                ));
            }
        }
        out
    }
}

/// The size of message queues that a process may have.
fn limit_of(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find(|l| l.starts_with("Max msgqueue size"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

fn is_zombie(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| matches!(state(&stat), 'Z' | 'X'))
}

/// The letter in a line of `stat`.
fn state(stat: &str) -> char {
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    rest.chars().next().unwrap_or('?')
}

/// Ends processes by KILL; one that is gone already is fine.
pub(crate) fn kill(pids: &[u32]) {
    // The shell's own kill: not every machine has the program.
    let words = pids.iter().map(ToString::to_string);
    let _ = Command::new("sh")
        .args(["-c", "kill -KILL \"$@\"", "sh"])
        .args(words)
        .stderr(Stdio::null())
        .status();
}

/// The processes of a run that are still alive some time after its end; they are killed.
#[must_use]
pub fn leftovers(marker: &Marker) -> Vec<String> {
    for _ in 0..100 {
        if marker.pids().is_empty() {
            return Vec::new();
        }
        sleep(Duration::from_millis(20));
    }
    let left = marker.describe();
    marker.kill();
    left.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_environment_parent_or_session_is_found() {
        let (marker, other) = (Marker::new(), Marker::new());
        let mut leaves = Command::new("env");
        leaves.args(["-i", "setsid", "-f", "sleep", "60"]);
        let mut child = marker.spawn(&mut leaves).expect("started");
        assert!(child.wait().expect("waited").success());
        assert_eq!(marker.pids().len(), 1);
        assert!(other.pids().is_empty());
        marker.kill();
        assert!(marker.pids().is_empty());
    }
}
