//! The store: everything the crate has, behind one lock that is never held across compression or
//! I/O.
//!
//! The lock is short: an entry and its links, and at most 4 KiB copied. One lock and not one for
//! each structure, because every operation needs the entries and the pool together, and compaction
//! needs them all.

mod accounts;
mod check;
mod config;
mod dicts;
mod error;
mod inner;
mod load;
mod save;
mod shrink;
mod sweep;
mod train;
mod writeback;

use neap_record::Recorder;
use neap_sys::{Lock, Locked};
use neap_tuning::TUNING;
use neap_units::{Bytes, EntryId, Pages, SpaceId};

use crate::arena::Arena;
use crate::compress::Codec;
use crate::keyed::HashKey;
use crate::stats::{Holding, OwnerStats, StoreStats};
use crate::swapfile::BlockFile;
use inner::Inner;

pub use config::{Config, ShrinkerError, ShrinkerKind};
pub use error::{LoadError, Refused};
pub use load::Source;
pub use shrink::Shrunk;
pub use train::Trained;

/// Compressed pages, in memory and in the swap file. Shared by all threads.
///
/// An [`EntryId`] is a counted reference: whoever holds one may load it, and gives it back with
/// [`Store::put`]. Using one that was given back is a bug of the caller, and panics if noticed.
pub struct Store {
    inner: Lock<Inner, 6>,
    file: Box<dyn BlockFile>,
    key: HashKey,
    compressor: crate::compress::CompressorKind,
}

impl Store {
    /// A store whose pool lies in `arena` and whose swap file is `file`. With `key`, which nobody else knows, it knows
    /// pages again.
    #[must_use]
    pub fn new(
        config: Config,
        arena: Box<dyn Arena>,
        file: Box<dyn BlockFile>,
        key: HashKey,
    ) -> Self {
        Self {
            inner: Lock::new(Inner::new(config, arena)),
            file,
            key,
            compressor: config.compressor,
        }
    }

    /// What a thread needs to use the store. Allocates; make one for each thread, once.
    #[must_use]
    pub fn codec(&self) -> Codec {
        Codec::new(self.compressor)
    }

    fn lock(&self) -> Locked<'_, Inner, 6> {
        self.inner.lock()
    }

    /// One more reference to an entry: a forked child shares it.
    pub fn get(&self, id: EntryId) {
        let mut inner = self.lock();
        assert!(inner.entries.find(id).is_some(), "{id} is not stored");
        inner.entries.get_mut(id).get();
    }

    /// One reference less. The entry goes with the last one, and its memory or disk space with it;
    /// if it is just being written back, as soon as that is done.
    pub fn put(&self, id: EntryId) {
        self.lock().put(id);
    }

    /// [`Store::put`] for many, with the lock given up between every few.
    pub fn put_many(&self, ids: &[EntryId]) {
        for few in ids.chunks(TUNING.pool.entries_held) {
            let mut inner = self.lock();
            few.iter().for_each(|&id| inner.put(id));
        }
    }

    /// Forgets what is known of an owner whose number will be used anew. Its entries stay until
    /// they are put, and may be shared with others.
    /// Returns what has happened to its pages.
    pub fn forget_owner(&self, owner: SpaceId) -> OwnerStats {
        let mut inner = self.lock();
        let dict = std::mem::take(&mut inner.owner(owner).dict);
        inner.dicts.put(dict);
        let owner = inner.owner(owner);
        owner.lru.forget();
        std::mem::take(&mut owner.stats)
    }

    /// What has happened to the pages of each of these owners.
    #[must_use]
    pub fn stats_of(&self, owners: impl IntoIterator<Item = SpaceId>) -> Vec<OwnerStats> {
        let inner = self.lock();
        let of = |owner: SpaceId| inner.owners.get(owner.index()).map(|own| own.stats);
        let all = owners
            .into_iter()
            .map(|owner| of(owner).unwrap_or_default());
        all.collect()
    }

    /// Memory of the pool, in whole pages.
    #[must_use]
    pub fn pool_bytes(&self) -> Bytes {
        Bytes::from(Pages(self.lock().pool.pages()))
    }

    /// The same with the free pages that are backed all the same: what the pool takes of the machine's memory.
    #[must_use]
    pub fn pool_memory(&self) -> Bytes {
        Bytes::from(Pages(self.lock().pool.backed_pages()))
    }

    /// The same, of which decisions are recorded. None has been made yet.
    #[must_use]
    pub fn recorded(self, recorder: &Recorder) -> Store {
        let mut inner = self.lock();
        inner.gate.record(recorder);
        inner.recorder = recorder.clone();
        drop(inner);
        self
    }

    /// Most pages that the pool may take.
    #[must_use]
    pub fn pool_max(&self) -> Pages {
        self.lock().gate.max()
    }

    /// Moves that limit, as far as the pool has addresses. A pool that is larger takes nothing until write-back has made
    /// room. Returns what it is now.
    pub fn set_pool_max(&self, most: Pages) -> Pages {
        let mut inner = self.lock();
        let most = most.min(inner.config.pool_room);
        let accept = inner.config.accept_threshold_percent;
        inner.gate.set_max(most, accept);
        most
    }

    /// What the pool holds.
    #[must_use]
    pub fn holding(&self) -> Holding {
        let inner = self.lock();
        let stats = &inner.stats;
        Holding {
            bytes: Bytes::from(Pages(inner.pool.pages())).0,
            backed: Bytes::from(Pages(inner.pool.backed_pages())).0,
            held: Bytes::from(Pages(inner.pooled())).0,
            compressed: stats.compressed_bytes,
        }
    }

    /// Bytes that the entries of each of these owners have in the pool.
    #[must_use]
    pub fn compressed_of(&self, owners: impl IntoIterator<Item = SpaceId>) -> Vec<Bytes> {
        let places = self.places_of(owners);
        places.into_iter().map(|(pool, _)| pool).collect()
    }

    /// The same, and the bytes of their records in the swap file.
    #[must_use]
    pub fn places_of(&self, owners: impl IntoIterator<Item = SpaceId>) -> Vec<(Bytes, Bytes)> {
        let inner = self.lock();
        let of = |owner: SpaceId| {
            let own = inner.owners.get(owner.index());
            own.map_or((0, 0), |own| (own.compressed, own.disk))
        };
        let places = owners.into_iter().map(of);
        places
            .map(|(pool, disk)| (Bytes(pool), Bytes(disk)))
            .collect()
    }

    /// Whether any page can go to the swap file, as far as is known: not while it refuses writes.
    #[must_use]
    pub fn can_write_back(&self) -> bool {
        let inner = self.lock();
        inner.may_write_back() && inner.write_error.is_none()
    }

    /// Whether pages may be written to the swap file (`memory.zswap.writeback`). While they may not, pages that do not
    /// compress are refused, and a full pool stays full. Pages on disk stay there until they are loaded. A write that has
    /// begun is finished.
    pub fn set_writeback(&self, on: bool) {
        self.lock().writes_nothing = !on;
    }

    /// Whether that is switched on.
    #[must_use]
    pub fn writeback(&self) -> bool {
        !self.lock().writes_nothing
    }

    /// Whether the pool takes nothing until write-back has made room.
    #[must_use]
    pub fn waits_for_disk(&self) -> bool {
        let inner = self.lock();
        let below = inner.gate.below_threshold(Pages(inner.pool.pages()));
        inner.gate.reached_full() && !below && inner.may_write_back() && inner.write_error.is_none()
    }

    /// What keeps compressed pages from the swap file, if it is not as it should be: an error, or it was full.
    #[must_use]
    pub fn swap_trouble(&self) -> Option<String> {
        let inner = self.lock();
        match &inner.write_error {
            Some(error) => Some(format!("the swap file cannot be written: {error}")),
            None if inner.writeback() && !inner.has_room() => {
                Some("the swap file is full".to_owned())
            }
            None => None,
        }
    }

    /// Pages in the pool that do not compress, and would better be in the swap file: none while it takes nothing.
    #[must_use]
    pub fn poor_pages(&self) -> u64 {
        let inner = self.lock();
        let takes = inner.may_write_back() && inner.write_error.is_none();
        if takes { inner.poor.len() } else { 0 }
    }

    /// Pages written back since the start.
    #[must_use]
    pub fn written_back(&self) -> u64 {
        self.lock().stats.written_back_pages
    }

    /// Memory of all tables beside the pool, dictionaries included; codecs are not.
    #[must_use]
    pub fn metadata_bytes(&self) -> Bytes {
        Bytes(self.lock().metadata_bytes() as u64)
    }

    /// Entries in use, in memory or on disk.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.lock().entries.live() as u64
    }

    /// Every number of the store, at one moment.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let inner = self.lock();
        let pool = inner.pool.counts();
        let (dictionaries, dictionary_bytes) = inner.dicts.usage();
        let stats = inner.stats;
        StoreStats {
            stored_pages: inner.entries.live() as u64 - stats.swapped_pages,
            pool_bytes: Bytes::from(Pages(pool.pages)).0,
            metadata_bytes: inner.metadata_bytes() as u64,
            swap_used_bytes: inner.extents.used_bytes(),
            swap_file_bytes: inner.extents.file_bytes(),
            dictionaries,
            dictionary_bytes,
            pool_limit_hit: inner.gate.limit_hits(),
            pool_moved_objects: pool.moved,
            pool_compacted_pages: pool.compacted_pages,
            ..stats
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("compressor", &self.compressor)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
