//! Other processes as such: those that descend from this one, and signals to them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread;

use neap_tuning::TUNING;

use crate::descent::Root;
use crate::errno::{Result, SysError};

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens process `pid`. Readable (see [`wait_readable`](crate::wait_readable)) once it ended.
    pub fn open(pid: i32) -> Result<Self> {
        // SAFETY: the call takes integers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(SysError::last("pidfd_open", pid.to_string()));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes over one that the kernel gave.
    pub(crate) fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Whether the process has not ended.
    pub fn lives(&self) -> bool {
        crate::wait_readable(&[self.0.as_fd()], Some(0)) == 0
    }

    /// Sends `signal` to the process.
    pub fn signal(&self, signal: i32) -> Result<()> {
        send_signal(&self.0, signal)
    }
}

/// By a pidfd, or by a directory `/proc/PID`, which is as good.
pub(crate) fn send_signal(process: &OwnedFd, signal: i32) -> Result<()> {
    let info: *const libc::siginfo_t = std::ptr::null();
    let process = process.as_raw_fd();
    // SAFETY: a null siginfo asks the kernel to fill in its own.
    let done = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, signal, info, 0) };
    if done < 0 {
        return Err(SysError::last("pidfd_send_signal", signal.to_string()));
    }
    Ok(())
}

/// The user that this process acts as.
pub fn own_user() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() }
}

/// Fills `bytes` with what nobody guesses.
pub fn random(bytes: &mut [u8]) -> std::io::Result<()> {
    // SAFETY: the kernel writes at most the length it is told.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got.cast_unsigned() == bytes.len() {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends `signal` to process `pid`, whichever that is: for the processes of a measurement's own group.
pub fn signal(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: the call takes integers only.
    if unsafe { libc::kill(pid, signal) } < 0 {
        return Err(SysError::last("kill", format!("{pid}, {signal}")));
    }
    Ok(())
}

impl Root {
    /// Sends SIGKILL to every descendant of the process, until there is none: who was just being started is in
    /// no list yet. Half a second at most, for one that the kernel cannot end now.
    pub fn kill_descendants(&self) {
        for _ in 0..TUNING.system.kills {
            let family = self.descendants();
            if family.is_empty() {
                break;
            }
            let kill = |&&pid: &&i32| {
                Pidfd::open(pid).is_ok_and(|process| {
                    // Its number may have come to mean another since the list was made.
                    self.has_descendant(pid, &process) && process.signal(libc::SIGKILL).is_ok()
                })
            };
            let reached = family.iter().filter(kill);
            if reached.count() == 0 {
                break; // nobody that may be signalled
            }
            thread::sleep(TUNING.system.between_kills.duration());
        }
    }

    /// All processes that the process started and those that they did, if they have not ended. None once it has ended itself.
    #[must_use]
    pub fn descendants(&self) -> Vec<i32> {
        let family = self.family();
        family.iter().map(|member| member.pid).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    /// Says that a test is in a process of its own.
    const ROLE: &str = "NEAP_TEST_OF_KILL";

    /// A test again, in a process of its own.
    fn again(test: &str) -> std::process::Command {
        let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
        let own = format!("process::tests::{test}");
        command.args(["--exact", &own]).env(ROLE, "1");
        command
    }

    #[test]
    fn descendants_are_ended_with_what_they_start_meanwhile() {
        let own = "descendants_are_ended_with_what_they_start_meanwhile";
        if std::env::var_os(ROLE).is_none() {
            let status = again(own).status();
            assert!(status.expect("itself").success());
            return;
        }
        // SAFETY: it changes who becomes the parent of orphans, nothing else.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        let forks = "while :; do sh -c 'sleep 60 & sleep 60' & done";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", forks])
            .spawn()
            .expect("sh");
        thread::sleep(Duration::from_millis(20));
        Root::own().kill_descendants();
        let _ = shell.wait();
        assert_eq!(Root::own().descendants(), []);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_ended_too() {
        let own = "a_process_whose_first_thread_has_ended_is_ended_too";
        if std::env::var_os(ROLE).is_none() {
            let status = again(own).status();
            assert!(status.expect("itself").success());
            return;
        }
        // SAFETY: the child uses nothing that another thread might have held.
        let child = unsafe { libc::fork() };
        if child == 0 {
            thread::spawn(|| thread::sleep(Duration::from_secs(60)));
            // SAFETY: it ends this thread, of which the other uses nothing.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let stat = format!("/proc/{child}/stat");
        let has_ended = || fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z "));
        for _ in 0..1000 {
            if has_ended() {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        assert!(has_ended());
        assert_eq!(
            Root::own().descendants(),
            [child],
            "its other thread goes on"
        );
        Root::own().kill_descendants();
        assert_eq!(Root::own().descendants(), []);
    }
}
