//! Forks beside changes of other threads: the child finds each page where it was when it was forked, whatever was read first.

use std::sync::Arc;

use neap_imagined::{Act, Outcome, PAGE, Prot, Ran, SpaceNr, ThreadNr};

use super::found::{Story, place};
use super::program::BASE;
use crate::space::Space;

pub(super) const CHANGES: ThreadNr = ThreadNr(0);
const FORKS: ThreadNr = ThreadNr(1);
const OTHERS: ThreadNr = ThreadNr(2);
const CHILD: SpaceNr = SpaceNr(1);

/// Threads change mappings while another forks. All pages are out: 7 is written in the first of 0..2, and 9 in that of 8..10.
pub(super) struct Race {
    pub story: Story,
    pub space: Arc<Space>,
}

impl Race {
    pub fn new() -> Self {
        let story = Story::with_threads(3);
        for (page, value) in [(0, 7), (8, 9)] {
            story.does(0, Act::Map(place(page, 2), Prot::RW));
            story.does(0, Act::Write(BASE + page * PAGE, 0, value));
        }
        story.look(0);
        story.stage_all(0);
        let space = story.program(0).space.borrow().clone().expect("a space");
        Self { story, space }
    }

    pub fn begins(&self, thread: ThreadNr, act: Act) {
        let nr = self.story.program(0).nr;
        self.story.scene.machine.begin(nr, thread, act);
    }

    /// A thread makes its change, and tells nothing yet.
    pub fn acts(&self, thread: ThreadNr, act: Act) {
        self.begins(thread, act);
        let nr = self.story.program(0).nr;
        assert_eq!(self.story.scene.machine.step(nr, thread), Ran::On);
    }

    /// A thread gets on until it waits or is done.
    pub fn goes_on(&self, thread: ThreadNr) -> Ran {
        let nr = self.story.program(0).nr;
        self.story.scene.machine.run(nr, thread)
    }

    /// What has been told is read, and nothing of it is applied.
    fn hears(&self) {
        let _gate = self.space.gate.write();
        let hear = &mut |event| self.space.hear(&self.story.scene.job, event);
        self.space.uffd.read_events(hear).expect("events");
    }

    /// The child begins something, and gets on until it waits.
    fn child_begins(&self, act: Act) {
        let machine = &self.story.scene.machine;
        self.story.scene.meet(CHILD);
        machine.begin(CHILD, ThreadNr(0), act);
        machine.run(CHILD, ThreadNr(0));
    }

    /// All that is under way comes to its end. What the child finds in these pages, which are those that it has.
    fn ends(self, child_has: &[(u64, u64)]) {
        self.story.scene.come_to_rest().expect("nobody waits");
        for &(page, value) in child_has {
            let found = self.story.does(1, Act::Read(BASE + page * PAGE));
            assert_eq!(found, Outcome::Read(value), "page {page}");
        }
        self.story.ends_well();
    }
}

pub(super) fn to_8(from: u64) -> Act {
    Act::Move {
        from: place(from, 2),
        to: BASE + 8 * PAGE,
        len: 2 * PAGE,
        stays: false,
    }
}

#[test]
fn a_fork_behind_a_move_is_told_of_before_it() {
    let race = Race::new();
    race.begins(CHANGES, to_8(0));
    race.goes_on(CHANGES);
    race.begins(FORKS, Act::Fork);
    race.goes_on(FORKS);
    race.ends(&[(8, 7)]);
}

#[test]
fn a_fork_before_a_move_is_told_of_just_as_well() {
    let race = Race::new();
    race.acts(FORKS, Act::Fork);
    race.begins(CHANGES, to_8(0));
    race.goes_on(CHANGES);
    race.goes_on(FORKS);
    race.ends(&[(0, 7), (8, 9)]);
}

#[test]
fn and_so_is_one_between_an_unmapping_and_a_move() {
    let race = Race::new();
    race.begins(CHANGES, Act::Unmap(place(8, 2)));
    race.goes_on(CHANGES);
    race.begins(FORKS, Act::Fork);
    race.goes_on(FORKS);
    race.hears();
    assert_eq!(race.goes_on(CHANGES), Ran::Idle);
    race.begins(CHANGES, to_8(0));
    race.goes_on(CHANGES);
    race.ends(&[(0, 7)]);
}

#[test]
fn a_fork_may_be_told_of_before_a_move_that_came_first() {
    let race = Race::new();
    race.acts(CHANGES, to_8(0));
    race.begins(FORKS, Act::Fork);
    race.goes_on(FORKS);
    race.hears();
    race.ends(&[(8, 7)]);
}

#[test]
fn what_was_unmapped_behind_a_fork_is_still_the_childs() {
    let race = Race::new();
    race.acts(FORKS, Act::Fork);
    race.begins(CHANGES, Act::Unmap(place(0, 2)));
    race.goes_on(CHANGES);
    race.goes_on(FORKS);
    race.ends(&[(0, 7), (8, 9)]);
}

/// Of two threads' changes one was made before the fork and the other behind it, and they were read the other way round.
#[test]
fn changes_of_two_places_may_be_on_two_sides_of_a_fork() {
    let race = Race::new();
    let away = Act::Move {
        from: place(0, 2),
        to: BASE + 20 * PAGE,
        len: 2 * PAGE,
        stays: false,
    };
    race.acts(CHANGES, away);
    race.acts(FORKS, Act::Fork);
    race.begins(OTHERS, Act::Unmap(place(8, 2)));
    race.goes_on(OTHERS);
    race.goes_on(FORKS);
    race.hears();
    race.ends(&[(20, 7), (8, 9)]);
}

/// Nobody serves the child yet, and it has changed mappings by itself: until that is read it says nothing of them.
#[test]
fn a_child_that_has_changed_since_is_asked_all_the_same() {
    let race = Race::new();
    race.acts(FORKS, Act::Fork);
    race.begins(CHANGES, to_8(0));
    race.goes_on(CHANGES);
    race.goes_on(FORKS);
    race.hears();
    race.child_begins(Act::Unmap(place(9, 1)));
    race.ends(&[(0, 7), (8, 9)]);
}

#[test]
fn and_what_it_has_changed_is_applied_to_what_it_began_with() {
    let race = Race::new();
    race.begins(CHANGES, to_8(0));
    race.goes_on(CHANGES);
    race.begins(FORKS, Act::Fork);
    race.goes_on(FORKS);
    race.hears();
    let away = Act::Move {
        from: place(8, 2),
        to: BASE + 30 * PAGE,
        len: 2 * PAGE,
        stays: false,
    };
    race.child_begins(away);
    race.ends(&[(30, 7)]);
}

/// Threads of the child wait for pages, which it has still to get.
#[test]
fn nor_is_a_fault_of_such_a_child_forgotten() {
    let race = Race::new();
    race.acts(FORKS, Act::Fork);
    race.begins(CHANGES, to_8(0));
    race.goes_on(CHANGES);
    race.goes_on(FORKS);
    race.hears();
    race.child_begins(Act::Read(BASE));
    race.ends(&[(0, 7), (8, 9)]);
}
