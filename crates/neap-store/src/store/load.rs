//! Loading: from a word, the pool, or the swap file; one entry or several at once.

use std::ops::Range;
use std::sync::Arc;

use neap_units::{EntryId, PAGE_SIZE, SpaceId};

use super::Store;
use super::error::LoadError;
use super::inner::Inner;
use crate::compress::{Codec, Dictionary, Page};
use crate::entry::{Flag, Place};
use crate::keyed::PageHash;
use crate::swapfile::{Location, Record, blocks_of};

/// Where a page came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// One word filled it.
    SameFilled,
    /// The pool.
    Pool,
    /// The pool, where it takes a whole page: it does not compress.
    Whole,
    /// The swap file.
    SwapFile,
}

/// What was found under the lock.
enum Found {
    Same(u64),
    /// Copied to the codec's scratch: so many bytes.
    Packed(usize, Option<Arc<Dictionary>>),
    Disk(OnDisk),
}

/// What the page of a copy is compared with.
enum Kept {
    Hash(PageHash),
    Same(u64),
    /// As [`Found::Packed`].
    Packed(usize, Option<Arc<Dictionary>>),
}

/// A record to be read; its extent is held until [`Store::release`].
struct OnDisk {
    location: Location,
    record: Record,
    checksum: u32,
    /// The page will be asked for by its hash, which is not known yet.
    wants_hash: bool,
    dict: Option<Arc<Dictionary>>,
}

impl OnDisk {
    fn blocks(&self) -> Range<u64> {
        blocks_of(self.location.byte(), self.record.len)
    }
}

impl Store {
    /// Whether [`Store::load`] would read the swap file. The answer may be old when it arrives:
    /// entries move from the pool to the disk at any time.
    #[must_use]
    pub fn is_on_disk(&self, id: EntryId) -> bool {
        matches!(self.lock().entries.get(id).place(), Place::Disk(..))
    }

    /// Writes the page of an entry to `out`. The entry stays where it is: the caller keeps it as a
    /// copy or puts it. A read from the swap file is told to the shrinker as a disk swap-in.
    ///
    /// On failure the content of `out` is undefined, and the page is lost unless the failure was a
    /// passing one.
    pub fn load(
        &self,
        id: EntryId,
        out: &mut Page,
        codec: &mut Codec,
    ) -> Result<Source, LoadError> {
        match self.find(id, codec) {
            Found::Disk(disk) => {
                let range = disk.blocks();
                let mut blocks = std::mem::take(&mut codec.blocks);
                blocks.resize((range.end - range.start) as usize, 0);
                let read = self.file.read_many(&mut [(range.start, &mut blocks)]);
                self.release(&[&disk]);
                let result = match read {
                    Ok(()) => self.open(&disk, &blocks, range.start, out, codec),
                    Err(source) => Err(self.read_failed(&disk, source)),
                };
                codec.blocks = blocks;
                result
            }
            found => self.finish_in_memory(id, found, out, codec),
        }
    }

    /// Loads several entries, reading all that are in the swap file in one batch. `out` holds their
    /// pages one after another, and the result what became of each: a page that only readahead
    /// wanted may fail without harm.
    ///
    /// # Panics
    /// When `out` is not one page for each entry.
    pub fn load_cluster(
        &self,
        ids: &[EntryId],
        out: &mut [u8],
        codec: &mut Codec,
    ) -> Vec<Result<Source, LoadError>> {
        assert_eq!(
            out.len(),
            ids.len() * PAGE_SIZE,
            "room for {} pages",
            ids.len()
        );
        let mut results = Vec::with_capacity(ids.len());
        let mut on_disk = Vec::new();
        for (at, (&id, page)) in ids.iter().zip(out.chunks_exact_mut(PAGE_SIZE)).enumerate() {
            let page = <&mut Page>::try_from(page).expect("a chunk is a page");
            match self.find(id, codec) {
                Found::Disk(disk) => {
                    on_disk.push((at, disk));
                    results.push(Ok(Source::SwapFile));
                }
                found => results.push(self.finish_in_memory(id, found, page, codec)),
            }
        }
        on_disk.sort_by_key(|(_, disk)| disk.location);
        self.read_cluster(&on_disk, out, codec, &mut results);
        results
    }

    /// Reads and opens the records, which are sorted by location.
    fn read_cluster(
        &self,
        on_disk: &[(usize, OnDisk)],
        out: &mut [u8],
        codec: &mut Codec,
        results: &mut [Result<Source, LoadError>],
    ) {
        if on_disk.is_empty() {
            return;
        }
        let runs = joined(on_disk.iter().map(|(_, disk)| disk.blocks()));
        let total: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let mut blocks = std::mem::take(&mut codec.blocks);
        blocks.resize(total as usize, 0);
        let mut requests: Vec<(u64, &mut [u8])> = Vec::with_capacity(runs.len());
        let mut rest = blocks.as_mut_slice();
        for run in &runs {
            let (part, tail) = rest.split_at_mut((run.end - run.start) as usize);
            requests.push((run.start, part));
            rest = tail;
        }
        let all = self.file.read_many(&mut requests).is_ok();
        for (at, disk) in on_disk {
            let page = &mut out[at * PAGE_SIZE..(at + 1) * PAGE_SIZE];
            let page = <&mut Page>::try_from(page).expect("one page");
            let range = disk.blocks();
            let Some((start, bytes)) = requests
                .iter_mut()
                .find(|(start, part)| (*start..*start + part.len() as u64).contains(&range.start))
                .map(|(start, part)| (*start, &mut **part))
            else {
                unreachable!("every record lies in a run");
            };
            // One bad block fails the batch: then each record is read alone.
            let alone = if all {
                Ok(())
            } else {
                let span = (range.start - start) as usize..(range.end - start) as usize;
                self.file.read_many(&mut [(range.start, &mut bytes[span])])
            };
            results[*at] = match alone {
                Ok(()) => self.open(disk, bytes, start, page, codec),
                Err(source) => Err(self.read_failed(disk, source)),
            };
        }
        self.release(&on_disk.iter().map(|(_, disk)| disk).collect::<Vec<_>>());
        codec.blocks = blocks;
    }

    /// Whether the copy kept in an entry is still what `page` holds: by the hash of its page, if that is known, and else
    /// by decompressing it, after which it is known. An entry in the swap file whose hash is not known is never equal.
    #[must_use]
    pub fn matches(&self, id: EntryId, page: &Page, codec: &mut Codec) -> bool {
        let copy = {
            let inner = self.lock();
            match (inner.entries.hash(id), inner.entries.get(id).place()) {
                (Some(hash), _) => Kept::Hash(hash),
                (None, Place::Same(word)) => Kept::Same(word),
                (None, Place::Pool(_)) => {
                    let (len, dict) = inner.copy_out(id, codec);
                    Kept::Packed(len, dict)
                }
                (None, Place::Disk(..)) => return false,
                (None, Place::Free) => panic!("{id} is not stored"),
            }
        };
        match copy {
            Kept::Hash(hash) => self.key.hash(page) == hash,
            Kept::Same(word) => crate::compress::same_filled(page) == Some(word),
            Kept::Packed(len, dict) => {
                let equal = codec.packed_equals(len, dict.as_deref(), page);
                if equal {
                    let hash = self.key.hash(page);
                    self.lock().entries.set_hash(id, hash);
                }
                equal
            }
        }
    }

    /// Whether pages that come from the swap file leave their copies there: while half of it is free, as in the
    /// kernel (`vm_swap_full`). They take no memory, and a page that leaves unchanged need not be written again.
    #[must_use]
    pub fn keeps_swapped(&self) -> bool {
        self.lock().keeps_swapped()
    }

    fn find(&self, id: EntryId, codec: &mut Codec) -> Found {
        let mut inner = self.lock();
        let entry = *inner.entries.get(id);
        match entry.place() {
            Place::Free => panic!("{id} is not stored"),
            Place::Same(word) => {
                inner.stats.zswpin += 1;
                inner.owner(entry.owner()).stats.zswpin += 1;
                Found::Same(word)
            }
            Place::Pool(_) => {
                inner.stats.zswpin += 1;
                inner.owner(entry.owner()).stats.zswpin += 1;
                inner.make_newest(id);
                let (len, dict) = inner.copy_out(id, codec);
                Found::Packed(len, dict)
            }
            Place::Disk(location, checksum) => {
                inner.extents.hold(location);
                inner.stats.pswpin += 1;
                inner.owner(entry.owner()).stats.pswpin += 1;
                inner.note_disk_swapin(entry.owner());
                Found::Disk(OnDisk {
                    location,
                    record: Record {
                        entry: id,
                        generation: inner.extents.generation(location),
                        len: entry.len(),
                        dict: entry.dict(),
                    },
                    checksum,
                    wants_hash: !entry.is(Flag::Known) && inner.keeps_swapped(),
                    dict: inner.dicts.peek(entry.dict()),
                })
            }
        }
    }

    fn finish_in_memory(
        &self,
        id: EntryId,
        found: Found,
        out: &mut Page,
        codec: &mut Codec,
    ) -> Result<Source, LoadError> {
        match found {
            Found::Same(word) => {
                Codec::fill(word, out);
                Ok(Source::SameFilled)
            }
            Found::Packed(len, dict) => {
                if codec.unpack(len, dict.as_deref(), out).is_err() {
                    self.lock().stats.decompress_fail += 1;
                    return Err(LoadError::Corrupt {
                        entry: id,
                        what: "it does not decompress",
                    });
                }
                Ok(if len == PAGE_SIZE {
                    Source::Whole
                } else {
                    Source::Pool
                })
            }
            Found::Disk(_) => unreachable!("a page on disk is not in memory"),
        }
    }

    /// Checks and decompresses a record out of `blocks`, which were read from byte `start`.
    fn open(
        &self,
        disk: &OnDisk,
        blocks: &[u8],
        start: u64,
        out: &mut Page,
        codec: &mut Codec,
    ) -> Result<Source, LoadError> {
        let at = (disk.location.byte() - start) as usize;
        let Some(data) = disk.record.open(disk.checksum, &blocks[at..]) else {
            self.lock().stats.swap_corrupt += 1;
            return Err(LoadError::Corrupt {
                entry: disk.record.entry,
                what: "its record in the swap file has a wrong checksum",
            });
        };
        if codec.unpack_from(data, disk.dict.as_deref(), out).is_err() {
            self.lock().stats.decompress_fail += 1;
            return Err(LoadError::Corrupt {
                entry: disk.record.entry,
                what: "its record in the swap file does not decompress",
            });
        }
        if disk.wants_hash {
            let hash = self.key.hash(out);
            self.lock().entries.set_hash(disk.record.entry, hash);
        }
        Ok(Source::SwapFile)
    }

    fn read_failed(&self, disk: &OnDisk, source: std::io::Error) -> LoadError {
        self.lock().stats.swap_read_fail += 1;
        LoadError::Io {
            entry: disk.record.entry,
            offset: disk.location.byte(),
            source,
        }
    }

    /// The records have been read: their extents may be used anew.
    fn release(&self, read: &[&OnDisk]) {
        let mut inner = self.lock();
        read.iter()
            .for_each(|disk| inner.extents.unhold(disk.location));
    }
}

impl Inner {
    /// Copies the compressed bytes of an entry in the pool to the codec's scratch.
    fn copy_out(&self, id: EntryId, codec: &mut Codec) -> (usize, Option<Arc<Dictionary>>) {
        let entry = self.entries.get(id);
        let Place::Pool(handle) = entry.place() else {
            panic!("{id} is not in the pool");
        };
        let data = self.pool.data(handle, entry.len());
        codec.packed()[..data.len()].copy_from_slice(data);
        (data.len(), self.dicts.peek(entry.dict()))
    }

    fn keeps_swapped(&self) -> bool {
        self.extents.used_bytes() * 2 <= self.extents.most_bytes()
    }

    /// An entry that is loaded and kept is written back last, as in kernels that keep it (6.6 to
    /// 6.8, SPEC 1.7): its page is in use. One that is put next does not care.
    fn make_newest(&mut self, id: EntryId) {
        let entry = self.entries.get(id);
        if entry.is(Flag::Listed) {
            let (list, entries) = self.list_of(id);
            list.rotate(entries, id);
        }
    }

    fn note_disk_swapin(&mut self, owner: SpaceId) {
        self.stats.disk_swapins += 1;
        if self.config.shrinker.counts_disk_swapins() {
            self.owner(owner).lru.on_disk_swapin();
        }
    }
}

/// Joins ranges, sorted by start, that touch or overlap.
fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => runs.push(range),
        }
    }
    runs
}
