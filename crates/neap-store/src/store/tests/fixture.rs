//! A store over arrays, and pages to put into it.

use std::sync::Arc;

use neap_units::{Bytes, EntryId, PAGE_SIZE, Pages, SpaceId};

use crate::{
    Account, Arena, BlockFile, Codec, CompressorKind, Config, HashKey, MemFile, NoFile, Page,
    Refused, Source, Store, VecArena,
};

pub(super) const OWNER: SpaceId = SpaceId(0);

/// A store with one codec.
pub(super) struct Fixture {
    pub store: Store,
    pub codec: Codec,
}

impl Fixture {
    /// A pool that takes `pages` pages, and no swap file.
    pub fn pool(pages: u64) -> Self {
        let config = Config {
            pool_max: Pages(pages),
            ..Config::default()
        };
        Self::with(config, Box::new(NoFile))
    }

    /// A pool that takes `pages` pages, and a swap file of `swap` bytes on the heap.
    pub fn swap(pages: u64, swap: u64) -> Self {
        Self::with(swap_config(pages, swap), Box::new(MemFile::new()))
    }

    pub fn with(config: Config, file: Box<dyn BlockFile>) -> Self {
        let arena = VecArena::new((config.pool_max.0 as usize * 2).max(16) * PAGE_SIZE);
        Self::on(config, Box::new(arena), file)
    }

    pub fn on(config: Config, arena: Box<dyn Arena>, file: Box<dyn BlockFile>) -> Self {
        let store = Store::new(config, arena, file, hash_key());
        let codec = store.codec();
        Self { store, codec }
    }

    /// An account for [`OWNER`].
    pub fn account(&self) -> Arc<Account> {
        let account = Arc::default();
        self.store.open_owner(OWNER, &account);
        account
    }

    pub fn put_in(&mut self, page: &Page) -> Result<EntryId, Refused> {
        self.store.store(OWNER, page, &mut self.codec)
    }

    /// Stores pages number `range` (see [`page`]).
    pub fn fill(&mut self, range: std::ops::Range<u64>) -> Vec<EntryId> {
        range
            .map(|n| self.put_in(&page(n)).expect("room"))
            .collect()
    }

    /// Loads an entry and says where it was.
    pub fn take_out(&mut self, id: EntryId) -> (Page, Source) {
        let mut out = [0; PAGE_SIZE];
        let source = self
            .store
            .load(id, &mut out, &mut self.codec)
            .expect("loads");
        (out, source)
    }

    /// Writes back until nothing more can be; returns how many entries were.
    pub fn drain(&mut self) -> u64 {
        let mut written = 0;
        // As many fruitless turns as it takes to spend the second chances of the whole list.
        let mut idle = 0;
        while idle <= self.store.entries() / 32 + 2 {
            let some = self.store.shrink(0, &mut self.codec).written_back
                + self
                    .store
                    .shrink_owner(OWNER, &mut self.codec)
                    .1
                    .written_back;
            written += some;
            idle = if some == 0 { idle + 1 } else { 0 };
        }
        written
    }

    /// Checks that entry `i` of `ids` still is page `first + i`.
    pub fn verify(&mut self, ids: &[EntryId], first: u64) {
        for (i, &id) in ids.iter().enumerate() {
            let (out, _) = self.take_out(id);
            assert!(out == page(first + i as u64), "{id} came back changed");
        }
    }
}

/// A key that looks random: one that does not makes hashes that are equal.
fn hash_key() -> HashKey {
    let mut random = [0; HashKey::BYTES];
    for (n, bytes) in (1..).zip(random.chunks_mut(PAGE_SIZE)) {
        bytes.copy_from_slice(&noise(n)[..bytes.len()]);
    }
    HashKey::new(&random)
}

pub(super) fn swap_config(pages: u64, swap: u64) -> Config {
    Config {
        pool_max: Pages(pages),
        swap_size: Bytes(swap),
        compressor: CompressorKind::Lz4,
        ..Config::default()
    }
}

/// Page number `n`: all different, and they compress to between a tenth and two thirds.
pub(super) fn page(n: u64) -> Page {
    let mut page = [0; PAGE_SIZE];
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = 5 + n % 40;
    for word in page.chunks_exact_mut(8) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(n | 1);
        let draw = state >> 33;
        let value = if draw % 100 < noise {
            state ^ state >> 17
        } else {
            draw % 3
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    page[..8].copy_from_slice(&n.to_le_bytes());
    page
}

/// A page that no compressor makes smaller.
pub(super) fn noise(n: u64) -> Page {
    let mut page = [0; PAGE_SIZE];
    let mut state = n | 1;
    for word in page.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    page
}

/// Page number `n` of many made of the same few strings: there is something to learn.
pub(super) fn alike(n: u64) -> Page {
    let mut page = [0; PAGE_SIZE];
    for (i, part) in page.chunks_mut(64).enumerate() {
        part.copy_from_slice(&noise((n * 7 + i as u64 * 11) % 97)[..64]);
    }
    page
}
