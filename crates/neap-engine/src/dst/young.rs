//! Reclaim from a child that was forked a moment ago.

use neap_imagined::{Act, Outcome, PAGE, Prot};
use neap_tuning::TUNING;

use super::found::{Story, place};
use super::program::BASE;
use crate::reclaim::Part;

/// A process with eight pages, each with its number, and a child of it.
pub(super) fn family() -> Story {
    let story = Story::new();
    story.does(0, Act::Map(place(0, 8), Prot::RW));
    for page in 0..8 {
        story.does(0, Act::Write(BASE + page * PAGE, 0, page + 1));
    }
    story.look(0);
    story.does(0, Act::Fork);
    story.scene.take_born();
    story.scene.adopt(&story.program(1));
    story.scene.serve(&story.program(1));
    story.look(1);
    story.scene.come_to_rest().expect("nobody waits");
    assert_eq!((resident(&story, 0), resident(&story, 1)), (8, 8));
    story
}

fn resident(story: &Story, nr: usize) -> u64 {
    let space = story.program(nr).space.borrow().clone().expect("a space");
    story.scene.job.core().resident(space.id).0
}

/// To take what is shared costs a copy for each process, and frees nothing before the last of them has given it up.
#[test]
fn of_a_young_child_only_what_it_has_alone_is_taken() {
    let story = family();
    story.part(1, Part::StageOwn(64));
    assert_eq!(resident(&story, 1), 8, "it shares all");
    let takes = |nr| {
        for _ in 0..4 {
            story.part(nr, Part::StageOwn(64));
            story.part(nr, Part::Unshare(64));
        }
    };
    for page in [2, 5] {
        story.does(1, Act::Write(BASE + page * PAGE, 0, 70 + page));
    }
    takes(1);
    assert_eq!(resident(&story, 1), 6);
    takes(0);
    assert_eq!(resident(&story, 0), 6, "nobody else has these two any more");
    for page in 0..8 {
        let copied = [2, 5].contains(&page);
        let childs = if copied { 70 + page } else { page + 1 };
        let read = |nr| story.does(nr, Act::Read(BASE + page * PAGE));
        assert_eq!(
            (read(0), read(1)),
            (Outcome::Read(page + 1), Outcome::Read(childs))
        );
    }
    story.ends_well();
}

/// Its memory is free only then.
#[test]
fn what_it_shares_once_it_has_grown_up_leaves_all_who_share_it_at_once() {
    let story = family();
    let takes = || {
        story.part(0, Part::Stage(4));
        story.part(0, Part::Unshare(64));
    };
    takes();
    assert_eq!((resident(&story, 0), resident(&story, 1)), (4, 8));
    story.scene.job.clock.sleep(TUNING.looks.childhood.0);
    takes();
    assert_eq!((resident(&story, 0), resident(&story, 1)), (0, 4));
    for nr in [0, 1, 0, 1] {
        story.part(nr, Part::Store);
    }
    assert_eq!(story.scene.job.store.entries(), 8, "kept once");
    for page in 0..8 {
        let read = |nr| story.does(nr, Act::Read(BASE + page * PAGE));
        let same = Outcome::Read(page + 1);
        assert_eq!((read(1), read(0)), (same, same));
    }
    story.ends_well();
}

/// Nobody is left whom it shares with.
#[test]
fn and_all_of_it_once_it_is_alone() {
    let story = family();
    let parent = story.program(0).nr;
    story.scene.machine.end(parent);
    story.scene.come_to_rest().expect("nobody waits");
    for _ in 0..4 {
        story.part(1, Part::StageOwn(64));
        story.part(1, Part::Unshare(64));
    }
    assert_eq!(resident(&story, 1), 0);
    story.ends_well();
}
