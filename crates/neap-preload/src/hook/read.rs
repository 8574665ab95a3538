//! read(2), pread(2) and fread(3) of much of a file. A kernel without preemption takes the cpu from no such call, and 60 MiB
//! came in one before neap had looked. Where so much is asked for, the memory is filled before, in steps ([`populate`]).
//! The call itself is the program's own, whole and unchanged.

use core::ffi::{c_int, c_void};

use neap_wire::library;

use super::{keeping_errno, next, populate};

/// The program's read.
///
/// # Safety
/// As read(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, into: *mut c_void, len: usize) -> isize {
    populate::before_read(fd, into.addr(), len, None);
    // SAFETY: the caller's promise.
    unsafe { next::read(fd, into, len) }
}

/// The program's pread.
///
/// # Safety
/// As pread(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread(fd: c_int, into: *mut c_void, len: usize, place: i64) -> isize {
    populate::before_read(fd, into.addr(), len, Some(place));
    // SAFETY: the caller's promise.
    unsafe { next::pread(fd, into, len, place) }
}

/// The same by its other name.
///
/// # Safety
/// As pread(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(fd: c_int, into: *mut c_void, len: usize, place: i64) -> isize {
    populate::before_read(fd, into.addr(), len, Some(place));
    // SAFETY: the caller's promise.
    unsafe { next::pread64(fd, into, len, place) }
}

/// The program's fread, which reads by a call of libc's own.
///
/// # Safety
/// As fread(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fread(
    into: *mut c_void,
    size: usize,
    count: usize,
    stream: *mut c_void,
) -> usize {
    let len = size.saturating_mul(count);
    if len >= library::READ_FROM {
        // SAFETY: the caller's promise.
        let fd = keeping_errno(|| unsafe { next::fileno(stream) });
        populate::before_read(fd, into.addr(), len, None);
    }
    // SAFETY: the caller's promise.
    unsafe { next::fread(into, size, count, stream) }
}
