//! Taking over the one place at which libc's fork enters the kernel.
//!
//! Nothing that libc offers lets a child do something before libc itself, which touches its locks, its lists of threads and
//! the heap. So the instructions there are replaced in this process's copy of libc. They are known by their bytes; where those are not
//! found, may not be written, or are too far from the library, all is as before.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_wire::library;

use super::next;
use crate::sys::door::{LONGEST, SITES, is_fork, jump};
use crate::sys::{self, Fd};

#[unsafe(link_section = ".data")]
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
    let mut code = [0; library::FORK_REACH];
    let got = sys::read_at(memory, &mut code, function);
    let code = &code[..got];
    for (site, kind) in SITES {
        let is_site = |at: &usize| {
            let before = &code[at.saturating_sub(library::FORK_FLAGS)..*at];
            code[*at..].starts_with(site) && is_fork(kind, before)
        };
        let Some(at) = (0..code.len()).find(is_site) else {
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

#[cfg(test)]
mod tests {
    use core::arch::global_asm;

    use super::*;
    use crate::sys::nr;

    // As libc's: what they keep in registers across the call must be there afterwards.
    global_asm!(
        ".macro neap_test_fork name, bytes:vararg",
        "\\name:",
        "push rbx",
        "mov ebx, 0x1234567",
        "movq xmm7, rbx",
        "mov edi, 0x1200011",
        "xor esi, esi",
        "xor edx, edx",
        "xor r8d, r8d",
        "xor r10d, r10d",
        ".byte \\bytes",
        "movq rcx, xmm7",
        "cmp rcx, rbx",
        "jne 1f",
        "cmp rdi, 0x1200011",
        "je 2f",
        "1:",
        "mov rax, -77",
        "2:",
        "pop rbx",
        "ret",
        ".endm",
        "neap_test_fork neap_test_clone, 0xb8, 0x38, 0, 0, 0, 0x0f, 0x05",
        "neap_test_fork neap_test_fork, 0x6a, 0x39, 0x58, 0x0f, 0x05",
    );

    unsafe extern "C" {
        fn neap_test_clone() -> i64;
        fn neap_test_fork() -> i64;
    }

    /// How a child of this function ends.
    fn forks(function: unsafe extern "C" fn() -> i64) -> (bool, u32) {
        // SAFETY: the child does nothing but to end.
        let child = unsafe { function() };
        if child == 0 {
            sys::exit(7);
        }
        let mut status = 0u32;
        let at = (&raw mut status) as usize;
        let waited = sys::call(nr::WAIT4, [child as usize, at, 0, 0, 0, 0]);
        // SAFETY: the kernel wrote through the address, so it is read anew.
        (waited == child && child > 0, unsafe {
            (&raw const status).read_volatile()
        })
    }

    #[test]
    fn a_fork_that_is_taken_over_returns_twice_with_all_that_it_had() {
        let memory = sys::open(b"/proc/self/mem\0", 2).unwrap();
        // One after the other: libc has one place only.
        for function in [neap_test_clone, neap_test_fork] {
            assert_eq!(forks(function), (true, 7 << 8), "as it is");
            let place = function as *const () as usize;
            assert!(take_over_in(memory, place));
            assert_eq!(forks(function), (true, 7 << 8), "taken over");
        }
        sys::close(memory);
    }
}
