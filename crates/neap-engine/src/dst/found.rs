//! What has been found, each kept as the steps that showed it.

use std::ops::Range;
use std::rc::Rc;

use neap_imagined::{Act, Odds, Outcome, PAGE, Prot, Ran, ThreadNr};

use super::plan::Plan;
use super::program::BASE;
use super::scene::{self, Program, Scene};
use super::{run, steps_of};
use crate::reclaim::Part;

const MAIN: ThreadNr = ThreadNr(0);

/// Nothing goes wrong by itself.
fn quiet() -> Plan {
    Plan {
        odds: Odds::default(),
        threads: 1,
        within: 0,
        forks: true,
        races: false,
        untold: false,
        killed: 0,
        discards: true,
        changes: true,
        attributes: true,
        swap: 0,
        disk_errs: 0,
        pool: 64,
        walks: 0,
        most: 48,
        kills: false,
        hints: false,
        hands: 0,
    }
}

pub(super) struct Story {
    pub scene: Rc<Scene>,
}

impl Story {
    pub fn new() -> Self {
        Self::with_threads(1)
    }

    /// The first program has so many threads.
    pub fn with_threads(threads: usize) -> Self {
        let scene = Scene::new(&Plan { threads, ..quiet() });
        scene.quiet.set(true);
        scene::set(Some(scene.clone()));
        Self { scene }
    }

    pub fn program(&self, nr: usize) -> Rc<Program> {
        self.scene.programs.borrow()[nr].clone()
    }

    /// A program does something, and gets what it waits for; what it told is applied.
    pub fn does(&self, nr: usize, act: Act) -> Outcome {
        let (program, machine) = (self.program(nr), &self.scene.machine);
        machine.begin(program.nr, MAIN, act);
        while machine.run(program.nr, MAIN) != Ran::Idle {
            self.scene.serve(&program);
        }
        self.scene.serve(&program);
        machine.outcome(program.nr, MAIN).expect("an outcome")
    }

    pub fn part(&self, nr: usize, part: Part) {
        let space = self.program(nr).space.borrow().clone().expect("a space");
        let mut reclaimer = self.scene.reclaimer.take().expect("reclaim");
        reclaimer.part_of_pass(part, &space);
        self.scene.reclaimer.put(reclaimer);
    }

    /// All pages leave: each time those that are oldest.
    pub fn stage_all(&self, nr: usize) {
        let space = self.program(nr).space.borrow().clone().expect("a space");
        let resident = || self.scene.job.core().resident(space.id).0;
        for _ in 0..64 {
            self.part(nr, Part::Stage(64));
        }
        assert_eq!(resident(), 0, "some stay");
    }

    pub fn look(&self, nr: usize) {
        let space = self.program(nr).space.borrow().clone().expect("a space");
        space.discover(&self.scene.job);
    }

    /// All is as it was written.
    pub fn ends_well(self) {
        self.scene.come_to_rest().expect("nobody waits");
        self.scene.read_all().expect("all bytes are there");
        scene::set(None);
    }
}

pub(super) fn place(from: u64, pages: u64) -> Range<u64> {
    BASE + from * PAGE..BASE + (from + pages) * PAGE
}

/// Linux 6.18 counts the pages before one that it has moved without knowing: the agent's next call finds that gone.
#[test]
fn a_page_that_moved_uncounted_behind_others_is_not_taken_for_dropped() {
    for seed in 0..64 {
        let story = Story::new();
        story.does(0, Act::Map(place(0, 8), Prot::RW));
        (0..8).for_each(|page| _ = story.does(0, Act::Write(BASE + page * PAGE, 1, seed + page)));
        story.look(0);
        let odds = Odds {
            false_exists: 300,
            ..Odds::default()
        };
        story.scene.machine.set_odds(odds);
        story.scene.machine.reseed(seed);
        story.part(0, Part::Stage(8));
        story.scene.machine.set_odds(Odds::default());
        story.ends_well();
    }
}

/// The same where a mapping changes between the two calls, so that the next answer is another.
#[test]
fn nor_is_it_taken_for_unmoved_where_mappings_change_meanwhile() {
    let odds = Odds {
        false_exists: 100,
        short: 100,
        ..Odds::default()
    };
    let plan = Plan {
        odds,
        threads: 3,
        within: 150,
        forks: false,
        discards: false,
        attributes: false,
        pool: 16,
        ..quiet()
    };
    for seed in 0..300 {
        let done = run::run(&plan, &steps_of(seed));
        assert_eq!(done, Ok(()), "seed {seed}");
    }
}

/// No look had found what the mapping grew by when the child was forked: it forgot those pages as memory that it had not.
#[test]
fn what_a_mapping_grew_by_just_before_a_fork_is_the_childs_too() {
    let story = Story::new();
    story.does(0, Act::Map(place(0, 2), Prot::RW));
    story.does(0, Act::Write(BASE, 0, 1));
    story.look(0);
    let from = place(0, 2);
    story.does(
        0,
        Act::Resize {
            from,
            len: 4 * PAGE,
        },
    );
    story.does(0, Act::Write(BASE + 3 * PAGE, 0, 7));
    story.stage_all(0);
    story.does(0, Act::Fork);
    story.scene.take_born();
    let child = story.program(1);
    story.scene.adopt(&child);
    story.look(1);
    assert_eq!(story.does(1, Act::Read(BASE + 3 * PAGE)), Outcome::Read(7));
    story.ends_well();
}

/// One thread moves a mapping, and then another over it, which grows there. Both are heard before either is applied.
#[test]
fn what_moved_is_gone_where_the_next_move_has_grown_over_it() {
    let story = Story::new();
    story.does(0, Act::Map(place(0, 1), Prot::RW));
    story.does(0, Act::Map(place(4, 1), Prot::RW));
    story.does(0, Act::Map(place(20, 8), Prot::RW));
    story.does(0, Act::Write(BASE, 0, 7));
    story.look(0);
    story.stage_all(0);
    let (program, machine) = (story.program(0), &story.scene.machine);
    let move_to = |from: u64, to: u64, len: u64| Act::Move {
        from: place(from, 1),
        to: BASE + to * PAGE,
        len: len * PAGE,
        stays: false,
    };
    let uffd = program.space.borrow().clone().expect("a space");
    let mut told = 0;
    machine.begin(program.nr, MAIN, move_to(0, 30, 1));
    while machine.run(program.nr, MAIN) != Ran::Idle {
        let _gate = uffd.gate.write();
        let hear = &mut |event| {
            told += 1;
            uffd.hear(&story.scene.job, event);
        };
        uffd.uffd.read_events(hear).expect("events");
    }
    assert_eq!(told, 2, "of its move and of its end");
    story.does(0, move_to(4, 24, 8));
    assert_eq!(story.does(0, Act::Read(BASE + 30 * PAGE)), Outcome::Read(0));
    story.ends_well();
}

/// A mapping shrinks as it moves. A page of it is discarded, and moves to where its tail has been. All that is heard before any
/// of it is applied.
#[test]
fn what_was_discarded_reads_as_zeros_where_it_moves_to() {
    let story = Story::new();
    story.does(0, Act::Map(place(0, 8), Prot::RW));
    story.does(0, Act::Write(BASE + 3 * PAGE, 0, 7));
    story.look(0);
    story.stage_all(0);
    let (program, machine) = (story.program(0), &story.scene.machine);
    let space = program.space.borrow().clone().expect("a space");
    let is_heard = |act: Act| {
        machine.begin(program.nr, MAIN, act);
        while machine.run(program.nr, MAIN) != Ran::Idle {
            let _gate = space.gate.write();
            let hear = &mut |event| space.hear(&story.scene.job, event);
            space.uffd.read_events(hear).expect("events");
        }
    };
    let move_to = |from: Range<u64>, to: u64, len: u64| Act::Move {
        from,
        to: BASE + to * PAGE,
        len: len * PAGE,
        stays: false,
    };
    is_heard(move_to(place(0, 8), 30, 4));
    is_heard(Act::Discard(place(33, 1)));
    is_heard(move_to(place(33, 1), 4, 1));
    assert_eq!(story.does(0, Act::Read(BASE + 4 * PAGE)), Outcome::Read(0));
    story.ends_well();
}

/// Two threads discard a page at once, and it is written and leaves before either has thrown it away: what was written may stay.
#[test]
fn what_is_written_while_two_discard_it_may_stay() {
    let story = Story::with_threads(3);
    story.does(0, Act::Map(place(0, 1), Prot::RW));
    story.look(0);
    let (program, machine) = (story.program(0), &story.scene.machine);
    for thread in [1, 2].map(ThreadNr) {
        machine.begin(program.nr, thread, Act::Discard(place(0, 1)));
        assert_eq!(machine.run(program.nr, thread), Ran::Waits);
        story.scene.serve(&program);
        assert_eq!(machine.step(program.nr, thread), Ran::On, "it was heard");
    }
    story.does(0, Act::Write(BASE, 13, 7));
    story.stage_all(0);
    for thread in [1, 2].map(ThreadNr) {
        assert_eq!(machine.run(program.nr, thread), Ran::Idle);
    }
    story.does(0, Act::Write(BASE, 0, 8));
    story.ends_well();
}

/// While a forked child's mappings are looked at, the child ends and its table is dropped: the engine panicked.
#[test]
fn a_look_at_a_child_that_ends_meanwhile_is_given_up() {
    let seed = 93_402_269_943_851;
    let plan = Plan {
        hints: false,
        ..Plan::with_threads(seed)
    };
    let ran = run::run(&plan, &steps_of(seed));
    assert_eq!(ran, Ok(()));
}
