//! Forks that the kernel does not announce: the child is given what was out, and nothing that may be wrong.

use std::sync::Arc;

use neap_imagined::{Act, Outcome, PAGE, Prot, ThreadNr};

use neap_units::PageNr;

use super::forked::{CHANGES, Race, to_8};
use super::found::place;
use super::program::BASE;
use super::scene;
use crate::space::{Ranges, Unborn};

const MAIN: ThreadNr = ThreadNr(2);

/// A fork of [`Race`]: 7 is in the first of pages 0..2, 9 in that of 8..10, and all are out.
struct Fork {
    race: Race,
    unborn: Arc<Unborn>,
}

impl Fork {
    fn announced() -> Self {
        Self::of(Race::new(), false)
    }

    /// What the child is to have is taken down. `alone`: no other thread of the parent changes anything.
    fn of(race: Race, alone: bool) -> Self {
        while !race
            .space
            .window
            .begin(&race.story.scene.job, &*race.space.uffd)
        {}
        Self::of_begun(race, alone)
    }

    fn of_begun(race: Race, alone: bool) -> Self {
        let (space, job) = (&race.space, &race.story.scene.job);
        let unborn = {
            let _gate = space.gate.write();
            space.expect_child(job, alone)
        };
        Self { race, unborn }
    }

    /// A thread of the parent does something, and gets what it waits for.
    fn parent_does(&self, act: Act) -> Outcome {
        let (story, nr) = (&self.race.story, self.race.story.program(0).nr);
        story.scene.machine.begin(nr, MAIN, act);
        while self.race.goes_on(MAIN) != neap_imagined::Ran::Idle {
            story.scene.serve(&story.program(0));
        }
        story.scene.machine.outcome(nr, MAIN).expect("an outcome")
    }

    /// The child is there. It is served once `meanwhile` is done.
    fn forks(&self, meanwhile: impl FnOnce(&Self)) {
        self.tries_to_fork(meanwhile).expect("a child");
    }

    fn kill_parent(&self) {
        let nr = self.race.story.program(0).nr;
        self.race.story.scene.machine.kill(nr);
    }

    /// `None`: the child must not go on.
    fn tries_to_fork(&self, meanwhile: impl FnOnce(&Self)) -> Option<()> {
        let (scene, parent) = (&self.race.story.scene, &self.race.space);
        let nr = self.race.story.program(0).nr;
        let child = scene.machine.fork_untold(nr);
        meanwhile(self);
        while !self.unborn.try_close(&scene.job) {
            if scene.machine.threads(nr) > 0 {
                self.race.goes_on(CHANGES);
                self.race.goes_on(MAIN);
            }
            scene.serve(&self.race.story.program(0));
        }
        let space = scene.job.add_named(
            (self.unborn.id, self.unborn.number),
            parent.group.clone(),
            Box::new(scene.machine.uffd(child)),
            Ranges::default(),
            Some(parent.kin.family()),
        );
        space.inherit_from(parent);
        let view = scene.machine.view(child);
        self.unborn.learn(scene.machine.threads(nr) > 0);
        if space.be_born(&scene.job, &view, &self.unborn).is_none() {
            scene.job.end_space(&space);
            return None;
        }
        scene.job.start_serving(&space);
        scene.take_born();
        Some(())
    }

    fn child_reads(&self, page: u64) -> Outcome {
        self.race.story.does(1, Act::Read(BASE + page * PAGE))
    }

    /// What the child finds.
    fn ends(self, found: &[(u64, Outcome)]) {
        self.race.story.scene.come_to_rest().expect("nobody waits");
        for &(page, outcome) in found {
            assert_eq!(self.child_reads(page), outcome, "page {page}");
        }
        scene::set(None);
    }
}

#[test]
fn what_is_out_is_the_childs_and_stays_the_parents() {
    let fork = Fork::announced();
    fork.forks(|_| {});
    assert_eq!(fork.parent_does(Act::Write(BASE, 0, 5)), Outcome::Done);
    assert_eq!(fork.child_reads(0), Outcome::Read(7));
    assert_eq!(fork.child_reads(1), Outcome::Read(0));
    assert_eq!(fork.child_reads(8), Outcome::Read(9));
    fork.race.story.ends_well();
}

/// Some comes in before the fork, is written, and is in the child; some comes in behind it, and is not.
#[test]
fn what_comes_in_around_a_fork_is_as_it_was_at_the_fork() {
    let fork = Fork::announced();
    // Nothing is read for a while: it takes long.
    fork.unborn.read_on();
    assert_eq!(fork.parent_does(Act::Write(BASE, 0, 5)), Outcome::Done);
    fork.forks(|fork| {
        assert_eq!(fork.parent_does(Act::Write(BASE, 0, 6)), Outcome::Done);
        assert_eq!(
            fork.parent_does(Act::Write(BASE + 8 * PAGE, 0, 4)),
            Outcome::Done
        );
    });
    assert_eq!(fork.child_reads(0), Outcome::Read(5));
    assert_eq!(fork.child_reads(8), Outcome::Read(9));
    fork.race.story.ends_well();
}

/// It is read only behind the fork, and acts only then.
#[test]
fn what_is_discarded_meanwhile_is_still_the_childs() {
    let fork = Fork::announced();
    fork.race.begins(CHANGES, Act::Discard(place(0, 2)));
    fork.race.goes_on(CHANGES);
    fork.race.story.scene.serve(&fork.race.story.program(0));
    fork.forks(|_| {});
    fork.race.goes_on(CHANGES);
    assert_eq!(fork.child_reads(0), Outcome::Read(7));
    assert_eq!(
        fork.parent_does(Act::Read(BASE)),
        Outcome::Read(0),
        "it is gone here"
    );
    fork.race.story.ends_well();
}

#[test]
fn what_moves_before_a_fork_is_lost_to_the_child_and_nothing_else_is() {
    let fork = Fork::announced();
    fork.race.acts(CHANGES, to_8(0));
    fork.forks(|_| {});
    fork.ends(&[(8, Outcome::Bus), (9, Outcome::Read(0)), (0, Outcome::Segv)]);
}

/// There was nothing where it moves to.
#[test]
fn nor_does_the_child_read_zeros_in_a_place_that_is_new() {
    for stays in [false, true] {
        let fork = Fork::announced();
        let away = Act::Move {
            from: place(0, 2),
            to: BASE + 20 * PAGE,
            len: 2 * PAGE,
            stays,
        };
        fork.race.acts(CHANGES, away);
        fork.forks(|_| {});
        fork.ends(&[
            (20, Outcome::Bus),
            (21, Outcome::Read(0)),
            (8, Outcome::Read(9)),
        ]);
    }
}

#[test]
fn so_is_what_moves_behind_it() {
    let fork = Fork::announced();
    fork.forks(|fork| fork.race.acts(CHANGES, to_8(0)));
    fork.ends(&[(0, Outcome::Bus), (8, Outcome::Bus)]);
}

/// Nobody tells whether what the child has there is what was out, or has come since.
#[test]
fn what_comes_to_the_place_of_what_left_is_not_taken_for_it() {
    let fork = Fork::announced();
    fork.race.acts(CHANGES, Act::Unmap(place(0, 2)));
    let nr = fork.race.story.program(0).nr;
    let machine = &fork.race.story.scene.machine;
    machine.begin(nr, MAIN, Act::Map(place(0, 2), Prot::RW));
    fork.race.goes_on(MAIN);
    machine.begin(nr, MAIN, Act::Write(BASE + PAGE, 0, 3));
    fork.race.goes_on(MAIN);
    fork.forks(|_| {});
    fork.ends(&[
        (0, Outcome::Bus),
        (1, Outcome::Read(3)),
        (8, Outcome::Read(9)),
    ]);
}

#[test]
fn what_the_parent_keeps_to_itself_is_not_the_childs() {
    let race = Race::new();
    race.story.does(0, Act::Keep(place(0, 2)));
    let fork = Fork::of(race, false);
    fork.forks(|_| {});
    fork.ends(&[(0, Outcome::Segv), (8, Outcome::Read(9))]);
}

/// What its threads were about to tell is never told, and its memory is there as long as its agent is.
#[test]
fn a_child_of_a_parent_that_is_killed_while_something_moves_does_not_begin() {
    let fork = Fork::announced();
    fork.race.acts(CHANGES, to_8(0));
    assert_eq!(fork.tries_to_fork(Fork::kill_parent), None);
    scene::set(None);
}

#[test]
fn a_child_is_served_if_the_only_thread_of_its_parent_is_killed() {
    let fork = Fork::of(Race::new(), true);
    fork.forks(Fork::kill_parent);
    fork.ends(&[(0, Outcome::Read(7)), (8, Outcome::Read(9))]);
}

#[test]
fn a_page_that_was_lost_to_the_parent_is_lost_to_the_child_where_it_moves_to() {
    let race = Race::new();
    let page = PageNr::containing(BASE + PAGE);
    race.space
        .lost
        .inherit(&race.space.lost, vec![(page, "gone".to_owned())]);
    let fork = Fork::of(race, false);
    fork.race.acts(CHANGES, to_8(0));
    fork.forks(|_| {});
    fork.ends(&[(9, Outcome::Bus)]);
}

/// The moment may take long to come.
#[test]
fn pages_leave_until_what_the_child_is_to_have_is_taken_down() {
    let race = Race::new();
    let (space, job) = (race.space.clone(), race.story.scene.job.clone());
    let resident = || job.core().resident(space.id).0;
    let comes_back = |race: &Race| {
        race.story.does(0, Act::Read(BASE));
        assert!(resident() > 0);
    };
    comes_back(&race);
    while !space.window.begin(&job, &*space.uffd) {}
    race.story.stage_all(0);
    comes_back(&race);
    let fork = Fork::of_begun(race, false);
    let there = resident();
    fork.race.story.part(0, crate::reclaim::Part::Stage(64));
    assert_eq!(resident(), there, "one left");
    fork.forks(|_| {});
    fork.ends(&[(0, Outcome::Read(7)), (8, Outcome::Read(9))]);
}
