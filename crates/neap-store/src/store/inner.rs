//! What the lock of the store guards, and the two things that change it: an entry comes, an
//! entry goes.

use std::sync::Arc;

use neap_policy::{Admission, LruState, PoolGate};
use neap_record::{GateLimit, Noted, Recorder};
use neap_units::{Bytes, EntryId, PAGE_SIZE, Pages, SpaceId};

use super::config::{Config, ShrinkerKind};
use super::dicts::Dicts;
use super::error::Refused;
use crate::account::{Account, Sums};
use crate::arena::Arena;
use crate::compress::{Dictionary, Page};
use crate::entry::{Birth, Entry, EntryTable, Flag, LruList, Place};
use crate::pool::Pool;
use crate::stats::{OwnerStats, StoreStats};
use crate::swapfile::{Extents, Location, record_room};

/// What an address space has in the store (the kernel's per-cgroup state, SPEC 1.1).
#[derive(Clone, Debug, Default)]
pub(super) struct Owner {
    /// Its entries in the pool, oldest first, but for those being written back.
    pub list: LruList,
    pub lru: LruState,
    /// Sum of the lengths of its entries in the pool, in bytes.
    pub compressed: u64,
    /// Its entries in the pool, same-filled ones not included.
    pub stored: u64,
    /// Dictionary its pages are compressed with, 0 for none.
    pub dict: u8,
    pub stats: OwnerStats,
    /// All its entries, wherever they are.
    pub entries: u64,
    /// Bytes of its records in the swap file, and how many they are.
    pub disk: u64,
    pub written: u64,
    /// Whom they count for.
    pub account: Option<Arc<Account>>,
    /// Its entries may not be written to the swap file, as that account has it.
    pub stays: bool,
}

impl Owner {
    /// All that it has.
    pub fn sums(&self) -> Sums {
        Sums {
            zswap: self.compressed,
            pooled: self.stored,
            swap: self.entries,
            disk: self.disk,
            written: self.written,
        }
    }

    /// How much more the pool has of its account than it may, of an owner whose entries there may be written.
    pub fn excess(&self) -> Bytes {
        let account = self.account.as_ref();
        let account = account.filter(|_| !self.stays && self.list.len() > 0);
        account.map_or(Bytes(0), |account| account.excess())
    }

    fn add(&mut self, sums: Sums) {
        self.compressed += sums.zswap;
        self.stored += sums.pooled;
        self.entries += sums.swap;
        self.disk += sums.disk;
        self.written += sums.written;
        self.account.iter().for_each(|account| account.add(sums));
    }

    fn take(&mut self, sums: Sums) {
        self.compressed -= sums.zswap;
        self.stored -= sums.pooled;
        self.entries -= sums.swap;
        self.disk -= sums.disk;
        self.written -= sums.written;
        self.account.iter().for_each(|account| account.take(sums));
    }
}

pub(super) struct Inner {
    pub config: Config,
    pub entries: EntryTable,
    pub pool: Pool,
    pub gate: Noted<PoolGate>,
    /// What records decisions here.
    pub recorder: Recorder,
    pub owners: Vec<Owner>,
    /// Entries in the pool that do not compress, of all owners, the oldest first.
    pub poor: LruList,
    pub extents: Extents,
    pub dicts: Dicts,
    /// Counters; gauges are filled in when asked for.
    pub stats: StoreStats,
    /// Next owner the pool worker visits.
    pub cursor: usize,
    /// Why the last write to the swap file failed, if it did.
    pub write_error: Option<String>,
    /// Nothing is written to the swap file (`memory.zswap.writeback=0`).
    pub writes_nothing: bool,
    /// What the pool has of owners whose entries may not be written.
    pub stays: Sums,
}

/// A dictionary and its number, held.
pub(super) type HeldDict = Option<(u8, Arc<Dictionary>)>;

/// The bytes of a page as they are to be kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    Same(u64),
    Bytes {
        data: &'a [u8],
        dict: u8,
    },
    /// The page as it is, since it does not compress.
    Poor(&'a Page),
}

impl Inner {
    pub fn new(config: Config, arena: Box<dyn Arena>) -> Self {
        let recorder = Recorder::default();
        let limit = GateLimit {
            max: config.pool_max,
            accept: config.accept_threshold_percent,
        };
        Self {
            entries: EntryTable::new(usize::MAX),
            pool: Pool::new(arena),
            gate: Noted::new(&recorder, limit),
            recorder,
            owners: Vec::new(),
            poor: LruList::default(),
            extents: Extents::new(config.swap_size.0),
            dicts: Dicts::new(),
            stats: StoreStats::default(),
            cursor: 0,
            write_error: None,
            writes_nothing: false,
            stays: Sums::default(),
            config,
        }
    }

    pub fn owner(&mut self, owner: SpaceId) -> &mut Owner {
        if self.owners.len() <= owner.index() {
            self.owners.resize(owner.index() + 1, Owner::default());
        }
        &mut self.owners[owner.index()]
    }

    /// Whether entries may go to the swap file.
    pub fn writeback(&self) -> bool {
        self.config.swap_size > Bytes::ZERO && !self.writes_nothing
    }

    /// Whether the shrinker proper runs.
    pub fn shrinker_enabled(&self) -> bool {
        self.config.shrinker != ShrinkerKind::Off && self.writeback()
    }

    /// The check before compression (SPEC 1.5 step 4), and the dictionary to compress with.
    pub fn admit(&mut self, owner: SpaceId) -> Result<HeldDict, Refused> {
        self.allow_entry(owner)?;
        let allowed = self.allows_in_pool(owner);
        match self.gate.admit(allowed, Pages(self.pool.pages())) {
            Admission::Admitted => Ok(self.take_dict(owner)),
            Admission::OwnerLimit => Err(Refused::ZswapMax),
            Admission::PoolFull if self.may_pass(owner) => Ok(self.take_dict(owner)),
            Admission::PoolFull => {
                self.stats.reject_pool_full += 1;
                Err(Refused::PoolFull)
            }
        }
    }

    /// The owner's dictionary, held until [`Dicts::put`]: by the entry, or by whoever gives up.
    fn take_dict(&mut self, owner: SpaceId) -> HeldDict {
        let number = self.owner(owner).dict;
        self.dicts.get(number).map(|dict| (number, dict))
    }

    /// Makes an entry, with one reference, the newest of its owner (SPEC 1.5 step 6). The
    /// dictionary named in `body` is held for it already.
    pub fn insert(&mut self, owner: SpaceId, body: Body<'_>) -> Result<EntryId, Refused> {
        let (data, dict): (&[u8], u8) = match body {
            Body::Same(_) => (&[], 0),
            Body::Bytes { data, dict } => (data, dict),
            Body::Poor(page) => (page, 0),
        };
        let scheme = self.config.shrinker.scheme();
        let birth = Birth {
            owner,
            len: data.len(),
            dict,
            referenced: scheme.marks_new(),
            poor: matches!(body, Body::Poor(_)),
        };
        let Some(id) = self.entries.alloc(birth) else {
            self.stats.reject_kmemcache_fail += 1;
            return Err(Refused::NoSpace);
        };
        match body {
            Body::Same(word) => {
                self.entries.get_mut(id).set_place(Place::Same(word));
                self.stats.same_filled_pages += 1;
            }
            Body::Bytes { .. } | Body::Poor(_) => {
                let Some(handle) = self.pool.store(id, data) else {
                    self.entries.free(id);
                    self.stats.reject_alloc_fail += 1;
                    return Err(Refused::NoSpace);
                };
                self.entries.get_mut(id).set_place(Place::Pool(handle));
                self.charge(id);
                self.list(id);
                let owner = self.owner(owner);
                let len = owner.list.len();
                owner.lru.on_insert(scheme, len);
            }
        }
        self.stats.zswpout += 1;
        let owner = self.owner(owner);
        owner.stats.zswpout += 1;
        owner.add(Sums::ENTRY);
        Ok(id)
    }

    /// Counts an entry as in the pool.
    fn charge(&mut self, id: EntryId) {
        let entry = *self.entries.get(id);
        let sums = Sums::pooled(entry.len());
        let owner = self.owner(entry.owner());
        owner.add(sums);
        if owner.stays {
            self.stays.zswap += sums.zswap;
            self.stays.pooled += 1;
        }
        self.stats.compressed_bytes += entry.len() as u64;
        self.stats.stored_incompressible_pages += u64::from(entry.len() == PAGE_SIZE);
    }

    /// Takes an entry out of the pool. It is on no list.
    fn uncharge(&mut self, id: EntryId, entry: &Entry) {
        let Place::Pool(handle) = entry.place() else {
            panic!("{id} is not in the pool");
        };
        let sums = Sums::pooled(entry.len());
        let owner = self.owner(entry.owner());
        owner.take(sums);
        if owner.stays {
            self.stays.zswap -= sums.zswap;
            self.stays.pooled -= 1;
        }
        self.stats.compressed_bytes -= entry.len() as u64;
        self.stats.stored_incompressible_pages -= u64::from(entry.len() == PAGE_SIZE);
        let Self { pool, entries, .. } = self;
        pool.free(handle, entry.len(), |moved, to| {
            entries.get_mut(moved).set_place(Place::Pool(to));
        });
    }

    /// The list an entry is on while it is in the pool, and all entries.
    pub fn list_of(&mut self, id: EntryId) -> (&mut LruList, &mut EntryTable) {
        let entry = self.entries.get(id);
        let list = match entry.is(Flag::Poor) {
            true => &mut self.poor,
            false => &mut self.owners[entry.owner().index()].list,
        };
        (list, &mut self.entries)
    }

    /// Makes an entry the newest of its list.
    pub fn list(&mut self, id: EntryId) {
        let (list, entries) = self.list_of(id);
        list.push_tail(entries, id);
    }

    /// Takes an entry off its list.
    pub fn unlist(&mut self, id: EntryId) {
        let (list, entries) = self.list_of(id);
        list.remove(entries, id);
    }

    /// The entry moves from the pool to the swap file. It is on no list.
    pub fn move_to_disk(&mut self, id: EntryId, location: Location, checksum: u32) {
        let entry = *self.entries.get(id);
        self.uncharge(id, &entry);
        let place = Place::Disk(location, checksum);
        self.entries.get_mut(id).set_place(place);
        let room = record_room(entry.len());
        self.extents.add(location, room);
        self.owner(entry.owner()).add(Sums::on_disk(room));
        self.stats.swapped_pages += 1;
    }

    /// Drops a reference, and the entry with the last one (SPEC 1.8).
    pub fn put(&mut self, id: EntryId) {
        if !self.entries.get_mut(id).put() {
            return;
        }
        let entry = *self.entries.get(id);
        match entry.place() {
            Place::Free => panic!("{id} was put more often than got"),
            Place::Same(_) => self.stats.same_filled_pages -= 1,
            Place::Pool(_) => {
                self.unlist(id);
                self.uncharge(id, &entry);
            }
            Place::Disk(location, _) => {
                let room = record_room(entry.len());
                self.extents.release(location, room);
                self.owner(entry.owner()).take(Sums::on_disk(room));
                self.stats.swapped_pages -= 1;
            }
        }
        self.owner(entry.owner()).take(Sums::ENTRY);
        self.dicts.put(entry.dict());
        self.entries.free(id);
    }

    /// Entries in the pool.
    pub fn pooled(&self) -> u64 {
        self.entries.live() as u64 - self.stats.swapped_pages - self.stats.same_filled_pages
    }

    /// Bytes of all tables.
    pub fn metadata_bytes(&self) -> usize {
        self.entries.metadata_bytes()
            + self.pool.metadata_bytes()
            + self.extents.metadata_bytes()
            + self.owners.capacity() * size_of::<Owner>()
            + self.dicts.metadata_bytes()
    }
}
