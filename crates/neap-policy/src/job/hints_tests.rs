//! What a program says of its memory decides what leaves.

use neap_units::{EntryId, PageId, PageNr, Pages, SlotId, SpaceId};

use super::*;
use crate::recency::Advice;

/// A space with so many pages that were asked for, and their records.
fn touched(core: &mut Core, pages: u64) -> SpaceId {
    let space = core.add_space();
    (0..pages).for_each(|page| adopt(core, space, page));
    space
}

fn adopt(core: &mut Core, space: SpaceId, page: u64) {
    let id = core.ensure(space, PageNr(page));
    core.apply(id, Step::Adopt(Heat::Hot)).unwrap();
}

fn pick(core: &mut Core, space: SpaceId, max: usize) -> Vec<u64> {
    let mut picked = Vec::new();
    core.pick(space, max, &mut picked);
    picked.iter().map(|&id| core.locate(id).1.0).collect()
}

fn out(core: &mut Core, id: PageId) {
    for step in [
        Step::Stage(SlotId(0)),
        Step::BeginStore,
        Step::CommitStore(EntryId(id.0)),
    ] {
        core.apply(id, step).unwrap();
    }
}

fn come_back(core: &mut Core, space: SpaceId, page: u64) {
    let id = core.find(space, PageNr(page)).unwrap();
    core.apply(id, Step::BeginLoad).unwrap();
    let heat = Heat::Hot;
    core.apply(id, Step::EndLoad { keep: false, heat }).unwrap();
}

#[test]
fn what_has_no_recency_leaves_first_however_often_it_is_touched() {
    let mut core = Core::new();
    let space = touched(&mut core, 1000);
    let walked = PageNr(2000).span(Pages(1000));
    core.hint(space, walked, Hint::Use(Advice::Sequential));
    (2000..2400).for_each(|page| adopt(&mut core, space, page));
    let share = (1400 / 16) as usize;
    for _ in 0..20 {
        let picked = pick(&mut core, space, 64);
        assert!(picked.iter().all(|page| *page >= 2000), "{picked:?}");
        for page in picked {
            let id = core.find(space, PageNr(page)).unwrap();
            out(&mut core, id);
            come_back(&mut core, space, page);
        }
    }
    assert_eq!(core.vmstat().workingset_activate_anon, 0);
    // Down to its share, which those keep that came last.
    let mut left = 0;
    while pick(&mut core, space, 1)[0] >= 2000 {
        left += 1;
    }
    assert!(400 - left <= share + 1, "{left} left");
}

#[test]
fn a_hint_goes_with_the_memory_that_moves_and_ends_with_another() {
    let mut core = Core::new();
    let space = touched(&mut core, 8);
    let (old, new) = (PageNr(0), PageNr(128));
    core.hint(space, old.span(Pages(4)), Hint::Use(Advice::Random));
    core.remap(space, old, new, Pages(8));
    assert_eq!(core.without_recency(space), [new.span(Pages(4))]);
    let child = core.add_space();
    core.fork(space, child, |_, _| None);
    assert_eq!(core.without_recency(child), [new.span(Pages(4))]);
    let middle = PageNr(129).span(Pages(1));
    core.hint(space, middle, Hint::Use(Advice::Normal));
    assert_eq!(
        core.without_recency(space),
        [PageNr(128)..PageNr(129), PageNr(130)..PageNr(132)]
    );
}

#[test]
fn cold_pages_leave_before_all_others_and_soon_needed_ones_after() {
    let mut core = Core::new();
    let space = touched(&mut core, 600);
    assert_eq!(
        core.hint(space, PageNr(300).span(Pages(64)), Hint::Cold),
        Pages(64)
    );
    assert_eq!(pick(&mut core, space, 64), Vec::from_iter(300..364));
    core.hint(space, PageNr(0).span(Pages(100)), Hint::Soon);
    let mut order = Vec::new();
    while core.resident(space).0 > 0 {
        order.extend(pick(&mut core, space, 4));
    }
    assert_eq!(order[order.len() - 100..], Vec::from_iter(0..100));
}

#[test]
fn a_cold_page_that_is_touched_on_its_way_out_is_as_any_other() {
    let mut core = Core::new();
    let space = touched(&mut core, 600);
    core.hint(space, PageNr(300).span(Pages(64)), Hint::Cold);
    for page in pick(&mut core, space, 64) {
        let id = core.find(space, PageNr(page)).unwrap();
        for step in [
            Step::Stage(SlotId(0)),
            Step::BeginReturn,
            Step::EndReturn(Heat::Hot),
        ] {
            core.apply(id, step).unwrap();
        }
    }
    let next = pick(&mut core, space, 500);
    assert!(next.iter().all(|page| !(300..364).contains(page)));
}
