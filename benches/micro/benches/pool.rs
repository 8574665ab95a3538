//! The store: a page into the pool, out of it, and whether a kept copy is still true.
#![forbid(unsafe_code)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use neap_micro::{PAGES, pages, store};
use neap_store::CompressorKind;
use neap_suite::work::Content;
use neap_units::SpaceId;

const OWNER: SpaceId = SpaceId(0);

/// The pool is full all the time: each page that comes takes the place of the oldest.
fn replace(c: &mut Criterion) {
    let mut group = c.benchmark_group("pool");
    group.throughput(Throughput::Bytes(4096));
    let pages = pages(Content::Records, PAGES);
    let store = store(CompressorKind::Lz4);
    let mut codec = store.codec();
    let mut kept: Vec<_> = pages
        .iter()
        .filter_map(|page| store.store(OWNER, page, &mut codec).ok())
        .collect();
    assert_eq!(kept.len(), PAGES, "the pool takes them all");
    let mut turn = (0..PAGES).cycle();
    group.bench_function("store and put/lz4", |b| {
        b.iter(|| {
            let at = turn.next().unwrap_or(0);
            store.put(kept[at]);
            kept[at] = store.store(OWNER, &pages[at], &mut codec).expect("room");
        });
    });
    let mut page = Box::new([0; 4096]);
    group.bench_function("load/lz4", |b| {
        b.iter(|| {
            turn.next()
                .map(|at| store.load(kept[at], &mut page, &mut codec))
        });
    });
    group.bench_function("matches/lz4", |b| {
        b.iter(|| {
            turn.next()
                .map(|at| store.matches(kept[at], &pages[at], &mut codec))
        });
    });
}

criterion_group!(benches, replace);
criterion_main!(benches);
