//! Taking over the one place at which libc's fork enters the kernel.
//!
//! Nothing that libc offers lets a child do something before libc itself, which touches its locks, its lists of threads and
//! the heap. So the instructions there are replaced in this process's copy of libc. They are known by their bytes; where those are not
//! found, may not be written, or are too far from the library, all is as before.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::next;
use crate::sys::door::{LONGEST, SITES, jump};
use crate::sys::{self, Fd};

/// How far into a function they are looked for, in bytes.
const REACH: usize = 512;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether libc's forks come through the library.
pub fn is_taken() -> bool {
    TAKEN.load(Relaxed)
}

/// Takes the place over, if it is found. Whether it was.
///
/// # Safety
/// No other thread runs.
pub unsafe fn take_over() -> bool {
    const O_RDWR: usize = 2;
    // What may not be read is no mistake there, and what may not be written can be.
    let Some(memory) = sys::open(b"/proc/self/mem\0", O_RDWR) else {
        return false;
    };
    let taken = next::forks()
        .into_iter()
        .any(|function| function != 0 && take_over_in(memory, function));
    sys::close(memory);
    TAKEN.store(taken, Relaxed);
    taken
}

fn take_over_in(memory: Fd, function: usize) -> bool {
    let mut code = [0; REACH];
    let got = sys::read_at(memory, &mut code, function);
    let code = &code[..got];
    for (site, kind) in SITES {
        let Some(at) = code.windows(site.len()).position(|bytes| bytes == site) else {
            continue;
        };
        let place = function + at;
        let Some(jump) = jump(place, kind, site.len()) else {
            continue;
        };
        let jump = &jump[..site.len()];
        let mut written = [0; LONGEST];
        let written = &mut written[..site.len()];
        sys::write_at(memory, jump, place);
        sys::read_at(memory, written, place);
        if written == jump {
            return true;
        }
    }
    false
}
