//! The store against a map: whatever is done in whatever order, over a disk that fails at times.

use std::collections::HashMap;

use neap_units::{EntryId, PAGE_SIZE, SpaceId};
use proptest::prelude::*;

use super::fixture::*;
use crate::swapfile::{Direction, Fault, FaultyFile};
use crate::{CompressorKind, Config, Page, ShrinkerKind};

#[derive(Clone, Debug)]
enum Op {
    Store { owner: u16, kind: u8, n: u64 },
    Raw { n: u64 },
    Get(u16),
    Put(u16),
    Load(u16),
    Cluster(Vec<u16>),
    Matches(u16),
    Shrink(u8),
    Worker,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u16..3, 0u8..12, 0u64..500).prop_map(|(owner, kind, n)| Op::Store { owner, kind, n }),
        1 => (0u64..500).prop_map(|n| Op::Raw { n }),
        1 => any::<u16>().prop_map(Op::Get),
        4 => any::<u16>().prop_map(Op::Put),
        4 => any::<u16>().prop_map(Op::Load),
        1 => prop::collection::vec(any::<u16>(), 1..12).prop_map(Op::Cluster),
        1 => any::<u16>().prop_map(Op::Matches),
        2 => (0u8..4).prop_map(Op::Shrink),
        1 => Just(Op::Worker),
    ]
}

/// What must be in the store: page and references of each entry.
#[derive(Default)]
struct Model(HashMap<EntryId, (Page, u32)>);

impl Model {
    fn add(&mut self, id: EntryId, page: Page) {
        assert!(self.0.insert(id, (page, 1)).is_none(), "{id} is in use");
    }

    fn nth(&self, n: u16) -> Option<EntryId> {
        let mut ids: Vec<EntryId> = self.0.keys().copied().collect();
        ids.sort_unstable();
        (!ids.is_empty()).then(|| ids[usize::from(n) % ids.len()])
    }

    fn put(&mut self, id: EntryId) {
        let entry = self.0.get_mut(&id).expect("held");
        entry.1 -= 1;
        if entry.1 == 0 {
            self.0.remove(&id);
        }
    }
}

fn some_page(kind: u8, n: u64) -> Page {
    match kind {
        0 => [n as u8; PAGE_SIZE],
        1 => noise(n + 1),
        _ => page(n),
    }
}

fn apply(f: &mut Fixture, model: &mut Model, op: Op) {
    let Fixture { store, codec } = f;
    match op {
        Op::Store { owner, kind, n } => {
            let page = some_page(kind, n);
            if let Ok(id) = store.store(SpaceId(owner), &page, codec) {
                model.add(id, page);
            }
        }
        Op::Raw { n } => {
            if let Ok(id) = store.store_raw(OWNER, &page(n)) {
                model.add(id, page(n));
            }
        }
        Op::Get(n) => {
            if let Some(id) = model.nth(n) {
                store.get(id);
                model.0.get_mut(&id).expect("held").1 += 1;
            }
        }
        Op::Put(n) => {
            if let Some(id) = model.nth(n) {
                store.put(id);
                model.put(id);
            }
        }
        Op::Load(n) => load(f, model, n),
        Op::Cluster(picks) => {
            let ids: Vec<EntryId> = picks.iter().filter_map(|&n| model.nth(n)).collect();
            let mut out = vec![0; ids.len() * PAGE_SIZE];
            let results = store.load_cluster(&ids, &mut out, codec);
            for ((id, result), bytes) in ids.iter().zip(results).zip(out.chunks(PAGE_SIZE)) {
                assert!(result.is_err() || *bytes == model.0[id].0);
            }
        }
        Op::Matches(n) => {
            if let Some(id) = model.nth(n) {
                let mut page = model.0[&id].0;
                let equal = store.matches(id, &page, codec);
                assert!(equal || store.is_on_disk(id));
                page[usize::from(n) % PAGE_SIZE] ^= 4;
                assert!(!store.matches(id, &page, codec));
            }
        }
        Op::Shrink(priority) => drop(store.shrink(priority, codec)),
        Op::Worker => drop(store.shrink_worker(codec)),
    }
}

fn load(f: &mut Fixture, model: &Model, n: u16) {
    let Some(id) = model.nth(n) else { return };
    let mut out = [0; PAGE_SIZE];
    let before = f.store.stats();
    match f.store.load(id, &mut out, &mut f.codec) {
        Ok(_) => assert!(out == model.0[&id].0, "{id} came back changed"),
        Err(_) => {
            let after = f.store.stats();
            let noticed = after.swap_corrupt + after.swap_read_fail;
            assert_eq!(noticed, before.swap_corrupt + before.swap_read_fail + 1);
        }
    }
}

/// A disk that, of every hundred calls, fails the given number in some way.
fn disk(seed: u64, percent: u64) -> FaultyFile {
    FaultyFile::new(move |n, direction| {
        let draw = (n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if draw % 100 >= percent {
            return None;
        }
        Some(match (draw / 100 % 4, direction) {
            (0, Direction::Write) => Fault::NoSpace,
            (1, Direction::Write) => Fault::LostWrite,
            (2, _) => Fault::Corrupt,
            _ => Fault::Io,
        })
    })
}

fn run(ops: Vec<Op>, config: Config, file: FaultyFile) {
    let mut f = Fixture::with(config, Box::new(file));
    let mut model = Model::default();
    for op in ops {
        apply(&mut f, &mut model, op);
        f.store.check();
        assert_eq!(f.store.entries(), model.0.len() as u64);
    }
    let stats = f.store.stats();
    assert!(
        stats.zswpout >= stats.zswpwb + stats.stored_pages,
        "{stats:?}"
    );
    for (id, (_, refs)) in model.0.drain() {
        (0..refs).for_each(|_| f.store.put(id));
    }
    f.store.check();
    assert_eq!((f.store.entries(), f.store.pool_bytes().0), (0, 0));
    assert_eq!(f.store.stats().swap_used_bytes, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map_of_pages(ops in prop::collection::vec(op(), 1..250), pool in 20u64..200, extents in 0u64..12, zstd in any::<bool>(), old in any::<bool>()) {
        let mut config = swap_config(pool, extents << 18);
        if zstd {
            config.compressor = CompressorKind::Zstd(1);
        }
        if old {
            config.shrinker = ShrinkerKind::Protection;
        }
        run(ops, config, disk(0, 0));
    }

    #[test]
    fn the_store_is_a_map_of_pages_over_a_failing_disk(ops in prop::collection::vec(op(), 1..250), pool in 20u64..200, extents in 1u64..12, seed in any::<u64>(), percent in 1u64..40) {
        run(ops, swap_config(pool, extents << 18), disk(seed, percent));
    }
}
