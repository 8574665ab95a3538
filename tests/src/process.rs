//! Finding, describing and ending all processes of one run, daemons included.
//!
//! Each run carries a marker in its environment. A process that left its session, its parent and its
//! descriptors behind still has it in `/proc/PID/environ`, so no run can leave anything unseen.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// The variable that marks the processes of a run.
const VARIABLE: &str = "NEAP_TEST_RUN";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A value no other run has.
#[derive(Clone, Debug)]
pub struct Marker(String);

impl Marker {
    /// A fresh one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is different")]
    pub fn new() -> Self {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Marker(format!("{}-{n}", std::process::id()))
    }

    /// Marks what `command` will start.
    pub fn set(&self, command: &mut Command) {
        command.env(VARIABLE, &self.0);
    }

    /// The marked processes that are alive (zombies are not).
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let wanted = format!("{VARIABLE}={}", self.0);
        let Ok(dir) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.split(|b| *b == 0).any(|v| v == wanted.as_bytes()))
        })
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
                let state = read("stat");
                let state = state
                    .rsplit(") ")
                    .next()
                    .and_then(|s| s.get(..1))
                    .unwrap_or("?")
                    .to_owned();
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
