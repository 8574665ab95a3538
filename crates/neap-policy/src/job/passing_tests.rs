//! What is passed over when its turn to leave has come.

use neap_units::{EntryId, PageId, SlotId, SpaceId};

use super::tests::{adopt, pages, steps};
use super::*;

/// The steps of a page that is picked, and touched while it is staged.
fn touch_while_staged(core: &mut Core, id: PageId) {
    let back = [
        Step::Stage(SlotId(0)),
        Step::BeginReturn,
        Step::EndReturn(Heat::Hot),
    ];
    steps(core, id, &back);
}

/// Picks and stores so many pages, and says which.
fn leave(core: &mut Core, space: SpaceId, max: usize) -> Vec<u64> {
    let mut out = Vec::new();
    core.pick(space, max, &mut out);
    for &id in &out {
        let away = [
            Step::Stage(SlotId(0)),
            Step::BeginStore,
            Step::CommitStore(EntryId(1)),
        ];
        steps(core, id, &away);
    }
    pages(core, &out)
}

#[test]
fn a_page_touched_while_it_was_staged_is_passed_over_once() {
    let mut core = Core::new();
    let space = core.add_space();
    let first = adopt(&mut core, space, 0, Heat::Hot);
    let mut out = Vec::new();
    core.pick(space, 1, &mut out);
    assert_eq!(out, [first]);
    touch_while_staged(&mut core, first);
    for page in 1..=8 {
        adopt(&mut core, space, page, Heat::Hot);
    }
    // It is the oldest of all, and leaves last.
    assert_eq!(leave(&mut core, space, 4), [1, 2, 3, 4]);
    assert_eq!(leave(&mut core, space, 4), [5, 6, 7, 8]);
    assert_eq!(leave(&mut core, space, 4), [0]);
    core.check();
}

#[test]
fn something_leaves_though_all_pages_were_touched_while_staged() {
    for count in [3u64, 1000] {
        let mut core = Core::new();
        let space = core.add_space();
        for page in 0..count {
            let id = adopt(&mut core, space, page, Heat::Hot);
            let mut out = Vec::new();
            core.pick(space, 1, &mut out);
            for other in out {
                touch_while_staged(&mut core, other);
            }
            assert!(matches!(core.state(id), State::Resident { .. }));
        }
        assert!(!leave(&mut core, space, 2).is_empty(), "of {count}");
        core.check();
    }
}

#[test]
fn a_pick_passes_over_four_times_what_it_takes_at_most() {
    let mut core = Core::new();
    let space = core.add_space();
    for page in 0..1000 {
        let id = adopt(&mut core, space, page, Heat::Hot);
        steps(&mut core, id, &[Step::Isolate]);
        touch_while_staged(&mut core, id);
    }
    assert_eq!(core.vmstat().passed_over, 0);
    assert_eq!(leave(&mut core, space, 2), [8, 9]);
    assert_eq!(core.vmstat().passed_over, 8);
    assert_eq!(leave(&mut core, space, 1), [14], "from the tenth on");
    core.check();
}

#[test]
fn a_page_that_came_back_with_another_is_not_passed_over() {
    let mut core = Core::new();
    let space = core.add_space();
    let first = adopt(&mut core, space, 0, Heat::Hot);
    let back = [
        Step::Isolate,
        Step::Stage(SlotId(0)),
        Step::BeginReturn,
        Step::EndReturn(Heat::Warm),
    ];
    steps(&mut core, first, &back);
    for page in 1..=8 {
        adopt(&mut core, space, page, Heat::Hot);
    }
    assert_eq!(leave(&mut core, space, 1), [0]);
}

#[test]
fn a_page_that_came_back_soon_after_it_left_is_passed_over_once() {
    let mut core = Core::new();
    let space = core.add_space();
    for page in 0..100 {
        adopt(&mut core, space, page, Heat::Hot);
    }
    assert_eq!(leave(&mut core, space, 1), [0]);
    let id = core.find(space, PageNr(0)).expect("stored");
    let (keep, heat) = (false, Heat::Hot);
    steps(
        &mut core,
        id,
        &[Step::BeginLoad, Step::EndLoad { keep, heat }],
    );
    for page in 100..110 {
        adopt(&mut core, space, page, Heat::Hot);
    }
    let mut order = Vec::new();
    while order.len() < 110 {
        order.extend(leave(&mut core, space, 1));
    }
    assert_eq!(order.last(), Some(&0), "also those that came after it");
}
