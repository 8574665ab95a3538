//! Around fork(2) as libc does it. vfork and posix_spawn do not come here: they share the address space until exec. What the program
//! makes by clone(2) itself is in `apart.rs`.
//!
//! Where the kernel announces no forks, the child is given what is out (`heir.rs`), if the place is taken over at which
//! libc's fork enters the kernel (`door.rs`). Else all pages come back before.

use core::ffi::c_int;
use core::mem::transmute;
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use neap_wire::purpose;

use super::{next, turn};
use crate::sys::{self, Fd};
use crate::{agent, boot};

#[cfg(target_arch = "x86_64")]
use super::door;
/// Where libc enters the kernel is known for no other machine yet.
#[cfg(not(target_arch = "x86_64"))]
mod door {
    pub fn is_taken() -> bool {
        false
    }
    pub unsafe fn take_over() -> bool {
        false
    }
}

/// Forks whose beginning was told, and which go on.
#[unsafe(link_section = ".data")]
static OPEN: AtomicU32 = AtomicU32::new(0);
/// The user knows that an end could not be told.
#[unsafe(link_section = ".data")]
static SAID: AtomicBool = AtomicBool::new(false);

type Handler = Option<extern "C" fn()>;
type RegisterAtfork = extern "C" fn(Handler, Handler, Handler, *const u8) -> i32;
type PthreadAtfork = extern "C" fn(Handler, Handler, Handler) -> i32;

/// Takes over libc's forks, or asks libc to call the handlers below; a libc without the means is left alone.
///
/// # Safety
/// No other thread runs.
pub unsafe fn register_fork_handlers() {
    // SAFETY: the caller's promise.
    if boot::may_pass_on() && unsafe { door::take_over() } {
        return;
    }
    match sys::weak_atfork() {
        (0, 0) => {}
        (0, address) => {
            // SAFETY: the dynamic loader resolved this symbol, whose type POSIX fixes.
            let register: PthreadAtfork = unsafe { transmute(address) };
            register(Some(prepare), Some(parent), Some(child));
        }
        (address, _) => {
            // SAFETY: the dynamic loader resolved this symbol, whose type glibc's ABI fixes.
            let register: RegisterAtfork = unsafe { transmute(address) };
            register(Some(prepare), Some(parent), Some(child), null());
        }
    }
}

/// The program's `_Fork`: the fork that calls no handlers, since it may be made in a signal's.
///
/// # Safety
/// As `_Fork` of POSIX.
#[unsafe(export_name = "_Fork")]
pub unsafe extern "C" fn fork_without_handlers() -> c_int {
    if door::is_taken() {
        // SAFETY: the caller's promise.
        return unsafe { next::fork() };
    }
    prepare();
    // SAFETY: the caller's promise.
    let forked = unsafe { next::fork() };
    match forked {
        0 => child(),
        _ => parent(),
    }
    forked
}

extern "C" fn prepare() {
    if boot::thaw_around_fork() {
        agent::fork_begins();
        thaw(None);
    }
}

/// Has all pages come back, and stay until [`resume`]. `line`: a connection to the engine, which is used up.
pub(super) fn thaw(line: Option<Fd>) {
    let told = line.is_some_and(|line| boot::tell_by(line, purpose::THAW));
    if told || boot::tell(purpose::THAW, 0, 0) {
        OPEN.fetch_add(1, Relaxed);
    } else if agent::is_armed() {
        sys::write(
            sys::STDERR,
            b"neap: the engine could not be told of a fork (no descriptor left, or another root?); \
              the program is killed rather than let its child read wrong bytes\n",
        );
        sys::kill_self();
    }
}

extern "C" fn parent() {
    if boot::thaw_around_fork() {
        resume();
        agent::fork_ends();
    } else if agent::is_armed() {
        // The kernel lets this process go on, and perhaps end, as soon as the fork has been announced.
        boot::tell(purpose::FORKED, 0, 0);
    }
}

pub(super) fn resume() {
    // It may end another fork's pause in place of its own that was never asked for: as long as this one is
    // not over nothing can leave all the same.
    let told = boot::tell(purpose::RESUME, 0, 0);
    let less = |open: u32| open.checked_sub(1);
    let pauses = OPEN.fetch_update(Relaxed, Relaxed, less).is_ok();
    if !told && pauses && !SAID.swap(true, Relaxed) {
        sys::write(
            sys::STDERR,
            b"neap: the engine could not be told that a fork is over (no descriptor left?); \
              the program stays unmanaged\n",
        );
    }
}

extern "C" fn child() {
    leave_parent();
    boot::start_in_child();
}

/// What is under way in the parent is not in its child.
pub(super) fn leave_parent() {
    OPEN.store(0, Relaxed);
    turn::start_in_child();
}
