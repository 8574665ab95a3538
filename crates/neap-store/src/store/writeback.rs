//! Write-back: entries of the pool become records of the swap file (SPEC 1.12).
//!
//! Entries are taken off their list and held, their bytes copied into one batch, and the batch
//! written without the lock. Until the write has succeeded the pool keeps the bytes, and a load
//! finds them there; after a failed one they return to their list and nothing has happened. An
//! entry that everybody else let go of meanwhile dies when write-back lets go of it.

use neap_policy::Verdict;
use neap_tuning::TUNING;
use neap_units::{EntryId, PAGE_SIZE, SpaceId};

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

/// Whose entries are written.
#[derive(Clone, Copy)]
enum Whose<'a> {
    Owner(SpaceId),
    /// Those that do not compress, of all owners.
    Poor,
    /// The same of an account.
    PoorOf(&'a Account),
}

/// What a walk of a list came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Walk {
    /// Entries visited.
    pub visited: u64,
    /// Entries written to the swap file.
    pub written: u64,
}

impl Store {
    /// Visits up to `budget` entries of an owner, oldest first, and writes back those whose turn it
    /// is. Every visit costs budget (SPEC 1.10, list walk).
    pub(super) fn walk(&self, owner: SpaceId, budget: u64, codec: &mut Codec) -> Walk {
        let mut walk = Walk::default();
        while walk.visited < budget {
            let mut batch = Batch::default();
            let before = walk.visited;
            let full = self.collect(
                Whose::Owner(owner),
                budget,
                &mut walk.visited,
                &mut batch,
                codec,
            );
            if !batch.items.is_empty() {
                let written = self.write(&mut batch, codec);
                walk.written += written;
                if written == 0 {
                    break;
                }
            }
            if !full || walk.visited == before {
                break;
            }
        }
        walk
    }

    /// Writes the oldest pages that do not compress, as long as there are `least` or more; returns how many.
    pub(super) fn write_poor(&self, least: u64, codec: &mut Codec) -> u64 {
        let mut sum = 0;
        while self.lock().poor.len() >= least.max(1) {
            let mut batch = Batch::default();
            self.collect(Whose::Poor, u64::MAX, &mut 0, &mut batch, codec);
            let written = match batch.items.is_empty() {
                true => 0, // no room
                false => self.write(&mut batch, codec),
            };
            if written == 0 {
                break;
            }
            sum += written;
        }
        sum
    }

    /// Writes the pages of an account that do not compress; returns how many. Those of others are passed over, in their order.
    pub(super) fn write_poor_of(&self, account: &Account, codec: &mut Codec) -> u64 {
        let mut left = self.lock().poor.len();
        let mut sum = 0;
        while left > 0 {
            let (mut batch, mut visited) = (Batch::default(), 0);
            self.collect(
                Whose::PoorOf(account),
                left,
                &mut visited,
                &mut batch,
                codec,
            );
            let written = match batch.items.is_empty() {
                true => 0,
                false => self.write(&mut batch, codec),
            };
            sum += written;
            if visited == 0 || written < batch.items.len() as u64 {
                break;
            }
            left = left.saturating_sub(visited);
        }
        sum
    }

    /// Walks an owner's list, or that of pages that do not compress, until the budget is used, the list is empty, or
    /// the batch is full (then true).
    fn collect(
        &self,
        whose: Whose<'_>,
        budget: u64,
        count: &mut u64,
        batch: &mut Batch,
        codec: &mut Codec,
    ) -> bool {
        codec.blocks.resize(EXTENT, 0);
        batch.limit = {
            let inner = self.lock();
            if !inner.writeback() {
                return false;
            }
            inner.extents.room(inner.spare_extents())
        };
        loop {
            let mut inner = self.lock();
            for _ in 0..TUNING.pool.entries_held {
                if *count >= budget {
                    return false;
                }
                let visited = match whose {
                    Whose::Owner(owner) => inner.visit(owner, batch, &mut codec.blocks),
                    Whose::Poor => inner.visit_poor(None, batch, &mut codec.blocks),
                    Whose::PoorOf(account) => {
                        inner.visit_poor(Some(account), batch, &mut codec.blocks)
                    }
                };
                match visited {
                    Visited::Entry => *count += 1,
                    Visited::End => return false,
                    Visited::Full => return true,
                }
            }
        }
    }

    /// Writes a batch; returns how many entries it moved to the swap file.
    fn write(&self, batch: &mut Batch, codec: &mut Codec) -> u64 {
        let len = batch.len.next_multiple_of(BLOCK);
        let Some(region) = self.reserve(len) else {
            self.lock().stats.swap_full += 1;
            return self.finish(batch, None);
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
                let written = self.finish(batch, Some(region));
                let mut inner = self.lock();
                inner.extents.finish(region);
                inner.write_error = None;
                written
            }
            Err(error) => {
                let mut inner = self.lock();
                inner.stats.swap_write_fail += 1;
                inner.write_error = Some(error.to_string());
                inner.extents.finish(region);
                drop(inner);
                self.finish(batch, None)
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
    fn finish(&self, batch: &Batch, region: Option<Region>) -> u64 {
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
        if region.is_some() {
            batch.items.len() as u64
        } else {
            0
        }
    }
}

enum Visited {
    /// An entry was visited.
    Entry,
    /// There is none.
    End,
    /// The next one does not fit the batch.
    Full,
}

impl Inner {
    /// Visits the oldest entry of an owner: spares it, or adds it to the batch.
    fn visit(&mut self, owner: SpaceId, batch: &mut Batch, blocks: &mut [u8]) -> Visited {
        let own = self.owner(owner);
        let Some(id) = own.list.head().filter(|_| !own.stays) else {
            return Visited::End;
        };
        let scheme = self.config.shrinker.scheme();
        let entry = *self.entries.get(id);
        let mut referenced = entry.is(Flag::Referenced);
        match scheme.visit(&mut referenced) {
            Verdict::Rotate => {
                self.entries.get_mut(id).set(Flag::Referenced, referenced);
                let list = &mut self.owners[owner.index()].list;
                list.rotate(&mut self.entries, id);
            }
            Verdict::WriteBack if !batch.fits(entry.len()) => return Visited::Full,
            Verdict::WriteBack => self.take(id, batch, blocks),
        }
        Visited::Entry
    }

    /// Adds the oldest of the pages that do not compress to the batch. They have no second chance: in the pool they
    /// take as much memory as in the program.
    fn visit_poor(
        &mut self,
        of: Option<&Account>,
        batch: &mut Batch,
        blocks: &mut [u8],
    ) -> Visited {
        let Some(id) = self.poor.head() else {
            return Visited::End;
        };
        let owner = self.entries.get(id).owner();
        if of.is_some_and(|account| !self.counts_for(owner, account)) {
            self.poor.rotate(&mut self.entries, id);
            return Visited::Entry;
        }
        match self.owner(owner).stays {
            true => {
                // From now on it is one of its owner's like any other, and goes with them once they may.
                self.unlist(id);
                self.entries.get_mut(id).set(Flag::Poor, false);
                self.list(id);
                Visited::Entry
            }
            false if !batch.fits(PAGE_SIZE) => Visited::Full,
            false => {
                self.take(id, batch, blocks);
                Visited::Entry
            }
        }
    }

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
