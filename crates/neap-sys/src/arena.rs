//! Memory of neap's own: reserved at once, backed only where written.

use std::ops::Range;
use std::ptr::NonNull;

use crate::errno::{Result, SysError};

/// A huge page of x86-64, in bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// A private anonymous mapping, not reserved, excluded from core dumps, and from huge pages where what is discarded
/// must be given back page by page.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    len: usize,
    huge: Option<Huge>,
}

/// Which parts of an arena may still lie in huge pages. The kernel keeps the whole of a huge page of which a part was
/// given back, and may fill the hole again when it gathers pages (khugepaged): a part is huge until a piece of it is
/// discarded, and never after.
#[derive(Debug, Default)]
struct Huge {
    /// By number of the part, counted in huge pages of the address space from the one that the arena begins in.
    ended: Vec<bool>,
}

// SAFETY: the mapping belongs to this value alone; access goes through `&self` and `&mut self`.
unsafe impl Send for Arena {}
// SAFETY: `&Arena` gives shared reads only.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves `len` bytes (rounded up to pages) that are never in huge pages.
    pub fn new(len: usize) -> Result<Self> {
        Self::reserve(len, None)
    }

    /// The same, in huge pages where the kernel has some to give: what lies anywhere in it is found with far fewer
    /// walks of page tables. A touch takes up to [`HUGE_PAGE`] bytes.
    pub fn new_huge(len: usize) -> Result<Self> {
        Self::reserve(len, Some(Huge::default()))
    }

    fn reserve(len: usize, huge: Option<Huge>) -> Result<Self> {
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
            let advice = match huge {
                Some(_) => libc::MADV_HUGEPAGE,
                None => libc::MADV_NOHUGEPAGE,
            };
            libc::madvise(base, len, advice);
            libc::madvise(base, len, libc::MADV_DONTDUMP);
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| SysError::last("mmap", "null"))?;
        Ok(Self { base, len, huge })
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

    /// Gives the pages of `range` (page aligned, in bytes) back; they read zero afterwards.
    pub fn discard(&mut self, range: Range<usize>) {
        assert!(
            range.start.is_multiple_of(4096)
                && range.end.is_multiple_of(4096)
                && range.end <= self.len,
            "discard of {range:?} in an arena of {} bytes",
            self.len
        );
        for part in self.parts_cut_by(&range) {
            self.end_huge(part, &range);
        }
        self.advise(range, libc::MADV_DONTNEED);
    }

    /// The parts that may be huge of which the range takes a piece and leaves one.
    fn parts_cut_by(&self, range: &Range<usize>) -> Vec<usize> {
        let Some(huge) = self.huge.as_ref().filter(|_| !range.is_empty()) else {
            return Vec::new();
        };
        let ends = [range.start, range.end - 1].map(|at| self.part_of(at));
        let mut cut: Vec<usize> = ends
            .into_iter()
            .filter(|&part| !huge.ended.get(part).copied().unwrap_or(false))
            .filter(|&part| {
                let whole = self.bounds(part);
                range.start > whole.start || range.end < whole.end
            })
            .collect();
        cut.dedup();
        cut
    }

    /// Has the kernel take a part apart, of which the range is to be given back.
    fn end_huge(&mut self, part: usize, range: &Range<usize>) {
        let whole = self.bounds(part);
        let piece = range.start.max(whole.start)..range.end.min(whole.end);
        self.advise(whole, libc::MADV_NOHUGEPAGE);
        // Of a huge page in use this frees nothing yet, but splits it; MADV_DONTNEED alone would only unmap the piece.
        self.advise(piece, libc::MADV_FREE);
        if let Some(huge) = &mut self.huge {
            let count = huge.ended.len().max(part + 1);
            huge.ended.resize(count, false);
            huge.ended[part] = true;
        }
    }

    fn part_of(&self, at: usize) -> usize {
        (self.base.addr().get() % HUGE_PAGE + at) / HUGE_PAGE
    }

    /// Where a part lies in the arena.
    fn bounds(&self, part: usize) -> Range<usize> {
        let before = self.base.addr().get() % HUGE_PAGE;
        let start = (part * HUGE_PAGE).saturating_sub(before);
        start..((part + 1) * HUGE_PAGE - before).min(self.len)
    }

    fn advise(&mut self, range: Range<usize>, advice: libc::c_int) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?}"
        );
        // SAFETY: the range lies inside our mapping (just checked), borrowed exclusively; callers advise away only what
        // they were asked to discard, and any other advice changes no bytes.
        unsafe {
            libc::madvise(
                self.base.as_ptr().add(range.start).cast(),
                range.len(),
                advice,
            );
        }
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

    /// Bytes of this mapping that are in memory, and in huge pages, by the kernel's account.
    fn backing(arena: &Arena) -> (u64, u64) {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let (base, mut inside, mut found) = (arena.bytes().as_ptr() as u64, false, (0, 0));
        for line in smaps.lines() {
            let word = line.split_whitespace().next().unwrap_or_default();
            if let Some((start, _)) = word.split_once('-') {
                let start = u64::from_str_radix(start, 16).unwrap_or(0);
                inside = (base..base + arena.len() as u64).contains(&start);
            } else if inside {
                let kib = || {
                    line.split_whitespace()
                        .nth(1)
                        .and_then(|n| n.parse::<u64>().ok())
                };
                match word {
                    "Rss:" => found.0 += kib().expect("a number") << 10,
                    "AnonHugePages:" => found.1 += kib().expect("a number") << 10,
                    _ => {}
                }
            }
        }
        found
    }

    #[test]
    fn a_huge_part_is_huge_until_a_piece_of_it_is_discarded() {
        let mut arena = Arena::new_huge(8 * HUGE_PAGE).expect("arena");
        arena.bytes_mut().fill(7);
        let before = backing(&arena);
        let len = arena.len();
        let first = arena.part_of(3 * HUGE_PAGE);
        let whole = arena.bounds(first);
        // A page in the midst of one part; then from the midst of another to the midst of the one after the next.
        let ranges = [
            whole.start + 8192..whole.start + 12288,
            whole.end + 4096 * 100..whole.end + 2 * HUGE_PAGE + 4096 * 50,
        ];
        for range in ranges.clone() {
            arena.discard(range);
        }
        for at in (0..len).step_by(64) {
            let gone = ranges.iter().any(|range| range.contains(&at));
            assert_eq!(arena.bytes()[at], if gone { 0 } else { 7 }, "{at}");
        }
        let gone: usize = ranges.iter().map(std::iter::ExactSizeIterator::len).sum();
        let after = backing(&arena);
        // What was read above as zero is there again, as the kernel's own page.
        assert!(
            after.0 <= before.0 - gone as u64 + (64 << 10),
            "{before:?} {after:?}"
        );
        if before.1 > 0 {
            let ended = 4 * HUGE_PAGE as u64;
            assert_eq!(
                after.1,
                before.1 - ended,
                "three parts are cut, one is gone"
            );
        }
        arena.discard(whole.clone());
        assert!(arena.bytes()[whole].iter().all(|&b| b == 0));
    }

    #[test]
    fn parts_cover_an_arena_that_begins_anywhere() {
        let arena = Arena::new_huge(5 * HUGE_PAGE + 4096).expect("arena");
        let mut at = 0;
        while at < arena.len() {
            let bounds = arena.bounds(arena.part_of(at));
            assert_eq!(bounds.start, at);
            at = bounds.end;
        }
    }
}
