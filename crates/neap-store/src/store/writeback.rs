//! Write-back: entries of the pool become records of the swap file (SPEC 1.12).
//!
//! Entries are taken off their list and held, their bytes copied into one batch, and the batch
//! written without the lock. Until the write has succeeded the pool keeps the bytes, and a load
//! finds them there; after a failed one they return to their list and nothing has happened. An
//! entry that everybody else let go of meanwhile dies when write-back lets go of it.

use std::marker::PhantomData;

use neap_policy::{Verdict, Walk, WalkStep, WritebackLists};
use neap_record::{NotedShrinker, Recorder};
use neap_tuning::TUNING;
use neap_units::{EntryId, SpaceId};

use super::Store;
use super::inner::Inner;
use crate::account::Account;
use crate::compress::Codec;
use crate::entry::{Flag, Place};
use crate::swapfile::{BLOCK, EXTENT, Location, Record, Region, next_record, record_room};

/// One entry of a batch.
struct Item {
    record: Record,
    /// Where its record starts in the batch.
    at: usize,
    checksum: u32,
}

/// Records to be written in one go, in the codec's blocks.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    /// Bytes used.
    len: usize,
    /// Bytes there is room for in the swap file.
    limit: usize,
}

impl Batch {
    /// Whether one more record of `len` bytes has room.
    fn fits(&self, len: usize) -> bool {
        next_record(self.len, len) + record_room(len) <= self.limit
    }
}

/// The list of a walk.
#[derive(Clone, Copy)]
pub(super) enum Whose<'w> {
    /// An owner's.
    Owner(SpaceId),
    /// That of pages that do not compress, of all owners.
    Poor,
    /// The same, of which only those of an account are written.
    PoorOf(&'w Account),
}

/// The lists, and the batch that takes the entries whose turn it is.
struct Lists<'a, 'w> {
    inner: &'a mut Inner,
    batch: &'a mut Batch,
    blocks: &'a mut [u8],
    whose: PhantomData<Whose<'w>>,
}

impl Store {
    pub(super) fn recorder(&self) -> Recorder {
        self.lock().recorder.clone()
    }

    /// A walk of up to `budget` entries of a list, run to its end.
    pub(super) fn walk<'w>(
        &self,
        list: Whose<'w>,
        budget: u64,
        codec: &mut Codec,
    ) -> Walk<Whose<'w>> {
        let mut walk = NotedShrinker::walk(&self.recorder(), list, budget);
        self.run(&mut walk, codec);
        walk.walked()
    }

    /// Runs a walk to its end.
    pub(super) fn run(&self, walk: &mut NotedShrinker<Whose<'_>>, codec: &mut Codec) {
        while !walk.is_over() {
            self.write_some(walk, codec);
        }
    }

    /// Writes the oldest pages that do not compress, as long as there are `least` or more; returns how many.
    pub(super) fn write_poor(&self, least: u64, codec: &mut Codec) -> u64 {
        let mut sum = 0;
        while self.lock().poor.len() >= least.max(1) {
            let mut walk = NotedShrinker::walk(&self.recorder(), Whose::Poor, u64::MAX);
            self.write_some(&mut walk, codec);
            let walk = walk.walked();
            if walk.written == 0 {
                break;
            }
            sum += walk.written;
        }
        sum
    }

    /// Writes the pages of an account that do not compress; returns how many. Those of others are passed over, in their order.
    pub(super) fn write_poor_of(&self, account: &Account, codec: &mut Codec) -> u64 {
        let poor = self.lock().poor.len();
        self.walk(Whose::PoorOf(account), poor, codec).written
    }

    /// Writes one batch of a walk. The walk ends where the batch is not written, or stays empty: the next would not be
    /// written either.
    fn write_some(&self, walk: &mut NotedShrinker<Whose<'_>>, codec: &mut Codec) {
        let mut batch = self.collect(walk, codec);
        let written = !batch.items.is_empty() && self.write(&mut batch, codec);
        walk.report(written, batch.items.len() as u64);
    }

    /// Goes on with a walk until it is over or the batch is full, with the lock given up between every few entries.
    fn collect(&self, walk: &mut NotedShrinker<Whose<'_>>, codec: &mut Codec) -> Batch {
        codec.blocks.resize(EXTENT, 0);
        let mut batch = Batch::default();
        let mut inner = self.lock();
        if !inner.writeback() {
            return batch;
        }
        batch.limit = inner.extents.room(inner.spare_extents());
        loop {
            let mut lists = Lists {
                inner: &mut inner,
                batch: &mut batch,
                blocks: &mut codec.blocks,
                whose: PhantomData,
            };
            for _ in 0..TUNING.pool.entries_held {
                if walk.step(&mut lists) == WalkStep::Pause {
                    return batch;
                }
            }
            if walk.is_over() {
                return batch;
            }
            drop(inner);
            inner = self.lock();
        }
    }

    /// Writes a batch. False: it could not be, and its entries are back on their lists, as the newest.
    fn write(&self, batch: &mut Batch, codec: &mut Codec) -> bool {
        let len = batch.len.next_multiple_of(BLOCK);
        let Some(region) = self.reserve(len) else {
            self.lock().stats.swap_full += 1;
            self.finish(batch, None);
            return false;
        };
        codec.blocks[batch.len..len].fill(0);
        for item in &mut batch.items {
            item.record.generation = region.generation;
            item.checksum = item.record.seal(&codec.blocks[item.at..]);
        }
        match self
            .file
            .write_many(&[(region.start, &codec.blocks[..len])])
        {
            Ok(()) => {
                self.finish(batch, Some(region));
                let mut inner = self.lock();
                inner.extents.finish(region);
                inner.write_error = None;
                true
            }
            Err(error) => {
                let mut inner = self.lock();
                inner.stats.swap_write_fail += 1;
                inner.write_error = Some(error.to_string());
                inner.extents.finish(region);
                drop(inner);
                self.finish(batch, None);
                false
            }
        }
    }

    fn reserve(&self, len: usize) -> Option<Region> {
        let mut inner = self.lock();
        // Another thread may have taken the room meanwhile.
        let fits = inner.extents.room(inner.spare_extents()) >= len;
        fits.then(|| inner.extents.reserve(len)).flatten()
    }

    /// Lets go of the entries of a batch that is written to `region`, or not at all.
    fn finish(&self, batch: &Batch, region: Option<Region>) {
        for few in batch.items.chunks(TUNING.pool.entries_held) {
            let mut inner = self.lock();
            for item in few {
                let id = item.record.entry;
                inner.entries.get_mut(id).set(Flag::Writing, false);
                match region {
                    Some(region) => {
                        let to = Location::at(region.start + item.at as u64);
                        inner.move_to_disk(id, to, item.checksum);
                        inner.stats.zswpwb += 1;
                        let owner = inner.entries.get(id).owner();
                        inner.owner(owner).stats.zswpwb += 1;
                        inner.stats.pswpout += 1;
                        inner.stats.written_back_pages += 1;
                    }
                    None => {
                        inner.list(id);
                        inner.stats.reject_reclaim_fail += 1;
                    }
                }
                inner.put(id);
            }
        }
    }
}

impl Lists<'_, '_> {
    /// Whether a walk is not for entries of this owner.
    fn passes_over(&self, list: Whose<'_>, owner: SpaceId) -> bool {
        matches!(list, Whose::PoorOf(account) if !self.inner.counts_for(owner, account))
    }
}

/// An entry whose turn it is leaves its list, held and with its bytes in the batch.
impl<'w> WritebackLists for Lists<'_, 'w> {
    type List = Whose<'w>;
    type Entry = EntryId;
    type Ticket = ();

    fn len(&self, list: Whose<'w>) -> u64 {
        match list {
            Whose::Owner(owner) => self.inner.owners[owner.index()].list.len(),
            Whose::Poor | Whose::PoorOf(_) => self.inner.poor.len(),
        }
    }

    fn head(&self, list: Whose<'w>) -> Option<EntryId> {
        let Whose::Owner(owner) = list else {
            return self.inner.poor.head();
        };
        let own = self.inner.owners.get(owner.index())?;
        own.list.head().filter(|_| !own.stays)
    }

    /// Pages that do not compress have no second chance: in the pool they take as much memory as in the program.
    fn verdict(&self, list: Whose<'w>, head: EntryId) -> Verdict {
        let entry = self.inner.entries.get(head);
        let owner = entry.owner();
        match list {
            Whose::Owner(_) => {
                let scheme = self.inner.config.shrinker.scheme();
                scheme.verdict(entry.is(Flag::Referenced))
            }
            _ if self.passes_over(list, owner) => Verdict::Rotate,
            _ if self.inner.owners[owner.index()].stays => Verdict::Rotate,
            _ => Verdict::WriteBack,
        }
    }

    fn spare(&mut self, list: Whose<'w>, head: EntryId) {
        let owner = self.inner.entries.get(head).owner();
        let passed = self.passes_over(list, owner);
        self.inner.unlist(head);
        let entry = self.inner.entries.get_mut(head);
        match list {
            Whose::Owner(_) => entry.set(Flag::Referenced, false),
            _ if passed => {}
            // It stays. From now on it is one of its owner's like any other, and goes with them once they may.
            _ => entry.set(Flag::Poor, false),
        }
        self.inner.list(head);
    }

    fn take(&mut self, _: Whose<'w>, head: EntryId) -> Option<()> {
        let fits = self.batch.fits(self.inner.entries.get(head).len());
        fits.then(|| self.inner.take(head, self.batch, self.blocks))
    }
}

impl Inner {
    /// Holds an entry and copies its bytes to the end of the batch.
    fn take(&mut self, id: EntryId, batch: &mut Batch, blocks: &mut [u8]) {
        self.unlist(id);
        let entry = self.entries.get_mut(id);
        entry.get();
        entry.set(Flag::Writing, true);
        let entry = *entry;
        let Place::Pool(handle) = entry.place() else {
            panic!("{id} is on a list but not in the pool");
        };
        let data = self.pool.data(handle, entry.len());
        let record = Record {
            entry: id,
            generation: 0,
            len: entry.len(),
            dict: entry.dict(),
        };
        let at = next_record(batch.len, record.len);
        blocks[batch.len..at].fill(0);
        let end = at + record.len;
        blocks[at..end].copy_from_slice(data);
        batch.len = at + record_room(record.len);
        blocks[end..batch.len].fill(0);
        batch.items.push(Item {
            record,
            at,
            checksum: 0,
        });
    }

    /// Extents kept free so that sparse ones can be emptied into them; none in a file too small.
    pub(super) fn spare_extents(&self) -> usize {
        usize::from(self.config.swap_size.0 >= 8 * EXTENT as u64)
    }

    /// Whether a write-back could succeed.
    pub(super) fn may_write_back(&self) -> bool {
        self.writeback() && self.has_room() && self.has_writable()
    }

    /// Whether the swap file has room.
    pub(super) fn has_room(&self) -> bool {
        self.extents.room(self.spare_extents()) >= 2 * BLOCK
    }
}
