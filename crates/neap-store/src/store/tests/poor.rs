//! Pages that do not compress: written first, whole blocks at whole blocks.

use std::sync::{Arc, Mutex};

use neap_units::{EntryId, PAGE_SIZE, SpaceId};

use super::fixture::*;
use crate::swapfile::EXTENT;
use crate::{BlockFile, MemFile, Refused, ShrinkerKind, Source};

const SWAP: u64 = 64 << 20;

/// A file on the heap that notes every transfer.
#[derive(Clone, Default)]
struct Noted(Arc<(MemFile, Mutex<Transfers>)>);

/// Offsets and lengths.
type Transfers = Vec<(u64, usize)>;

impl Noted {
    fn note(&self, offset: u64, len: usize) {
        self.0.1.lock().expect("notes").push((offset, len));
    }

    fn take(&self) -> Transfers {
        std::mem::take(&mut *self.0.1.lock().expect("notes"))
    }
}

impl BlockFile for Noted {
    fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> std::io::Result<()> {
        for (offset, buffer) in requests.iter() {
            self.note(*offset, buffer.len());
        }
        self.0.0.read_many(requests)
    }

    fn write_many(&self, requests: &[(u64, &[u8])]) -> std::io::Result<()> {
        for (offset, bytes) in requests {
            self.note(*offset, bytes.len());
        }
        self.0.0.write_many(requests)
    }

    fn punch(&self, range: std::ops::Range<u64>) -> std::io::Result<()> {
        self.0.0.punch(range)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.0.set_len(len)
    }
}

fn fill_poor(f: &mut Fixture, owner: u16, numbers: std::ops::Range<u64>) -> Vec<EntryId> {
    let mut store_one = |n| f.store.store(SpaceId(owner), &noise(n), &mut f.codec);
    numbers.map(|n| store_one(n).expect("room")).collect()
}

#[test]
fn they_leave_the_pool_first_and_in_whole_extents_and_come_back_in_one_block() {
    let file = Noted::default();
    let mut f = Fixture::with(swap_config(4000, SWAP), Box::new(file.clone()));
    let others = f.fill(0..100);
    let mut poor = fill_poor(&mut f, 0, 1..65);
    poor.extend(fill_poor(&mut f, 1, 65..129));
    poor.extend(fill_poor(&mut f, 1, 129..140));
    assert_eq!(f.store.poor_pages(), 139);
    assert_eq!(f.store.shrink_poor(64, &mut f.codec).written_back, 128);
    assert_eq!(f.store.shrink_poor(1, &mut f.codec).written_back, 11);
    assert_eq!(f.store.poor_pages(), 0);
    assert!(others.iter().all(|&id| !f.store.is_on_disk(id)));
    let lengths: Vec<usize> = file.take().iter().map(|&(_, len)| len).collect();
    assert_eq!(lengths, [EXTENT, EXTENT, 11 * PAGE_SIZE]);
    for (n, &id) in (1..).zip(&poor) {
        assert_eq!(f.take_out(id), (noise(n), Source::SwapFile));
        let [(_, len)] = file.take()[..] else {
            panic!("page {n} took more than one read");
        };
        assert_eq!(len, PAGE_SIZE);
    }
    f.store.check();
}

#[test]
fn so_does_what_would_take_a_page_of_the_pool_although_it_compresses() {
    let hardly = |zeros: usize| {
        let mut page = noise(5);
        page[..zeros].fill(0);
        page
    };
    let mut f = Fixture::swap(4000, SWAP);
    let mut owned = Fixture::pool(4000);
    for zeros in [100, 300, 500, 700, 900, 1500] {
        let before = owned.store.pool_bytes();
        let kept = owned.put_in(&hardly(zeros)).expect("room");
        assert_eq!(owned.take_out(kept).0, hardly(zeros));
        assert!(owned.store.stats().compressed_bytes < 4096, "it compresses");
        let takes_page = owned.store.pool_bytes().0 - before.0 == PAGE_SIZE as u64;
        owned.store.put(kept);
        let poor = f.store.poor_pages();
        let id = f.put_in(&hardly(zeros)).expect("room");
        assert_eq!(f.store.poor_pages() > poor, takes_page, "{zeros} zeros");
        assert_eq!(f.take_out(id).0, hardly(zeros));
    }
    assert!((1..6).contains(&f.store.poor_pages()));
    f.drain();
    f.store.check();
}

#[test]
fn few_wait_until_they_are_enough_or_room_is_wanted() {
    for kind in [
        ShrinkerKind::SecondChance,
        ShrinkerKind::Protection,
        ShrinkerKind::Off,
    ] {
        let mut f = super::swap::with_shrinker(kind);
        let ids = fill_poor(&mut f, 0, 1..10);
        assert_eq!(f.store.shrink_poor(10, &mut f.codec).written_back, 0);
        assert_eq!(f.store.shrink(12, &mut f.codec).written_back, 9);
        assert!(ids.iter().all(|&id| f.store.is_on_disk(id)));
        f.store.check();
    }
}

#[test]
fn what_moves_within_the_file_still_lies_in_whole_blocks() {
    let file = Noted::default();
    let config = swap_config(8000, 16 * EXTENT as u64);
    let mut f = Fixture::with(config, Box::new(file.clone()));
    let mut ids = Vec::new();
    for n in 0..2000 {
        let (page, poor) = if n % 4 == 0 {
            (noise(n + 1), true)
        } else {
            (page(n), false)
        };
        ids.push((f.put_in(&page).expect("room"), page, poor));
        if n % 97 == 0 {
            f.drain();
        }
    }
    f.drain();
    assert!(!f.store.can_write_back());
    let (dead, live): (Vec<_>, Vec<_>) = (0..).zip(ids).partition(|(n, _)| n % 5 != 0);
    dead.iter().for_each(|(_, (id, ..))| f.store.put(*id));
    f.drain();
    f.store.check();
    assert!(f.store.stats().swap_moved_pages > 0);
    file.take();
    for (n, (id, page, poor)) in live {
        let (found, source) = f.take_out(id);
        assert!(found == page, "page {n}");
        let transfers = file.take();
        if poor && source == Source::SwapFile {
            assert_eq!(transfers.len(), 1);
            assert_eq!(transfers[0].1, PAGE_SIZE, "page {n}");
        }
    }
}

#[test]
fn a_page_for_which_the_file_has_no_room_stays_in_the_pool() {
    let mut f = Fixture::swap(4000, 2 * EXTENT as u64);
    let ids = fill_poor(&mut f, 0, 1..160);
    assert_eq!(f.store.shrink_poor(1, &mut f.codec).written_back, 128);
    assert_eq!(f.store.poor_pages(), 0, "none that could be written");
    f.store.check();
    for (n, &id) in (1..).zip(&ids) {
        assert!(f.take_out(id).0 == noise(n));
    }
    f.store.put_many(&ids[..64]);
    assert_eq!(f.store.poor_pages(), 31);
    assert_eq!(f.store.shrink_poor(1, &mut f.codec).written_back, 31);
    f.store.check();
}

#[test]
fn with_writeback_switched_off_nothing_is_written_and_what_does_not_compress_is_refused() {
    let file = Noted::default();
    let mut f = Fixture::with(swap_config(4000, SWAP), Box::new(file.clone()));
    let on_disk = f.fill(0..500);
    let poor_on_disk = fill_poor(&mut f, 0, 0..20);
    f.drain();
    let in_pool = f.fill(500..1000);
    let poor_in_pool = fill_poor(&mut f, 0, 20..40);
    file.take();
    f.store.set_writeback(false);
    assert!(!f.store.can_write_back() && f.store.poor_pages() == 0);
    assert!(
        f.store.swap_trouble().is_none(),
        "it is as it was asked for"
    );
    assert_eq!(f.put_in(&noise(41)), Err(Refused::CompressPoor));
    let more = f.fill(1000..1500);
    assert_eq!(f.drain(), 0);
    assert_eq!(f.store.shrink_poor(1, &mut f.codec).written_back, 0);
    assert!(file.take().is_empty(), "neither written nor read");
    f.verify(&on_disk, 0);
    f.verify(&in_pool, 500);
    f.verify(&more, 1000);
    f.store.check();
    f.store.set_writeback(true);
    assert!(f.store.can_write_back() && f.store.poor_pages() == 20);
    assert!(f.drain() >= 1020, "what waited goes");
    for (n, id) in (0..).zip(poor_on_disk.iter().chain(&poor_in_pool)) {
        assert_eq!(f.take_out(*id).0, noise(n));
    }
    f.store.check();
}

#[test]
fn a_full_pool_stays_full_with_writeback_switched_off() {
    let mut f = Fixture::swap(64, SWAP);
    f.store.set_writeback(false);
    let mut ids = Vec::new();
    let refused = (0..).find_map(|n| f.put_in(&page(n)).map(|id| ids.push(id)).err());
    assert_eq!(refused, Some(Refused::PoolFull));
    assert!(!f.store.waits_for_disk(), "in vain");
    assert_eq!(f.drain(), 0);
    f.store.set_writeback(true);
    assert!(f.store.waits_for_disk());
    assert!(f.drain() > 0);
    f.put_in(&page(9999)).expect("there is room again");
    f.verify(&ids, 0);
}
