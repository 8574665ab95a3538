//! The mappings of an address space, from a `/proc/PID/maps` that the process itself opened.
//!
//! PROCMAP_QUERY (Linux 6.11) answers one mapping at a time from the kernel's structures; older
//! kernels have the text only. Both give the same [`Mapping`].

use std::fs::File;
use std::mem::size_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use linux_raw_sys::general as raw;

use crate::errno::{Result, SysError};

/// `_IOWR(PROCFS_IOCTL_MAGIC 'f', 17, struct procmap_query)`
const PROCMAP_QUERY: libc::c_ulong =
    (3 << 30) | ((size_of::<raw::procmap_query>() as libc::c_ulong) << 16) | (0x66 << 8) | 17;
const QUERY_COVERING_OR_NEXT: u64 = 0x10;
const VMA_READABLE: u64 = 0x01;
const VMA_WRITABLE: u64 = 0x02;
const VMA_EXECUTABLE: u64 = 0x04;
const VMA_SHARED: u64 = 0x08;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses, in bytes.
    pub range: Range<u64>,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub exec: bool,
    /// MAP_SHARED.
    pub shared: bool,
    /// Has no file behind it (shared memory has one).
    pub anonymous: bool,
    /// Kernel-made: `[vdso]`, `[vvar]`, `[vsyscall]` and the like.
    pub special: bool,
}

/// An open `/proc/PID/maps`.
#[derive(Debug)]
pub struct Maps {
    file: File,
    by_query: bool,
}

impl Maps {
    /// Takes over the open file and finds out whether it can be queried.
    pub fn adopt(file: File) -> Self {
        let mut maps = Self {
            file,
            by_query: true,
        };
        // ENOENT (no mapping there) also shows that the query exists.
        maps.by_query = match maps.query(0) {
            Ok(_) => true,
            Err(error) => !matches!(error.errno(), libc::ENOTTY | libc::EINVAL),
        };
        maps
    }

    /// Whether PROCMAP_QUERY works here.
    pub fn has_query(&self) -> bool {
        self.by_query
    }

    /// All mappings in ascending order. Not a snapshot: the program may change them meanwhile.
    pub fn read(&self) -> Result<Vec<Mapping>> {
        self.survey(0..u64::MAX, &mut |_| None)
    }

    /// The mappings that have memory in `place`, each whole, in ascending order. `known` gives the end of what need not be
    /// looked at from an address on: a mapping that begins there is left out, and a query goes on behind that.
    pub fn survey(
        &self,
        place: Range<u64>,
        known: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<Vec<Mapping>> {
        self.walk(place, known, true)
    }

    /// Where mappings have memory in `place`: each whole, in ascending order.
    pub fn extents(&self, place: Range<u64>) -> Result<Vec<Range<u64>>> {
        let found = self.walk(place, &mut |_| None, false)?;
        Ok(found.into_iter().map(|mapping| mapping.range).collect())
    }

    /// How many mappings there are from `address` on, and where to go on: at most `most`, or all where only all can be
    /// read.
    pub fn count(&self, address: u64, most: usize) -> Result<(usize, Option<u64>)> {
        if !self.by_query {
            let all = self.read_text()?;
            let from = all.iter().filter(|mapping| mapping.range.end > address);
            return Ok((from.count(), None));
        }
        let mut at = address;
        for count in 0..most {
            match self.query_nameless(at)? {
                Some(mapping) => at = mapping.range.end,
                None => return Ok((count, None)),
            }
        }
        Ok((most, Some(at)))
    }

    /// `names`: whether it must be known what the kernel made itself.
    fn walk(
        &self,
        place: Range<u64>,
        known: &mut dyn FnMut(u64) -> Option<u64>,
        names: bool,
    ) -> Result<Vec<Mapping>> {
        let mut text = match self.by_query {
            true => None,
            false => Some(self.read_text()?.into_iter().peekable()),
        };
        let (mut found, mut at) = (Vec::new(), place.start);
        while at < place.end {
            let next = match &mut text {
                None => self.query_nameless(at)?,
                Some(all) => {
                    while all.next_if(|mapping| mapping.range.end <= at).is_some() {}
                    all.peek().cloned()
                }
            };
            let Some(mapping) = next.filter(|next| next.range.start < place.end) else {
                break;
            };
            at = at.max(mapping.range.start);
            if let Some(end) = known(at).filter(|&end| end > at) {
                at = end;
                continue;
            }
            let asks = names && self.by_query && mapping.anonymous;
            // Another may be there by now.
            let mapping = match asks {
                true => self.query_named(mapping.range.start)?,
                false => Some(mapping),
            };
            let Some(mapping) = mapping.filter(|mapping| mapping.range.end > at) else {
                break;
            };
            at = mapping.range.end;
            if mapping.range.start < place.end {
                found.push(mapping);
            }
        }
        Ok(found)
    }

    /// The mapping that covers `address`.
    pub fn at(&self, address: u64) -> Result<Option<Mapping>> {
        let found = self.from(address)?;
        Ok(found.filter(|mapping| mapping.range.contains(&address)))
    }

    /// The mapping that covers `address`, or the next one above it.
    pub fn from(&self, address: u64) -> Result<Option<Mapping>> {
        if self.by_query {
            return self.query(address);
        }
        let all = self.read_text()?;
        Ok(all.into_iter().find(|mapping| mapping.range.end > address))
    }

    /// The mapping that covers `address`, or the next one above it.
    fn query(&self, address: u64) -> Result<Option<Mapping>> {
        match self.query_nameless(address)? {
            // What the kernel made itself has a name, and no file.
            Some(mapping) if mapping.anonymous => self.query_named(mapping.range.start),
            other => Ok(other),
        }
    }

    fn query_named(&self, address: u64) -> Result<Option<Mapping>> {
        let mut name = [0u8; 32];
        // SAFETY: an all-zero procmap_query is a valid empty query.
        let mut query: raw::procmap_query = unsafe { std::mem::zeroed() };
        query.size = size_of::<raw::procmap_query>() as u64;
        query.query_flags = QUERY_COVERING_OR_NEXT;
        query.query_addr = address;
        query.vma_name_size = name.len() as u32;
        query.vma_name_addr = name.as_mut_ptr() as u64;
        // SAFETY: the request number encodes the type of `query`; the kernel writes at most
        // `vma_name_size` bytes to `name`.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
        if done < 0 {
            let error = SysError::last("PROCMAP_QUERY", "");
            return match error.errno() {
                libc::ENOENT => Ok(None),
                // A file name longer than the buffer: a file mapping, whose name nobody needs.
                libc::ENAMETOOLONG => self.query_nameless(address),
                _ => Err(error),
            };
        }
        let special =
            name[0] == b'[' && !name.starts_with(b"[heap]") && !name.starts_with(b"[stack]");
        Ok(Some(from_query(
            &query,
            special && !name.starts_with(b"[anon"),
        )))
    }

    fn query_nameless(&self, address: u64) -> Result<Option<Mapping>> {
        // SAFETY: an all-zero procmap_query is a valid empty query.
        let mut query: raw::procmap_query = unsafe { std::mem::zeroed() };
        query.size = size_of::<raw::procmap_query>() as u64;
        query.query_flags = QUERY_COVERING_OR_NEXT;
        query.query_addr = address;
        // SAFETY: the request number encodes the type of `query`; no other memory is written.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
        if done < 0 {
            let error = SysError::last("PROCMAP_QUERY", "");
            return if error.errno() == libc::ENOENT {
                Ok(None)
            } else {
                Err(error)
            };
        }
        Ok(Some(from_query(&query, false)))
    }

    fn read_text(&self) -> Result<Vec<Mapping>> {
        let mut text = Vec::new();
        let mut chunk = vec![0u8; 64 << 10];
        loop {
            match self.file.read_at(&mut chunk, text.len() as u64) {
                Ok(0) => break,
                Ok(n) => text.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(SysError::new("read", "/proc/PID/maps", e)),
            }
        }
        Ok(String::from_utf8_lossy(&text)
            .lines()
            .filter_map(parse_line)
            .collect())
    }
}

fn from_query(query: &raw::procmap_query, special: bool) -> Mapping {
    let has = |flag| query.vma_flags & flag != 0;
    Mapping {
        range: query.vma_start..query.vma_end,
        read: has(VMA_READABLE),
        write: has(VMA_WRITABLE),
        exec: has(VMA_EXECUTABLE),
        shared: has(VMA_SHARED),
        anonymous: query.inode == 0 && query.dev_major == 0 && query.dev_minor == 0,
        special,
    }
}

/// One line of the text form: `start-end perms offset dev inode name`.
fn parse_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let perms = fields.next()?.as_bytes();
    let (_offset, device, inode) = (fields.next()?, fields.next()?, fields.next()?);
    let name = fields.next().unwrap_or("").trim_start();
    let kernel_named = name.starts_with('[')
        && name != "[heap]"
        && name != "[stack]"
        && !name.starts_with("[anon");
    let at = |i: usize| perms.get(i).copied().unwrap_or(b'-');
    Some(Mapping {
        range: u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?,
        read: at(0) == b'r',
        write: at(1) == b'w',
        exec: at(2) == b'x',
        shared: at(3) == b's',
        anonymous: device == "00:00" && inode == "0",
        special: kernel_named,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_and_the_text_agree_about_this_process() {
        let mut maps = Maps::adopt(File::open("/proc/self/maps").expect("maps"));
        if !maps.has_query() {
            return;
        }
        // The heap may grow between two looks; and other tests map files.
        let mut files = |by_query: bool| -> Vec<Mapping> {
            maps.by_query = by_query;
            let all = maps.read().expect("maps");
            all.into_iter()
                .filter(|m| !m.anonymous && !m.special)
                .collect()
        };
        let (before, queried, after) =
            std::iter::repeat_with(|| (files(false), files(true), files(false)))
                .find(|(before, _, after)| before == after)
                .expect("a moment of rest");
        assert_eq!(queried, before);
        assert_eq!(queried, after);
    }

    #[test]
    fn a_survey_leaves_out_what_is_known_and_gives_the_rest_whole() {
        let mut maps = Maps::adopt(File::open("/proc/self/maps").expect("maps"));
        // A page that nobody may touch on either side, so that what other tests map never joins it.
        let memory = crate::Arena::new(10 * 4096).expect("arena");
        let fence = memory.bytes().as_ptr() as u64;
        let base = fence + 4096;
        for page in [fence, base + 8 * 4096] {
            // SAFETY: the first and the last page of the arena, which nothing reads or writes.
            let done = unsafe { libc::mprotect(page as *mut _, 4096, libc::PROT_NONE) };
            assert_eq!(done, 0);
        }
        for by_query in [maps.by_query, false] {
            maps.by_query = by_query;
            let inner = base + 4096..base + 2 * 4096;
            let whole = maps.survey(inner.clone(), &mut |_| None).expect("maps");
            assert!(whole.len() == 1 && whole[0].range.contains(&base));
            assert_eq!(
                maps.extents(inner.clone()).expect("maps"),
                [whole[0].range.clone()]
            );
            let mut asked = Vec::new();
            let mut half = |at| {
                asked.push(at);
                (at < base + 8192).then_some(base + 8192)
            };
            let rest = maps.survey(base..base + 3 * 4096, &mut half).expect("maps");
            assert_eq!(rest, whole);
            assert_eq!(asked, [base, base + 8192]);
            let known = maps.survey(inner.clone(), &mut |_| Some(u64::MAX));
            assert_eq!(known.expect("maps"), []);
        }
    }

    #[test]
    fn a_count_in_parts_finds_each_mapping_once() {
        let mut maps = Maps::adopt(File::open("/proc/self/maps").expect("maps"));
        let parts = |maps: &Maps, most: usize| {
            let (mut sum, mut at) = (0, Some(0));
            while let Some(from) = at {
                let (count, next) = maps.count(from, most).expect("maps");
                assert!(count <= most || next.is_none());
                (sum, at) = (sum + count, next);
            }
            sum
        };
        // Other tests map and unmap.
        let same = |maps: &mut Maps, by_query| {
            maps.by_query = by_query;
            [1, 7, usize::MAX].map(|most| parts(maps, most))
                == [maps.read().expect("maps").len(); 3]
        };
        for by_query in [maps.by_query, false] {
            assert!((0..1000).any(|_| same(&mut maps, by_query)));
        }
    }

    #[test]
    fn a_line_with_a_name_of_several_words_is_read() {
        let line = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0          [anon: my heap]";
        let mapping = parse_line(line).expect("mapping");
        assert!(mapping.anonymous && mapping.write && !mapping.shared && !mapping.special);
        assert!(parse_line("garbage").is_none());
    }
}
