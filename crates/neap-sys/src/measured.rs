//! What it takes to run a command for comparison: in a control group from its first instruction, with
//! the processor time of all it started, and with a swap area of the kernel's own beside it.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::errno::{Result, SysError};

/// What the descendants that were waited for have used, as getrusage(2) has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time outside the kernel, in nanoseconds.
    pub user_nanos: u64,
    /// Processor time in the kernel, in nanoseconds.
    pub system_nanos: u64,
    /// Faults that had to wait for a page.
    pub major_faults: u64,
    /// The most that one of them had resident, in bytes; of one that executed nothing larger, what its parent had.
    pub max_rss_bytes: u64,
}

/// The use of all descendants that were waited for, so far.
#[must_use]
pub fn usage_of_children() -> Usage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    // SAFETY: filled in by the call, or all zeros, which is valid too.
    let usage = unsafe { usage.assume_init() };
    let nanos = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_usec).unwrap_or(0) * 1000
    };
    Usage {
        user_nanos: nanos(usage.ru_utime),
        system_nanos: nanos(usage.ru_stime),
        major_faults: u64::try_from(usage.ru_majflt).unwrap_or(0),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10,
    }
}

/// Processor time that process `pid` itself has used with all its threads, in nanoseconds. A process that
/// has ended still tells until it is waited for; `None` after that.
#[must_use]
pub fn own_time(pid: i32) -> Option<u64> {
    // The clock of a process as clock_getcpuclockid(3) makes it: CPUCLOCK_SCHED in the lower bits.
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } < 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

/// Makes `command` start in the control group whose `cgroup.procs` is `group`, if one is given, and die
/// with the thread that starts it.
pub fn start_within(command: &mut Command, group: Option<OwnedFd>) {
    let enter = move || {
        if let Some(group) = &group {
            // SAFETY: writes one byte that lives as long as the program; "0" stands for the writer.
            let written = unsafe { libc::write(group.as_raw_fd(), b"0".as_ptr().cast(), 1) };
            if written != 1 {
                return Err(std::io::Error::last_os_error());
            }
        }
        // SAFETY: the call takes integers only.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        Ok(())
    };
    // SAFETY: the closure only makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

/// SWAP_FLAG_PREFER of linux/swap.h: the lower 15 bits are a priority.
const PREFER: i32 = 0x8000;

/// Lets the kernel swap to the file or device `path`, before every area of a lower `priority` (0 to 32767).
pub fn swap_on(path: &Path, priority: u16) -> Result<()> {
    let name = c_path("swapon", path)?;
    let flags = PREFER | i32::from(priority & 0x7fff);
    // SAFETY: the kernel reads a string that ends in 0.
    if unsafe { libc::swapon(name.as_ptr(), flags) } < 0 {
        return Err(SysError::last("swapon", path.to_string_lossy()));
    }
    Ok(())
}

/// Takes a swap area back from the kernel; pages there are read in first.
pub fn swap_off(path: &Path) -> Result<()> {
    let name = c_path("swapoff", path)?;
    loop {
        // SAFETY: the kernel reads a string that ends in 0.
        if unsafe { libc::swapoff(name.as_ptr()) } == 0 {
            return Ok(());
        }
        let error = SysError::last("swapoff", path.to_string_lossy());
        if error.errno() != libc::EINTR {
            return Err(error);
        }
    }
}

fn c_path(call: &'static str, path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|error| SysError::new(call, path.to_string_lossy(), error.into()))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn the_time_of_a_child_counts_once_it_was_waited_for() {
        let before = usage_of_children();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
        let status = Command::new("sh").args(["-c", script]).status();
        assert!(status.expect("a shell").success());
        let after = usage_of_children();
        let cpu = |usage: Usage| usage.user_nanos + usage.system_nanos;
        assert!(cpu(after) > cpu(before), "{before:?} {after:?}");
    }

    #[test]
    fn a_process_tells_its_time_until_it_was_waited_for() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .spawn()
            .expect("a shell");
        let pid = child.id().cast_signed();
        let ended = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains(") Z ")
        };
        while !ended() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(own_time(pid).is_some_and(|time| time > 0));
        assert!(child.wait().expect("our child").success());
        assert_eq!(own_time(pid), None);
    }

    #[test]
    fn a_command_writes_itself_into_the_group_before_it_starts() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut command = Command::new("true");
        let copy = file.try_clone().expect("a descriptor");
        start_within(&mut command, Some(copy.into()));
        assert!(
            command
                .stdout(Stdio::null())
                .status()
                .expect("starts")
                .success()
        );
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).expect("a file can seek");
        std::io::Read::read_to_string(&mut file, &mut text).expect("a file");
        assert_eq!(text, "0");
    }

    #[test]
    fn what_is_no_swap_area_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(swap_on(&dir.path().join("none"), 0).is_err());
        assert!(swap_off(&dir.path().join("none")).is_err());
    }
}
