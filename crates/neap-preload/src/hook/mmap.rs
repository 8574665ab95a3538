//! munmap(2), and mmap(2) over what is there, take turns with other changes ([`turn`]).

use core::ffi::{c_int, c_void};

use super::{as_libc, as_libc_long, turn};
use crate::sys::{self, nr};

const MAP_FIXED: c_int = 0x10;

/// The program's munmap.
///
/// # Safety
/// As munmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: usize, len: usize) -> c_int {
    let _turn = turn::take();
    as_libc(sys::munmap(at, len))
}

/// The program's mmap.
///
/// # Safety
/// As mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: usize,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    let _turn = (flags & MAP_FIXED != 0).then(turn::take);
    let (protection, flags, fd) = (protection as usize, flags as usize, fd as usize);
    let args = [at, len, protection, flags, fd, offset as usize];
    as_libc_long(sys::call(nr::MMAP, args)) as *mut c_void
}

/// The same by its other name.
///
/// # Safety
/// As mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: usize,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(at, len, protection, flags, fd, offset) }
}
