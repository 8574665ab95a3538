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
    // SAFETY: no arguments.
    let own = unsafe { libc::getpid() };
    for _ in 0..TUNING.system.aborts {
        let mut alive = false;
        each_number(c"/proc", |pid| {
            if parent_of(pid) == Some(own) {
                // SAFETY: integers only.
                alive |= unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
            }
        });
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

/// The parent of a process that has not ended with all its threads.
fn parent_of(pid: i32) -> Option<i32> {
    let mut path = [0u8; 32];
    let mut rest = &mut path[..31]; // and a 0
    std::io::Write::write_fmt(&mut rest, format_args!("/proc/{pid}/stat")).ok()?;
    // SAFETY: the path ends in 0.
    let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    let mut stat = [0u8; 512];
    // SAFETY: reads into a buffer of that size, from a descriptor that is closed once.
    let got = unsafe {
        let got = libc::read(fd, stat.as_mut_ptr().cast(), stat.len());
        libc::close(fd);
        got
    };
    let stat = stat.get(..usize::try_from(got).ok()?)?;
    let after_name = stat.rsplitn(2, |&byte| byte == b')').next()?; // which may hold anything
    let mut words = str::from_utf8(after_name).ok()?.split_ascii_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    let threads: u32 = words.nth(15)?.parse().ok()?;
    let ended = matches!(state, "Z" | "X") && threads <= 1;
    (!ended).then_some(parent)
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
            assert!(parent_of(pid.parse().unwrap()).is_none(), "{pid} lives");
        }
    }

    #[test]
    fn the_parent_of_this_process_is_known() {
        let own = std::process::id().cast_signed();
        assert_eq!(
            parent_of(own),
            Some(std::os::unix::process::parent_id().cast_signed())
        );
    }
}
