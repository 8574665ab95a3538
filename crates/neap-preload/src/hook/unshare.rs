//! unshare(2), for one flag: only a process of a single thread may enter a new user namespace, so the
//! agent ends before, and the process runs on unmanaged until it execs.

use core::ffi::c_int;

use neap_wire::purpose;

use super::as_libc;
use crate::boot;
use crate::sys::{self, nr};

const CLONE_NEWUSER: c_int = 0x1000_0000;

/// The program's unshare.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    /// The agent may need a moment to be quite gone.
    const TRIES: u32 = 2000;
    const EINVAL: i64 = 22;
    let call = || sys::call(nr::UNSHARE, [flags as usize, 0, 0, 0, 0, 0]);
    if flags & CLONE_NEWUSER == 0 || boot::engine_name().is_empty() {
        return as_libc(call());
    }
    boot::tell(purpose::LEAVE, 0, 0);
    let mut result = call();
    for _ in 0..TRIES {
        if result != -EINVAL {
            break;
        }
        result = call();
    }
    as_libc(result)
}
