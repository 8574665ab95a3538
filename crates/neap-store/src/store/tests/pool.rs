use neap_policy::{Core, Heat, Step};
use neap_units::{EntryId, PAGE_SIZE, PageNr, Pages, SlotId};

use super::fixture::*;
use crate::{CompressorKind, Config, NoFile, Refused, Source, StoreStats};

#[test]
fn a_stored_page_comes_back_and_goes_when_put() {
    for compressor in [
        CompressorKind::Lz4,
        CompressorKind::Zstd(1),
        CompressorKind::Deflate(1),
    ] {
        let config = Config {
            compressor,
            pool_max: Pages(1000),
            ..Config::default()
        };
        let mut f = Fixture::with(config, Box::new(NoFile));
        let ids = f.fill(0..300);
        f.store.check();
        f.verify(&ids, 0);
        let stats = f.store.stats();
        assert_eq!(
            (stats.zswpout, stats.zswpin, stats.stored_pages),
            (300, 300, 300)
        );
        assert!(
            stats.compressed_bytes < 300 * PAGE_SIZE as u64 * 2 / 3,
            "{compressor}"
        );
        assert!(stats.pool_bytes >= stats.compressed_bytes);
        f.store.put_many(&ids);
        f.store.check();
        let stats = f.store.stats();
        assert_eq!(
            (stats.stored_pages, stats.compressed_bytes, stats.pool_bytes),
            (0, 0, 0)
        );
    }
}

#[test]
fn a_same_filled_page_takes_no_pool_memory_and_is_taken_by_a_full_pool() {
    let mut f = Fixture::pool(1);
    let first = f.put_in(&page(1)).expect("room");
    assert_eq!(f.put_in(&page(2)), Err(Refused::PoolFull));
    let id = f.put_in(&[0xab; PAGE_SIZE]).expect("no room needed");
    assert_eq!(f.take_out(id), ([0xab; PAGE_SIZE], Source::SameFilled));
    assert_eq!(f.store.stats().same_filled_pages, 1);
    assert!(f.store.matches(id, &[0xab; PAGE_SIZE], &mut f.codec));
    assert!(!f.store.matches(id, &[0xac; PAGE_SIZE], &mut f.codec));
    f.store.check();
    f.store.put_many(&[first, id]);
    f.store.check();
}

#[test]
fn a_page_that_does_not_compress_is_refused_without_a_swap_file_and_kept_raw_with_one() {
    let mut f = Fixture::pool(100);
    assert_eq!(f.put_in(&noise(1)), Err(Refused::CompressPoor));
    assert_eq!(f.store.stats().reject_compress_poor, 1);
    let mut f = Fixture::swap(100, 1 << 24);
    let id = f.put_in(&noise(1)).expect("kept raw");
    assert_eq!(f.take_out(id), (noise(1), Source::Whole));
    assert_eq!(f.store.stats().stored_incompressible_pages, 1);
    f.store.check();
}

#[test]
fn a_full_pool_refuses_until_it_is_down_to_its_threshold() {
    let mut f = Fixture::pool(100);
    let mut ids = Vec::new();
    let refused = loop {
        match f.put_in(&page(ids.len() as u64)) {
            Ok(id) => ids.push(id),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Refused::PoolFull);
    while f.store.pool_bytes().0 > 90 * PAGE_SIZE as u64 {
        assert_eq!(f.put_in(&page(9999)), Err(Refused::PoolFull));
        f.store.put(ids.pop().expect("held"));
    }
    let id = f.put_in(&page(9999)).expect("the pool opened again");
    assert!(f.store.stats().pool_limit_hit >= 1);
    f.store.put(id);
    f.store.check();
}

#[test]
fn what_the_pool_takes_of_memory_is_what_it_uses_and_what_is_backed_ahead() {
    let mut f = Fixture::pool(100);
    assert_eq!(f.store.pool_memory().0, 0);
    let id = f.put_in(&page(1)).expect("room");
    let (used, takes) = (f.store.pool_bytes(), f.store.pool_memory());
    assert!(takes > used, "{takes} for {used}: nothing was backed ahead");
    let holding = f.store.holding();
    assert_eq!((holding.bytes, holding.backed), (used.0, takes.0));
    f.store.put(id);
    // What is backed stays for the next page.
    assert_eq!((f.store.pool_bytes().0, f.store.pool_memory()), (0, takes));
    f.store.check();
}

#[test]
fn a_shared_entry_lives_until_the_last_reference_goes() {
    let mut f = Fixture::pool(100);
    let id = f.put_in(&page(0)).expect("room");
    f.store.get(id);
    f.store.get(id);
    f.store.put(id);
    f.store.put(id);
    f.verify(&[id], 0);
    f.store.put(id);
    assert_eq!(f.store.entries(), 0);
    f.store.check();
}

#[test]
fn a_kept_copy_matches_only_the_page_it_is_of() {
    let mut f = Fixture::swap(100, 1 << 24);
    for original in [page(3), noise(3)] {
        let id = f.put_in(&original).expect("room");
        assert!(f.store.matches(id, &original, &mut f.codec));
        for at in [0, 1000, PAGE_SIZE - 1] {
            let mut other = original;
            other[at] ^= 1;
            assert!(!f.store.matches(id, &other, &mut f.codec));
        }
    }
}

#[test]
fn raw_pages_ignore_limits_but_not_the_arena() {
    let mut f = Fixture::pool(8);
    let mut ids: Vec<EntryId> = Vec::new();
    while let Ok(id) = f.store.store_raw(OWNER, &page(ids.len() as u64)) {
        ids.push(id);
    }
    assert_eq!(ids.len(), 16, "the arena is twice the pool");
    f.verify(&ids, 0);
    assert_eq!(f.store.stats().reject_alloc_fail, 1);
    let same = f
        .store
        .store_raw(OWNER, &[7; PAGE_SIZE])
        .expect("no room needed");
    ids.push(same);
    f.store.put_many(&ids);
    f.store.check();
    assert_eq!(f.store.pool_bytes().0, 0);
}

/// What the page table of a space spends on each page, if `pages` neighbours are all in the store.
fn table_bytes(pages: usize) -> f64 {
    let mut core = Core::new();
    let space = core.add_space();
    for page in 0..pages as u32 {
        let id = core.ensure(space, PageNr(0x7_f000_0000 + u64::from(page)));
        let steps = [
            Step::Adopt(Heat::Warm),
            Step::Isolate,
            Step::Stage(SlotId(page)),
            Step::BeginStore,
            Step::CommitStore(EntryId(page)),
        ];
        for step in steps {
            core.apply(id, step).expect("a page's way out");
        }
    }
    core.metadata_bytes().0 as f64 / pages as f64
}

#[test]
fn metadata_is_at_most_40_bytes_for_each_compressed_page() {
    const PAGES: u64 = 100_000;
    let table = table_bytes(PAGES as usize);
    for (name, compressor) in [
        ("lz4", CompressorKind::Lz4),
        ("zstd", CompressorKind::Zstd(1)),
    ] {
        let config = Config {
            compressor,
            pool_max: Pages(PAGES),
            ..Config::default()
        };
        let mut f = Fixture::with(config, Box::new(NoFile));
        f.fill(0..PAGES);
        let stats = f.store.stats();
        let store = stats.metadata_bytes as f64 / PAGES as f64;
        // The entry's number before each object in the pool is metadata too, though it is pool memory.
        let each = table + store + 4.0;
        eprintln!(
            "{name}: {each:.2} bytes of metadata for each page: {table:.2} in the page table, {store:.2} \
             in the store's, 4 in the pool"
        );
        assert!(each <= 40.0, "{name}: {each}");
    }
}

#[test]
fn numbers_start_at_zero() {
    let f = Fixture::pool(10);
    let stats = f.store.stats();
    let moved = StoreStats {
        metadata_bytes: 0,
        ..stats
    };
    assert!(moved.iter().all(|(_, value)| value == 0));
}
