//! Copies whose pages are known again by their hash.

use neap_units::{EntryId, PAGE_SIZE, Pages};

use super::fixture::*;
use crate::{CompressorKind, Config, NoFile};

const SWAP: u64 = 64 << 20;

/// Whether an entry is known to hold a page, and no page that differs from it in one bit.
fn is_known(f: &mut Fixture, id: EntryId, page: &crate::Page) -> bool {
    for bit in [0, 7, 12_345, PAGE_SIZE * 8 - 1] {
        let mut other = *page;
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!f.store.matches(id, &other, &mut f.codec), "bit {bit}");
    }
    f.store.matches(id, page, &mut f.codec)
}

#[test]
fn a_page_in_the_swap_file_is_known_once_it_was_read() {
    let mut f = Fixture::swap(4000, SWAP);
    let ids = f.fill(0..100);
    let poor = f.put_in(&noise(1)).expect("room");
    f.drain();
    for (n, &id) in (0..).zip(&ids) {
        assert!(!is_known(&mut f, id, &page(n)), "it was not read yet");
    }
    let mut out = vec![0; 50 * PAGE_SIZE];
    let loaded = f.store.load_cluster(&ids[..50], &mut out, &mut f.codec);
    assert!(loaded.iter().all(Result::is_ok));
    f.take_out(poor);
    let reads = f.store.stats().pswpin;
    for (n, &id) in (0..).zip(&ids) {
        assert_eq!(is_known(&mut f, id, &page(n)), n < 50, "page {n}");
    }
    assert!(is_known(&mut f, poor, &noise(1)));
    assert_eq!(f.store.stats().pswpin, reads, "nothing is read to know it");
    f.verify(&ids, 0);
    f.store.check();
}

#[test]
fn a_page_stays_known_on_its_way_to_the_disk_and_within_the_file() {
    let mut f = Fixture::swap(8000, 16 << 18);
    let ids = f.fill(0..6000);
    for (n, &id) in (0..).zip(&ids) {
        assert!(is_known(&mut f, id, &page(n)));
    }
    f.drain();
    let (dead, live): (Vec<_>, Vec<_>) = (0..).zip(ids).partition(|(n, _)| n % 4 != 0);
    dead.iter().for_each(|&(_, id)| f.store.put(id));
    f.drain();
    assert!(f.store.stats().swap_moved_pages > 0);
    for (n, id) in live {
        assert!(is_known(&mut f, id, &page(n)), "page {n}");
    }
    f.store.check();
}

#[test]
fn nothing_is_known_of_what_had_an_entry_before() {
    let mut f = Fixture::swap(4000, SWAP);
    let old = f.fill(0..700);
    for (n, &id) in (0..).zip(&old) {
        assert!(is_known(&mut f, id, &page(n)));
    }
    f.store.put_many(&old);
    let new = f.fill(1000..1700);
    for (n, &id) in (0..).zip(&new) {
        assert!(!f.store.matches(id, &page(n), &mut f.codec));
        assert!(is_known(&mut f, id, &page(1000 + n)));
    }
    let word = f.put_in(&[3; PAGE_SIZE]).expect("room");
    assert!(is_known(&mut f, word, &[3; PAGE_SIZE]));
}

#[test]
fn copies_stay_in_the_swap_file_while_half_of_it_is_free() {
    let mut f = Fixture::swap(4000, 8 << 18);
    let ids: Vec<EntryId> = (1..=400)
        .map(|n| f.put_in(&noise(n)).expect("room"))
        .collect();
    assert!(f.store.keeps_swapped());
    f.drain();
    assert!(!f.store.keeps_swapped());
    f.take_out(ids[0]);
    assert!(!is_known(&mut f, ids[0], &noise(1)));
    f.store.put_many(&ids[200..]);
    assert!(f.store.keeps_swapped());
    f.take_out(ids[0]);
    assert!(is_known(&mut f, ids[0], &noise(1)));
}

#[test]
fn hashes_take_16_bytes_for_each_page_that_is_known() {
    const PAGES: u64 = 4096;
    let config = Config {
        compressor: CompressorKind::Lz4,
        pool_max: Pages(PAGES),
        ..Config::default()
    };
    let mut f = Fixture::with(config, Box::new(NoFile));
    let ids = f.fill(0..PAGES);
    let before = f.store.stats().metadata_bytes;
    for (n, &id) in (0..).zip(&ids) {
        assert!(is_known(&mut f, id, &page(n)));
    }
    let more = f.store.stats().metadata_bytes - before;
    assert!((16 * PAGES..17 * PAGES).contains(&more), "{more} bytes");
}
