//! `syscall` and `clone` of libc: children that a program makes by clone(2), clone3(2) or fork(2) itself, each with a copy of its memory.
//!
//! Where the kernel announces no forks, such a child is given what is out, as that of libc's fork ([`passing`](super::passing)). It cannot be if
//! it shares its parent's descriptors, or if its parent waits for its end: all pages come back before. So it is for a libc whose `clone` may do
//! more than the system call. Every other call goes on to libc untouched. The instructions are in `sys/x86_64/apart.rs`.

use core::ffi::c_int;
use core::mem::size_of;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::passing::{Kept, after_fork, before_fork, before_thawed_fork, end_of_fork};
use super::{as_libc_long, next};
use crate::boot;
use crate::sys::apart::neap_begin_by_libc;
use crate::sys::{self, nr};

const CLONE_VM: u64 = 0x100;
const CLONE_FILES: u64 = 0x400;
const CLONE_PIDFD: u64 = 0x1000;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;
const SIGCHLD: usize = 17;

/// The call is none of the library's business.
const GOES_ON: u64 = 0;
/// The library makes the system call.
const APART: u64 = 1;
/// libc makes it.
const BY_LIBC: u64 = 2;

/// `struct clone_args`, as long as it is known here.
const STRUCTURE: usize = 11;
const WORD: usize = size_of::<u64>();
/// Least bytes of it, and most.
const LEAST: usize = 64;
const MOST: usize = 4096;

/// The system call that makes a child, and how the child goes on. Made on the stack of the thread that calls.
#[repr(C)]
pub struct Apart {
    pub number: usize,
    pub args: [usize; 5],
    /// Of the child; 0: where its parent's is.
    pub stack: usize,
    /// What the child calls on that; 0: it returns there.
    pub entry: usize,
    pub argument: usize,
    /// Where the child's number is to be written in the child; 0: nowhere.
    child_tid: usize,
    /// The child can be given what is out.
    passes: bool,
    structure: [u64; STRUCTURE],
}

impl Apart {
    const NONE: Self = Self {
        number: 0,
        args: [0; 5],
        stack: 0,
        entry: 0,
        argument: 0,
        child_tid: 0,
        passes: false,
        structure: [0; STRUCTURE],
    };
}

/// The arguments of one of the two functions, as far as they are in registers.
pub type Words = [usize; 6];

/// What is to be done about a call of `syscall` with one of three numbers.
///
/// # Safety
/// `words` are its arguments, and `apart` is room for what comes of them.
pub unsafe extern "C" fn ask_of_syscall(words: *const Words, apart: *mut Apart) -> u64 {
    // SAFETY: the caller's promise.
    let [number, args @ ..] = unsafe { *words };
    find_if_new(&next::SYSCALL);
    if !boot::thaw_around_fork() || !next::is_libcs_syscall() {
        return GOES_ON;
    }
    let call = match number as u32 as usize {
        nr::CLONE => of_clone(args[0], args),
        nr::FORK => of_clone(SIGCHLD, [0; 5]).map(|call| Apart {
            number: nr::FORK,
            ..call
        }),
        _ => of_clone3(args[0], args[1]),
    };
    let Some(call) = call else {
        return GOES_ON;
    };
    // SAFETY: the caller's promise.
    unsafe { apart.write(call) };
    APART
}

/// What is to be done about a call of `clone`.
///
/// # Safety
/// As of [`ask_of_syscall`]; `child_tid` is the last argument, if it was given.
pub unsafe extern "C" fn ask_of_clone(
    words: *const Words,
    apart: *mut Apart,
    child_tid: usize,
) -> u64 {
    // SAFETY: the caller's promise.
    let [entry, stack, flags, argument, parent_tid, tls] = unsafe { *words };
    find_if_new(&next::CLONE);
    let flags = flags as u32 as usize;
    let is_whole = entry != 0 && stack != 0;
    if !boot::thaw_around_fork() || !next::is_libcs_clone() || !is_whole {
        return GOES_ON;
    }
    let Some(call) = of_clone(flags, [flags, 0, parent_tid, child_tid, tls]) else {
        return GOES_ON;
    };
    let is_glibc = sys::weak_atfork().0 != 0;
    if !is_glibc {
        return BY_LIBC;
    }
    // SAFETY: the caller's promise.
    unsafe {
        apart.write(Apart {
            stack: stack & !15,
            entry,
            argument,
            ..call
        });
    }
    APART
}

/// Another library's constructor, or a program that has no dlsym.
fn find_if_new(place: &AtomicUsize) {
    if place.load(Relaxed) == 0 {
        // SAFETY: whoever calls this was loaded with all that it is linked to.
        unsafe { next::find_clones() };
    }
}

/// Whether a call with these flags makes a process with memory of its own.
fn copies(flags: u64) -> bool {
    flags & (CLONE_VM | CLONE_SIGHAND | CLONE_THREAD) == 0
}

fn passes(flags: u64) -> bool {
    boot::may_pass_on() && flags & (CLONE_VFORK | CLONE_FILES) == 0
}

/// clone(2), which is told no stack: the child goes on where it is to by itself.
fn of_clone(flags: usize, [_, stack, parent_tid, child_tid, tls]: [usize; 5]) -> Option<Apart> {
    let asked = flags as u64;
    if !copies(asked) {
        return None;
    }
    if asked & (CLONE_PARENT_SETTID | CLONE_PIDFD) != 0 {
        sys::bring(parent_tid); // before nobody does
    }
    let told = asked & CLONE_CHILD_SETTID != 0;
    let flags = flags & !(CLONE_CHILD_SETTID as usize);
    Some(Apart {
        number: nr::CLONE,
        args: [flags, 0, parent_tid, child_tid, tls],
        stack,
        child_tid: if told { child_tid } else { 0 },
        passes: passes(asked),
        ..Apart::NONE
    })
}

/// clone3(2), with a copy of its structure.
fn of_clone3(at: usize, bytes: usize) -> Option<Apart> {
    /// Places of words in the structure.
    const FLAGS: usize = 0;
    const PIDFD: usize = 1;
    const CHILD_TID: usize = 2;
    const PARENT_TID: usize = 3;
    const TOP: usize = 5;
    const SIZE: usize = 6;
    if !(LEAST..=MOST).contains(&bytes)
        || ![at, at.wrapping_add(bytes - WORD)]
            .into_iter()
            .all(sys::is_readable)
    {
        return None;
    }
    // SAFETY: the kernel has read both ends of less than two pages.
    let word = |place: usize| unsafe { (at as *const u64).add(place).read_unaligned() };
    let asked = word(FLAGS);
    if !copies(asked) {
        return None;
    }
    let count = bytes / WORD;
    let mut call = Apart {
        number: nr::CLONE3,
        args: [at, bytes, 0, 0, 0],
        ..Apart::NONE
    };
    let known = &mut call.structure[..count.min(STRUCTURE)];
    for (place, copy) in known.iter_mut().enumerate() {
        *copy = word(place);
    }
    let [bottom, size] = [call.structure[TOP], call.structure[SIZE]];
    if (bottom == 0) != (size == 0) {
        return None; // as the kernel will say
    }
    call.stack = bottom.wrapping_add(size) as usize;
    let rest = count * WORD..bytes;
    // SAFETY: as above.
    let is_cut = rest
        .into_iter()
        .any(|at_byte| unsafe { (at as *const u8).add(at_byte).read() } != 0);
    if is_cut || (STRUCTURE..count).any(|place| word(place) != 0) {
        return Some(call); // the words of another kernel, which may mean anything: as they are
    }
    for (flag, place) in [(CLONE_PIDFD, PIDFD), (CLONE_PARENT_SETTID, PARENT_TID)] {
        if asked & flag != 0 {
            sys::bring(call.structure[place] as usize);
        }
    }
    if asked & CLONE_CHILD_SETTID != 0 {
        call.child_tid = call.structure[CHILD_TID] as usize;
        call.structure[FLAGS] = asked & !CLONE_CHILD_SETTID;
    }
    (call.structure[TOP], call.structure[SIZE]) = (0, 0);
    call.args[1] = count.min(STRUCTURE) * WORD;
    call.args[0] = 0; // known where it lies in the end
    call.passes = passes(asked);
    Some(call)
}

/// Before the system call: how its child is to begin.
///
/// # Safety
/// `kept` is room for it, and `apart` what was asked for.
pub unsafe extern "C" fn before_apart(kept: *mut Kept, apart: *mut Apart) -> u64 {
    // SAFETY: the caller's promise.
    let apart = unsafe { &mut *apart };
    if apart.number == nr::CLONE3 && apart.args[0] == 0 {
        apart.args[0] = (&raw const apart.structure).addr();
    }
    // SAFETY: the caller's promise.
    unsafe {
        match apart.passes {
            true => before_fork(kept),
            false => before_thawed_fork(kept),
        }
    }
}

/// In the child, once it may touch all memory, and is on its parent's stack.
///
/// # Safety
/// `kept` is what [`before_apart`] kept.
pub unsafe extern "C" fn end_of_apart(kept: *const Kept, apart: *const Apart) {
    // SAFETY: the caller's promise.
    let child_tid = unsafe { (*apart).child_tid };
    if child_tid != 0 && sys::is_writable(child_tid) {
        // SAFETY: the program asked for that, and the kernel has just written there.
        unsafe { (child_tid as *mut u32).write_unaligned(sys::gettid()) };
    }
    // SAFETY: the caller's promise.
    unsafe { end_of_fork(kept) };
}

/// What libc returns for a result of the kernel's.
pub extern "C" fn answer(result: i64) -> i64 {
    as_libc_long(result)
}

/// What a child begins with that libc's `clone` makes.
#[repr(C)]
pub struct Start {
    pub kept: Kept,
    pub entry: usize,
    pub argument: usize,
}

/// Has libc's `clone` make the child, with all pages in the process.
///
/// # Safety
/// As of [`ask_of_clone`], and as clone(2).
pub unsafe extern "C" fn clone_by_libc(words: *const Words, child_tid: usize) -> c_int {
    // SAFETY: the caller's promise.
    let [entry, stack, flags, argument, parent_tid, tls] = unsafe { *words };
    let mut start = Start {
        kept: Kept::NONE,
        entry,
        argument,
    };
    // SAFETY: what is kept lies in `start`, of which the child has a copy.
    unsafe {
        let way = before_thawed_fork(&raw mut start.kept);
        let begin = neap_begin_by_libc as *const () as usize;
        let start_at = (&raw const start).addr();
        let words = [begin, stack, flags, start_at, parent_tid, tls, child_tid];
        let child = next::clone(words);
        after_fork(&raw const start.kept, way);
        child
    }
}
