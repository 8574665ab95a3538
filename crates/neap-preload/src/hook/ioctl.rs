//! ioctl(2), for two requests of a program that has a userfaultfd of its own. Memory that it registers would be
//! refused where the engine has registered it first, so the engine lets go before. And from its first word on
//! no page may be there that it has not touched, since it would never be asked for that.

use core::ffi::{c_int, c_ulong};

use neap_wire::purpose;

use super::next;
use crate::boot;

/// `_IOWR(0xAA, 0x3f, struct uffdio_api)`
const UFFDIO_API: u32 = 0xc018_aa3f;
/// `_IOWR(0xAA, 0, struct uffdio_register)`
const UFFDIO_REGISTER: u32 = 0xc020_aa00;

/// The program's ioctl.
///
/// # Safety
/// As ioctl(2): `arg` must fit `request`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int {
    let asked = request as u32; // the kernel looks at no more, and an int is extended by its sign
    if asked == UFFDIO_REGISTER && !boot::engine_name().is_empty() && arg != 0 {
        // SAFETY: this request's argument begins with the start and length of the range.
        let [start, len] = unsafe { (arg as *const [u64; 2]).read_unaligned() };
        boot::tell(purpose::RELEASE, start, start.saturating_add(len));
    }
    if asked == UFFDIO_API && !boot::engine_name().is_empty() {
        boot::tell(purpose::RELEASE, 0, 0);
    }
    // SAFETY: the caller's promise.
    unsafe { next::ioctl(fd, request, arg) }
}
