//! Folios: whole or not at all (SPEC 1.5).

use neap_units::{EntryId, PAGE_SIZE, Pages};

use super::fixture::*;
use crate::{Config, MemFile, NoFile, Refused, VecArena};

fn folio(order: u32, first: u64) -> Vec<u8> {
    (first..first + (1 << order)).flat_map(page).collect()
}

#[test]
fn a_folio_of_every_order_is_stored_and_counted_once() {
    let mut f = Fixture::pool(4000);
    let mut all = Vec::new();
    for order in 0..10 {
        let mut ids = vec![EntryId(0); 3];
        f.store
            .store_folio(OWNER, &folio(order, 1000), &mut f.codec, &mut ids)
            .expect("room");
        assert_eq!(ids.len(), 3 + (1 << order), "appended");
        f.verify(&ids[3..], 1000);
        all.extend_from_slice(&ids[3..]);
    }
    let stats = f.store.stats();
    assert_eq!(stats.zswpout_order, [1; 10]);
    assert_eq!(stats.zswpout, 1023);
    assert_eq!(stats.stored_large_pages, 1022);
    f.store.check();
    f.store.put_many(&all);
    assert_eq!(f.store.stats().stored_large_pages, 0);
    f.store.check();
}

#[test]
fn large_folios_are_refused_while_switched_off() {
    let config = Config {
        store_large_folios: false,
        pool_max: Pages(100),
        ..Config::default()
    };
    let mut f = Fixture::with(config, Box::new(NoFile));
    let mut ids = Vec::new();
    let refused = f
        .store
        .store_folio(OWNER, &folio(4, 0), &mut f.codec, &mut ids);
    assert_eq!(refused, Err(Refused::LargeFolio));
    f.store
        .store_folio(OWNER, &folio(0, 0), &mut f.codec, &mut ids)
        .expect("a page");
    f.store.set_store_large_folios(true);
    f.store
        .store_folio(OWNER, &folio(4, 0), &mut f.codec, &mut ids)
        .expect("room");
    assert_eq!(f.store.stats().zswpout_order[4], 1);
}

#[test]
fn a_failure_at_any_page_leaves_nothing_of_the_folio() {
    for order in [1, 4, 9] {
        let count = 1usize << order;
        for at in [0, 1, count / 2, count - 1] {
            let mut f = Fixture::pool(4000);
            let kept = f.fill(0..10);
            let mut pages = folio(order, 100);
            // Without a swap file a page of noise is refused.
            pages[at * PAGE_SIZE..(at + 1) * PAGE_SIZE].copy_from_slice(&noise(1));
            let before = f.store.stats();
            let mut ids = Vec::new();
            let refused = f.store.store_folio(OWNER, &pages, &mut f.codec, &mut ids);
            assert_eq!((refused, ids.len()), (Err(Refused::CompressPoor), 0));
            let after = f.store.stats();
            assert_eq!(after.stored_pages, before.stored_pages);
            assert_eq!(after.compressed_bytes, before.compressed_bytes);
            assert_eq!(after.zswpout, before.zswpout);
            assert_eq!(after.zswpout_order, before.zswpout_order);
            f.store.check();
            f.verify(&kept, 0);
        }
    }
}

#[test]
fn a_folio_that_meets_the_end_of_the_arena_or_the_pool_is_taken_back() {
    for (arena, max, reason) in [(8, 100, Refused::NoSpace), (100, 8, Refused::PoolFull)] {
        let config = Config {
            pool_max: Pages(max),
            ..Config::default()
        };
        let arena = Box::new(VecArena::new(arena * PAGE_SIZE));
        let mut f = Fixture::on(config, arena, Box::new(NoFile));
        let mut ids = Vec::new();
        let refused = f
            .store
            .store_folio(OWNER, &folio(9, 0), &mut f.codec, &mut ids);
        assert_eq!((refused, ids.len()), (Err(reason), 0));
        assert_eq!((f.store.entries(), f.store.pool_bytes().0), (0, 0));
        f.store.check();
    }
}

#[test]
fn pages_written_back_before_the_folio_failed_are_taken_back_too() {
    let config = Config {
        pool_max: Pages(64),
        incompressible: crate::Incompressible::Reject,
        ..swap_config(64, 64 << 20)
    };
    let mut f = Fixture::with(config, Box::new(MemFile::new()));
    let filler = f.fill(0..40);
    let mut pages = folio(4, 100);
    pages[15 * PAGE_SIZE..].copy_from_slice(&noise(1));
    // The owner's limit makes each store write something back.
    f.store
        .set_owner_max(OWNER, neap_policy::ZswapMax::Pages(Pages(1)));
    let mut ids = Vec::new();
    for _ in 0..10 {
        assert!(
            f.store
                .store_folio(OWNER, &pages, &mut f.codec, &mut ids)
                .is_err()
        );
    }
    assert!(f.store.stats().written_back_pages > 0);
    assert_eq!(f.store.entries(), filler.len() as u64);
    f.verify(&filler, 0);
    f.store.check();
}
