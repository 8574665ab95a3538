//! madvise(2), and what it is called elsewhere. Advice that the engine acts on is told it ([`hints`]).
//!
//! Three advices are more than hints. Memory that is to be filled is filled in steps ([`populate`]). And memory that a forked
//! child must find empty, or not at all. The kernel announces a fork
//! but not this flag, so the engine would give the child its parent's pages. Of what is to be empty it lets go before; of what
//! is not to be there it learns from the child.

use core::ffi::{c_int, c_void};

use neap_wire::{notes, purpose};

use super::{as_libc, as_libc_long, populate, turn};
use crate::{agent, boot, hints, sys};

/// The program's madvise.
///
/// # Safety
/// As madvise(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int {
    let start = at as usize;
    let wipes = advice as usize == sys::MADV_WIPEONFORK && !boot::engine_name().is_empty();
    // Nothing is to move there between what the engine does and what the kernel does.
    let _turn = wipes.then(turn::take);
    if wipes {
        let end = start.saturating_add(len).saturating_add(4095) & !4095;
        if !boot::tell(purpose::WIPE, start as u64, end as u64) && !agent::stay_native() {
            return as_libc(-sys::EAGAIN);
        }
    }
    if advice as usize == sys::MADV_DONTFORK {
        boot::note_kept();
    }
    if advice as usize == sys::MADV_POPULATE_WRITE {
        return as_libc(populate::in_steps(start, len));
    }
    as_libc(advise(start, len, advice as usize))
}

/// The kernel's answer to an advice, which the engine is told of.
fn advise(start: usize, len: usize, advice: usize) -> i64 {
    let heard = hints::is_heard(advice);
    // What the engine takes out the kernel need not write to its swap.
    let before = heard && advice == notes::advice::PAGEOUT as usize;
    if before {
        hints::tell(start, len, advice);
    }
    let result = sys::madvise(start, len, advice);
    // Where some of the range is not mapped the kernel takes the advice for the rest.
    if heard && !before && (result == 0 || result == -sys::ENOMEM) {
        hints::tell(start, len, advice);
    }
    result
}

/// The program's `posix_madvise`, which returns what madvise leaves in errno.
///
/// # Safety
/// As posix_madvise(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int {
    // As POSIX has it, no page is lost by it; both libcs do nothing then.
    if advice as usize == sys::MADV_DONTNEED {
        return 0;
    }
    -advise(at as usize, len, advice as usize) as c_int
}

/// The program's `process_madvise`. What it says of itself is told as of madvise; after the kernel has read it.
///
/// # Safety
/// As process_madvise(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_madvise(
    process: c_int,
    parts: *const [usize; 2],
    count: usize,
    advice: c_int,
    flags: u32,
) -> isize {
    let (number, at) = (advice as usize, parts as usize);
    let args = [process as usize, at, count, number, flags as usize, 0];
    let done = sys::call(sys::nr::PROCESS_MADVISE, args);
    if done > 0 && hints::is_heard(number) && sys::is_self(process) {
        let mut left = done as usize;
        for part in 0..count {
            // SAFETY: the kernel has read all of the parts.
            let [start, len] = unsafe { parts.add(part).read_unaligned() };
            hints::tell(start, len.min(left), number);
            left = left.saturating_sub(len);
        }
    }
    as_libc_long(done) as isize
}
