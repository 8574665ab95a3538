//! A fork beside changes of other threads: what is read of them does not say which came first.
//!
//! A fork holds the address space for as long as it copies it, and an mremap for as long as it unmaps its target and
//! moves. So one is whole before the other begins. Each tells its reader only afterwards, and an mremap tells of its
//! target, goes to sleep until that is read, and tells of its move then.

use neap_imagined::{Act, Outcome, PAGE};
use neap_sys::{Event, Userfault};

use crate::scenarios::{BOTH, is_unmap, memory, place};
use crate::world::World;

fn child(event: Event) -> Box<dyn Userfault> {
    match event {
        Event::Fork(child) => child,
        other => panic!("a fork was to be told of, and not {other:?}"),
    }
}

fn is_move(event: &Event, told: (u64, u64, u64)) -> bool {
    matches!(event, &Event::Remap { from, to, len } if (from, to, len) == told)
}

/// Moves 0..2 to 8..10, where something is.
fn onto(at: u64) -> Act {
    Act::Move {
        from: place(at, 0, 2),
        to: at + 8 * PAGE,
        len: 2 * PAGE,
        stays: false,
    }
}

/// What is registered in a forked child, of the old place and of the new one.
fn has(child: &dyn Userfault, at: u64) -> (Option<bool>, Option<bool>) {
    let asked = |page| child.is_registered(place(at, page, 1));
    (asked(0), asked(8))
}

/// Reads what an mremap and a fork tell: the unmapping, the fork, the move, and the unmapping of the old place.
fn reads(world: &mut dyn World, at: u64, between: impl Fn(&mut dyn World)) -> Box<dyn Userfault> {
    assert!(is_unmap(&world.event(), place(at, 8, 2)));
    between(world);
    let child = child(world.event());
    assert!(is_move(&world.event(), (at, at + 8 * PAGE, 2 * PAGE)));
    assert!(is_unmap(&world.event(), place(at, 0, 2)));
    assert_eq!(world.outcome(0), Outcome::Done);
    assert_eq!(world.outcome(1), Outcome::Done);
    child
}

pub(crate) fn behind_a_move(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    memory(world, place(at, 8, 2), BOTH);
    world.begin(0, onto(at));
    world.await_message();
    world.begin(1, Act::Fork);
    let child = reads(world, at, |_| {});
    assert_eq!(has(&*child, at), (Some(false), Some(true)));
    world.end_child();
}

pub(crate) fn before_a_move(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    memory(world, place(at, 8, 2), BOTH);
    world.begin(0, Act::Unmap(place(at, 8, 2)));
    world.await_message();
    world.begin(1, Act::Fork);
    let child = reads(world, at, |world| {
        assert_eq!(world.outcome(0), Outcome::Done);
        world.begin(0, onto(at));
    });
    assert_eq!(has(&*child, at), (Some(true), Some(false)));
    world.end_child();
}
