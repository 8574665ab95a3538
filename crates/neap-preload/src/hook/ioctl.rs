//! ioctl(2), for three requests of a program that has a userfaultfd of its own. Memory that it registers would be
//! refused where the engine has registered it first, so the engine lets go before. So it does of memory that the program moves
//! pages out of: what is elsewhere would be a hole there. And from its first word on
//! no page may be there that it has not touched, since it would never be asked for that.

use core::ffi::{c_int, c_ulong};

use neap_wire::purpose;

use super::{next, turn};
use crate::boot;

/// `_IOWR(0xAA, 0x3f, struct uffdio_api)`
const UFFDIO_API: u32 = 0xc018_aa3f;
/// `_IOWR(0xAA, 0, struct uffdio_register)`
const UFFDIO_REGISTER: u32 = 0xc020_aa00;
/// `_IOWR(0xAA, 5, struct uffdio_move)`
const UFFDIO_MOVE: u32 = 0xc028_aa05;

/// What the engine is to let go of before a request, from its first byte up to its last; 0 and 0: only to know of it.
///
/// # Safety
/// As ioctl(2): `arg` must fit `request`.
unsafe fn wanted(request: u32, arg: usize) -> Option<(u64, u64)> {
    let words = arg as *const u64;
    let (start, len) = match request {
        UFFDIO_API => (0, 0),
        // SAFETY: this request's argument begins with the start and length of the range.
        UFFDIO_REGISTER if arg != 0 => unsafe {
            (words.read_unaligned(), words.add(1).read_unaligned())
        },
        // SAFETY: this request's argument begins with the target, the source and the length.
        UFFDIO_MOVE if arg != 0 => unsafe {
            (words.add(1).read_unaligned(), words.add(2).read_unaligned())
        },
        _ => return None,
    };
    Some((start, start.saturating_add(len)))
}

/// The program's ioctl.
///
/// # Safety
/// As ioctl(2): `arg` must fit `request`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int {
    // SAFETY: the caller's promise. The kernel looks at no more of the request, and an int is extended by its sign.
    let wanted = unsafe { wanted(request as u32, arg) };
    let wanted = wanted.filter(|_| !boot::engine_name().is_empty());
    // Nothing is to move there between what the engine does and what the kernel does.
    let _turn = wanted.map(|(start, end)| {
        let turn = turn::take();
        boot::tell(purpose::RELEASE, start, end);
        turn
    });
    // SAFETY: the caller's promise.
    unsafe { next::ioctl(fd, request, arg) }
}
