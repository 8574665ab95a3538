//! What is done around a fork that enters the kernel by way of the library ([`door`](super::door)).

use core::mem::size_of;

use super::fork::{leave_parent, resume, thaw};
use crate::heir::{self, Announced, Passage};
use crate::{agent, boot, sys};

/// What a thread that forks keeps on its stack.
#[repr(C, align(16))]
pub struct Kept {
    /// Its signal mask.
    mask: u64,
    passage: Passage,
}

impl Kept {
    pub const NONE: Self = Self {
        mask: 0,
        passage: Passage::NONE,
    };
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
    // SAFETY: the caller's promise.
    let Some(kept) = (unsafe { begin(kept) }) else {
        return PLAIN;
    };
    match heir::announce((&raw const *kept).addr()) {
        Announced::Passed(passage) => {
            kept.passage = passage;
            PASSED_ON
        }
        Announced::Not(line) => {
            thaw(Some(line));
            THAWED
        }
        Announced::No => {
            thaw(None);
            THAWED
        }
    }
}

/// The same for a child that cannot be given what is out.
///
/// # Safety
/// As of [`before_fork`].
pub unsafe fn before_thawed_fork(kept: *mut Kept) -> u64 {
    // SAFETY: the caller's promise.
    if unsafe { begin(kept) }.is_none() {
        return PLAIN;
    }
    thaw(None);
    THAWED
}

/// Has signals wait. `None`: no page may leave, and none is out.
///
/// # Safety
/// `kept` is room for it.
unsafe fn begin<'kept>(kept: *mut Kept) -> Option<&'kept mut Kept> {
    let mask = sys::set_signal_mask(u64::MAX);
    // SAFETY: the caller's promise.
    let kept = unsafe {
        kept.write(Kept { mask, ..Kept::NONE });
        &mut *kept
    };
    agent::fork_begins().then_some(kept)
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
            leave_parent();
            heir::begin();
        }
        _ => {
            leave_parent();
            boot::start_in_child();
        }
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
