//! munmap(2), and mmap(2) over what is there, take turns with other changes ([`turn`]). mmap(2) that fills what it maps
//! does so in steps, and the engine is told of much that is mapped ([`populate`]).

use core::ffi::{c_int, c_void};

use super::{next, populate, turn};

const MAP_FIXED: c_int = 0x10;
/// `MAP_FAILED`
const FAILED: usize = usize::MAX;

/// The program's munmap.
///
/// # Safety
/// As munmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: usize, len: usize) -> c_int {
    let _turn = turn::take();
    populate::note_unmapped(len);
    // SAFETY: the caller's promise.
    unsafe { next::munmap(at, len) }
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
    // SAFETY: the caller's promise.
    let mapped = unsafe { next::mmap(at, len, protection, flags, fd, offset) };
    drop(turn);
    if mapped.addr() == FAILED {
        return mapped;
    }
    if fills {
        populate::in_steps(mapped.addr(), len); // as far as it goes: mmap does not fail for it
    } else {
        populate::note_mapped(protection, flags, len);
    }
    mapped
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
