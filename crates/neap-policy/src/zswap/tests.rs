//! Stores, loads, shrinkers and the pool as a whole, against the specification's vectors.

use std::collections::HashMap;

use neap_units::{Bytes, Pages, SwapSlot};

use super::*;
use crate::shrinker::{ShrinkCall, Visit, Walk, Writeback};
use crate::switches::{PenaltySpend, ShrinkerLimit, ShrinkerScheme, SwapinCount};

const LIST: LruvecId = LruvecId(0);

/// Bytes and entries charged to each owner.
#[derive(Debug, Default)]
pub(super) struct Ledger(HashMap<u32, (u64, u64)>);

impl Ledger {
    pub(super) fn sum(&self) -> (u64, u64) {
        let add = |a: (u64, u64), b: &(u64, u64)| (a.0 + b.0, a.1 + b.1);
        self.0.values().fold((0, 0), add)
    }
}

impl Accounts for Ledger {
    fn charge(&mut self, owner: LruvecId, bytes: Bytes) {
        let account = self.0.entry(owner.0).or_default();
        *account = (account.0 + bytes.0, account.1 + 1);
    }

    fn uncharge(&mut self, owner: LruvecId, bytes: Bytes) {
        let account = self.0.get_mut(&owner.0).expect("charged before");
        *account = (account.0 - bytes.0, account.1 - 1);
    }
}

pub(super) fn switches() -> Switches {
    Switches::of_kernel((6, 18), false)
}

pub(super) fn zswap_of(switches: &Switches, ram: u64) -> Zswap {
    let mut zswap = Zswap::new(ZswapConfig::new(Pages(ram), 4096), switches);
    zswap.add_list(LruvecId(1));
    zswap
}

pub(super) fn folio(first: u32, pages: u32) -> Outgoing {
    Outgoing {
        first: SwapSlot(first),
        pages,
        owner: LIST,
        writeback: true,
    }
}

/// Stores single pages of 1000 bytes at slots 1 to `n`.
fn filled(switches: &Switches, n: u32) -> (Zswap, Ledger) {
    let (mut zswap, mut ledger) = (zswap_of(switches, 1 << 20), Ledger::default());
    for slot in 1..=n {
        let stored = zswap.store(&folio(slot, 1), true, &mut ledger, |_| {
            Compressed::Bytes(1000)
        });
        assert_eq!(stored, Ok(Stored::default()));
    }
    (zswap, ledger)
}

fn owner(zswap: &Zswap) -> Owner {
    Owner {
        bytes: zswap.bytes(),
        stored: zswap.stored(),
        writeback: true,
        may_io: true,
    }
}

/// Runs a shrinker to its end, all writes at once.
fn shrink(zswap: &mut Zswap, ledger: &mut Ledger, priority: u8) -> (u64, u64) {
    let owner = owner(zswap);
    let Some(mut call) = zswap.shrink_begin(LIST, priority, &owner) else {
        return (0, 0);
    };
    while let Some(ticket) = zswap.shrink_next(&mut call, true) {
        let outcome = match zswap.write_back(&ticket, ledger) {
            Some(_) => Writeback::Written,
            None => Writeback::Gone,
        };
        zswap.shrink_report(&mut call, outcome);
    }
    let shrunk = zswap.shrink_end(call);
    (shrunk.scanned, shrunk.freed)
}

#[test]
fn a_failure_at_any_page_of_512_leaves_no_entry() {
    for at in 0..512 {
        let (mut zswap, mut ledger) = (zswap_of(&switches(), 1 << 20), Ledger::default());
        // Old entries in the way, some of another owner.
        for slot in [512, 700, 1023] {
            let other = Outgoing {
                owner: LruvecId(1),
                ..folio(slot, 1)
            };
            let stored = zswap.store(&other, true, &mut ledger, |_| Compressed::Bytes(10));
            assert!(stored.is_ok());
        }
        let result = zswap.store(&folio(512, 512), true, &mut ledger, |page| {
            if page == at {
                Compressed::NoPool
            } else {
                Compressed::Bytes(1 + page as u16)
            }
        });
        assert_eq!(result.unwrap_err().why, Refusal::Page);
        assert!((0..4096).all(|slot| !zswap.contains(SwapSlot(slot))));
        assert_eq!((ledger.sum(), zswap.pool_pages()), ((0, 0), Pages(0)));
        zswap.check();
    }
}

#[test]
fn a_large_folio_is_stored_whole_and_counted_once() {
    let (mut zswap, mut ledger) = (zswap_of(&switches(), 1 << 20), Ledger::default());
    let mut pages = Vec::new();
    let stored = zswap.store(&folio(64, 16), true, &mut ledger, |page| {
        pages.push(page);
        Compressed::Bytes(500)
    });
    assert_eq!(stored, Ok(Stored::default()));
    assert_eq!(pages, (0..16).collect::<Vec<_>>());
    assert_eq!(ledger.sum(), (8000, 16));
    assert_eq!((zswap.orders()[4].zswpout, zswap.stored()), (1, 16));
    assert_eq!(
        zswap.load(SwapSlot(64), 16, Loading::Exclusive, &mut ledger),
        Err(LoadError::Large)
    );
}

#[test]
fn kernels_that_refuse_large_folios_forget_the_old_entries_under_them() {
    for (rule, survives) in [
        (LargeStore::Reject, true),
        (LargeStore::V6KnobOff, true),
        (LargeStore::V6KnobOn, false),
        (LargeStore::Merged, false),
    ] {
        let switches = Switches {
            large_store: rule,
            ..switches()
        };
        let (mut zswap, mut ledger) = filled(&switches, 20);
        let result = zswap.store(&folio(16, 16), true, &mut ledger, |_| Compressed::NoEntry);
        assert!(result.is_err());
        assert_eq!(zswap.contains(SwapSlot(16)), survives, "{rule}");
        assert_eq!(zswap.considers(16), !survives);
        assert!(zswap.considers(1));
    }
}

#[test]
fn any_refusal_deletes_the_old_entry() {
    let (mut zswap, mut ledger) = filled(&switches(), 3);
    let poor = |_| Compressed::Bytes(4096);
    let refused = zswap.store(&folio(1, 1), false, &mut ledger, poor);
    assert_eq!(refused.unwrap_err().why, Refusal::OwnerLimit);
    zswap.set_enabled(false);
    let refused = zswap.store(&folio(2, 1), true, &mut ledger, poor);
    assert_eq!(refused.unwrap_err().why, Refusal::Disabled);
    let left: Vec<bool> = (1..4).map(|slot| zswap.contains(SwapSlot(slot))).collect();
    assert_eq!(left, [false, false, true]);
}

#[test]
fn a_page_that_does_not_compress_is_kept_raw_only_where_it_may_be_written_back() {
    let store = |rule, writeback, page| {
        let switches = Switches {
            incompressible: rule,
            ..switches()
        };
        let mut zswap = zswap_of(&switches, 1 << 20);
        let out = Outgoing {
            writeback,
            ..folio(1, 1)
        };
        let ok = zswap
            .store(&out, true, &mut Ledger::default(), |_| page)
            .is_ok();
        let stats = zswap.stats();
        (
            ok,
            stats.stored_incompressible_pages,
            stats.reject_compress_poor,
            stats.reject_compress_fail,
        )
    };
    let (poor, failed) = (Compressed::Bytes(5000), Compressed::Failed);
    assert_eq!(store(Incompressible::StoreRaw, true, poor), (true, 1, 0, 0));
    assert_eq!(
        store(Incompressible::StoreRaw, false, poor),
        (false, 0, 1, 0)
    );
    assert_eq!(store(Incompressible::Reject, true, poor), (false, 0, 1, 0));
    assert_eq!(
        store(Incompressible::Reject, true, failed),
        (false, 0, 0, 1)
    );
    assert_eq!(
        store(Incompressible::StoreRaw, true, failed),
        (true, 1, 0, 0)
    );
    assert_eq!(
        store(Incompressible::StoreRaw, true, Compressed::NoClass),
        (false, 0, 1, 0)
    );
}

#[test]
fn same_filled_pages_take_no_room_and_are_on_no_list() {
    let rule = |zero_pages| Switches {
        zero_pages,
        ..switches()
    };
    let store = |switches: &Switches| {
        let (mut zswap, mut ledger) = (zswap_of(switches, 1 << 20), Ledger::default());
        let page = |_| Compressed::SameFilled(40);
        assert!(zswap.store(&folio(1, 1), true, &mut ledger, page).is_ok());
        zswap.check();
        let loaded = zswap
            .load(SwapSlot(1), 1, Loading::Keep, &mut ledger)
            .unwrap()
            .unwrap();
        let same = zswap.stats().same_filled_pages;
        (
            same,
            zswap.list_len(LIST),
            zswap.stored(),
            ledger.sum(),
            loaded.decompressed(),
        )
    };
    assert_eq!(
        store(&rule(ZeroPages::SameFilledInZswap)),
        (1, 0, 1, (0, 1), false)
    );
    assert_eq!(store(&rule(ZeroPages::ZeroMap)), (0, 1, 1, (40, 1), true));
}

#[test]
fn a_load_frees_keeps_or_renews_the_entry() {
    let head = |zswap: &Zswap| zswap.lists[0].ends.head();
    let (mut zswap, mut ledger) = filled(&switches(), 3);
    let mut load = |slot, loading| {
        let loaded = zswap.load(SwapSlot(slot), 1, loading, &mut ledger).unwrap();
        (loaded.map(|l| l.length), zswap.stored(), head(&zswap))
    };
    assert_eq!(load(1, Loading::Keep), (Some(1000), 3, Some(SwapSlot(1))));
    assert_eq!(load(1, Loading::ToTail), (Some(1000), 3, Some(SwapSlot(2))));
    assert_eq!(
        load(2, Loading::Exclusive),
        (Some(1000), 2, Some(SwapSlot(3)))
    );
    assert_eq!(load(2, Loading::Exclusive), (None, 2, Some(SwapSlot(3))));
}

#[test]
fn a_fresh_entry_is_written_only_at_its_second_visit() {
    let (mut zswap, mut ledger) = filled(&switches(), 100);
    let mut walk = Walk::of_limit(LIST, 100);
    assert_eq!(walk.next(&mut zswap), None, "all spared once");
    assert_eq!((walk.visited, walk.rotated), (100, 100));
    assert_eq!(walk.visit(), Visit::Aged);
    let mut walk = Walk::of_limit(LIST, 2);
    for slot in [1, 2] {
        let ticket = walk.next(&mut zswap).expect("a second visit");
        assert_eq!(ticket.slot, SwapSlot(slot), "in order of age");
        assert_eq!(zswap.write_back(&ticket, &mut ledger), Some(1000));
        zswap.report(&mut walk, Writeback::Written);
    }
    assert_eq!(walk.next(&mut zswap), None);
    assert_eq!((walk.visit(), zswap.stored()), (Visit::Written, 98));
    assert_eq!(zswap.stats().written_back_pages, 2);
}

#[test]
fn a_walk_of_a_single_referenced_entry_visits_it_once() {
    let (mut zswap, _) = filled(&switches(), 1);
    let mut walk = Walk::of_limit(LIST, 32);
    assert_eq!((walk.next(&mut zswap), walk.visited), (None, 1));
    let mut walk = Walk::of_limit(LruvecId(1), 32);
    assert_eq!(walk.next(&mut zswap), None);
    assert_eq!(walk.visit(), Visit::NotCandidate);
}

#[test]
fn an_entry_that_was_replaced_meanwhile_is_not_written() {
    let (mut zswap, mut ledger) = filled(&switches(), 1);
    zswap.entries.set_referenced(SwapSlot(1), false);
    let ticket = Walk::of_limit(LIST, 1).next(&mut zswap).expect("a turn");
    let again = zswap.store(&folio(1, 1), true, &mut ledger, |_| Compressed::Bytes(7));
    assert!(again.is_ok());
    assert_eq!(zswap.write_back(&ticket, &mut ledger), None);
    assert!(zswap.contains(SwapSlot(1)), "the new one stays");
    zswap.invalidate(SwapSlot(1), 1, &mut ledger);
    assert_eq!(zswap.write_back(&ticket, &mut ledger), None);
}

#[test]
fn a_conflict_ends_a_scan_but_not_a_walk_driven_by_a_limit() {
    let old = Switches {
        shrinker_scheme: ShrinkerScheme::Old,
        swapin_count: SwapinCount::V69Literal,
        ..switches()
    };
    let v68 = Switches {
        swapin_count: SwapinCount::V68,
        ..old
    };
    for (switches, seen) in [(old, 1), (v68, 128)] {
        let (mut zswap, _) = filled(&switches, 1000);
        zswap.lists[0].state.protected_or_disk_swapins = 0;
        let of = owner(&zswap);
        let mut call = zswap.shrink_begin(LIST, 0, &of).expect("freeable");
        let mut conflicts = 0;
        while zswap.shrink_next(&mut call, true).is_some() {
            conflicts += 1;
            zswap.shrink_report(&mut call, Writeback::Exists);
        }
        assert_eq!((conflicts, call.visited()), (seen, seen));
        assert_eq!(zswap.shrink_end(call).scanned, 0, "a stop counts nothing");
        assert_eq!(zswap.stats().reject_reclaim_fail, seen);
        let protected = zswap.list_state(LIST).protected_or_disk_swapins;
        assert_eq!(protected, if seen > 1 { 128 } else { 0 });
    }
    let (mut zswap, _) = filled(&old, 4);
    let mut walk = Walk::of_limit(LIST, 3);
    while walk.next(&mut zswap).is_some() {
        zswap.report(&mut walk, Writeback::Exists);
    }
    assert_eq!((walk.visited, walk.visit()), (3, Visit::Nothing));
}

#[test]
fn the_shrinker_says_no_where_it_must() {
    let (mut zswap, _) = filled(&switches(), 1000);
    let of = owner(&zswap);
    assert_eq!(zswap.shrinker_count(LIST, &of), 1000 * 244 / 1000);
    let count = |zswap: &mut Zswap, owner| zswap.shrinker_count(LIST, &owner);
    let off = Owner {
        writeback: false,
        ..of
    };
    assert_eq!(count(&mut zswap, off), 0);
    let no_io = Owner {
        may_io: false,
        ..of
    };
    assert_eq!(count(&mut zswap, no_io), 0);
    zswap.config.shrinker_enabled = false;
    assert_eq!(count(&mut zswap, of), 0);
}

#[test]
fn the_second_chance_needs_as_many_scans_as_entries_before_it_writes() {
    let (mut zswap, mut ledger) = filled(&switches(), 3000);
    // 3000 entries of 1000 bytes: 732 are offered, twice that is due at priority 0.
    assert_eq!(shrink(&mut zswap, &mut ledger, 12), (0, 0));
    assert_eq!(
        shrink(&mut zswap, &mut ledger, 0),
        (0, 0),
        "the first batch wrote nothing: stop"
    );
    zswap.lists[0].state.deferred = 0;
    for _ in 0..22 {
        // One batch of 128 a call: all but 56 lose their second chance.
        shrink(&mut zswap, &mut ledger, 0);
        zswap.lists[0].state.deferred = 0;
    }
    let (scanned, written) = shrink(&mut zswap, &mut ledger, 0);
    assert_eq!((scanned, written), (1408, 1408 - 56), "whole batches");
    zswap.check();
}

#[test]
fn the_penalty_is_spent_by_counting_or_by_scanning() {
    for (penalty, left) in [(PenaltySpend::AtCount, 0), (PenaltySpend::AtScan, 300)] {
        let switches = Switches {
            penalty_spend: penalty,
            ..switches()
        };
        let (mut zswap, mut ledger) = filled(&switches, 1000);
        (0..300).for_each(|_| zswap.on_disk_swapin(LIST));
        assert_eq!(shrink(&mut zswap, &mut ledger, 12), (0, 0));
        let state = zswap.list_state(LIST);
        assert_eq!(state.protected_or_disk_swapins, left);
        shrink(&mut zswap, &mut ledger, 0);
        let state = zswap.list_state(LIST);
        assert_eq!(
            state.protected_or_disk_swapins,
            left.saturating_sub(128),
            "one batch"
        );
    }
}

#[test]
fn tokens_bound_the_shrinkers_of_one_list() {
    for (limit, most) in [(ShrinkerLimit::None, 10), (ShrinkerLimit::Tokens, 3)] {
        let switches = Switches {
            shrinker_limit: limit,
            ..switches()
        };
        let (mut zswap, _) = filled(&switches, 400);
        let of = owner(&zswap);
        let calls: Vec<ShrinkCall<LruvecId>> = (0..10)
            .filter_map(|_| zswap.shrink_begin(LIST, 4, &of))
            .collect();
        assert_eq!(calls.len(), most);
        for call in calls {
            zswap.shrink_end(call);
        }
        assert!(zswap.shrink_begin(LIST, 4, &of).is_some());
    }
}

/// At priority 0 a call is given twice what it is offered, so that a second one finds nothing left.
#[test]
fn work_in_flight_is_not_offered_again() {
    let rule = |shrinker_limit| Switches {
        shrinker_limit,
        ..switches()
    };
    let (mut zswap, _) = filled(&rule(ShrinkerLimit::InFlight), 400);
    let of = owner(&zswap);
    let all = zswap.shrinker_count(LIST, &of);
    let first = zswap.shrink_begin(LIST, 2, &of).expect("there is work");
    let left = zswap.shrinker_count(LIST, &of);
    assert_eq!(all - left, (all >> 2) * 2, "as much as the first was given");
    let whole = zswap.shrink_begin(LIST, 0, &of).expect("there is more");
    assert_eq!(zswap.shrinker_count(LIST, &of), 0);
    assert_eq!(zswap.work().shrinkers, 2);
    zswap.shrink_end(whole);
    zswap.shrink_end(first);
    assert_eq!(zswap.shrinker_count(LIST, &of), all);
    assert_eq!(zswap.work().shrinkers, 0);
    assert!(zswap.work().deferred > 0, "nothing was scanned");
    let (mut zswap, _) = filled(&rule(ShrinkerLimit::None), 400);
    let call = zswap.shrink_begin(LIST, 0, &of).expect("there is work");
    assert_eq!(zswap.shrinker_count(LIST, &of), all, "offered all the same");
    zswap.shrink_end(call);
}

#[test]
fn reparenting_moves_the_entries_and_their_bytes() {
    let (mut zswap, _) = filled(&switches(), 10);
    zswap.reparent(LIST, LruvecId(1));
    assert_eq!((zswap.list_len(LIST), zswap.list_len(LruvecId(1))), (0, 10));
    zswap.check();
}

#[test]
fn a_full_pool_refuses_until_the_threshold_or_trades() {
    // 20 % of 500 pages is 100; raw pages fill one each.
    let (mut zswap, mut ledger) = (zswap_of(&switches(), 500), Ledger::default());
    let raw = |_| Compressed::Bytes(4096);
    let mut first_refusal = None;
    for slot in 1..=120 {
        let refused = zswap.store(&folio(slot, 1), true, &mut ledger, raw).err();
        if let Some(refused) = refused {
            assert_eq!(
                refused,
                Refused {
                    why: Refusal::PoolFull,
                    wake_worker: true,
                    kept: 0,
                }
            );
            first_refusal = first_refusal.or(Some(slot));
        }
    }
    assert_eq!((first_refusal, zswap.stored()), (Some(101), 100));
    for slot in 1..=9 {
        zswap.invalidate(SwapSlot(slot), 1, &mut ledger);
        assert!(zswap.store(&folio(200, 1), true, &mut ledger, raw).is_err());
        assert!(!zswap.worker_done());
    }
    zswap.invalidate(SwapSlot(10), 1, &mut ledger);
    assert!(zswap.worker_done());
    assert!(zswap.store(&folio(200, 1), true, &mut ledger, raw).is_ok());
    assert_eq!(zswap.stats().pool_limit_hit, 20);

    let trade = Switches {
        full_pool: FullPool::Trade,
        ..switches()
    };
    let (mut zswap, mut ledger) = (zswap_of(&trade, 500), Ledger::default());
    let owed: u32 = (1..=120)
        .filter_map(|slot| zswap.store(&folio(slot, 1), true, &mut ledger, raw).ok())
        .map(|stored| stored.owed)
        .sum();
    assert_eq!((owed, zswap.stored()), (6, 106), "a sixteenth over at most");
}
