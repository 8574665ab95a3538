use proptest::prelude::*;

use super::*;
use crate::counters::Counter;
use crate::folio::Flags;
use crate::switches::MemcgWalk;

fn machine(lru: Lru) -> (Mm, LruvecId) {
    let switches = Switches {
        lru,
        memcg_walk: MemcgWalk::MemcgLru63,
        ..Switches::default()
    };
    let mut mm = Mm::new(switches, 60, 1, 1);
    mm.free_swap = Pages(1 << 20);
    let memcg = mm.create_memcg(MemcgId::ROOT, "job", |_| 0);
    let lruvec = mm.lruvec_of(memcg, 0);
    (mm, lruvec)
}

fn add(mm: &mut Mm, lruvec: LruvecId, flags: Flags, faulting: bool) -> FolioId {
    let id = mm.folios.alloc(lruvec, 0, flags);
    if faulting {
        mm.note_fault(id);
    }
    mm.add_folio(id, false);
    id
}

/// How many generations a folio is behind the youngest.
fn distance(mm: &Mm, id: FolioId) -> u64 {
    let generation = mm.folios.flags(id).generation().unwrap() as u64;
    let max = mm.max_seq(mm.folios.lruvec(id));
    (max - generation) % 4
}

#[test]
fn new_folios_of_6_3_are_youngest_second_oldest_or_oldest() {
    let (mut mm, lruvec) = machine(Lru::Mglru63);
    let anon = Flags::SWAPBACKED;
    let hot = add(&mut mm, lruvec, anon, true);
    let cold = add(&mut mm, lruvec, anon, false);
    let cached = add(&mut mm, lruvec, anon.with(Flags::SWAPCACHE), false);
    let pending = Flags::RECLAIM.with(Flags::WRITEBACK);
    let pending = add(&mut mm, lruvec, pending, false);
    let file = add(&mut mm, lruvec, Flags::default(), false);
    let found = [hot, cold, cached, pending, file].map(|id| distance(&mm, id));
    assert_eq!(found, [0, 2, 3, 2, 3]);
    mm.check();
}

#[test]
fn new_folios_of_6_14_go_by_distance() {
    let (mut mm, lruvec) = machine(Lru::Mglru614);
    let (anon, ws, active) = (Flags::SWAPBACKED, Flags::WORKINGSET, Flags::ACTIVE);
    let cases = [
        (active, 1),
        (active.with(ws), 0),
        (anon, 1),
        (Flags::RECLAIM.with(Flags::DIRTY), 1),
        (Flags::default(), 3),
        (ws, 2),
    ];
    for (flags, want) in cases {
        let id = add(&mut mm, lruvec, flags, false);
        assert_eq!(distance(&mm, id), want, "{flags:?}");
    }
    let id = add(&mut mm, lruvec, anon.with(active), false);
    mm.rotate_reclaimable(id);
    assert_eq!(distance(&mm, id), 3);
    mm.check();
}

#[test]
fn tiers_count_accesses_through_descriptors() {
    for (accesses, tier) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (9, 3)] {
        for lru in [Lru::Mglru63, Lru::Mglru614] {
            let (mut mm, lruvec) = machine(lru);
            let id = add(&mut mm, lruvec, Flags::default(), false);
            for _ in 0..accesses {
                mm.mark_accessed(id);
            }
            assert_eq!(mm.tier(mm.folios.flags(id)), tier, "{accesses} {lru}");
        }
    }
}

#[test]
fn an_accessed_page_is_promoted_at_the_first_or_at_the_second_look() {
    let (mut mm, lruvec) = machine(Lru::Mglru63);
    let id = add(&mut mm, lruvec, Flags::SWAPBACKED, false);
    assert_eq!(mm.promote(id, lruvec), Promotion::Promoted);
    assert_eq!(distance(&mm, id), 0);
    let (mut mm, lruvec) = machine(Lru::Mglru614);
    let id = add(&mut mm, lruvec, Flags::SWAPBACKED, false);
    assert_eq!(mm.promote(id, lruvec), Promotion::Marked);
    assert_eq!(mm.promote(id, lruvec), Promotion::Promoted);
    assert!(mm.folios.flags(id).has(Flags::WORKINGSET) && distance(&mm, id) == 0);
    assert_eq!(
        mm.promote(id, mm.lruvec_of(MemcgId::ROOT, 0)),
        Promotion::Foreign
    );
    mm.check();
}

#[test]
fn aging_is_asked_for_as_each_kernel_does() {
    let (mut mm, lruvec) = machine(Lru::Mglru63);
    for _ in 0..100 {
        add(&mut mm, lruvec, Flags::SWAPBACKED, true);
    }
    // Four generations, three of them empty: nothing to age for yet.
    assert_eq!(mm.should_age(lruvec, true), (false, 100));
    assert!(mm.advance_min_seq(lruvec, true));
    assert_eq!(mm.should_age(lruvec, true), (true, 0), "out of cold folios");
    mm.open_generation(lruvec, true);
    // Three generations: all pages in the middle one, none old.
    assert_eq!(mm.should_age(lruvec, true), (true, 100));
    mm.open_generation(lruvec, true);
    assert_eq!(
        mm.should_age(lruvec, true),
        (false, 100),
        "four generations"
    );
    let (mut mm, lruvec) = machine(Lru::Mglru614);
    add(&mut mm, lruvec, Flags::SWAPBACKED, true);
    assert_eq!(mm.should_age(lruvec, true), (false, 1));
    mm.advance_min_seq(lruvec, true);
    assert!(mm.should_age(lruvec, true).0);
}

#[test]
fn classic_refaults_are_recent_within_the_size_of_the_other_lists() {
    let (mut mm, lruvec) = machine(Lru::Classic);
    let root = mm.lruvec_of(MemcgId::ROOT, 0);
    for _ in 0..10 {
        add(
            &mut mm,
            lruvec,
            Flags::SWAPBACKED.with(Flags::ACTIVE),
            false,
        );
    }
    let id = mm
        .folios
        .alloc(lruvec, 0, Flags::SWAPBACKED.with(Flags::WORKINGSET));
    let shadow = mm.evict_shadow(id, root);
    let other = mm.folios.alloc(lruvec, 0, Flags::SWAPBACKED);
    for _ in 0..9 {
        mm.evict_shadow(other, root);
    }
    *mm.folios.flags_mut(id) = Flags::SWAPBACKED;
    mm.refault(id, shadow, true);
    let flags = mm.folios.flags(id);
    assert!(
        flags.has(Flags::ACTIVE.with(Flags::WORKINGSET)),
        "10 evictions, 10 active"
    );
    let late = mm.folios.alloc(lruvec, 0, Flags::SWAPBACKED);
    // The refault itself has aged the lists of its owner and the root by one.
    mm.evict_shadow(other, root);
    mm.refault(late, shadow, true);
    assert!(!mm.folios.flags(late).has(Flags::ACTIVE));
    let counters = mm.counters(MemcgId::ROOT);
    assert_eq!(counters[Counter::WorkingsetRefaultAnon], 2);
    assert_eq!(counters[Counter::WorkingsetActivateAnon], 1);
    assert_eq!(counters[Counter::WorkingsetRestoreAnon], 1);
}

/// Counted as refaults, activations and restores of anonymous memory.
fn refaulted(switches: Switches, faulting: bool) -> ([u64; 3], Flags) {
    let mut mm = Mm::new(switches, 60, 1, 1);
    let memcg = mm.create_memcg(MemcgId::ROOT, "job", |_| 0);
    let lruvec = mm.lruvec_of(memcg, 0);
    let id = add(&mut mm, lruvec, Flags::SWAPBACKED, true);
    let shadow = mm.evict_shadow(id, lruvec);
    mm.remove_folio(id);
    mm.refault(id, shadow, faulting);
    let counters = mm.counters(memcg);
    let kinds = [
        Counter::WorkingsetRefaultAnon,
        Counter::WorkingsetActivateAnon,
        Counter::WorkingsetRestoreAnon,
    ];
    (kinds.map(|kind| counters[kind]), mm.folios.flags(id))
}

/// Before 6.14 each recent refault counts as an activation, and each of a fault as a restore; since then each of a fault
/// as an activation, and each with the mark as a restore.
#[test]
fn refaults_of_generations_count_as_each_kernel_has_it() {
    let kernels = [(6, 3), (6, 9), (6, 14)].map(|version| Switches::of_kernel(version, true));
    let counts = |faulting| kernels.map(|switches| refaulted(switches, faulting).0);
    assert_eq!(counts(true), [[1, 1, 1], [1, 1, 1], [1, 1, 0]]);
    assert_eq!(counts(false), [[1, 1, 0], [1, 1, 0], [1, 0, 0]]);
    let spared = kernels.map(|switches| Mm::saturated(refaulted(switches, true).1));
    assert_eq!(spared, [false, true, false], "from 6.7 to 6.13");
}

#[test]
fn a_simulated_page_takes_at_most_32_bytes() {
    // A folio, an entry of a page table, three bits of one, and a slot's shadow is taken
    // instead of the folio, never beside it.
    let (entry, bits) = (4, 1);
    assert!(Folios::record_bytes() + entry + bits <= 32);
    assert_eq!(size_of::<Shadow>(), 8);
}

proptest! {
    /// Whatever is added, promoted, aged, isolated and put back, sizes, lists and the window
    /// of generations agree.
    #[test]
    fn generations_stay_between_two_and_four(
        ops in prop::collection::vec((0u8..8, any::<u16>()), 1..300),
        rework in any::<bool>(),
    ) {
        let lru = if rework { Lru::Mglru614 } else { Lru::Mglru63 };
        let (mut mm, lruvec) = machine(lru);
        let mut ids = Vec::new();
        for (op, n) in ops {
            let pick = (!ids.is_empty()).then(|| usize::from(n) % ids.len().max(1));
            match (op, pick) {
                (0 | 1, _) => {
                    let kind = if n & 1 == 0 { Flags::SWAPBACKED } else { Flags::default() };
                    let order = if n & 12 == 0 { 2 } else { 0 };
                    ids.push(add(&mut mm, lruvec, kind.with_order(order), n & 2 == 0));
                }
                (2, Some(at)) => { mm.promote(ids[at], lruvec); }
                (3, _) => mm.open_generation(lruvec, n & 7 != 0),
                (4, Some(at)) => mm.mark_accessed(ids[at]),
                (5, Some(at)) => mm.rotate_reclaimable(ids[at]),
                (6, Some(at)) => {
                    let id = ids.swap_remove(at);
                    mm.remove_folio(id);
                    mm.folios.free(id);
                }
                (7, _) => {
                    let mut taken = Vec::new();
                    let swappiness = (n % 201) as u8;
                    mm.isolate_generation(lruvec, swappiness, 100, &mut taken);
                    for id in taken {
                        mm.folios.flags_mut(id).set(Flags::ACTIVE, n & 1 == 0);
                        mm.put_back(id);
                    }
                }
                _ => {}
            }
            if lru == Lru::Mglru614 || op != 3 {
                mm.check();
            }
        }
        for id in ids {
            mm.remove_folio(id);
        }
        mm.check();
        prop_assert_eq!(mm.size(MemcgId::ROOT, Kind::Anon, true), Pages::ZERO);
    }
}
