//! Threads of neap's own: what they wait for, their priority, and the clock.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use neap_tuning::TUNING;

use crate::errno::{Result, SysError};

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of cpu time that the calling thread has had.
pub fn thread_nanos() -> u64 {
    nanos_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn nanos_of(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Which of the descriptors waited for are readable.
pub type Readiness = u64;

/// Waits until one of `fds` (at most 64) is readable, or `timeout_nanos` passed (`None`: for ever).
/// Bit i of the answer stands for `fds[i]`; hang-up and errors count as readable. A signal, or an error of the wait
/// itself, which passes (the kernel has no memory), ends the wait early with nothing readable.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout_nanos: Option<u64>) -> Readiness {
    let mut polled = [to_poll(-1); 64];
    let count = fds.len().min(64);
    for (slot, fd) in polled.iter_mut().zip(fds) {
        slot.fd = fd.as_raw_fd();
    }
    poll(&mut polled[..count], timeout_nanos);
    let bit = |(i, slot): (usize, &libc::pollfd)| u64::from(slot.revents != 0) << i;
    polled[..count].iter().enumerate().map(bit).sum()
}

/// The same for any number of descriptors: whether each is readable.
pub fn wait_any(fds: &[BorrowedFd<'_>], timeout_nanos: Option<u64>) -> Vec<bool> {
    let mut polled: Vec<_> = fds.iter().map(|fd| to_poll(fd.as_raw_fd())).collect();
    poll(&mut polled, timeout_nanos);
    polled.iter().map(|slot| slot.revents != 0).collect()
}

fn to_poll(fd: i32) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

pub(crate) fn poll(polled: &mut [libc::pollfd], timeout_nanos: Option<u64>) {
    let timeout = timeout_nanos.map(|nanos| libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    let count = polled.len() as libc::nfds_t;
    // SAFETY: `polled` has `count` entries; the timeout is null or one timespec.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, timeout, std::ptr::null()) };
    if ready < 0 && SysError::last("ppoll", "").errno() != libc::EINTR {
        pause();
    }
}

/// Waits a moment before what has failed is tried again.
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(1));
}

/// An eventfd: wakes a thread that waits in [`wait_readable`].
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// A new one, not yet woken.
    pub fn new() -> Result<Self> {
        // SAFETY: the call takes integers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(SysError::last("eventfd", ""));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes it readable.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: writes eight bytes from `one`. Failure means the counter is full: it is readable.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes it unreadable again.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: reads eight bytes into `count`. Failure means it was not readable.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl std::os::fd::AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }
}

/// Blocks every signal for the calling thread, so that the process's own handlers run elsewhere.
pub fn block_signals() {
    // SAFETY: fills a local set and hands it to the kernel for this thread only.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

/// Asks for a good priority for the calling thread, or for short turns if it may have none; no error.
pub fn raise_priority() {
    // SAFETY: integers only; on Linux, 0 names the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, TUNING.system.nice) } < 0 {
        ask_for_short_turns();
    }
}

/// Asks for short turns on a cpu, and soon (a slice of 0.1 ms, Linux 6.12); needs no right. No error if there is none.
fn ask_for_short_turns() {
    const SHORTEST: u64 = 100_000;
    // SAFETY: an all-zero sched_attr is a valid one.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    attr.size = size_of::<libc::sched_attr>() as u32;
    attr.sched_policy = libc::SCHED_OTHER as u32;
    // SAFETY: integers only.
    attr.sched_nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    attr.sched_runtime = SHORTEST;
    // SAFETY: the kernel reads one sched_attr of the size that it tells; 0 names the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// Priorities among the threads that go ahead of every ordinary one (SCHED_FIFO): those that work for milliseconds do so
/// only where those that work for microseconds do not want the cpu.
const BRIEF: i32 = 2;
const LONG: i32 = 1;

/// Whether it was done; 0 names the calling thread.
fn set_fifo(tid: i32, sched_priority: i32) -> bool {
    let priority = libc::sched_param { sched_priority };
    // SAFETY: one sched_param.
    unsafe { libc::sched_setscheduler(tid, libc::SCHED_FIFO, &raw const priority) == 0 }
}

/// Asks for the cpu ahead of every ordinary thread, else for the best priority allowed. For threads that work for
/// microseconds at a time. Whether it got the former.
pub fn raise_to_realtime() -> bool {
    let done = set_fifo(0, BRIEF);
    if !done {
        lower_to_ordinary(); // out of SCHED_IDLE, at least, if it was there
        raise_priority();
    }
    done
}

/// The same for threads that work for longer, without the second best.
pub fn raise_above_ordinary() -> bool {
    set_fifo(0, LONG)
}

/// Goes back to the ordinary threads (SCHED_OTHER).
pub fn lower_to_ordinary() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: one sched_param; on Linux, 0 names the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const none) };
}

/// Asks for the cpu behind every ordinary thread (SCHED_IDLE): a cpu that runs nobody else counts as idle. Only who
/// has CAP_SYS_NICE comes back from there. Whether it was done.
pub fn give_way() -> bool {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: one sched_param; on Linux, 0 names the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) == 0 }
}

/// [`raise_to_realtime`] for another thread of this process, without the second best. Whether it was done.
pub fn raise_thread(tid: i32) -> bool {
    set_fifo(tid, BRIEF)
}

/// The number of the calling thread.
pub fn own_tid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Whether a thread of this process runs, or waits for nothing but a cpu. It takes no memory from the heap, whose locks
/// that very thread may hold.
pub fn is_runnable(tid: i32) -> bool {
    let mut path = [0; 64];
    let mut rest = &mut path[..];
    if write!(rest, "/proc/self/task/{tid}/stat").is_err() {
        return false;
    }
    let left = rest.len();
    let Ok(path) = std::str::from_utf8(&path[..path.len() - left]) else {
        return false;
    };
    let mut stat = [0; 64];
    let Ok(len) = fs::File::open(path).and_then(|mut file| file.read(&mut stat)) else {
        return false;
    };
    // The state follows the name, which is in brackets and has at most 15 bytes.
    let state = stat[..len].rsplitn(2, |&byte| byte == b')').next();
    state.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"R"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_woken_waker_is_readable_until_cleared() {
        let (one, two) = (Waker::new().expect("one"), Waker::new().expect("two"));
        two.wake();
        let fds = [one.as_fd(), two.as_fd()];
        assert_eq!(wait_readable(&fds, Some(0)), 0b10);
        two.clear();
        assert_eq!(wait_readable(&fds, Some(0)), 0);
    }
}
