//! What becomes of pages.

use neap_imagined::{Act, Outcome, PAGE, Prot};
use neap_sys::{Event, Found, Mode, Piece, Stop, Wake, Word};

use crate::scenarios::{BOTH, fill, is_fault, memory, page_of, place};
use crate::world::World;

pub(crate) fn move_whole(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    memory(world, place(at, 8, 8), Mode::Wp);
    let stage = at + 8 * PAGE;
    for page in 0..3 {
        assert_eq!(fill(world, at + page * PAGE, 7 + page), None);
    }
    assert_eq!(world.move_pages(at, 2, stage), Ok(2));
    assert!(!world.holds(at) && world.holds(stage));
    assert_eq!(world.does(Act::Read(stage + PAGE)), Outcome::Read(8));
    assert_eq!(world.move_pages(at, 1, stage + 2 * PAGE), Err(Stop::Absent));
    assert_eq!(world.move_pages(at + 2 * PAGE, 1, stage), Err(Stop::Exists));
    assert_eq!(
        world.move_pages(at + 2 * PAGE, 2, stage + 4 * PAGE),
        Ok(1),
        "as far as it goes"
    );
    assert_eq!(world.move_pages(stage, 2, at), Ok(2));
    assert_eq!(world.does(Act::Read(at)), Outcome::Read(7));
    assert_eq!(
        world.does(Act::Write(at, 0, 9)),
        Outcome::Done,
        "it is not protected"
    );
}

pub(crate) fn unequal(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    memory(world, place(at, 8, 4), Mode::Wp);
    assert_eq!(fill(world, at, 7), None);
    let refused = Err(Stop::Refused);
    assert_eq!(
        world.does(Act::Protect(place(at, 0, 1), Prot::R)),
        Outcome::Done
    );
    assert_eq!(
        world.move_pages(at, 1, at + 8 * PAGE),
        refused,
        "another protection"
    );
    assert_eq!(
        world.does(Act::Protect(place(at, 8, 1), Prot::R)),
        Outcome::Done
    );
    assert_eq!(
        world.move_pages(at, 1, at + 8 * PAGE),
        refused,
        "neither may be written"
    );
    assert_eq!(fill(world, at + PAGE, 7), None);
    assert_eq!(fill(world, at + 2 * PAGE, 7), None);
    assert_eq!(
        world.does(Act::Map(place(at, 20, 2), Prot::RW)),
        Outcome::Done
    );
    assert_eq!(
        world.move_pages(at + PAGE, 1, at + 20 * PAGE),
        refused,
        "not registered"
    );
    assert_eq!(
        world.does(Act::Protect(place(at, 2, 2), Prot::NONE)),
        Outcome::Done
    );
    assert_eq!(
        world.move_pages(at + PAGE, 2, at + 9 * PAGE),
        refused,
        "two mappings"
    );
    assert_eq!(world.move_pages(at + PAGE, 1, at + 9 * PAGE), Ok(1));
}

pub(crate) fn locked(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    memory(world, place(at, 8, 4), Mode::Wp);
    assert_eq!(fill(world, at, 7), None);
    world.begin(0, Act::Lock(place(at, 0, 2), true));
    assert!(
        is_fault(&world.event(), at + PAGE, true, false),
        "it is populated"
    );
    assert_eq!(fill(world, at + PAGE, 8), None);
    assert_eq!(world.outcome(0), Outcome::Done);
    assert_eq!(world.move_pages(at, 1, at + 8 * PAGE), Err(Stop::Refused));
    let discard = Act::Discard(place(at, 0, 2));
    assert_eq!(world.does(discard), Outcome::Failed(libc::EINVAL));
    assert_eq!(world.does(Act::Lock(place(at, 0, 2), false)), Outcome::Done);
    assert_eq!(world.move_pages(at, 1, at + 8 * PAGE), Ok(1));
}

pub(crate) fn zeros(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    world.begin(0, Act::Read(at));
    assert!(is_fault(&world.event(), at, false, false));
    assert_eq!(world.uffd().zero(place(at, 0, 2), Wake::Now).stop, None);
    assert_eq!(world.outcome(0), Outcome::Read(0));
    assert_eq!(
        world.uffd().zero(place(at, 0, 1), Wake::Now).stop,
        Some(Stop::Exists)
    );
    assert_eq!(world.uffd().protect(place(at, 0, 2)).stop, None);
    let mut words = [Word::default(); 3];
    world.view().words(at, &mut words).unwrap();
    assert_eq!(words.map(Word::is_protected), [true, true, false]);
    assert_eq!(words.map(Word::is_empty), [false, false, true]);
    let mut found = Vec::new();
    let mut keep = |run, what| found.push((run, what));
    world.view().present(place(at, 0, 4), &mut keep).unwrap();
    assert_eq!(found, [(place(at, 0, 2), Found::Zeros)]);
    world.begin(0, Act::Write(at, 0, 9));
    assert!(is_fault(&world.event(), at, true, true));
    assert_eq!(
        world.uffd().unprotect(place(at, 0, 1), Wake::Now).stop,
        None
    );
    assert_eq!(world.outcome(0), Outcome::Done);
    found = Vec::new();
    let mut keep = |run, what| found.push((run, what));
    world.view().present(place(at, 0, 4), &mut keep).unwrap();
    assert_eq!(
        found,
        [
            (place(at, 0, 1), Found::Pages),
            (place(at, 1, 1), Found::Zeros)
        ]
    );
    assert_eq!(
        world.uffd().protect(place(at, 6, 1)).stop,
        Some(Stop::Absent)
    );
}

pub(crate) fn zeros_move(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 1), BOTH);
    memory(world, place(at, 8, 4), BOTH);
    assert_eq!(world.uffd().zero(place(at, 0, 1), Wake::Now).stop, None);
    assert_eq!(world.uffd().protect(place(at, 0, 1)).stop, None);
    assert_eq!(world.move_pages(at, 1, at + 8 * PAGE), Ok(1));
    assert_eq!(world.does(Act::Write(at + 8 * PAGE, 0, 9)), Outcome::Done);
}

pub(crate) fn free(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    assert_eq!(world.uffd().copy(at, &page_of(7), Wake::Now).stop, None);
    world.begin(0, Act::Free(place(at, 0, 2)));
    assert!(matches!(world.event(), Event::Remove(range) if range == place(at, 0, 2)));
    assert_eq!(world.outcome(0), Outcome::Done);
    assert!(world.holds(at));
    assert_eq!(world.does(Act::Read(at)), Outcome::Read(7));
    memory(world, place(at, 8, 1), Mode::Wp);
    assert_eq!(world.move_pages(at, 1, at + 8 * PAGE), Ok(1), "it may move");
}

pub(crate) fn guard(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    assert_eq!(fill(world, at, 7), None);
    let made = world.does(Act::Guard(place(at, 0, 2), true));
    if made == Outcome::Failed(libc::EINVAL) {
        return; // Linux before 6.13
    }
    assert_eq!(made, Outcome::Done);
    let mut words = [Word::default(); 3];
    world.view().words(at, &mut words).unwrap();
    assert_eq!(words.map(Word::may_guard), [true, true, false]);
    assert!(!world.holds(at));
    assert_eq!(fill(world, at, 8), None);
    assert_eq!(world.does(Act::Read(at)), Outcome::Read(8));
    assert_eq!(
        world.does(Act::Guard(place(at, 1, 1), false)),
        Outcome::Done
    );
    world.view().words(at, &mut words).unwrap();
    assert!(words[1].is_empty());
}

pub(crate) fn woken(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    world.begin(0, Act::Read(at));
    assert!(is_fault(&world.event(), at, false, false));
    world.uffd().wake(place(at, 0, 1)).unwrap();
    world.goes_on(0);
    assert!(is_fault(&world.event(), at, false, false), "it asks again");
    world.uffd().unregister(place(at, 0, 2)).unwrap();
    assert_eq!(world.outcome(0), Outcome::Read(0));
}

pub(crate) fn stranger(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    memory(world, place(at, 8, 2), Mode::Wp);
    assert_eq!(fill(world, at, 7), None);
    let read = |from| {
        let mut bytes = [1; 8];
        let to = &mut bytes[..];
        let done = world.view().read(&mut [Piece { from, to }]);
        done.ok().map(|()| u64::from_ne_bytes(bytes))
    };
    assert_eq!(read(at), Some(7));
    assert_eq!(read(at + PAGE), None);
    assert_eq!(read(at + 8 * PAGE), Some(0));
    assert_eq!(read(at + 20 * PAGE), None, "nothing is mapped");
    assert_eq!(world.move_pages(at, 1, at + 8 * PAGE), Err(Stop::Exists));
    assert_eq!(world.move_pages(at, 1, at + 9 * PAGE), Ok(1));
}

pub(crate) fn nobody(world: &mut dyn World, at: u64) {
    let range = place(at, 0, 2);
    assert_eq!(
        world.does(Act::Map(range.clone(), Prot::NONE)),
        Outcome::Done
    );
    world.uffd().register(range.clone(), BOTH).unwrap();
    assert_eq!(fill(world, at, 7), None);
    assert_eq!(world.does(Act::Protect(range, Prot::RW)), Outcome::Done);
    assert_eq!(world.does(Act::Read(at)), Outcome::Read(7));
}
