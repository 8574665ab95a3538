//! What postings that were not merged as they were do differently: folios of which a part is stored (SPEC 9.8), and the
//! sixth posting's way through a store.

use neap_units::Pages;

use super::tests::{Ledger, folio, switches, zswap_of};
use super::*;

#[test]
fn a_prefix_stays_where_prefixes_are_kept_and_the_rest_may_be_written() {
    let rules = Switches {
        large_store: LargeStore::Prefix,
        ..switches()
    };
    for (at, writeback, kept) in [(0, true, 0), (9, true, 9), (9, false, 0)] {
        let (mut zswap, mut ledger) = (zswap_of(&rules, 1 << 20), Ledger::default());
        // An old entry behind the page that fails would overwrite what is written now.
        let old = zswap.store(&folio(28, 1), true, &mut ledger, |_| Compressed::Bytes(10));
        assert!(old.is_ok());
        let out = Outgoing {
            writeback,
            ..folio(16, 16)
        };
        let refused = zswap.store(&out, true, &mut ledger, |page| match page == at {
            true => Compressed::NoPool,
            false => Compressed::Bytes(100),
        });
        assert_eq!(refused.unwrap_err().kept, kept, "{at} {writeback}");
        for page in 0..16 {
            assert_eq!(zswap.contains(SwapSlot(16 + page)), page < kept);
        }
        assert_eq!(ledger.sum(), (u64::from(kept) * 100, u64::from(kept)));
        assert_eq!(zswap.orders()[4].zswpout, 0, "not whole");
        zswap.check();
    }
}

#[test]
fn the_prefix_of_a_folio_fills_the_pool_to_its_limit() {
    let kept = |large_store| {
        let rules = Switches {
            large_store,
            ..switches()
        };
        let (mut zswap, mut ledger) = (zswap_of(&rules, 100), Ledger::default());
        let raw = |_| Compressed::Bytes(4000);
        let stored = zswap.store(&folio(512, 512), true, &mut ledger, raw);
        (
            stored.map_or_else(|refused| refused.kept, |_| 512),
            zswap.pool_pages(),
        )
    };
    assert_eq!(kept(LargeStore::V6KnobOn), (0, Pages(0)));
    assert_eq!(kept(LargeStore::Merged).0, 512, "over the limit");
    assert_eq!(
        kept(LargeStore::Prefix),
        (20, Pages(20)),
        "a fifth of 100 pages"
    );
}

/// The sixth posting sends single pages another way through a store: it looks at the pool's limit once more before the
/// page. Its author posted that nothing gets slower by it; so no outcome may differ, at the limit neither.
#[test]
fn the_sixth_posting_stores_single_pages_as_kernels_before_it() {
    let stores = |large_store| {
        let rules = Switches {
            large_store,
            ..Switches::of_kernel((6, 11), false)
        };
        let (mut zswap, mut ledger) = (zswap_of(&rules, 200), Ledger::default());
        let mut outcomes = Vec::new();
        for n in 0..600u32 {
            let slot = n * 37 % 211 + 1;
            if n % 5 == 4 {
                zswap.invalidate(SwapSlot(slot), 1, &mut ledger);
                continue;
            }
            let bytes = (n * 389 % 4200) as u16;
            let stored = zswap.store(&folio(slot, 1), n % 11 > 0, &mut ledger, |_| {
                Compressed::Bytes(bytes)
            });
            outcomes.push((stored, zswap.pool_pages(), zswap.stats(), ledger.sum()));
        }
        zswap.check();
        outcomes
    };
    let before = stores(LargeStore::Reject);
    let full = |outcome: &&(Result<Stored, Refused>, _, _, _)| {
        matches!(
            outcome.0,
            Err(Refused {
                why: Refusal::PoolFull,
                ..
            })
        )
    };
    assert!(before.iter().filter(full).count() > 20, "the limit is met");
    for knob in [LargeStore::V6KnobOff, LargeStore::V6KnobOn] {
        assert!(stores(knob) == before, "{knob}");
    }
}
