//! Owners count for accounts, which say what may be written to the swap file.

use std::sync::Arc;

use neap_units::{Bytes, EntryId, Limit, SpaceId};

use super::fixture::*;
use crate::{Account, Codec, Refused, Store};

const SWAP: u64 = 64 << 20;
const STAYS: SpaceId = SpaceId(1);
const GOES: SpaceId = SpaceId(2);

/// Two accounts below the one of all: the first is told to write nothing.
struct Two {
    f: Fixture,
    stays: Arc<Account>,
    goes: Arc<Account>,
}

fn two(pages: u64) -> Two {
    let f = Fixture::swap(pages, SWAP);
    let top = Arc::new(Account::default());
    let [stays, goes] = [(); 2].map(|()| Arc::new(Account::below(&top)));
    f.store.open_owner(STAYS, &stays);
    f.store.open_owner(GOES, &goes);
    f.store.set_account_writeback(&stays, false);
    Two { f, stays, goes }
}

impl Two {
    fn fill(&mut self, owner: SpaceId, numbers: std::ops::Range<u64>) -> Vec<EntryId> {
        let mut put = |n| self.f.store.store(owner, &page(n), &mut self.f.codec);
        numbers.map(|n| put(n).expect("room")).collect()
    }

    fn on_disk(&self, ids: &[EntryId]) -> usize {
        let on_disk = |id: &&EntryId| self.f.store.is_on_disk(**id);
        ids.iter().filter(on_disk).count()
    }
}

/// All ways to the swap file, until nothing more goes.
fn write_all(store: &Store, codec: &mut Codec) {
    for _ in 0..32 {
        (0..6).for_each(|owner| _ = store.shrink_owner(SpaceId(owner), codec));
        store.shrink(0, codec);
        store.shrink_worker(codec);
        store.shrink_poor(1, codec);
    }
}

#[test]
fn pages_of_an_account_that_writes_nothing_stay_and_those_of_others_go() {
    let mut t = two(4000);
    let (stays, goes) = (t.fill(STAYS, 0..200), t.fill(GOES, 200..400));
    assert_eq!((t.stays.swap(), t.goes.pooled()), (200, 200));
    write_all(&t.f.store, &mut t.f.codec);
    assert_eq!((t.on_disk(&stays), t.on_disk(&goes)), (0, 200));
    assert_eq!((t.stays.written(), t.goes.written()), (0, 200));
    assert_eq!(t.goes.disk(), t.f.store.stats().swap_used_bytes);
    let places = t.f.store.places_of([STAYS, GOES]);
    assert_eq!(places[0].0.0, t.stays.zswap());
    assert_eq!((places[0].1.0, places[1].1.0), (0, t.goes.disk()));
    assert_eq!(
        (t.goes.zswap(), t.goes.pooled(), t.goes.swap()),
        (0, 0, 200)
    );
    assert!(!t.f.store.can_write_back(), "all that is left stays");
    assert_eq!(t.f.store.swap_trouble(), None);
    assert_eq!(t.f.store.writable_bytes().0, 0);
    t.f.verify(&stays, 0);
    t.f.verify(&goes, 200);
    t.f.store.check();
    t.f.store.set_account_writeback(&t.stays, true);
    assert!(t.f.store.can_write_back());
    write_all(&t.f.store, &mut t.f.codec);
    assert_eq!(t.on_disk(&stays), 200);
    t.f.verify(&stays, 0);
    t.f.store.put_many(&stays);
    assert_eq!(t.stays.swap(), 0);
    t.f.store.check();
}

#[test]
fn what_does_not_compress_is_refused_and_what_was_taken_before_stays() {
    let mut t = two(4000);
    let refused = t.f.store.store(STAYS, &noise(1), &mut t.f.codec);
    assert_eq!(refused, Err(Refused::CompressPoor));
    t.f.store.set_account_writeback(&t.stays, true);
    let before: Vec<_> = (1..100)
        .map(|n| t.f.store.store(STAYS, &noise(n), &mut t.f.codec))
        .map(|id| id.expect("room"))
        .collect();
    let other =
        t.f.store
            .store(GOES, &noise(500), &mut t.f.codec)
            .expect("room");
    t.f.store.set_account_writeback(&t.stays, false);
    assert_eq!(t.f.store.shrink_poor(64, &mut t.f.codec).written_back, 1);
    assert!(t.f.store.is_on_disk(other));
    assert_eq!(t.f.store.poor_pages(), 0, "nobody asks for them again");
    write_all(&t.f.store, &mut t.f.codec);
    assert_eq!(t.on_disk(&before), 0);
    t.f.store.check();
    for (n, &id) in (1..).zip(&before) {
        assert!(t.f.take_out(id).0 == noise(n));
    }
    t.f.store.set_account_writeback(&t.stays, true);
    write_all(&t.f.store, &mut t.f.codec);
    assert_eq!(t.on_disk(&before), 99);
    for (n, &id) in (1..).zip(&before) {
        assert!(t.f.take_out(id).0 == noise(n));
    }
    t.f.store.check();
}

#[test]
fn a_pool_full_of_pages_that_stay_lets_others_pass_to_the_swap_file() {
    let mut t = two(64);
    let mut stays = Vec::new();
    while let Ok(id) =
        t.f.store
            .store(STAYS, &page(stays.len() as u64), &mut t.f.codec)
    {
        stays.push(id);
    }
    assert!(!t.f.store.waits_for_disk(), "there is nothing to wait for");
    let mut goes = Vec::new();
    for n in 1000..2000 {
        match t.f.store.store(GOES, &page(n), &mut t.f.codec) {
            Ok(id) => goes.push(id),
            Err(Refused::PoolFull | Refused::NoSpace) => {
                assert!(t.f.store.waits_for_disk());
                write_all(&t.f.store, &mut t.f.codec);
                assert_eq!(t.on_disk(&goes), goes.len());
                let id = t.f.store.store(GOES, &page(n), &mut t.f.codec);
                goes.push(id.expect("it passes"));
            }
            Err(refused) => panic!("{refused}"),
        }
    }
    let again = t.f.store.store(STAYS, &page(9), &mut t.f.codec);
    assert_eq!(again, Err(Refused::PoolFull), "it has nowhere to go");
    t.f.verify(&stays, 0);
    t.f.verify(&goes, 1000);
    t.f.store.check();
}

#[test]
fn a_switch_above_holds_for_all_below_and_for_those_who_come_later() {
    let mut t = two(4000);
    let inner = Arc::new(Account::below(&t.goes));
    t.f.store.open_owner(SpaceId(3), &inner);
    let early = t.fill(SpaceId(3), 0..10);
    t.f.store.set_account_writeback(&t.goes, false);
    t.f.store.open_owner(SpaceId(4), &inner);
    let late = t.fill(SpaceId(4), 10..20);
    write_all(&t.f.store, &mut t.f.codec);
    assert_eq!(t.on_disk(&early) + t.on_disk(&late), 0);
    t.f.store.set_account_writeback(&t.goes, true);
    write_all(&t.f.store, &mut t.f.codec);
    assert_eq!(t.on_disk(&early) + t.on_disk(&late), 20);
    t.f.store.check();
}

#[test]
fn what_an_owner_left_counts_for_who_has_its_number_next() {
    let mut t = two(4000);
    let left = t.fill(STAYS, 0..10);
    t.f.store.forget_owner(STAYS);
    assert!(t.f.store.owns(STAYS));
    t.f.store.open_owner(STAYS, &t.goes);
    assert_eq!((t.stays.swap(), t.stays.zswap(), t.goes.swap()), (0, 0, 10));
    write_all(&t.f.store, &mut t.f.codec);
    assert_eq!(t.on_disk(&left), 10);
    t.f.store.put_many(&left);
    assert!(!t.f.store.owns(STAYS) && t.goes.swap() == 0);
    t.f.store.check();
}

#[test]
fn no_page_more_is_out_than_swap_max_says() {
    let mut t = two(4000);
    t.goes.set_swap_max(Limit::Bytes(Bytes(20 * 4096)));
    let inner = Arc::new(Account::below(&t.goes));
    t.f.store.open_owner(SpaceId(3), &inner);
    let mut ids = t.fill(GOES, 0..10);
    ids.extend(t.fill(SpaceId(3), 10..20));
    for owner in [GOES, SpaceId(3)] {
        for page in [page(99), [7; 4096], noise(99)] {
            let refused = t.f.store.store(owner, &page, &mut t.f.codec);
            assert_eq!(refused, Err(Refused::SwapMax));
        }
    }
    assert!(!t.f.store.lets_in(&inner) && t.f.store.lets_in(&t.stays));
    write_all(&t.f.store, &mut t.f.codec);
    let refused = t.f.store.store(GOES, &page(99), &mut t.f.codec);
    assert_eq!(refused, Err(Refused::SwapMax), "on disk it counts, too");
    let forced = t.f.store.store_raw(GOES, &page(98));
    ids.push(forced.expect("a fork cannot wait"));
    t.f.verify(&ids[..20], 0);
    t.f.store.put_many(&ids);
    assert_eq!((t.goes.swap(), t.goes.zswap()), (0, 0));
    t.fill(GOES, 0..20);
    t.f.store.check();
}

#[test]
fn what_the_pool_has_beyond_zswap_max_goes_to_the_swap_file_and_only_that() {
    let mut t = two(4000);
    let before = t.fill(GOES, 0..400);
    let others = t.fill(OWNER, 1000..1100);
    let most = t.goes.zswap() / 2;
    t.goes.set_zswap_max(Limit::Bytes(Bytes(most)));
    t.f.store.relieve(&mut t.f.codec);
    let left = t.goes.zswap();
    assert!(left <= most && left > most / 2, "{left} of {most}");
    assert_eq!(t.on_disk(&others), 0);
    t.f.verify(&before, 0);
    // 0: pages pass through the pool.
    t.goes.set_zswap_max(Limit::Bytes(Bytes(0)));
    let (mut ids, mut numbers) = (Vec::new(), Vec::new());
    for n in 2000..4000 {
        match t.f.store.store(GOES, &page(n), &mut t.f.codec) {
            Ok(id) => {
                ids.push(id);
                numbers.push(n);
            }
            Err(refused) => {
                assert_eq!(refused, Refused::ZswapMax);
                assert!(!t.f.store.lets_in(&t.goes));
                t.f.store.relieve(&mut t.f.codec);
                assert_eq!((t.goes.zswap(), t.on_disk(&ids)), (0, ids.len()));
                assert!(t.f.store.lets_in(&t.goes));
            }
        }
    }
    assert!(ids.len() > 1000);
    for (&id, n) in ids.iter().zip(numbers) {
        t.f.verify(&[id], n);
    }
    t.f.store.check();
}

#[test]
fn an_account_that_may_neither_write_nor_keep_is_refused() {
    let mut t = two(4000);
    let before = t.fill(STAYS, 0..100);
    t.stays.set_zswap_max(Limit::Bytes(Bytes(4096)));
    let refused = t.f.store.store(STAYS, &page(100), &mut t.f.codec);
    assert_eq!(refused, Err(Refused::ZswapMax));
    let shrunk = t.f.store.relieve(&mut t.f.codec);
    assert_eq!(
        (shrunk.scanned, t.on_disk(&before)),
        (0, 0),
        "nothing is tried"
    );
    t.f.verify(&before, 0);
    t.f.store.check();
}

#[test]
fn all_of_one_account_is_written_and_nothing_of_others() {
    let mut t = two(4000);
    t.f.store.set_account_writeback(&t.stays, true);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for n in 0..300 {
        let (owner, ids) = match n % 3 {
            0 => (STAYS, &mut others),
            _ => (GOES, &mut own),
        };
        let bytes = if n % 2 == 0 { page(n) } else { noise(n) };
        let id = t.f.store.store(owner, &bytes, &mut t.f.codec);
        ids.push((id.expect("room"), bytes));
    }
    let written = t.f.store.write_all(&t.goes, &mut t.f.codec, || true);
    assert_eq!((written.written_back, t.goes.pooled()), (200, 0));
    let on_disk = |(id, _): &(EntryId, _)| t.f.store.is_on_disk(*id);
    assert!(own.iter().all(on_disk) && !others.iter().any(on_disk));
    assert_eq!(t.f.store.poor_pages(), 50);
    for (id, bytes) in own.iter().chain(&others) {
        assert!(t.f.take_out(*id).0 == *bytes);
    }
    t.f.store.check();
}
