//! Whether an address of the program's may be read or written, as the kernel finds it. No signal comes of it if not.

use super::{EFAULT, call, nr};

/// Whether a word may be read there. It is in memory afterwards.
pub fn is_readable(at: usize) -> bool {
    /// Nothing that the kernel knows: it looks at that once it has read the mask.
    const NO_WAY: usize = 99;
    at != 0 && call(nr::RT_SIGPROCMASK, [NO_WAY, at, 0, 8, 0, 0]) != -EFAULT
}

/// Whether an `int` may be written there, which is done.
pub fn is_writable(at: usize) -> bool {
    const PR_GET_PDEATHSIG: usize = 2;
    call(nr::PRCTL, [PR_GET_PDEATHSIG, at, 0, 0, 0, 0]) == 0
}

/// Has what is at an aligned `int` come back, and be the process's own, if it may be written to. It stays as it is.
pub fn bring(at: usize) {
    const FUTEX_WAKE_OP_PRIVATE: usize = 5 | 128;
    /// Adds 0, and compares what was there with 0xfff, for nobody who waits there.
    const ADD_NOTHING: usize = 1 << 28 | 0xfff;
    let own = 0u32;
    call(
        nr::FUTEX,
        [
            (&raw const own).addr(),
            FUTEX_WAKE_OP_PRIVATE,
            0,
            0,
            at,
            ADD_NOTHING,
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_touched_is_found_without_a_signal() {
        let (mut word, read_only) = (7u64, b"sixteen bytes...");
        let at = (&raw mut word).addr();
        assert!(is_readable(at) && is_readable(read_only.as_ptr().addr()));
        // SAFETY: the kernel may write through the address, so it is read anew.
        assert_eq!(unsafe { (&raw const word).read_volatile() }, 7);
        assert!(is_writable(at) && !is_writable(read_only.as_ptr().addr()));
        let brought = 0x1234_5678_u32;
        let at = (&raw const brought).addr();
        bring(at);
        bring(read_only.as_ptr().addr());
        bring(8);
        // SAFETY: as above.
        assert_eq!(unsafe { (at as *const u32).read_volatile() }, 0x1234_5678);
        for nowhere in [0, 8, usize::MAX - 7] {
            assert!(!is_readable(nowhere) && !is_writable(nowhere));
        }
    }
}
