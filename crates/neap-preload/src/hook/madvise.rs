//! madvise(2), for three advices. Memory that is to be filled is filled in steps ([`populate`]). And memory that a forked
//! child must find empty, or not at all. The kernel announces a fork
//! but not this flag, so the engine would give the child its parent's pages. Of what is to be empty it lets go before; of what
//! is not to be there it learns from the child.

use core::ffi::{c_int, c_void};

use neap_wire::purpose;

use super::{as_libc, populate, turn};
use crate::{agent, boot, sys};

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
    as_libc(sys::madvise(start, len, advice as usize))
}
