//! The shrinker, the pool worker and the swap file, when all goes well.

use std::sync::{Arc, Mutex, OnceLock};

use neap_policy::Visit;
use neap_units::{EntryId, PAGE_SIZE, SpaceId};

use super::fixture::*;
use crate::swapfile::{EXTENT, Fault, FaultyFile};
use crate::{BlockFile, CompressorKind, Config, MemFile, ShrinkerKind, Source, Store};

const SWAP: u64 = 64 << 20;

/// A pool that takes 4,000 pages, a swap file, and this shrinker.
pub(super) fn with_shrinker(shrinker: ShrinkerKind) -> Fixture {
    let config = Config {
        shrinker,
        ..swap_config(4000, SWAP)
    };
    Fixture::with(config, Box::new(MemFile::new()))
}

#[test]
fn everything_can_go_to_the_swap_file_and_comes_back() {
    for compressor in [
        CompressorKind::Lz4,
        CompressorKind::Zstd(1),
        CompressorKind::Deflate(1),
    ] {
        let config = Config {
            compressor,
            ..swap_config(4000, SWAP)
        };
        let mut f = Fixture::with(config, Box::new(MemFile::new()));
        let ids = f.fill(0..2000);
        let raw = f.put_in(&noise(7)).expect("kept raw");
        assert_eq!(f.drain(), 2001);
        f.store.check();
        let stats = f.store.stats();
        assert_eq!(
            (stats.zswpwb, stats.pswpout, stats.written_back_pages),
            (2001, 2001, 2001)
        );
        assert_eq!(
            (stats.swapped_pages, stats.stored_pages, stats.pool_bytes),
            (2001, 0, 0)
        );
        assert!(ids.iter().all(|&id| f.store.is_on_disk(id)));
        f.verify(&ids, 0);
        assert_eq!(f.take_out(raw), (noise(7), Source::SwapFile));
        let stats = f.store.stats();
        assert_eq!(
            (stats.pswpin, stats.disk_swapins, stats.zswpin),
            (2001, 2001, 0)
        );
        f.store.put_many(&ids);
        f.store.put(raw);
        f.store.check();
        assert_eq!(f.store.stats().swap_used_bytes, 0);
    }
}

#[test]
fn all_is_written_in_one_call_whatever_has_a_second_chance() {
    for shrinker in [ShrinkerKind::SecondChance, ShrinkerKind::Off] {
        let mut f = with_shrinker(shrinker);
        let all = f.account();
        let ids = f.fill(0..1000);
        let raw = f.put_in(&noise(7)).expect("kept raw");
        let none = f.store.write_all(&all, &mut f.codec, || false);
        assert_eq!(
            none.written_back, 1,
            "what does not compress goes in any case"
        );
        assert_eq!(
            f.store.write_all(&all, &mut f.codec, || true).written_back,
            1000
        );
        f.store.check();
        assert_eq!(f.store.stats().pool_bytes, 0);
        assert!(ids.iter().all(|&id| f.store.is_on_disk(id)));
        assert_eq!(
            f.store.write_all(&all, &mut f.codec, || true).written_back,
            0
        );
        f.verify(&ids, 0);
        f.store.put(raw);
    }
    let mut f = Fixture::pool(4000);
    let all = f.account();
    f.fill(0..1000);
    let written = f.store.write_all(&all, &mut f.codec, || true).written_back;
    assert_eq!(written, 0, "there is no swap file");
}

#[test]
fn a_fresh_entry_is_written_only_after_two_visits() {
    let mut f = Fixture::swap(4000, SWAP);
    f.fill(0..1000);
    // The first round over the list spends all second chances, 128 in a call: a scan that frees
    // nothing ends the call.
    for call in 0..1000 / 128 {
        assert_eq!(
            f.store.shrink(0, &mut f.codec).written_back,
            0,
            "call {call}"
        );
    }
    assert!(f.store.shrink(0, &mut f.codec).written_back > 0);
    let mut f = with_shrinker(ShrinkerKind::Protection);
    f.fill(0..1000);
    assert!(
        f.store.shrink(0, &mut f.codec).written_back > 0,
        "no second chance"
    );
}

/// What is read back from the disk holds back as many entries, unless that is not counted.
#[test]
fn disk_swapins_hold_the_shrinker_back_where_they_count() {
    let written_after_reads = |kind| {
        let mut f = with_shrinker(kind);
        let ids = f.fill(0..1000);
        f.store.write_all(&f.account(), &mut f.codec, || true);
        f.fill(1000..2000);
        f.verify(&ids, 0); // from the disk
        assert!(f.store.stats().disk_swapins > 0);
        (0..10)
            .map(|_| f.store.shrink(0, &mut f.codec).written_back)
            .sum::<u64>()
    };
    let counted = written_after_reads(ShrinkerKind::SecondChance);
    let not = written_after_reads(ShrinkerKind::Referenced);
    assert!(counted < not, "{counted} and {not}");
}

#[test]
fn the_oldest_entries_go_first() {
    let mut f = Fixture::swap(4000, SWAP);
    let ids = f.fill(0..1000);
    while f.store.shrink_owner(OWNER, &mut f.codec).1.written_back == 0 {}
    let on_disk = |ids: &[EntryId]| ids.iter().filter(|&&id| f.store.is_on_disk(id)).count();
    let written = on_disk(&ids);
    assert!(written > 0 && written <= 32);
    assert_eq!(on_disk(&ids[..written]), written);
}

/// Behind the only entry of a list is its end (SPEC 1.10), so one turn does not visit it twice.
#[test]
fn the_only_entry_of_an_owner_is_spared_by_one_turn_and_written_by_the_next() {
    let mut f = Fixture::swap(4000, SWAP);
    f.fill(0..1);
    let (visit, shrunk) = f.store.shrink_owner(OWNER, &mut f.codec);
    assert_eq!((visit, shrunk.scanned), (Visit::Aged, 1));
    let (visit, shrunk) = f.store.shrink_owner(OWNER, &mut f.codec);
    assert_eq!((visit, shrunk.written_back), (Visit::Written, 1));
    let (visit, _) = f.store.shrink_owner(OWNER, &mut f.codec);
    assert_eq!(visit, Visit::NotCandidate);
}

#[test]
fn an_entry_that_was_loaded_and_kept_goes_last() {
    let mut f = with_shrinker(ShrinkerKind::Protection);
    let ids = f.fill(0..100);
    f.verify(&ids[..32], 0);
    assert_eq!(f.store.shrink_owner(OWNER, &mut f.codec).1.written_back, 32);
    assert!(ids[..32].iter().all(|&id| !f.store.is_on_disk(id)));
    assert!(ids[32..64].iter().all(|&id| f.store.is_on_disk(id)));
}

#[test]
fn gentle_pressure_on_a_small_pool_scans_nothing() {
    let mut f = Fixture::swap(4000, SWAP);
    f.fill(0..1000);
    for priority in (8..=12).rev() {
        assert_eq!(
            f.store.shrink(priority, &mut f.codec).scanned,
            0,
            "priority {priority}"
        );
    }
}

#[test]
fn pages_read_back_from_disk_hold_back_as_many_entries() {
    let mut f = Fixture::swap(4000, SWAP);
    let id = f.fill(0..1)[0];
    assert_eq!(f.drain(), 1);
    f.fill(1..501);
    for _ in 0..500 / 128 {
        assert_eq!(f.store.shrink(0, &mut f.codec).written_back, 0);
    }
    for _ in 0..2000 {
        assert_eq!(f.take_out(id).1, Source::SwapFile);
    }
    for round in 0..4 {
        assert_eq!(
            f.store.shrink(0, &mut f.codec).written_back,
            0,
            "round {round}"
        );
    }
    assert!(
        f.store.shrink(0, &mut f.codec).written_back > 0,
        "all spent"
    );
}

#[test]
fn without_a_shrinker_nothing_is_scanned() {
    let mut f = with_shrinker(ShrinkerKind::Off);
    f.fill(0..1000);
    assert_eq!(f.store.shrink(0, &mut f.codec), crate::Shrunk::default());
}

#[test]
fn the_worker_brings_a_full_pool_down_to_its_threshold() {
    let mut f = Fixture::swap(500, SWAP);
    let mut ids = Vec::new();
    for owner in (0..40).map(SpaceId) {
        for _ in 0..50 {
            match f.store.store(owner, &page(ids.len() as u64), &mut f.codec) {
                Ok(id) => ids.push(id),
                Err(_) => {
                    while f.store.shrink_worker(&mut f.codec).written_back > 0 {
                        if f.store.pool_bytes().0 <= 450 * PAGE_SIZE as u64 {
                            break;
                        }
                    }
                }
            }
        }
    }
    while f.store.pool_bytes().0 > 450 * PAGE_SIZE as u64 {
        f.store.shrink_worker(&mut f.codec);
    }
    f.store.check();
    f.verify(&ids, 0);
    assert!(f.store.stats().written_back_pages > 0);
}

#[test]
fn a_run_of_the_worker_ends_soon_where_the_disk_takes_nothing_of_what_does_not_compress() {
    let file = FaultyFile::new(|_, _| Some(Fault::Io));
    let mut f = Fixture::with(swap_config(500, SWAP), Box::new(file));
    // A hundred owners that have nothing, and one of which all is in the list of what does not compress.
    for owner in 0..100 {
        let id = f
            .store
            .store(SpaceId(owner), &page(owner.into()), &mut f.codec);
        f.store.put(id.expect("there is room"));
    }
    while f.store.store(SpaceId(100), &noise(7), &mut f.codec).is_ok() {}
    let before = f.store.stats().swap_write_fail;
    assert_eq!(f.store.shrink_worker(&mut f.codec).written_back, 0);
    let tries = f.store.stats().swap_write_fail - before;
    assert!((1..=20).contains(&tries), "{tries}");
    f.store.check();
}

#[test]
fn a_cluster_is_loaded_from_wherever_its_pages_are() {
    let mut f = Fixture::swap(4000, SWAP);
    let mut ids = f.fill(0..64);
    f.drain();
    ids.extend(f.fill(64..96));
    ids.push(f.put_in(&[9; PAGE_SIZE]).expect("same"));
    for start in [0, 30, 60, 64] {
        let some = &ids[start..(start + 33).min(ids.len())];
        let mut out = vec![0; some.len() * PAGE_SIZE];
        let results = f.store.load_cluster(some, &mut out, &mut f.codec);
        for (i, (result, bytes)) in results.iter().zip(out.chunks(PAGE_SIZE)).enumerate() {
            let n = start + i;
            let (expected, source) = match n {
                0..64 => (page(n as u64), Source::SwapFile),
                64..96 => (page(n as u64), Source::Pool),
                _ => ([9; PAGE_SIZE], Source::SameFilled),
            };
            assert_eq!(*result.as_ref().expect("loads"), source);
            assert!(bytes == expected, "page {n}");
        }
    }
    f.store.check();
}

#[test]
fn the_file_grows_with_need_and_dead_extents_are_used_again() {
    let mut f = Fixture::swap(4000, SWAP);
    for round in 0..20 {
        let ids = f.fill(round * 500..round * 500 + 500);
        f.drain();
        f.verify(&ids, round * 500);
        f.store.put_many(&ids);
        f.store.check();
        // One extent stays open.
        assert!(f.store.stats().swap_file_bytes <= EXTENT as u64);
    }
    assert!(f.store.stats().pswpout == 10_000);
}

#[test]
fn a_full_swap_file_leaves_pages_in_the_pool() {
    let mut f = Fixture::swap(4000, 4 * EXTENT as u64);
    let ids = f.fill(0..2000);
    f.drain();
    f.store.check();
    let stats = f.store.stats();
    assert!(stats.swapped_pages > 0 && stats.stored_pages > 0);
    assert!(!f.store.can_write_back());
    f.verify(&ids, 0);
    f.store.put_many(&ids);
    f.store.check();
    assert!(f.store.can_write_back());
}

#[test]
fn sparse_extents_are_emptied_when_the_file_is_full() {
    let mut f = Fixture::swap(8000, 16 * EXTENT as u64);
    let ids = f.fill(0..6000);
    f.drain();
    assert!(!f.store.can_write_back());
    // Three of four records die, in every extent.
    let (dead, live): (Vec<_>, Vec<_>) = ids.iter().enumerate().partition(|(i, _)| i % 4 != 0);
    for (_, id) in dead {
        f.store.put(*id);
    }
    let before = f.store.stats();
    f.drain();
    f.store.check();
    let after = f.store.stats();
    assert!(after.swap_moved_pages > 0, "{after:?}");
    assert!(
        after.swapped_pages > before.swapped_pages,
        "the pool found room"
    );
    for (i, &id) in live {
        assert!(f.take_out(id).0 == page(i as u64));
    }
}

/// A file on the heap that runs something before each write.
struct Hooked {
    inner: MemFile,
    hook: Arc<Hook>,
}

#[derive(Default)]
struct Hook {
    store: OnceLock<Arc<Store>>,
    /// Entries to look at during the next write: put (true) or only load.
    work: Mutex<Vec<(EntryId, u64, bool)>>,
}

impl BlockFile for Hooked {
    fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> std::io::Result<()> {
        self.inner.read_many(requests)
    }

    fn write_many(&self, requests: &[(u64, &[u8])]) -> std::io::Result<()> {
        if let Some(store) = self.hook.store.get() {
            let mut codec = store.codec();
            for (id, number, put) in self.hook.work.lock().expect("hook").drain(..) {
                let mut out = [0; PAGE_SIZE];
                let source = store
                    .load(id, &mut out, &mut codec)
                    .expect("still loadable");
                assert_eq!(source, Source::Pool, "the write has not succeeded yet");
                assert!(out == page(number));
                assert!(store.matches(id, &page(number), &mut codec));
                if put {
                    store.put(id);
                }
            }
        }
        self.inner.write_many(requests)
    }

    fn punch(&self, range: std::ops::Range<u64>) -> std::io::Result<()> {
        self.inner.punch(range)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.inner.set_len(len)
    }
}

#[test]
fn an_entry_being_written_can_be_loaded_and_put() {
    let hook = Arc::new(Hook::default());
    let file = Hooked {
        inner: MemFile::new(),
        hook: Arc::clone(&hook),
    };
    let config = Config {
        shrinker: ShrinkerKind::Protection,
        ..swap_config(1000, SWAP)
    };
    let mut f = Fixture::with(config, Box::new(file));
    let ids = f.fill(0..32);
    let store = Arc::new(f.store);
    assert!(hook.store.set(Arc::clone(&store)).is_ok(), "set once");
    let work = ids
        .iter()
        .enumerate()
        .map(|(i, &id)| (id, i as u64, i % 2 == 0));
    hook.work.lock().expect("hook").extend(work);
    let (_, shrunk) = store.shrink_owner(OWNER, &mut f.codec);
    assert_eq!(shrunk.written_back, 32);
    store.check();
    assert_eq!(store.entries(), 16, "those put during the write are gone");
    for (i, &id) in ids.iter().enumerate().skip(1).step_by(2) {
        let mut out = [0; PAGE_SIZE];
        assert_eq!(
            store.load(id, &mut out, &mut f.codec).expect("loads"),
            Source::SwapFile
        );
        assert!(out == page(i as u64));
    }
}

#[test]
fn pages_of_a_dictionary_go_to_disk_and_back_and_hold_it() {
    let config = Config {
        compressor: CompressorKind::Zstd(1),
        ..swap_config(4000, SWAP)
    };
    let mut f = Fixture::with(config, Box::new(MemFile::new()));
    let samples: Vec<u8> = (0..256).flat_map(alike).collect();
    let before = f.put_in(&alike(5000)).expect("room");
    let first = f.store.train(&samples).expect("worth it");
    assert!(first.gain.1 < first.gain.0);
    let [without, with] = f.store.compare(&first, &alike(5001), &mut f.codec);
    assert!(with < without);
    f.store.compress_with(OWNER, Some(&first));
    f.store.check();
    f.store.withdraw(first);
    let ids: Vec<_> = (1000..1200)
        .map(|n| f.put_in(&alike(n)).expect("room"))
        .collect();
    let stats = f.store.stats();
    assert_eq!((stats.dictionaries, stats.dictionary_stores), (1, 200));
    assert!(stats.dictionary_bytes > 0 && stats.metadata_bytes > stats.dictionary_bytes);
    f.drain();
    let second = f.store.train(&samples).expect("again");
    f.store.compress_with(OWNER, Some(&second));
    f.store.withdraw(second);
    assert_eq!(f.store.stats().dictionaries, 2, "entries hold the first");
    f.store.forget_owner(OWNER);
    assert_eq!(f.store.stats().dictionaries, 1, "nobody holds the second");
    for (n, &id) in (1000..).zip(&ids) {
        assert!(f.take_out(id).0 == alike(n));
    }
    assert!(f.take_out(before).0 == alike(5000));
    f.store.check();
    f.store.put_many(&ids);
    assert_eq!(f.store.stats().dictionaries, 0);
    f.store.check();
}
