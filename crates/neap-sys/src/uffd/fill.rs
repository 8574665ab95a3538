//! Putting pages into an address space and taking them out.

use std::mem::size_of;
use std::ops::Range;
use std::os::fd::AsRawFd;

use linux_raw_sys::general as raw;

use super::{Uffd, iowr};
use crate::errno::Result;

const COPY: libc::c_ulong = iowr(raw::_UFFDIO_COPY, size_of::<raw::uffdio_copy>());
const ZEROPAGE: libc::c_ulong = iowr(raw::_UFFDIO_ZEROPAGE, size_of::<raw::uffdio_zeropage>());
const MOVE: libc::c_ulong = iowr(raw::_UFFDIO_MOVE, size_of::<raw::uffdio_move>());
const POISON: libc::c_ulong = iowr(raw::_UFFDIO_POISON, size_of::<raw::uffdio_poison>());
const WRITEPROTECT: libc::c_ulong = iowr(
    raw::_UFFDIO_WRITEPROTECT,
    size_of::<raw::uffdio_writeprotect>(),
);
/// `UFFDIO_WRITEPROTECT_MODE_WP` and `UFFDIO_WRITEPROTECT_MODE_DONTWAKE`.
const WRITEPROTECT_MODE_WP: u64 = 1 << 0;
const WRITEPROTECT_MODE_DONTWAKE: u64 = 1 << 1;

/// Why a fill or a move ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There is a page at the target already: another filled it.
    Exists,
    /// The address space is changing: read the events, look again, retry.
    Retry,
    /// No page at the source, or no registered mapping at the target.
    Absent,
    /// The address space is gone.
    Dead,
    /// The page is pinned, or shared with a forked child.
    Busy,
    /// The mappings do not allow it: another protection, mlocked, not anonymous.
    Refused,
    /// The kernel has no memory for it.
    NoMemory,
    /// Any other errno.
    Other(i32),
}

impl Stop {
    /// Decodes an errno, of this process's own call or of one made on its behalf.
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            libc::EEXIST => Self::Exists,
            libc::EAGAIN | libc::EINTR => Self::Retry,
            libc::ENOENT => Self::Absent,
            libc::ESRCH => Self::Dead,
            libc::EBUSY => Self::Busy,
            libc::EINVAL => Self::Refused,
            libc::ENOMEM => Self::NoMemory,
            other => Self::Other(other),
        }
    }
}

/// When threads that wait for the pages of a fill are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// By the fill.
    Now,
    /// By a later call of [`Uffd::wake`].
    Later,
}

/// How far a fill or a move came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done from the start of the range.
    pub done: u64,
    /// Why the rest is not done; `None` when all of it is.
    pub stop: Option<Stop>,
}

/// The errno of a call that has just ended; 0: it did not fail.
fn errno_of(result: i32) -> i32 {
    match result {
        0.. => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
    }
}

impl Progress {
    /// From the errno of the call, 0 for none, and what it says it moved.
    fn read(errno: i32, moved: i64, len: u64) -> Self {
        let done = u64::try_from(moved).unwrap_or(0);
        let stop = if errno == 0 && done >= len {
            None
        } else if moved < 0 {
            Some(Stop::from_errno(i32::try_from(-moved).unwrap_or(0)))
        } else if errno != 0 && done == 0 && errno != libc::EAGAIN {
            Some(Stop::from_errno(errno))
        } else {
            // A short count comes with EAGAIN whatever stopped it; trying the rest tells.
            Some(Stop::Retry)
        };
        Self { done, stop }
    }
}

impl Uffd {
    /// Fills absent pages from `source` (a whole number of pages).
    pub fn copy(&self, target: u64, source: &[u8], wake: Wake) -> Progress {
        let len = source.len() as u64;
        let mut arg = raw::uffdio_copy {
            dst: target,
            src: source.as_ptr() as u64,
            len,
            mode: match wake {
                Wake::Now => 0,
                Wake::Later => u64::from(raw::UFFDIO_COPY_MODE_DONTWAKE),
            },
            copy: 0,
        };
        // SAFETY: `arg` has the type that the request number encodes; the kernel reads `len` bytes
        // at `src`, which is exactly `source`, and writes only into the other address space.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), COPY, &raw mut arg) };
        let errno = errno_of(result);
        crate::cpu::end_keep();
        Progress::read(errno, arg.copy, len)
    }

    /// Maps the zero page over absent pages of `range`.
    pub fn zero(&self, range: Range<u64>, wake: Wake) -> Progress {
        let len = range.end - range.start;
        let mut arg = raw::uffdio_zeropage {
            range: super::to_raw(&range),
            mode: match wake {
                Wake::Now => 0,
                Wake::Later => u64::from(raw::UFFDIO_ZEROPAGE_MODE_DONTWAKE),
            },
            zeropage: 0,
        };
        // SAFETY: `arg` has the type that the request number encodes; no other memory is touched.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), ZEROPAGE, &raw mut arg) };
        let errno = errno_of(result);
        crate::cpu::end_keep();
        Progress::read(errno, arg.zeropage, len)
    }

    /// Makes each touch of `range`, which is absent, fail: with SIGBUS, or with an error of the call that touches it
    /// (Linux 6.6).
    pub fn poison(&self, range: Range<u64>, wake: Wake) -> Result<()> {
        let mut arg = raw::uffdio_poison {
            range: super::to_raw(&range),
            mode: match wake {
                Wake::Now => 0,
                Wake::Later => 1, // UFFDIO_POISON_MODE_DONTWAKE
            },
            updated: 0,
        };
        self.ioctl("UFFDIO_POISON", POISON, &mut arg)
    }

    /// What the kernel says to a fill of this page from where nothing can be read: `Retry` while the address space is
    /// changing, `Dead` once it is gone, `Absent` where no registered mapping is. It never fills anything.
    pub fn try_nothing(&self, page: Range<u64>) -> Option<Stop> {
        let len = page.end - page.start;
        let mut arg = raw::uffdio_copy {
            dst: page.start,
            src: 0,
            len,
            mode: u64::from(raw::UFFDIO_COPY_MODE_DONTWAKE),
            copy: 0,
        };
        // SAFETY: `arg` has the type that the request number encodes; the kernel reads at address 0, where
        // nothing is mapped, and so writes nothing.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), COPY, &raw mut arg) };
        let errno = errno_of(result);
        crate::cpu::end_keep();
        Progress::read(errno, 0, len).stop
    }

    /// Moves pages within the address space, whole and unchanged. `holes`: absent source pages are
    /// skipped (and counted as done) instead of ending the move.
    pub fn move_pages(&self, target: u64, source: Range<u64>, holes: bool) -> Progress {
        /// `UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES` (Linux 6.8).
        const ALLOW_SRC_HOLES: u64 = 1 << 1;
        let len = source.end - source.start;
        let mut arg = raw::uffdio_move {
            dst: target,
            src: source.start,
            len,
            mode: if holes { ALLOW_SRC_HOLES } else { 0 },
            move_: 0,
        };
        // SAFETY: `arg` has the type that the request number encodes; no other memory is touched.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), MOVE, &raw mut arg) };
        Progress::read(errno_of(result), arg.move_, len)
    }

    /// Write-protects the pages of `range` that are there, the page of zeros among them.
    pub fn protect(&self, range: Range<u64>) -> Progress {
        self.write_protect(&range, WRITEPROTECT_MODE_WP)
    }

    /// Lets the program write to the pages of `range` again.
    pub fn unprotect(&self, range: Range<u64>, wake: Wake) -> Progress {
        let mode = match wake {
            Wake::Now => 0,
            Wake::Later => WRITEPROTECT_MODE_DONTWAKE,
        };
        self.write_protect(&range, mode)
    }

    fn write_protect(&self, range: &Range<u64>, mode: u64) -> Progress {
        let len = range.end - range.start;
        let mut arg = raw::uffdio_writeprotect {
            range: super::to_raw(range),
            mode,
        };
        // SAFETY: `arg` has the type that the request number encodes; no other memory is touched.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), WRITEPROTECT, &raw mut arg) };
        let errno = errno_of(result);
        crate::cpu::end_keep();
        let done = if result == 0 { len } else { 0 };
        Progress::read(errno, i64::try_from(done).unwrap_or(0), len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_count_asks_for_another_try() {
        assert_eq!(
            Progress::read(libc::EAGAIN, 4096, 8192),
            Progress {
                done: 4096,
                stop: Some(Stop::Retry)
            }
        );
    }

    #[test]
    fn a_negative_count_is_an_errno() {
        let got = Progress::read(libc::EEXIST, -i64::from(libc::EEXIST), 4096);
        assert_eq!(got.stop, Some(Stop::Exists));
        assert_eq!(got.done, 0);
    }

    #[test]
    fn request_numbers_equal_the_kernel_headers() {
        use linux_raw_sys::ioctl;
        assert_eq!(COPY, libc::c_ulong::from(ioctl::UFFDIO_COPY));
        assert_eq!(ZEROPAGE, libc::c_ulong::from(ioctl::UFFDIO_ZEROPAGE));
        assert_eq!(
            WRITEPROTECT,
            libc::c_ulong::from(ioctl::UFFDIO_WRITEPROTECT)
        );
    }
}
