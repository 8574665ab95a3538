//! Which pages of an address space are present, from a `/proc/PID/pagemap` the process opened.
//!
//! PAGEMAP_SCAN (Linux 6.7) walks page tables and reports runs; older kernels give one word a page.

use std::fs::File;
use std::mem::size_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use linux_raw_sys::general as raw;
use neap_tuning::TUNING;

use crate::errno::{Result, SysError};

/// `_IOWR('f', 16, struct pm_scan_arg)`
const PAGEMAP_SCAN: libc::c_ulong =
    (3 << 30) | ((size_of::<raw::pm_scan_arg>() as libc::c_ulong) << 16) | (0x66 << 8) | 16;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const WORD_PRESENT: u64 = 1 << 63;
const WORD_FILE: u64 = 1 << 61;
const WORD_PROTECTED: u64 = 1 << 57;
const WORD_SWAPPED: u64 = 1 << 62;
const WORD_ALONE: u64 = 1 << 56;
/// Told since Linux 6.15, beside `WORD_SWAPPED`.
const WORD_GUARD: u64 = 1 << 58;
const PAGE: u64 = 4096;

/// What the kernel has at one page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Word(u64);

impl Word {
    /// A page in memory.
    pub const PAGE: Self = Self(WORD_PRESENT);
    /// The same, of this process alone.
    pub const ALONE: Self = Self(WORD_PRESENT | WORD_ALONE);
    /// A page in memory, write-protected by a userfaultfd.
    pub const PROTECTED: Self = Self(WORD_PRESENT | WORD_PROTECTED);
    /// A guard region.
    pub const GUARD: Self = Self(WORD_GUARD | WORD_SWAPPED);

    /// A page, in memory or in the kernel's swap.
    pub fn holds(self) -> bool {
        self.0 & (WORD_PRESENT | WORD_SWAPPED) != 0 && self.0 & WORD_GUARD == 0
    }

    /// No page, and yet not nothing: a guard region, or a page in the kernel's swap, which Linux before 6.15 does
    /// not tell apart.
    pub fn may_guard(self) -> bool {
        self.0 & WORD_PRESENT == 0 && self.0 & (WORD_SWAPPED | WORD_GUARD) != 0
    }

    /// A page, or the page of zeros, that a userfaultfd has write-protected.
    pub fn is_protected(self) -> bool {
        self.0 & WORD_PRESENT != 0 && self.0 & WORD_PROTECTED != 0
    }

    /// A page in memory that no other process has.
    pub fn is_alone(self) -> bool {
        self.0 & WORD_PRESENT != 0 && self.0 & WORD_ALONE != 0
    }

    /// A page that another process has as well.
    pub fn is_shared(self) -> bool {
        self.holds() && !self.is_alone()
    }

    /// Nothing at all. (Other bits say something of the mapping.)
    pub fn is_empty(self) -> bool {
        self.0 & (WORD_PRESENT | WORD_SWAPPED | WORD_GUARD) == 0
    }
}

/// What is at a run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Anonymous pages.
    Pages,
    /// The kernel's one page of zeros, which costs no memory.
    Zeros,
}

/// An open `/proc/PID/pagemap`.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    by_scan: bool,
}

impl Pagemap {
    /// Words that are read at once.
    pub const MOST_WORDS: usize = TUNING.system.words;

    /// Takes over the open file and finds out whether it can be scanned.
    pub fn adopt(file: File) -> Self {
        let mut pagemap = Self {
            file,
            by_scan: true,
        };
        pagemap.by_scan = match pagemap.scan(0..PAGE, &mut |_, _| {}) {
            Ok(()) => true,
            Err(error) => error.errno() != libc::ENOTTY,
        };
        pagemap
    }

    /// Whether PAGEMAP_SCAN works here.
    pub fn has_scan(&self) -> bool {
        self.by_scan
    }

    /// Calls `each` with every run of present anonymous pages and of pages of zeros in `range` (bytes), ascending.
    /// The older interface cannot tell them apart.
    pub fn present(
        &self,
        range: Range<u64>,
        each: &mut dyn FnMut(Range<u64>, Found),
    ) -> Result<()> {
        if self.by_scan {
            self.scan(range, each)
        } else {
            self.read_words(range, each)
        }
    }

    /// Whether there is a page at `address`, in memory or in the kernel's swap.
    pub fn holds(&self, address: u64) -> Result<bool> {
        self.word(address).map(Word::holds)
    }

    /// What the kernel has at `address`.
    fn word(&self, address: u64) -> Result<Word> {
        let mut words = [Word(0)];
        self.words(address, &mut words)?;
        Ok(words[0])
    }

    /// What the kernel has at each page from `address` on, [`Self::MOST_WORDS`] at most.
    pub fn words(&self, address: u64, words: &mut [Word]) -> Result<()> {
        let mut bytes = [0u8; Self::MOST_WORDS * 8];
        let bytes = &mut bytes[..words.len() * 8];
        self.file
            .read_exact_at(bytes, address / PAGE * 8)
            .map_err(|e| SysError::new("read", "/proc/PID/pagemap", e))?;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = Word(u64::from_ne_bytes(bytes.try_into().unwrap_or([0; 8])));
        }
        Ok(())
    }

    fn scan(&self, range: Range<u64>, each: &mut dyn FnMut(Range<u64>, Found)) -> Result<()> {
        let mut regions = [raw::page_region {
            start: 0,
            end: 0,
            categories: 0,
        }; 128];
        let mut from = range.start;
        while from < range.end {
            let mut arg = raw::pm_scan_arg {
                size: size_of::<raw::pm_scan_arg>() as u64,
                flags: 0,
                start: from,
                end: range.end,
                walk_end: 0,
                vec: regions.as_mut_ptr() as u64,
                vec_len: regions.len() as u64,
                max_pages: 0,
                category_inverted: PAGE_IS_FILE,
                category_mask: PAGE_IS_PRESENT | PAGE_IS_FILE,
                category_anyof_mask: 0,
                return_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
            };
            // SAFETY: the request number encodes the type of `arg`; the kernel writes at most
            // `vec_len` regions to `regions`.
            let got = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
            if got < 0 {
                return Err(SysError::last("PAGEMAP_SCAN", ""));
            }
            for region in &regions[..got.unsigned_abs() as usize] {
                let found = match region.categories & PAGE_IS_PFNZERO {
                    0 => Found::Pages,
                    _ => Found::Zeros,
                };
                each(region.start..region.end, found);
            }
            if arg.walk_end <= from {
                break;
            }
            from = arg.walk_end;
        }
        Ok(())
    }

    fn read_words(&self, range: Range<u64>, each: &mut dyn FnMut(Range<u64>, Found)) -> Result<()> {
        let mut words = vec![0u8; 8 * 4096];
        let mut run: Option<Range<u64>> = None;
        let mut page = range.start / PAGE;
        let last = range.end / PAGE;
        while page < last {
            let want = usize::try_from((last - page).min(4096)).unwrap_or(4096) * 8;
            let got = self
                .file
                .read_at(&mut words[..want], page * 8)
                .map_err(|e| SysError::new("read", "/proc/PID/pagemap", e))?;
            if got < 8 {
                break;
            }
            for bytes in words[..got].chunks_exact(8) {
                let word = u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8]));
                let here = page * PAGE;
                page += 1;
                if word & WORD_PRESENT != 0 && word & WORD_FILE == 0 {
                    match &mut run {
                        Some(run) => run.end = here + PAGE,
                        None => run = Some(here..here + PAGE),
                    }
                } else if let Some(run) = run.take() {
                    each(run, Found::Pages);
                }
            }
        }
        if let Some(run) = run {
            each(run, Found::Pages);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scan_and_words_agree_about_touched_pages() {
        let memory = crate::Arena::new(64 * 4096).expect("arena");
        let mut memory = memory;
        for page in [3usize, 4, 5, 17] {
            memory.bytes_mut()[page * 4096] = 1;
        }
        let base = memory.bytes().as_ptr() as u64;
        let range = base..base + 64 * 4096;
        let mut pagemap = Pagemap::adopt(File::open("/proc/self/pagemap").expect("pagemap"));
        let want = vec![
            base + 3 * 4096..base + 6 * 4096,
            base + 17 * 4096..base + 18 * 4096,
        ];
        for scan in [pagemap.by_scan, false] {
            pagemap.by_scan = scan;
            let mut got = Vec::new();
            pagemap
                .present(range.clone(), &mut |run, found| {
                    if found == Found::Pages {
                        got.push(run);
                    }
                })
                .expect("present");
            assert_eq!(got, want, "by_scan {scan}");
        }
        assert!(pagemap.holds(base + 3 * 4096).expect("a page"));
        assert!(!pagemap.holds(base + 6 * 4096).expect("no page"));
    }

    #[test]
    fn a_guard_region_is_neither_a_page_nor_nothing() {
        const GUARD_INSTALL: i32 = 102;
        let mut memory = crate::Arena::new(8 * 4096).expect("arena");
        memory.bytes_mut()[4096] = 1;
        let base = memory.bytes().as_ptr() as u64;
        let guard = (base + 2 * 4096) as *mut libc::c_void;
        // SAFETY: a page of the arena that nobody reads.
        if unsafe { libc::madvise(guard, 4096, GUARD_INSTALL) } != 0 {
            return; // Linux before 6.13
        }
        let pagemap = Pagemap::adopt(File::open("/proc/self/pagemap").expect("pagemap"));
        let mut words = [Word(0); 4];
        pagemap.words(base, &mut words).expect("words");
        assert_eq!(words.map(Word::is_empty), [true, false, false, true]);
        assert_eq!(words.map(Word::may_guard), [false, false, true, false]);
        assert!(words[1].holds());
    }
}
