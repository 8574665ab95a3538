//! The invariants of the whole store.

use neap_units::{EntryId, PAGE_SIZE};

use super::Store;
use super::inner::{Inner, Owner};
use crate::entry::{Flag, Place};
use crate::swapfile::record_room;

impl Store {
    /// Checks everything.
    ///
    /// # Panics
    /// On any broken invariant. Nothing may be under way in other threads.
    pub fn check(&self) {
        self.lock().check();
    }
}

impl Inner {
    fn check(&self) {
        self.entries.check();
        self.pool.check(|id| self.pool_place(id));
        let mut owners = vec![Owner::default(); self.owners.len()];
        let mut records = Vec::new();
        let mut poor = vec![0u64; self.owners.len()];
        let mut holders = [0u64; 256];
        let (mut same, mut raw, mut pooled) = (0, 0, 0);
        for (id, entry) in self.entries.placed(0..self.entries.numbers()) {
            assert!(entry.refs() > 0, "{id} has no reference");
            assert!(!entry.is(Flag::Writing), "{id} is being written");
            holders[usize::from(entry.dict())] += 1;
            owners[entry.owner().index()].entries += 1;
            let in_pool = matches!(entry.place(), Place::Pool(_));
            assert_eq!(entry.is(Flag::Listed), in_pool, "{id} on its list");
            match entry.place() {
                Place::Free => unreachable!("a placed entry is not free"),
                Place::Same(_) => same += 1,
                Place::Disk(location, _) => {
                    let room = record_room(entry.len());
                    let owner = &mut owners[entry.owner().index()];
                    owner.disk += room as u64;
                    owner.written += 1;
                    records.push((location, room));
                }
                Place::Pool(_) => {
                    let owner = &mut owners[entry.owner().index()];
                    owner.compressed += entry.len() as u64;
                    owner.stored += 1;
                    poor[entry.owner().index()] += u64::from(entry.is(Flag::Poor));
                    raw += u64::from(entry.len() == PAGE_SIZE);
                    pooled += 1;
                }
            }
        }
        self.check_owners(&owners, &poor, &mut holders);
        for id in self.poor.iter(&self.entries) {
            let entry = self.entries.get(id);
            assert!(entry.is(Flag::Poor), "{id} compresses");
            poor[entry.owner().index()] -= 1;
        }
        assert!(
            poor.iter().all(|&left| left == 0),
            "poor pages on their list"
        );
        self.dicts.check(&holders);
        assert_eq!(self.pool.objects(), pooled, "objects in the pool");
        let stats = &self.stats;
        assert_eq!(stats.same_filled_pages, same, "same-filled pages");
        assert_eq!(stats.stored_incompressible_pages, raw, "raw pages");
        assert_eq!(stats.swapped_pages, records.len() as u64, "pages on disk");
        let compressed: u64 = owners.iter().map(|owner| owner.compressed).sum();
        assert_eq!(stats.compressed_bytes, compressed, "compressed bytes");
        self.check_staying();
        self.extents.check(records.into_iter());
    }

    fn check_staying(&self) {
        let staying = self.owners.iter().filter(|owner| owner.stays);
        let sum = |sum: (u64, u64), own: &Owner| (sum.0 + own.compressed, sum.1 + own.stored);
        let stays = staying.fold((0, 0), sum);
        assert_eq!((self.stays.zswap, self.stays.pooled), stays, "what stays");
    }

    fn check_owners(&self, counted: &[Owner], poor: &[u64], holders: &mut [u64; 256]) {
        for (number, (owner, counted)) in self.owners.iter().zip(counted).enumerate() {
            assert_eq!(
                owner.compressed, counted.compressed,
                "bytes of owner {number}"
            );
            assert_eq!(owner.stored, counted.stored, "entries of owner {number}");
            assert_eq!(owner.entries, counted.entries, "all of owner {number}");
            assert_eq!(
                (owner.disk, owner.written),
                (counted.disk, counted.written),
                "what owner {number} has on disk"
            );
            let expected = counted.stored - poor[number];
            assert_eq!(owner.list.len(), expected, "list of owner {number}");
            let mut listed = 0;
            for id in owner.list.iter(&self.entries) {
                let entry = self.entries.get(id);
                assert_eq!(entry.owner().index(), number, "{id} is on another's list");
                listed += 1;
            }
            assert_eq!(listed, expected, "list of owner {number}");
            holders[usize::from(owner.dict)] += 1;
        }
    }

    fn pool_place(&self, id: EntryId) -> Option<(crate::pool::Handle, usize)> {
        let entry = self.entries.find(id)?;
        match entry.place() {
            Place::Pool(handle) => Some((handle, entry.len())),
            _ => None,
        }
    }
}
