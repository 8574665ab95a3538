//! madvise(2), for the advice that the engine cannot see: memory that a forked child must find empty.
//! The kernel announces a fork but not this flag, so the engine would give the child its parent's
//! pages; it lets go before. Where the engine itself says what a child inherits, it also lets go of
//! memory for which the program says so.

use core::ffi::{c_int, c_void};

use neap_wire::purpose;

use super::as_libc;
use crate::{boot, sys};

/// The program's madvise.
///
/// # Safety
/// As madvise(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int {
    let start = at as usize;
    let hidden = match advice as usize {
        sys::MADV_WIPEONFORK => true,
        sys::MADV_DONTFORK | sys::MADV_DOFORK => boot::thaw_around_fork(),
        _ => false,
    };
    if hidden && !boot::engine_name().is_empty() {
        let end = start.saturating_add(len.next_multiple_of(4096));
        boot::tell(purpose::WIPE, start as u64, end as u64);
    }
    as_libc(sys::madvise(start, len, advice as usize))
}
