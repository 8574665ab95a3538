//! Memory of neap's own: reserved at once, backed only where written.

use std::ops::Range;
use std::ptr::NonNull;

use crate::errno::{Result, SysError};

/// A private anonymous mapping, not reserved, excluded from core dumps and from huge pages (so that
/// what is discarded is given back page by page).
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone; access goes through `&self` and `&mut self`.
unsafe impl Send for Arena {}
// SAFETY: `&Arena` gives shared reads only.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves `len` bytes (rounded up to pages).
    pub fn new(len: usize) -> Result<Self> {
        let len = len.next_multiple_of(4096).max(4096);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(SysError::last("mmap", format!("{len} bytes")));
        }
        // SAFETY: the range is the mapping just made; advice does not change what it holds.
        unsafe {
            libc::madvise(base, len, libc::MADV_NOHUGEPAGE);
            libc::madvise(base, len, libc::MADV_DONTDUMP);
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| SysError::last("mmap", "null"))?;
        Ok(Self { base, len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it; never, since a length of zero is rounded up.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is `len` bytes, readable, initialised (zero) and ours.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }

    /// Has the kernel back the pages of `range` (page aligned, in bytes), which keep their bytes, at once instead of
    /// one by one when they are written (Linux 5.14). Nothing happens where it cannot.
    pub fn back(&mut self, range: Range<usize>) {
        self.advise(range, libc::MADV_POPULATE_WRITE);
    }

    /// Gives the pages of `range` (page aligned, in bytes) back; they read zero afterwards.
    pub fn discard(&mut self, range: Range<usize>) {
        if !self.advise(range.clone(), libc::MADV_DONTNEED) {
            self.bytes_mut()[range].fill(0); // whoever reads them relies on that
        }
    }

    /// Whether the kernel followed the advice.
    fn advise(&mut self, range: Range<usize>, advice: libc::c_int) -> bool {
        assert!(
            range.start.is_multiple_of(4096)
                && range.end.is_multiple_of(4096)
                && range.start <= range.end
                && range.end <= self.len,
            "{range:?} in an arena of {} bytes",
            self.len
        );
        // SAFETY: the range lies inside our mapping (just checked), borrowed exclusively; callers advise away only what
        // they were asked to discard.
        let done = unsafe {
            libc::madvise(
                self.base.as_ptr().add(range.start).cast(),
                range.len(),
                advice,
            )
        };
        done == 0
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no borrow of it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_pages_read_zero_and_the_others_keep_their_bytes() {
        let mut arena = Arena::new(3 * 4096).expect("arena");
        arena.bytes_mut().fill(7);
        arena.discard(4096..8192);
        assert!(arena.bytes()[..4096].iter().all(|&b| b == 7));
        assert!(arena.bytes()[4096..8192].iter().all(|&b| b == 0));
        assert!(arena.bytes()[8192..].iter().all(|&b| b == 7));
    }

    #[test]
    fn pages_that_the_kernel_does_not_take_back_read_zero_all_the_same() {
        let mut arena = Arena::new(2 * 4096).expect("arena");
        arena.bytes_mut().fill(7);
        // SAFETY: a page of the arena; locked memory is not thrown away.
        if unsafe { libc::mlock(arena.base.as_ptr().cast(), 4096) } != 0 {
            return; // this user may lock none
        }
        arena.discard(0..4096);
        assert!(arena.bytes()[..4096].iter().all(|&b| b == 0));
        assert!(arena.bytes()[4096..].iter().all(|&b| b == 7));
    }

    #[test]
    fn pages_that_are_backed_are_in_memory_and_keep_their_bytes() {
        let mut arena = Arena::new(8 * 4096).expect("arena");
        // SAFETY: advice for no page, which only asks whether there is such an advice.
        let known =
            unsafe { libc::madvise(arena.base.as_ptr().cast(), 0, libc::MADV_POPULATE_WRITE) };
        if known != 0 {
            return; // Linux before 5.14
        }
        arena.bytes_mut()[3 * 4096] = 7;
        arena.back(2 * 4096..6 * 4096);
        let mut there = [0u8; 8];
        // SAFETY: the range is the arena's, and the answer has a byte for each of its pages.
        let asked =
            unsafe { libc::mincore(arena.base.as_ptr().cast(), arena.len(), there.as_mut_ptr()) };
        assert_eq!((asked, there), (0, [0, 0, 1, 1, 1, 1, 0, 0]));
        assert_eq!(arena.bytes()[3 * 4096], 7);
        assert!(arena.bytes()[4 * 4096..].iter().all(|&b| b == 0));
    }
}
