//! What probation is for: memory that is walked through again and again and does not fit,
//! and memory of an earlier time that must give way to what fits now.

use std::ops::Range;

use neap_units::{EntryId, PageId, PageNr, SlotId, SpaceId};

use super::*;

/// A program in so many pages of memory.
struct Machine {
    core: Core,
    space: SpaceId,
    room: u64,
    loads: u64,
}

impl Machine {
    fn new(room: u64) -> Machine {
        let mut core = Core::new();
        let space = core.add_space();
        Machine {
            core,
            space,
            room,
            loads: 0,
        }
    }

    /// Touches pages, one after the other. Returns how many had to be loaded.
    fn touch(&mut self, pages: impl Iterator<Item = u64>) -> u64 {
        let before = self.loads;
        pages.for_each(|page| self.touch_with(page..page + 1));
        self.core.check();
        self.loads - before
    }

    /// Walks over pages, and loads so many at once. Returns how many had to be loaded.
    fn walk(&mut self, pages: Range<u64>, window: u64) -> u64 {
        let before = self.loads;
        for page in pages.clone() {
            self.touch_with(page..pages.end.min(page + window));
        }
        self.core.check();
        self.loads - before
    }

    /// Touches the first page of a window. If it has to be loaded, those of the others that left come along.
    fn touch_with(&mut self, window: Range<u64>) {
        let id = self.core.ensure(self.space, PageNr(window.start));
        match self.core.state(id) {
            State::Absent => self.take(id, Step::Adopt(Heat::Hot)),
            State::Stored { .. } => {
                self.load(id, Heat::Hot);
                for page in window.start + 1..window.end {
                    let along = self.core.find(self.space, PageNr(page));
                    let left = |&id: &PageId| matches!(self.core.state(id), State::Stored { .. });
                    if let Some(id) = along.filter(left) {
                        self.load(id, Heat::Warm);
                    }
                }
            }
            _ => return,
        }
        while self.core.total_resident().0 > self.room {
            self.evict();
        }
    }

    fn load(&mut self, id: PageId, heat: Heat) {
        self.loads += 1;
        self.take(id, Step::BeginLoad);
        self.take(id, Step::EndLoad { keep: false, heat });
    }

    fn evict(&mut self) {
        let mut out = Vec::new();
        self.core.pick(self.space, 16, &mut out);
        assert!(!out.is_empty(), "something is resident");
        for id in out {
            self.take(id, Step::Stage(SlotId(0)));
            self.take(id, Step::BeginStore);
            self.take(id, Step::CommitStore(EntryId(0)));
        }
    }

    fn take(&mut self, id: PageId, step: Step) {
        self.core.apply(id, step).expect("legal");
    }
}

#[test]
fn memory_walked_through_again_and_again_keeps_what_fits() {
    let mut machine = Machine::new(1_000);
    machine.touch(0..2_000);
    for _ in 0..20 {
        let loads = machine.touch(0..2_000);
        // An order by age alone loads all of them; at best 1,000 are.
        assert!((1_000..1_400).contains(&loads), "{loads} of 2,000 loaded");
    }
}

#[test]
fn a_walk_in_windows_does_not_push_out_what_it_comes_to_next() {
    let room = 8_000;
    for (pages, most) in [
        (9_000, 24),
        (10_000, 18),
        (10_700, 17),
        (12_000, 16),
        (16_000, 12),
    ] {
        let mut machine = Machine::new(room);
        machine.touch(0..pages);
        (0..4).for_each(|_| _ = machine.walk(0..pages, 32));
        let loads: u64 = (0..40).map(|_| machine.walk(0..pages, 32)).sum();
        // At best what does not fit is loaded in each round.
        let best = 40 * (pages - room);
        assert!(loads * 10 < best * most, "{pages}: {loads}, at best {best}");
    }
}

#[test]
fn what_is_on_probation_has_a_sixteenth_of_what_is_resident_and_the_others_what_is_left() {
    let room = 8_000;
    let mut machine = Machine::new(room);
    for _ in 0..3 {
        machine.touch(0..2 * room);
    }
    let ids = (0..2 * room).filter_map(|page| machine.core.find(machine.space, PageNr(page)));
    let tried = ids.filter(|&id| is_on_probation(&machine.core, id)).count() as u64;
    let share = room / 16;
    // Pages are picked 16 at a time.
    assert!((share - 16..=share + 16).contains(&tried), "{tried}");
}

#[test]
fn what_fits_is_kept_from_its_second_round_on() {
    // The list has its least pages in the one, and its share in the other.
    for room in [1_000, 8_000] {
        let mut machine = Machine::new(room);
        machine.touch(0..2 * room);
        let fits = room * 9 / 10;
        for first in [0, room, 0, room] {
            let now = first..first + fits;
            machine.touch(now.clone());
            machine.touch(now.clone());
            let loads = machine.touch(now);
            assert!(loads < fits / 20, "{loads} of {fits}, from {first}");
        }
    }
}

#[test]
fn what_fits_is_kept_in_the_end_after_walks_that_did_not_fit() {
    for room in [1_000, 8_000] {
        let mut machine = Machine::new(room);
        machine.touch(0..room * 5 / 4);
        (0..8).for_each(|_| _ = machine.walk(0..room * 5 / 4, 32));
        machine.touch(2 * room..3 * room); // away, and new
        let fits = 2 * room..2 * room + room * 9 / 10;
        machine.touch(0..room);
        let rounds: Vec<u64> = (0..20).map(|_| machine.walk(fits.clone(), 32)).collect();
        assert!(rounds[19] < room / 20, "{rounds:?} of {room}");
    }
}

#[test]
fn what_is_not_used_any_more_gives_way_though_nothing_comes_back_soon() {
    let mut machine = Machine::new(1_000);
    machine.touch(10_000..13_000);
    machine.touch(0..1_000); // new, and never used again
    let first = machine.touch(10_000..13_000);
    let last = (0..60).map(|_| machine.touch(10_000..13_000)).last();
    assert!(first > 2_900, "{first}: all but a few were away");
    assert!(
        last.is_some_and(|last| last < 2_400),
        "{last:?}, at best 2,000"
    );
}

#[test]
fn a_job_all_on_probation_can_still_be_evicted() {
    let mut machine = Machine::new(10);
    machine.touch(0..400);
    for page in 0..10 {
        // What is resident of the generations leaves; only loaded pages stay.
        machine.touch(std::iter::once(page * 16));
    }
    machine.room = 0;
    machine.touch(std::iter::once(390));
    assert_eq!(machine.core.total_resident().0, 0);
}

/// A page on probation, alone in a space whose generations hold as many others as could have made room.
fn tried_page() -> (Core, SpaceId, neap_units::PageId) {
    let mut machine = Machine::new(1_000);
    machine.touch(0..3_000);
    machine.touch(0..1);
    let id = machine.core.ensure(machine.space, PageNr(0));
    let list = |core: &Core| {
        let (leaf, at) = core.table.at(id);
        leaf.list(at)
    };
    assert_eq!(list(&machine.core), crate::page::PROBATION);
    (machine.core, machine.space, id)
}

fn is_on_probation(core: &Core, id: neap_units::PageId) -> bool {
    let (leaf, at) = core.table.at(id);
    leaf.is_resident(at) && leaf.list(at) == crate::page::PROBATION
}

#[test]
fn a_page_that_the_kernel_does_not_move_stays_on_probation_and_a_touched_one_does_not() {
    let (mut core, _, id) = tried_page();
    for _ in 0..2 {
        core.apply(id, Step::Isolate).expect("legal");
        core.apply(id, Step::Putback(Heat::Warm)).expect("legal");
        assert!(is_on_probation(&core, id));
    }
    core.check();
    core.apply(id, Step::Isolate).expect("legal");
    core.apply(id, Step::Putback(Heat::Hot)).expect("legal");
    assert!(!is_on_probation(&core, id));
    core.apply(id, Step::Isolate).expect("legal");
    core.apply(id, Step::Putback(Heat::Warm)).expect("legal");
    assert!(!is_on_probation(&core, id), "it is in a generation by now");
    core.check();
}

#[test]
fn a_child_inherits_that_a_page_left_from_probation() {
    let (mut core, parent, id) = tried_page();
    let out = [Step::Isolate, Step::Stage(SlotId(0)), Step::BeginStore];
    for step in out {
        core.apply(id, step).expect("legal");
    }
    core.apply(id, Step::CommitStore(EntryId(0)))
        .expect("legal");
    let child = core.add_space();
    core.fork(parent, child, |_, _| Some(EntryId(0)));
    let tried = |core: &Core, space, page| {
        let id = core.find(space, PageNr(page)).expect("known");
        let (leaf, at) = core.table.at(id);
        leaf.tried(at)
    };
    assert!(tried(&core, parent, 0) && tried(&core, child, 0));
    assert!(!tried(&core, parent, 1) && !tried(&core, child, 1));
}
