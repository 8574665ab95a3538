//! Facts about processes, from /proc, and what one should be before anything else.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;

use super::Root;

/// A write to a file that may not grow (`ulimit -f`) fails from now on, so that its writer can say so, where it
/// would end this process. A command that is executed ends of it as ever.
pub fn outlive_file_limit(root: &Root) {
    if ignored_signals(root) >> (SIGXFSZ - 1) & 1 == 0 {
        // Refused, it is as it was.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// `SigIgn` of this process: bit N-1 stands for signal N.
///
/// SIGPIPE is always among them: the language's runtime ignores it before `main`.
#[must_use]
pub fn ignored_signals(root: &Root) -> u64 {
    hex_field(root, "/proc/self/status", "SigIgn:").unwrap_or(0)
}

/// Children of process `pid`, of all its threads, in no particular order. Empty when the process is
/// gone or the kernel does not list children.
#[must_use]
pub fn children(root: &Root, pid: i32) -> Vec<i32> {
    let tasks = root.path(format!("/proc/{pid}/task"));
    neap_sys::names_in(&tasks)
        .iter()
        .filter_map(|task| std::fs::read_to_string(tasks.join(task).join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

/// Whether process `pid` is stopped by job control.
#[must_use]
pub fn is_stopped(root: &Root, pid: i32) -> bool {
    stat_field(root, pid, 0).as_deref() == Some("T")
}

/// The process group of `pid`.
#[must_use]
pub fn process_group(root: &Root, pid: i32) -> Option<i32> {
    stat_field(root, pid, 2)?.parse().ok()
}

/// Whether this process has a controlling terminal.
#[must_use]
pub fn has_terminal(root: &Root) -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    stat_field(root, own, 4).is_some_and(|tty| tty != "0")
}

/// Processor time of process `pid` itself, outside and in the kernel, in clock ticks. A process that has
/// ended still tells until it is waited for.
#[must_use]
pub fn own_ticks(root: &Root, pid: i32) -> Option<(u64, u64)> {
    let field = |index| stat_field(root, pid, index)?.parse().ok();
    Some((field(11)?, field(12)?))
}

/// Field `index` of /proc/PID/stat, counted from the state, the first after the command's name. The
/// name may itself hold spaces and parentheses, so the last parenthesis ends it.
fn stat_field(root: &Root, pid: i32, index: usize) -> Option<String> {
    let text = root.read(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(index).map(str::to_owned)
}

fn hex_field(root: &Root, path: &str, name: &str) -> Option<u64> {
    let text = root.read(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(value.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::super::fake::machine;
    use super::*;

    #[test]
    fn the_set_of_ignored_signals_is_a_bit_mask() {
        let (_dir, root) =
            machine(&[("/proc/self/status", "Name:\tx\nSigIgn:\t0000000000001001\n")]);
        assert_eq!(ignored_signals(&root), 0x1001);
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_state() {
        let (_dir, root) = machine(&[("/proc/7/stat", "7 (a) (b T) T 1 42 42 0 -1\n")]);
        assert!(is_stopped(&root, 7));
        assert_eq!(process_group(&root, 7), Some(42));
        assert!(!is_stopped(&root, 8));
    }

    #[test]
    fn a_processs_own_time_is_told_in_ticks() {
        let stat = "9 (a b) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n";
        let (_dir, root) = machine(&[("/proc/9/stat", stat)]);
        assert_eq!(own_ticks(&root, 9), Some((11, 12)));
        assert_eq!(own_ticks(&root, 8), None);
    }

    #[test]
    fn children_of_all_threads_are_listed() {
        let (_dir, root) = machine(&[
            ("/proc/5/task/5/children", "6 7 "),
            ("/proc/5/task/9/children", "8 "),
        ]);
        let mut found = children(&root, 5);
        found.sort_unstable();
        assert_eq!(found, [6, 7, 8]);
        assert!(children(&root, 99).is_empty());
    }
}
