//! What the library interposes or asks to be called for: forks, userfaultfds of the program's own,
//! memory that a forked child finds wiped, and changes of mappings.

#[cfg(target_arch = "x86_64")]
pub mod apart;
#[cfg(target_arch = "x86_64")]
mod door;
mod fork;
mod ioctl;
mod madvise;
mod mmap;
mod mremap;
mod next;
#[cfg(target_arch = "x86_64")]
mod passing;
mod populate;
mod read;
mod sbrk;
mod turn;

pub use fork::register_fork_handlers;
pub use next::find as find_what_is_behind;
#[cfg(target_arch = "x86_64")]
pub use next::{CLONE, SYSCALL, restartable};
#[cfg(target_arch = "x86_64")]
pub use passing::{SAVED, after_fork, before_fork, end_of_fork, in_child};

use core::ffi::c_int;

use crate::sys;

/// What libc returns for a result of the kernel's: the result, or -1 and errno.
fn as_libc(result: i64) -> c_int {
    as_libc_long(result) as c_int
}

/// A call of libc's that the program has not made: it is not to see what became of it.
fn keeping_errno(call: impl FnOnce() -> c_int) -> c_int {
    let location = sys::weak_errno();
    if location == 0 {
        return call();
    }
    // SAFETY: as below.
    unsafe {
        let errno: extern "C" fn() -> *mut c_int = core::mem::transmute(location);
        let before = *errno();
        let result = call();
        *errno() = before;
        result
    }
}

/// The same for an address.
fn as_libc_long(result: i64) -> i64 {
    if result >= 0 {
        return result;
    }
    let location = sys::weak_errno();
    if location != 0 {
        // SAFETY: the dynamic loader resolved this symbol; both libcs give it this type, and it
        // returns the calling thread's errno.
        unsafe {
            let errno: extern "C" fn() -> *mut c_int = core::mem::transmute(location);
            *errno() = -result as c_int;
        }
    }
    -1
}
