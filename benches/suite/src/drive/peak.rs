//! The plain peak of a command: anonymous memory of all its processes, as `neap bench` counts it.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Runs the command plainly and returns the most it took, in bytes.
///
/// # Errors
/// It cannot be run, or fails.
pub fn of(words: &[OsString]) -> Result<u64, String> {
    let name = words[0].to_string_lossy();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("{name}: {e}"))?;
    let mut peak = 0;
    loop {
        let pids = tree(i32::try_from(child.id()).unwrap_or_default());
        let sum = pids.into_iter().filter_map(neap_sys::anon_resident).sum();
        peak = peak.max(sum);
        match child.try_wait().map_err(|e| format!("{name}: {e}"))? {
            None => std::thread::sleep(LOOK),
            Some(status) if status.success() => return Ok(peak),
            Some(status) => return Err(format!("{name} fails plainly: {status}")),
        }
    }
}

/// A process and all its descendants.
fn tree(first: i32) -> Vec<i32> {
    let mut all = vec![first];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        next += 1;
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(
                text.split_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_has_no_peak() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(of(&words(&["sleep", "0.1"])).unwrap() > 0);
        assert!(
            of(&words(&["false"]))
                .unwrap_err()
                .contains("fails plainly")
        );
        assert!(
            of(&words(&["/nowhere"]))
                .unwrap_err()
                .starts_with("/nowhere")
        );
    }
}
