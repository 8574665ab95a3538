//! unshare(2), for one flag: only a process of a single thread may enter a new user namespace, so the
//! agent ends before, and the process runs on unmanaged until it execs.

use core::ffi::c_int;

use neap_wire::purpose;

use super::as_libc;
use crate::sys::{self, nr};
use crate::{agent, boot};

const CLONE_NEWUSER: c_int = 0x1000_0000;

/// The program's unshare.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    if flags & CLONE_NEWUSER != 0
        && !boot::engine_name().is_empty()
        && boot::tell(purpose::LEAVE, 0, 0)
    {
        agent::join();
        agent::disarm();
    }
    as_libc(sys::call(nr::UNSHARE, [flags as usize, 0, 0, 0, 0, 0]))
}
