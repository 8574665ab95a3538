//! How this process was started, seen before the language's runtime or neap changes it, and handed
//! down.
//!
//! Before `main` the runtime ignores SIGPIPE and opens /dev/null on closed standard descriptors, and its
//! spawn sets SIGPIPE to the default. A program run by neap must find all of them as neap did: under
//! systemd, for one, SIGPIPE is ignored, and a server there relies on it.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits 0 to 2: that descriptor was closed. [`PIPE_IGNORED`]: SIGPIPE was ignored.
static SEEN: AtomicU32 = AtomicU32::new(0);
const PIPE_IGNORED: u32 = 1 << 3;

// SAFETY: the loader calls each entry of `.init_array` once, before `main`, as a C function. `look` is
// one; it makes system calls and stores to an atomic, which need no runtime. Miri has no such calls.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(not(miri))]
extern "C" fn look() {
    let mut seen = 0;
    for fd in 0..3 {
        // SAFETY: the call takes integers only.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            seen |= 1 << fd;
        }
    }
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the kernel writes one sigaction; no new action is given.
    let read = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: filled in by the call, or all zeros, which is valid too.
    let action = unsafe { action.assume_init() };
    if read == 0 && action.sa_sigaction == libc::SIG_IGN {
        seen |= PIPE_IGNORED;
    }
    SEEN.store(seen, Ordering::Relaxed);
}

/// The limit of open descriptors before neap raised it.
static DESCRIPTORS: OnceLock<libc::rlimit> = OnceLock::new();

/// The limit of open descriptors as it is now.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// Raises the limit of open descriptors as far as it goes: each process of a job takes several.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } < 0 {
        return;
    }
    let before = *DESCRIPTORS.get_or_init(|| limit);
    let most = libc::rlimit {
        rlim_cur: before.rlim_max,
        ..before
    };
    // SAFETY: the kernel reads one rlimit.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most) };
}

/// Makes `command` start with SIGPIPE, the standard descriptors and the limit of descriptors as this
/// process found them. Does nothing where nothing was changed, so that the fast way of starting a
/// process stays open.
pub fn hand_down(command: &mut Command) {
    let seen = SEEN.load(Ordering::Relaxed);
    let descriptors = DESCRIPTORS
        .get()
        .copied()
        .filter(|before| before.rlim_cur != before.rlim_max);
    if seen == 0 && descriptors.is_none() {
        return;
    }
    let restore = move || {
        if seen & PIPE_IGNORED != 0 {
            // SAFETY: sets a disposition; runs no code of ours.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        for fd in (0..3).filter(|fd| seen & 1 << fd != 0) {
            // SAFETY: in the child, between fork and exec, where nothing owns the /dev/null that the
            // runtime put there.
            unsafe { libc::close(fd) };
        }
        if let Some(before) = descriptors {
            // SAFETY: the kernel reads one rlimit.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const before) };
        }
        Ok(())
    };
    // SAFETY: the closure only makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(restore) };
}
