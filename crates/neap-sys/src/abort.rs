//! What happens when this process cannot go on: it takes its job with it.
//!
//! A panic, memory that the heap does not have, and a library that gives up all end in abort(3). Its programs would
//! wait for pages that nobody brings, or go on without what neap had of theirs. So they are killed first. Everything here may
//! run in the middle of anything else, so that it takes no lock and no memory.

use std::sync::atomic::{AtomicI32, Ordering};

use neap_tuning::TUNING;

use crate::numbers::each_number;

/// On a line of its own: another thread may be in the middle of one.
const WORDS: &[u8] = b"\nneap: neap itself has failed, and its job is killed rather than left without its memory; \
if neap lacked memory (`ulimit -a`, a cgroup) give it more, else please report what it said before\n";

/// The thread that kills the job; 0: none yet.
static ABORTS: AtomicI32 = AtomicI32::new(0);

/// From here on an abort of this process kills its job before. The job is what it has started, if it is the subreaper
/// of that.
pub fn end_job_on_abort() {
    // SAFETY: an all-zero sigaction is valid; the handler keeps to what a handler may do. It ends with the default
    // action: abort(3) restores that and raises the signal once more.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end_job as *const () as usize;
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn end_job(_: libc::c_int) {
    let own = crate::own_tid();
    match ABORTS.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        Err(first) if first == own => return, // it has failed in here
        // Whoever returns ends this process, and with it the memory of what is not killed yet.
        Err(_) => loop {
            // SAFETY: no arguments.
            unsafe { libc::pause() };
        },
    }
    // SAFETY: writes bytes that live as long as the program. Nobody to tell if it fails.
    unsafe { libc::write(libc::STDERR_FILENO, WORDS.as_ptr().cast(), WORDS.len()) };
    kill_children();
}

/// Kills all children until there is none: who loses its parent becomes a child of the subreaper.
fn kill_children() {
    for _ in 0..TUNING.system.aborts {
        let mut alive = false;
        each_number(c"/proc", |pid| alive |= kill_child(pid));
        if !alive {
            return;
        }
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: TUNING.system.between_aborts.0 as libc::c_long,
        };
        // SAFETY: the kernel reads one timespec.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}

/// Kills process `pid` if it is a child that has not ended with all its threads. Whether it was one. Another thread may wait
/// for that child meanwhile, and its number come to mean a process of somebody else: so all is done by a descriptor.
fn kill_child(pid: i32) -> bool {
    // SAFETY: integers only.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let Ok(process @ 0..) = i32::try_from(process) else {
        return false;
    };
    let killed = is_living_child(process) && {
        let info: *const libc::siginfo_t = std::ptr::null();
        let kill = libc::SIGKILL;
        // SAFETY: a null siginfo asks the kernel to fill in its own.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, kill, info, 0) == 0 }
    };
    // SAFETY: opened above, and closed once.
    unsafe { libc::close(process) };
    killed
}

/// Whether the process of that descriptor is a child of this one, and goes on.
fn is_living_child(process: i32) -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: all-zero is a valid siginfo; the kernel writes one, and leaves the child to who waits for it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let process = process.cast_unsigned();
        let found = libc::waitid(libc::P_PIDFD, process, &raw mut info, options) == 0;
        found && info.si_pid() == 0 // of one that has ended it is set
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Says that this test is in a process of its own.
    const ROLE: &str = "NEAP_TEST_OF_ABORT";

    #[test]
    fn an_abort_ends_what_this_process_has_started() {
        if let Some(file) = std::env::var_os(ROLE) {
            // SAFETY: it changes who becomes the parent of orphans, nothing else.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
            end_job_on_abort();
            let orphan = "for i in 1 2 3 4 5 6 7 8; do sleep 60 & echo $! >> \"$0\"; (sleep 60 & echo $! >> \"$0\"); done";
            let mut shell = Command::new("sh")
                .args(["-c", orphan])
                .arg(file)
                .spawn()
                .unwrap();
            shell.wait().unwrap();
            // Threads that have no memory have none at the same time.
            let all = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        all.wait();
                        std::process::abort();
                    });
                }
            });
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pids");
        let own = "abort::tests::an_abort_ends_what_this_process_has_started";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let run = again.args(["--exact", own, "--nocapture"]).env(ROLE, &file);
        let output = run.output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("neap itself has failed"), "{said}");
        let pids = std::fs::read_to_string(file).unwrap();
        assert_eq!(pids.lines().count(), 16, "{pids}");
        assert_eq!(said.matches("neap itself has failed").count(), 1, "{said}");
        for pid in pids.lines() {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            assert!(stat.is_empty() || stat.contains(") Z "), "{stat} lives");
        }
    }

    #[test]
    fn nobody_but_a_living_child_is_killed() {
        let own = std::process::id().cast_signed();
        let parent = std::os::unix::process::parent_id().cast_signed();
        for other in [own, parent, 1, i32::MAX] {
            assert!(!kill_child(other), "{other}");
        }
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        assert!(kill_child(pid));
        while kill_child(pid) {
            std::thread::yield_now(); // it is about to end
        }
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "who waits finds it");
    }
}
