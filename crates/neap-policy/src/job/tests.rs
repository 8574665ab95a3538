//! Behaviour of the table and the lists, case by case. The property tests against a
//! naive model are in `model`.

use neap_units::{EntryId, PageId, PageNr, Pages, SlotId, SpaceId};

use super::*;

pub(super) fn adopt(core: &mut Core, space: SpaceId, page: u64, heat: Heat) -> PageId {
    let id = core.ensure(space, PageNr(page));
    assert_eq!(core.apply(id, Step::Adopt(heat)), Ok(Effect::NONE));
    id
}

pub(super) fn steps(core: &mut Core, id: PageId, list: &[Step]) -> Vec<Effect> {
    let effects = list
        .iter()
        .map(|&taken| {
            core.apply(id, taken)
                .unwrap_or_else(|error| panic!("{error}"))
        })
        .filter(|effect| !effect.is_none())
        .collect();
    core.check();
    effects
}

/// Takes an isolated page to the store.
fn store(core: &mut Core, id: PageId, entry: u32) {
    let slot = SlotId(entry);
    let out = [
        Step::Stage(slot),
        Step::BeginStore,
        Step::CommitStore(EntryId(entry)),
    ];
    assert_eq!(
        steps(core, id, &out),
        [Effect {
            freed_entry: None,
            freed_slot: Some(slot)
        }]
    );
}

pub(super) fn pages(core: &Core, ids: &[PageId]) -> Vec<u64> {
    ids.iter().map(|&id| core.locate(id).1.0).collect()
}

#[test]
fn what_is_told_of_generations_follows_their_aging() {
    let mut core = Core::new();
    let space = core.add_space();
    for page in 0..5 {
        adopt(&mut core, space, page, Heat::Hot);
    }
    let before = core.listed(space).expect("it lives");
    let pages = |listed: Listed| listed.generations.map(|(_, pages)| pages.0);
    assert_eq!(pages(before), [5, 0, 0, 0]);
    let mut out = Vec::new();
    core.pick(space, 2, &mut out);
    let after = core.listed(space).expect("it lives");
    let (young, old) = (before.generations[0].0, after.generations[0].0);
    let found = after.generations.iter().find(|(seq, _)| *seq == young);
    assert!(old > young, "it aged");
    assert_eq!(
        found,
        Some(&(young, Pages(3))),
        "what stays is as old as it was"
    );
    assert_eq!(core.listed(SpaceId(9)), None);
    core.drop_space(space);
    assert_eq!(core.listed(space), None);
}

#[test]
fn a_page_travels_out_and_back_in() {
    let mut core = Core::new();
    let space = core.add_space();
    let id = adopt(&mut core, space, 1000, Heat::Hot);
    let mut out = Vec::new();
    core.pick(space, 64, &mut out);
    assert_eq!(out, [id]);
    assert_eq!(core.total_resident(), Pages(0));
    store(&mut core, id, 7);
    assert_eq!(
        core.state_at(space, PageNr(1000)),
        State::Stored { entry: EntryId(7) }
    );
    let load = [
        Step::BeginLoad,
        Step::EndLoad {
            keep: true,
            heat: Heat::Hot,
        },
    ];
    assert_eq!(steps(&mut core, id, &load), []);
    assert_eq!(
        core.state(id),
        State::Resident {
            copy: Some(EntryId(7))
        }
    );
    assert_eq!(core.resident(space), Pages(1));
    let freed = core.drop_space(space);
    assert_eq!(
        freed,
        [Effect {
            freed_entry: Some(EntryId(7)),
            freed_slot: None
        }]
    );
    core.check();
}

#[test]
fn a_sequentially_filled_region_is_picked_in_contiguous_runs() {
    let mut core = Core::new();
    let space = core.add_space();
    for page in 100..1100 {
        adopt(&mut core, space, page, Heat::Hot);
    }
    let mut next = 100;
    while next < 1100 {
        let mut out = Vec::new();
        core.pick(space, 64, &mut out);
        core.check();
        let expected: Vec<u64> = (next..(next + 64).min(1100)).collect();
        assert_eq!(pages(&core, &out), expected);
        next += 64;
    }
}

#[test]
fn each_page_leaves_by_its_own_age_whatever_its_neighbours() {
    let mut core = Core::new();
    let space = core.add_space();
    for page in [35, 3, 0x40, 15, 33] {
        adopt(&mut core, space, page, Heat::Warm);
    }
    adopt(&mut core, space, 34, Heat::Hot);
    let mut out = Vec::new();
    core.pick(space, 3, &mut out);
    assert_eq!(
        pages(&core, &out),
        [3, 35, 0x40],
        "the oldest, in order of address"
    );
    out.clear();
    core.pick(space, 64, &mut out);
    assert_eq!(pages(&core, &out), [15, 33, 34], "all have aged by now");
    assert_eq!(core.vmstat().pgscan, 6);
}

#[test]
fn what_is_young_at_the_call_is_taken_only_when_nothing_else_is_left() {
    let mut core = Core::new();
    let space = core.add_space();
    let (hot, warm) = (
        adopt(&mut core, space, 1, Heat::Hot),
        adopt(&mut core, space, 99, Heat::Warm),
    );
    let mut out = Vec::new();
    core.pick(space, 64, &mut out);
    assert_eq!(out, [warm]);
    core.pick(space, 64, &mut out);
    assert_eq!(out, [warm, hot], "appended, not replaced");
    core.pick(space, 64, &mut out);
    assert_eq!(out.len(), 2);
}

#[test]
fn a_page_that_comes_back_soon_is_activated_and_then_restored() {
    let mut core = Core::new();
    let space = core.add_space();
    for page in 0..64 {
        adopt(&mut core, space, page * 16, Heat::Hot);
    }
    let load = [
        Step::BeginLoad,
        Step::EndLoad {
            keep: false,
            heat: Heat::Hot,
        },
    ];
    for round in 0..2 {
        let mut out = Vec::new();
        core.pick(space, 1, &mut out);
        // The page that came back is old again only after all others have gone.
        while round == 1 && pages(&core, &out) != [0] {
            steps(&mut core, out[0], &[Step::Putback(Heat::Hot)]);
            out.clear();
            core.pick(space, 1, &mut out);
        }
        store(&mut core, out[0], 1);
        for page in 1..4 {
            // Something in the two youngest generations, or nothing is recent.
            adopt(&mut core, space, 10_000 + round * 16 + page, Heat::Hot);
        }
        let freed = Effect {
            freed_entry: Some(EntryId(1)),
            freed_slot: None,
        };
        assert_eq!(steps(&mut core, out[0], &load), [freed]);
    }
    let vmstat = core.vmstat();
    assert_eq!(vmstat.workingset_refault_anon, 2);
    assert_eq!(vmstat.workingset_activate_anon, 2);
    assert_eq!(vmstat.workingset_restore_anon, 1);
}

#[test]
fn readahead_refaults_but_never_activates() {
    let mut core = Core::new();
    let space = core.add_space();
    let id = adopt(&mut core, space, 5, Heat::Hot);
    adopt(&mut core, space, 500, Heat::Hot);
    let mut out = Vec::new();
    core.pick(space, 1, &mut out);
    assert_eq!(out, [id]);
    store(&mut core, id, 1);
    let load = [
        Step::BeginLoad,
        Step::EndLoad {
            keep: true,
            heat: Heat::Warm,
        },
    ];
    steps(&mut core, id, &load);
    assert_eq!(core.vmstat().workingset_refault_anon, 1);
    assert_eq!(core.vmstat().workingset_activate_anon, 0);
}

/// Evicts the page at once, and loads it again.
fn bounce(core: &mut Core, id: PageId, heat: Heat) {
    steps(core, id, &[Step::Isolate]);
    store(core, id, 1);
    let freed = Effect {
        freed_entry: Some(EntryId(1)),
        freed_slot: None,
    };
    let load = [Step::BeginLoad, Step::EndLoad { keep: false, heat }];
    assert_eq!(steps(core, id, &load), [freed]);
}

#[test]
fn a_page_of_the_working_set_stays_so_through_readahead() {
    let mut core = Core::new();
    let space = core.add_space();
    let id = adopt(&mut core, space, 5, Heat::Hot);
    for page in 0..10 {
        adopt(&mut core, space, 500 + page, Heat::Hot);
    }
    let mut restored = Vec::new();
    for heat in [Heat::Warm, Heat::Hot, Heat::Warm, Heat::Hot] {
        bounce(&mut core, id, heat);
        restored.push(core.vmstat().workingset_restore_anon);
    }
    assert_eq!(restored, [0, 0, 1, 2]);
    assert_eq!(core.vmstat().workingset_activate_anon, 2);
}

#[test]
fn spaces_are_chosen_in_proportion_to_their_size() {
    let mut core = Core::new();
    let (small, big, empty) = (core.add_space(), core.add_space(), core.add_space());
    for page in 0..100 {
        adopt(&mut core, small, page, Heat::Hot);
    }
    for page in 0..300 {
        adopt(&mut core, big, page, Heat::Hot);
    }
    let all = [small, big, empty];
    let turns: Vec<SpaceId> = (0..8).filter_map(|_| core.choose_space(&all)).collect();
    assert_eq!(turns, [big, small, big, big, big, small, big, big]);
    assert_eq!(core.resident(empty), Pages(0));
    assert!(core.drop_space(small).is_empty() && core.drop_space(big).is_empty());
    assert_eq!(core.choose_space(&all), None);
    assert_eq!(core.choose_space(&[]), None);
    assert_eq!(core.add_space(), big, "ids are reused");
    core.check();
}

#[test]
fn removal_frees_entries_and_slots_in_the_range_only() {
    let mut core = Core::new();
    let space = core.add_space();
    for page in 60..70 {
        adopt(&mut core, space, page, Heat::Warm);
    }
    let mut out = Vec::new();
    core.pick(space, 64, &mut out);
    for (n, &id) in out.iter().enumerate().take(4) {
        store(&mut core, id, n as u32);
    }
    steps(&mut core, out[4], &[Step::Stage(SlotId(40))]);
    let effects = core.remove_range(space, PageNr(62)..PageNr(66));
    let entry = |n| Effect {
        freed_entry: Some(EntryId(n)),
        freed_slot: None,
    };
    let slot = Effect {
        freed_entry: None,
        freed_slot: Some(SlotId(40)),
    };
    assert_eq!(effects, [entry(2), entry(3), slot]);
    core.check();
    let mut left = Vec::new();
    core.for_range(space, PageNr(0)..PageNr(1 << 40), |page, _, _| {
        left.push(page.0)
    });
    assert_eq!(left, [60, 61, 66, 67, 68, 69]);
}

#[test]
fn a_record_without_a_space_takes_no_step() {
    let mut core = Core::new();
    let space = core.add_space();
    let id = adopt(&mut core, space, 1, Heat::Hot);
    steps(&mut core, id, &[Step::Vanish]);
    let refused = Illegal {
        state: State::Absent,
        step: Step::Adopt(Heat::Hot),
    };
    assert_eq!(core.apply(id, Step::Adopt(Heat::Hot)), Err(refused));
    assert!(core.apply(PageId(u32::MAX - 64), Step::Drop).is_err());
    core.check();
}

#[test]
fn a_wanted_page_stays_wanted_until_it_is_asked_or_gone() {
    let mut core = Core::new();
    let space = core.add_space();
    let id = adopt(&mut core, space, 1, Heat::Hot);
    steps(&mut core, id, &[Step::Isolate]);
    core.want(id);
    steps(&mut core, id, &[Step::Putback(Heat::Hot)]);
    assert!(core.take_wanted(id) && !core.take_wanted(id));
    core.want(id);
    steps(&mut core, id, &[Step::Drop]);
    let id = adopt(&mut core, space, 1, Heat::Hot);
    assert!(!core.take_wanted(id));
}

#[test]
fn remap_moves_whole_leaves_under_their_ids_and_single_pages_under_new_ones() {
    for to in [64 * 100, 64 * 100 + 7] {
        let mut core = Core::new();
        let space = core.add_space();
        for page in 64..64 + 130 {
            adopt(&mut core, space, page, Heat::Hot);
        }
        let mut out = Vec::new();
        core.pick(space, 2, &mut out);
        store(&mut core, out[0], 9);
        steps(&mut core, out[1], &[Step::Stage(SlotId(3))]);
        adopt(&mut core, space, to + 5, Heat::Hot);
        let mut renamed = 0;
        let effects = core.remap_with(space, PageNr(64), PageNr(to), Pages(130), |_, _, _| {
            renamed += 1;
        });
        assert_eq!(effects, [], "the page that was there had nothing to free");
        assert_eq!(renamed, if to % 64 == 0 { 2 } else { 130 });
        core.check();
        assert_eq!(
            core.state_at(space, PageNr(to)),
            State::Stored { entry: EntryId(9) }
        );
        let staged = State::Staged {
            slot: SlotId(3),
            copy: None,
        };
        assert_eq!(core.state_at(space, PageNr(to + 1)), staged);
        assert_eq!(core.resident(space), Pages(128));
        assert_eq!(core.state_at(space, PageNr(70)), State::Absent);
    }
}

#[test]
fn a_child_inherits_what_its_parent_does_not_hold_in_memory() {
    let mut core = Core::new();
    let parent = core.add_space();
    for page in 0..4 {
        adopt(&mut core, parent, page, Heat::Warm);
    }
    let mut out = Vec::new();
    core.pick(parent, 3, &mut out);
    store(&mut core, out[0], 1);
    steps(&mut core, out[1], &[Step::Stage(SlotId(5))]);
    let child = core.add_space();
    adopt(&mut core, child, 2, Heat::Hot);
    let mut asked = Vec::new();
    core.fork(parent, child, |page, state| {
        asked.push(page.0);
        match state {
            State::Stored { entry } => Some(entry),
            State::Staged { .. } => Some(EntryId(2)),
            _ => None,
        }
    });
    assert_eq!(
        asked,
        [0, 1],
        "not page 2, which the child has, nor 3, which is resident"
    );
    core.check();
    assert_eq!(
        core.state_at(child, PageNr(0)),
        State::Stored { entry: EntryId(1) }
    );
    assert_eq!(
        core.state_at(child, PageNr(1)),
        State::Stored { entry: EntryId(2) }
    );
    assert_eq!(
        core.state_at(child, PageNr(2)),
        State::Resident { copy: None }
    );
    assert_eq!(core.state_at(child, PageNr(3)), State::Absent);
    assert_eq!(core.resident(child), Pages(1));
}

#[test]
fn a_dense_space_spends_at_most_16_bytes_a_page() {
    let mut core = Core::new();
    let space = core.add_space();
    let pages = 300_000;
    for page in 0..pages {
        adopt(&mut core, space, 0x7_f000_0000 + page, Heat::Hot);
    }
    let spent = core.metadata_bytes().0 as f64 / pages as f64;
    assert!(spent <= 16.0, "{spent:.2} bytes for each resident page");
}
