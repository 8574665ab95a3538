//! Copies after a fork that are held up.

use neap_imagined::{Act, Outcome, PAGE, Ran, ThreadNr};
use neap_units::Bytes;

use super::program::BASE;
use super::young::family;
use crate::reclaim::Part;

const FIRST: ThreadNr = ThreadNr(0);
/// More than any limit.
const MUCH: u64 = 1 << 60;

#[test]
fn the_first_write_to_what_is_shared_waits_for_room() {
    let story = family();
    let (program, machine) = (story.program(1), &story.scene.machine);
    let space = program.space.borrow().clone().expect("a space");
    assert!(space.hold_copies(0).is_some() && space.cow.holds());
    let meter = &story.scene.job.meter;
    meter.set_plan(Bytes(0), None);
    meter.charge(MUCH);
    machine.begin(program.nr, FIRST, Act::Write(BASE, 0, 70));
    for _ in 0..8 {
        assert_ne!(machine.run(program.nr, FIRST), Ran::Idle, "it waits");
        story.scene.serve(&program);
    }
    meter.uncharge(MUCH);
    let before = meter.usage();
    while machine.run(program.nr, FIRST) != Ran::Idle {
        story.scene.serve(&program);
    }
    assert!(meter.usage() > before, "what may be copied counts at once");
    let read = |nr, page: u64| story.does(nr, Act::Read(BASE + page * PAGE));
    assert_eq!(
        (read(0, 0), read(1, 0)),
        (Outcome::Read(1), Outcome::Read(70))
    );
    assert_eq!(
        (read(0, 1), read(1, 1)),
        (Outcome::Read(2), Outcome::Read(2))
    );
    story.ends_well();
}

/// Its agent would wait for the fault thread, and that one for reclaim.
#[test]
fn what_is_write_protected_is_parted_all_the_same() {
    let story = family();
    let resident = |nr| {
        let space = story.program(nr).space.borrow().clone().expect("a space");
        story.scene.job.core().resident(space.id).0
    };
    for nr in [0, 1] {
        let space = story.program(nr).space.borrow().clone().expect("a space");
        assert!(space.hold_copies(0).is_some());
        for _ in 0..4 {
            story.part(nr, Part::Stage(64));
            story.part(nr, Part::Unshare(64));
        }
        assert_eq!(resident(nr), 0);
    }
    story.ends_well();
}
