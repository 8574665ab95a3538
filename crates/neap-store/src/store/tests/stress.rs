//! Threads storing, loading, putting and shrinking at once, every page verified.

use neap_units::{EntryId, PAGE_SIZE, SpaceId};

use super::fixture::*;
use crate::{CompressorKind, Config, MemFile, Store};

const WORKERS: u64 = 4;
const ROUNDS: u64 = 4000;

/// One thread's pages: store, load, share and drop at random; returns what is left.
fn work(store: &Store, worker: u64) -> Vec<(EntryId, u64)> {
    let mut codec = store.codec();
    let mut held: Vec<(EntryId, u64)> = Vec::new();
    let mut state = worker.wrapping_mul(77) + 1;
    let mut draw = |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let owner = SpaceId((worker % 2) as u16);
    for round in 0..ROUNDS {
        let number = worker * ROUNDS + round;
        match draw(8) {
            0..=3 => match store.store(owner, &page(number), &mut codec) {
                Ok(id) => held.push((id, number)),
                Err(_) => drop(store.shrink_owner(owner, &mut codec)),
            },
            4 if !held.is_empty() => {
                let (id, _) = held.swap_remove(draw(held.len() as u64) as usize);
                store.get(id);
                store.put(id);
                store.put(id);
            }
            5 => {
                let some: Vec<_> = held.iter().rev().take(8).copied().collect();
                let ids: Vec<EntryId> = some.iter().map(|(id, _)| *id).collect();
                let mut out = vec![0; ids.len() * PAGE_SIZE];
                let results = store.load_cluster(&ids, &mut out, &mut codec);
                for (((_, n), result), bytes) in some.iter().zip(results).zip(out.chunks(PAGE_SIZE))
                {
                    result.expect("loads");
                    assert!(*bytes == page(*n));
                }
            }
            _ if !held.is_empty() => {
                let (id, n) = held[draw(held.len() as u64) as usize];
                let mut out = [0; PAGE_SIZE];
                store.load(id, &mut out, &mut codec).expect("loads");
                assert!(out == page(n), "{id} came back changed");
                if !store.matches(id, &page(n), &mut codec) {
                    assert!(
                        store.is_on_disk(id),
                        "an entry in the pool matches its page"
                    );
                }
            }
            _ => (),
        }
    }
    held
}

/// Shrinks and sweeps until told to stop.
fn press(store: &Store, stop: &std::sync::atomic::AtomicBool) {
    let mut codec = store.codec();
    let mut n = 0u8;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        store.shrink(n % 3, &mut codec);
        if n.is_multiple_of(16) {
            store.shrink_worker(&mut codec);
        }
        n = n.wrapping_add(1);
        std::thread::yield_now();
    }
}

fn stress(config: Config) {
    let store = Fixture::with(config, Box::new(MemFile::new())).store;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let left: Vec<(EntryId, u64)> = std::thread::scope(|scope| {
        let (store, stop) = (&store, &stop);
        for _ in 0..2 {
            scope.spawn(move || press(store, stop));
        }
        let workers: Vec<_> = (0..WORKERS)
            .map(|w| scope.spawn(move || work(store, w)))
            .collect();
        let left = workers
            .into_iter()
            .map(|worker| worker.join())
            .collect::<Vec<_>>();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        left.into_iter()
            .flat_map(|held| held.expect("no worker panicked"))
            .collect()
    });
    store.check();
    assert!(store.stats().written_back_pages > 0 && store.stats().pswpin > 0);
    let mut codec = store.codec();
    for (id, n) in left {
        let mut out = [0; PAGE_SIZE];
        store.load(id, &mut out, &mut codec).expect("loads");
        assert!(out == page(n), "{id} came back changed");
        store.put(id);
    }
    store.check();
    assert_eq!(
        (
            store.entries(),
            store.pool_bytes().0,
            store.stats().swap_used_bytes
        ),
        (0, 0, 0)
    );
}

#[test]
fn threads_share_a_store_with_a_roomy_swap_file() {
    stress(swap_config(1000, 256 << 20));
}

#[test]
fn threads_share_a_store_whose_swap_file_is_too_small() {
    stress(Config {
        compressor: CompressorKind::Zstd(1),
        ..swap_config(600, 4 << 20)
    });
}
