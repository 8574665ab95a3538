//! Around fork(2) as libc does it. vfork, posix_spawn and raw clone do not come here: the first two
//! share the address space until exec, and the last is announced by the kernel where it can.
//!
//! Where the kernel announces no forks, the child is given what is out ([`heir`]), if the place is taken over at which
//! libc's fork enters the kernel ([`door`]). Else all pages come back before.

use core::ffi::c_int;
use core::mem::{size_of, transmute};
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use neap_wire::purpose;

use super::{door, next, turn};
use crate::heir::{self, Passage};
use crate::{agent, boot, sys};

/// Forks whose beginning was told, and which go on.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// The user knows that an end could not be told.
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
        thaw();
    }
}

/// Has all pages come back, and stay until [`resume`].
fn thaw() {
    if boot::tell(purpose::THAW, 0, 0) {
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

fn resume() {
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
    OPEN.store(0, Relaxed); // its parent's
    turn::start_in_child();
    boot::start_in_child();
}

/// What a thread that forks keeps on its stack.
#[repr(C, align(16))]
pub struct Kept {
    /// Its signal mask.
    mask: u64,
    passage: Passage,
}

/// Bytes of [`Kept`], for the instructions that make room for it.
pub const SAVED: usize = size_of::<Kept>();

/// No page may leave, and none is out.
const PLAIN: u64 = 0;
/// The child is given what is out, and begins on a stack of the library's.
const PASSED_ON: u64 = 1;
/// All came back.
const THAWED: u64 = 2;

/// Before libc's fork enters the kernel: how its child is to begin. A signal's handler that ran in the child before it is served would read
/// wrong bytes, so that signals wait.
///
/// # Safety
/// `kept` is room for it.
pub unsafe extern "C" fn before_fork(kept: *mut Kept) -> u64 {
    let mask = sys::set_signal_mask(u64::MAX);
    // SAFETY: the caller's promise.
    let kept = unsafe {
        kept.write(Kept {
            mask,
            passage: Passage::NONE,
        });
        &mut *kept
    };
    if !agent::fork_begins() {
        return PLAIN;
    }
    match heir::announce((&raw const *kept).addr()) {
        Some(passage) => {
            kept.passage = passage;
            PASSED_ON
        }
        None => {
            thaw();
            THAWED
        }
    }
}

/// In the process that has forked, or could not.
///
/// # Safety
/// `kept` is what [`before_fork`] kept, with its answer.
pub unsafe extern "C" fn after_fork(kept: *const Kept, way: u64) {
    // SAFETY: the caller's promise.
    let kept = unsafe { &*kept };
    match way {
        PASSED_ON => heir::tell_of_fork(&kept.passage),
        THAWED => resume(),
        _ => {}
    }
    agent::fork_ends();
    sys::set_signal_mask(kept.mask);
}

/// In the child. If it is given what is out it touches no memory but the library's until that is done.
pub extern "C" fn in_child(way: u64) {
    match way {
        PASSED_ON => {
            OPEN.store(0, Relaxed);
            turn::start_in_child();
            heir::begin();
        }
        _ => child(),
    }
}

/// In the child, once it may touch all memory.
///
/// # Safety
/// `kept` is what [`before_fork`] kept.
pub unsafe extern "C" fn end_of_fork(kept: *const Kept) {
    // SAFETY: the caller's promise.
    let mask = unsafe { (*kept).mask };
    sys::set_signal_mask(mask);
}
