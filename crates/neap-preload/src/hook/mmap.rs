//! munmap(2), and mmap(2) over what is there, take turns with other changes ([`turn`]). mmap(2) that fills what it maps
//! does so in steps ([`populate`]).

use core::ffi::{c_int, c_void};

use super::{as_libc, as_libc_long, populate, turn};
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
    let turn = (flags & MAP_FIXED != 0).then(turn::take);
    let mut flags = flags;
    let fills = populate::take_wish(protection, &mut flags);
    let (protection, flags, fd) = (protection as usize, flags as usize, fd as usize);
    let args = [at, len, protection, flags, fd, offset as usize];
    let mapped = sys::call(nr::MMAP, args);
    drop(turn);
    if fills && mapped > 0 {
        populate::in_steps(mapped as usize, len); // as far as it goes: mmap does not fail for it
    }
    as_libc_long(mapped) as *mut c_void
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
