//! mremap(2). Memory that was mapped anew in the middle of a mapping joins it, and so does what was protected for a
//! while; but not in the kernel's eyes while the engine has registered one of the two and not yet the other. What is
//! one mapping to the program is then moved piece by piece.

use core::ffi::{c_int, c_void};

use super::as_libc_long;
use crate::{agent, boot, sys};

const MAYMOVE: usize = 1;
const FIXED: usize = 2;
const DONTUNMAP: usize = 4;
const PAGE: usize = 4096;

/// The program's mremap.
///
/// # Safety
/// As mremap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    from: usize,
    old: usize,
    new: usize,
    flags: c_int,
    to: usize,
) -> *mut c_void {
    let flags = flags as usize;
    let plainly = || sys::mremap(from, old, new, flags, to);
    let result = if boot::engine_name().is_empty() {
        plainly()
    } else if flags & FIXED != 0 && agent::is_armed() {
        // Asked before: the kernel makes room there, and since Linux 6.17 moves the first pieces, and only then
        // finds that it must not move the next. Without an armed agent next to nothing is registered.
        by_pieces(from, old, new, flags, to).unwrap_or_else(plainly)
    } else {
        match plainly() {
            error if error == -sys::EFAULT => by_pieces(from, old, new, flags, to).unwrap_or(error),
            result => result,
        }
    };
    as_libc_long(result) as *mut c_void
}

/// `None`: it is one mapping, or none that could have been one.
fn by_pieces(from: usize, old: usize, new: usize, flags: usize, to: usize) -> Option<i64> {
    let whole = |bytes: usize| Some(bytes.checked_add(PAGE - 1)? & !(PAGE - 1));
    let (old, new) = (whole(old)?, whole(new)?);
    let fixed = flags & FIXED != 0;
    let to = if fixed { to } else { 0 };
    let (end, there) = (from.checked_add(old)?, to.checked_add(new)?);
    let sane = flags & !(MAYMOVE | FIXED | DONTUNMAP) == 0
        && (!fixed || flags & MAYMOVE != 0)
        && (flags & DONTUNMAP == 0 || old == new && flags & MAYMOVE != 0)
        && (from | to).is_multiple_of(PAGE)
        && old > 0
        && new > 0
        && !(fixed && from < there && to < end);
    if !sane {
        return None;
    }
    // Linux 6.17 moves any neighbours to a fixed place.
    let last = last_piece(from, end, fixed && old == new)?;
    if fixed && new < old {
        let result = sys::munmap(from + new, old - new);
        if result < 0 {
            return Some(result);
        }
        let end = from + new;
        let last = last_piece(from, end, true).unwrap_or(from);
        return Some(move_pieces(from, last, end, 0, flags, to));
    }
    let more = new.checked_sub(old)?;
    if fixed {
        return Some(move_pieces(from, last, end, more, flags, to));
    }
    if more > 0 {
        let result = sys::mremap(last, end - last, end - last + more, 0, 0);
        if result >= 0 {
            return Some(from as i64);
        }
        if flags & MAYMOVE == 0 {
            return Some(result);
        }
    }
    let room = sys::reserve(new);
    let Ok(to) = usize::try_from(room) else {
        return Some(room);
    };
    let result = move_pieces(from, last, end, more, flags | FIXED, to);
    if result < 0 {
        sys::munmap(to, new);
    }
    Some(result)
}

/// Where the last of several mappings begins that make up the range; `None`: it is one, or has a hole, or one of
/// them could not be one with the others, and `any` is not enough.
fn last_piece(from: usize, end: usize, any: bool) -> Option<usize> {
    let mut at = from;
    loop {
        let (bytes, joins) = boot::reach(at)?;
        if !any && !joins {
            return None;
        }
        if bytes >= end - at {
            return (at != from).then_some(at);
        }
        at += bytes;
    }
}

/// Moves mappings to their places from `to` on. The last one grows by `more`, and goes first: what fails, fails there.
fn move_pieces(from: usize, last: usize, end: usize, more: usize, flags: usize, to: usize) -> i64 {
    let grown = end - last + more;
    let mut result = sys::mremap(last, end - last, grown, flags, to + (last - from));
    let mut at = from;
    while at < last && result >= 0 {
        let Some((bytes, _)) = boot::reach(at) else {
            return -sys::EFAULT; // unmapped meanwhile
        };
        let bytes = bytes.min(last - at);
        result = sys::mremap(at, bytes, bytes, flags, to + (at - from));
        at += bytes;
    }
    if result < 0 { result } else { to as i64 }
}
