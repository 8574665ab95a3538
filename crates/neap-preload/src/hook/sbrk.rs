//! sbrk(3): the heap grows by a mapping of its own once it is registered, and nothing of that waits before it is found. The
//! engine is told of much of it ([`populate`]). malloc's own calls do not come here.

use core::ffi::c_void;

use super::{next, populate};

/// `(void *)-1`
const FAILED: usize = usize::MAX;

/// The program's sbrk.
///
/// # Safety
/// As sbrk(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sbrk(increment: isize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let before = unsafe { next::sbrk(increment) };
    if before.addr() == FAILED {
        return before;
    }
    match usize::try_from(increment) {
        Ok(grown) => populate::note_grown(grown),
        Err(_) => populate::note_unmapped(increment.unsigned_abs()),
    }
    before
}
