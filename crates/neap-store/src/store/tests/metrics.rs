//! Every number moves: one that never does is not counted anywhere.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use neap_units::{PAGE_SIZE, Pages};

use super::fixture::*;
use crate::swapfile::{Direction, EXTENT, Fault, FaultyFile};
use crate::{CompressorKind, Config, StoreStats, VecArena};

/// Names of the numbers that are not zero, over all stores shown.
#[derive(Default)]
struct Moved(HashSet<&'static str>);

impl Moved {
    fn see(&mut self, stats: &StoreStats) {
        self.0.extend(
            stats
                .iter()
                .filter(|(_, value)| *value > 0)
                .map(|(metric, _)| metric.name),
        );
    }
}

/// Writing, reading and sweeping, first on a sound disk and then on others.
fn disk_numbers(moved: &mut Moved) {
    let fault = Arc::new(AtomicU8::new(0));
    let state = Arc::clone(&fault);
    let file =
        FaultyFile::new(
            move |_, direction| match (state.load(Ordering::Relaxed), direction) {
                (1, Direction::Write) => Some(Fault::NoSpace),
                (2, Direction::Read) => Some(Fault::Io),
                (3, Direction::Read) => Some(Fault::Corrupt),
                _ => None,
            },
        );
    let mut f = Fixture::with(swap_config(8000, 8 * EXTENT as u64), Box::new(file));
    let ids = f.fill(0..3000);
    let raw = f.put_in(&noise(1)).expect("kept raw");
    moved.see(&f.store.stats());
    f.store.put(raw);
    fault.store(1, Ordering::Relaxed);
    f.drain();
    fault.store(0, Ordering::Relaxed);
    f.drain();
    ids.iter()
        .enumerate()
        .filter(|(i, _)| i % 4 != 0)
        .for_each(|(_, &id)| f.store.put(id));
    f.drain();
    f.verify(&ids[..1], 0);
    let on_disk = ids
        .iter()
        .step_by(4)
        .copied()
        .find(|&id| f.store.is_on_disk(id))
        .expect("some");
    for bad in [2, 3] {
        fault.store(bad, Ordering::Relaxed);
        let mut out = [0; PAGE_SIZE];
        assert!(f.store.load(on_disk, &mut out, &mut f.codec).is_err());
    }
    moved.see(&f.store.stats());
}

/// Refusals and what only happens in memory.
fn memory_numbers(moved: &mut Moved) {
    let mut f = Fixture::pool(200);
    f.put_in(&[1; PAGE_SIZE]).expect("same");
    assert!(f.put_in(&noise(1)).is_err());
    let mut ids = Vec::new();
    while let Ok(id) = f.put_in(&page(ids.len() as u64)) {
        ids.push(id);
    }
    f.verify(&ids, 0);
    ids.iter().step_by(2).for_each(|&id| f.store.put(id));
    moved.see(&f.store.stats());
    let config = Config {
        pool_max: Pages(10),
        compressor: CompressorKind::Zstd(1),
        ..Config::default()
    };
    let mut f = Fixture::on(
        config,
        Box::new(VecArena::new(8 * PAGE_SIZE)),
        Box::new(crate::NoFile),
    );
    let samples: Vec<u8> = (0..256).flat_map(alike).collect();
    let trained = f.store.train(&samples).expect("worth it");
    f.store.compress_with(OWNER, Some(&trained));
    while f.put_in(&page(1)).is_ok() {}
    moved.see(&f.store.stats());
}

#[test]
fn every_number_of_the_store_moves() {
    let mut moved = Moved::default();
    memory_numbers(&mut moved);
    disk_numbers(&mut moved);
    let still: Vec<&str> = StoreStats::METRICS
        .iter()
        .map(|metric| metric.name)
        .filter(|name| !moved.0.contains(name))
        .collect();
    // These need a broken compressor, memory that changed by itself, 2^30 entries, or a race.
    let unreachable = [
        "reject_kmemcache_fail",
        "reject_compress_fail",
        "decompress_fail",
        "swap_full",
    ];
    assert_eq!(
        still,
        Vec::from_iter(
            still
                .iter()
                .copied()
                .filter(|name| unreachable.contains(name))
        )
    );
}
