//! What both kernels must answer the same to.

use neap_imagined::{Act, Outcome, PAGE, Prot};
use neap_sys::{Event, Mode, Stop, Wake, Word};

use crate::world::World;
use crate::{forks, pages};

type Scenario = (&'static str, fn(&mut dyn World, u64));

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("an absent page is told of, and filled once", absent),
    ("a discard is told of before it is done", discard),
    ("an unmapping is told of after it is done", unmap),
    (
        "a move to a fixed place tells of what was there, of itself, and of its old place",
        moves,
    ),
    (
        "a move that leaves its old place mapped tells of itself alone",
        stays,
    ),
    (
        "what a mapping grows by is registered, and not told of",
        grows,
    ),
    ("what a mapping shrinks by is told of as unmapped", shrinks),
    (
        "a mapping of which a part is registered does not move",
        part,
    ),
    (
        "neighbours are one mapping until one is registered",
        neighbours,
    ),
    (
        "pages move whole, once, to where nothing is",
        pages::move_whole,
    ),
    ("pages move between equal mappings only", pages::unequal),
    (
        "locked pages neither move nor are thrown away",
        pages::locked,
    ),
    (
        "the first write to a protected page of zeros is told of",
        pages::zeros,
    ),
    (
        "a page of zeros that has moved is not protected",
        pages::zeros_move,
    ),
    (
        "memory declared free is told of, and stays for now",
        pages::free,
    ),
    ("a fill takes the place of a guard region", pages::guard),
    (
        "who waits asks again when it is woken, and gets zeros of what is not registered any more",
        pages::woken,
    ),
    (
        "a stranger reads no absent page that is registered, and leaves zeros where it is not",
        pages::stranger,
    ),
    ("a fill reaches memory that nobody may touch", pages::nobody),
    (
        "a fork is told of, and its child's faults come by a userfaultfd of its own",
        fork,
    ),
    (
        "a page that a fork shared does not move until it is written",
        shared,
    ),
    (
        "what is kept from a fork is not in the child, and of an ended child all is gone",
        kept,
    ),
    ("a populated page is the process's own", populated),
    (
        "a fork behind a move is told of between the move and what was in its way",
        forks::behind_a_move,
    ),
    (
        "and so is one between an unmapping and a move to that place",
        forks::before_a_move,
    ),
];

pub(crate) const BOTH: Mode = Mode::MissingAndWp;

pub(crate) fn page_of(value: u64) -> Vec<u8> {
    value.to_ne_bytes().repeat(512)
}

pub(crate) fn place(at: u64, from: u64, pages: u64) -> std::ops::Range<u64> {
    at + from * PAGE..at + (from + pages) * PAGE
}

/// Maps memory and registers it.
pub(crate) fn memory(world: &mut dyn World, range: std::ops::Range<u64>, mode: Mode) {
    assert_eq!(world.does(Act::Map(range.clone(), Prot::RW)), Outcome::Done);
    world.uffd().register(range, mode).unwrap();
}

pub(crate) fn fill(world: &dyn World, at: u64, value: u64) -> Option<Stop> {
    world.uffd().copy(at, &page_of(value), Wake::Now).stop
}

pub(crate) fn is_fault(event: &Event, at: u64, of_write: bool, of_protected: bool) -> bool {
    matches!(event, &Event::Fault { address, write, protected, .. }
        if (address, write, protected) == (at, of_write, of_protected))
}

pub(crate) fn is_unmap(event: &Event, range: std::ops::Range<u64>) -> bool {
    matches!(event, Event::Unmap(gone) if *gone == range)
}

fn absent(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    world.begin(0, Act::Read(at));
    assert!(is_fault(&world.event(), at, false, false));
    assert!(!world.holds(at));
    assert_eq!(fill(world, at, 7), None);
    assert_eq!(world.outcome(0), Outcome::Read(7));
    assert_eq!(fill(world, at, 8), Some(Stop::Exists));
    assert_eq!(world.does(Act::Read(at)), Outcome::Read(7));
    world.begin(0, Act::Write(at + PAGE, 0, 9));
    assert!(is_fault(&world.event(), at + PAGE, true, false));
    assert_eq!(fill(world, at + PAGE, 0), None);
    assert_eq!(world.outcome(0), Outcome::Done);
    assert_eq!(world.does(Act::Read(at + PAGE)), Outcome::Read(9));
    assert_eq!(
        fill(world, at + 4 * PAGE, 1),
        Some(Stop::Absent),
        "no mapping"
    );
    let both = [page_of(1), page_of(2)].concat();
    let crossing = world.uffd().copy(at + 3 * PAGE, &both, Wake::Now);
    assert_eq!((crossing.done, crossing.stop), (0, Some(Stop::Absent)));
    let taken = world.uffd().copy(at, &both, Wake::Now);
    assert_eq!((taken.done, taken.stop), (0, Some(Stop::Exists)));
}

fn discard(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    assert_eq!(fill(world, at, 7), None);
    world.begin(0, Act::Discard(place(at, 0, 2)));
    world.await_message();
    assert!(world.holds(at), "it is not done yet");
    assert_eq!(fill(world, at + PAGE, 7), Some(Stop::Retry));
    assert_eq!(world.uffd().is_registered(place(at, 0, 1)), None);
    assert_eq!(world.move_pages(at, 1, at + 3 * PAGE), Err(Stop::Retry));
    let event = world.event();
    assert!(matches!(event, Event::Remove(range) if range == place(at, 0, 2)));
    assert_eq!(world.outcome(0), Outcome::Done);
    assert!(!world.holds(at));
    assert_eq!(fill(world, at, 8), None, "and now it may be filled");
}

fn unmap(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    assert_eq!(fill(world, at + PAGE, 7), None);
    world.begin(0, Act::Unmap(place(at, 1, 2)));
    world.await_message();
    let left = world.view().extents(place(at, 0, 4)).unwrap();
    assert_eq!(left, [place(at, 0, 1), place(at, 3, 1)], "it is done");
    assert_eq!(fill(world, at, 7), Some(Stop::Retry), "elsewhere, too");
    assert!(is_unmap(&world.event(), place(at, 1, 2)));
    assert_eq!(world.outcome(0), Outcome::Done);
    assert_eq!(world.uffd().is_registered(place(at, 0, 1)), Some(true));
    assert_eq!(world.uffd().is_registered(place(at, 1, 1)), Some(false));
    assert_eq!(
        world.does(Act::Unmap(place(at, 1, 1))),
        Outcome::Done,
        "nothing was there"
    );
}

fn moves(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    memory(world, place(at, 8, 4), BOTH);
    assert_eq!(fill(world, at + PAGE, 7), None);
    world.begin(
        0,
        Act::Move {
            from: place(at, 0, 2),
            to: at + 9 * PAGE,
            len: 2 * PAGE,
            stays: false,
        },
    );
    assert!(is_unmap(&world.event(), place(at, 9, 2)));
    world.await_message();
    assert_eq!(fill(world, at + 8 * PAGE, 1), Some(Stop::Retry));
    let event = world.event();
    let told = (at, at + 9 * PAGE, 2 * PAGE);
    assert!(matches!(event, Event::Remap { from, to, len } if (from, to, len) == told));
    assert!(is_unmap(&world.event(), place(at, 0, 2)));
    assert_eq!(world.outcome(0), Outcome::Done);
    assert_eq!(world.does(Act::Read(at + 10 * PAGE)), Outcome::Read(7));
    assert_eq!(world.uffd().is_registered(place(at, 9, 1)), Some(true));
    assert_eq!(world.uffd().is_registered(place(at, 0, 1)), Some(false));
}

fn stays(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    assert_eq!(fill(world, at, 7), None);
    world.begin(
        0,
        Act::Move {
            from: place(at, 0, 2),
            to: at + 9 * PAGE,
            len: 2 * PAGE,
            stays: true,
        },
    );
    assert!(matches!(world.event(), Event::Remap { .. }));
    assert_eq!(world.outcome(0), Outcome::Done);
    assert!(!world.holds(at) && world.holds(at + 9 * PAGE));
    assert_eq!(world.uffd().is_registered(place(at, 0, 1)), Some(true));
    assert_eq!(world.uffd().is_registered(place(at, 9, 1)), Some(true));
}

fn grows(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    let from = place(at, 0, 2);
    let len = 4 * PAGE;
    assert_eq!(world.does(Act::Resize { from, len }), Outcome::Done);
    assert_eq!(fill(world, at + 3 * PAGE, 7), None);
}

fn shrinks(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    let from = place(at, 0, 4);
    world.begin(0, Act::Resize { from, len: PAGE });
    assert!(is_unmap(&world.event(), place(at, 1, 3)));
    assert_eq!(world.outcome(0), Outcome::Done);
    memory(world, place(at, 1, 3), BOTH);
    world.begin(
        0,
        Act::Move {
            from: place(at, 1, 3),
            to: at + 9 * PAGE,
            len: PAGE,
            stays: false,
        },
    );
    let event = world.event();
    let told = (at + PAGE, at + 9 * PAGE, PAGE);
    assert!(matches!(event, Event::Remap { from, to, len } if (from, to, len) == told));
    assert!(is_unmap(&world.event(), place(at, 2, 2)));
    assert!(is_unmap(&world.event(), place(at, 1, 1)));
    assert_eq!(world.outcome(0), Outcome::Done);
}

fn part(world: &mut dyn World, at: u64) {
    assert_eq!(
        world.does(Act::Map(place(at, 0, 4), Prot::RW)),
        Outcome::Done
    );
    world.uffd().register(place(at, 1, 1), BOTH).unwrap();
    let whole = Act::Resize {
        from: place(at, 0, 4),
        len: 8 * PAGE,
    };
    assert_eq!(world.does(whole), Outcome::Failed(libc::EFAULT));
}

fn neighbours(world: &mut dyn World, at: u64) {
    assert_eq!(
        world.does(Act::Map(place(at, 0, 2), Prot::RW)),
        Outcome::Done
    );
    assert_eq!(
        world.does(Act::Map(place(at, 2, 2), Prot::RW)),
        Outcome::Done
    );
    let all = place(at, 0, 8);
    assert_eq!(
        world.view().extents(all.clone()).unwrap(),
        [place(at, 0, 4)]
    );
    world.uffd().register(place(at, 0, 2), BOTH).unwrap();
    let two = [place(at, 0, 2), place(at, 2, 2)];
    assert_eq!(world.view().extents(all.clone()).unwrap(), two);
    world.uffd().register(place(at, 2, 2), BOTH).unwrap();
    assert_eq!(
        world.view().extents(all.clone()).unwrap(),
        [place(at, 0, 4)]
    );
    assert_eq!(
        world.does(Act::Protect(place(at, 1, 1), Prot::R)),
        Outcome::Done
    );
    assert_eq!(world.view().extents(all).unwrap().len(), 3);
    world.uffd().unregister(place(at, 0, 4)).unwrap();
    assert_eq!(fill(world, at, 7), Some(Stop::Absent));
    assert!(
        world.uffd().register(place(at, 6, 1), BOTH).is_err(),
        "nothing is there"
    );
}

fn fork(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    assert_eq!(fill(world, at, 7), None);
    world.begin(0, Act::Fork);
    let Event::Fork(child) = world.event() else {
        panic!("a fork was to be told of");
    };
    assert_eq!(world.outcome(0), Outcome::Done);
    world.child_reads(at);
    assert_eq!(world.child_read(), 7);
    world.child_reads(at + PAGE);
    world.await_child(&*child);
    let mut told = Vec::new();
    child.read_events(&mut |event| told.push(event)).unwrap();
    assert!(told.len() == 1 && is_fault(&told[0], at + PAGE, false, false));
    let filled = child.copy(at + PAGE, &page_of(8), Wake::Now);
    assert_eq!(filled.stop, None);
    assert_eq!(world.child_read(), 8);
    assert!(!world.holds(at + PAGE), "it is the child's");
    assert_eq!(fill(world, at + PAGE, 9), None);
    world.child_reads(at + PAGE);
    assert_eq!(world.child_read(), 8);
}

/// Whether the process alone has the first two pages.
fn alone(world: &mut dyn World, at: u64) -> [bool; 2] {
    let mut words = [Word::default(); 2];
    world.view().words(at, &mut words).unwrap();
    words.map(Word::is_alone)
}

fn shared(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 4), BOTH);
    memory(world, place(at, 8, 4), Mode::Wp);
    assert_eq!(fill(world, at, 7), None);
    assert_eq!(fill(world, at + PAGE, 8), None);
    assert_eq!(alone(world, at), [true, true]);
    world.begin(0, Act::Fork);
    assert!(matches!(world.event(), Event::Fork(_)));
    assert_eq!(world.outcome(0), Outcome::Done);
    assert_eq!(world.move_pages(at, 1, at + 8 * PAGE), Err(Stop::Busy));
    assert_eq!(alone(world, at), [false, false]);
    assert_eq!(world.does(Act::Write(at, 1, 9)), Outcome::Done);
    assert_eq!(alone(world, at), [true, false]);
    assert_eq!(world.move_pages(at, 1, at + 8 * PAGE), Ok(1));
    world.child_reads(at);
    assert_eq!(world.child_read(), 7);
    world.end_child();
    assert!(alone(world, at)[1]);
    assert_eq!(
        world.move_pages(at + PAGE, 1, at + 9 * PAGE),
        Err(Stop::Busy),
        "it was shared"
    );
    assert_eq!(world.does(Act::Write(at + PAGE, 1, 9)), Outcome::Done);
    assert_eq!(world.move_pages(at + PAGE, 1, at + 9 * PAGE), Ok(1));
}

fn kept(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 1), BOTH);
    memory(world, place(at, 8, 2), BOTH);
    assert_eq!(world.does(Act::Keep(place(at, 8, 1))), Outcome::Done);
    world.begin(0, Act::Fork);
    let Event::Fork(child) = world.event() else {
        panic!("a fork was to be told of");
    };
    assert_eq!(world.outcome(0), Outcome::Done);
    assert_eq!(child.is_registered(place(at, 0, 1)), Some(true));
    assert_eq!(child.is_registered(place(at, 8, 1)), Some(false));
    assert_eq!(child.is_registered(place(at, 9, 1)), Some(true));
    world.end_child();
    assert_eq!(
        child.copy(at, &page_of(1), Wake::Now).stop,
        Some(Stop::Dead)
    );
    assert_eq!(child.is_registered(place(at, 0, 1)), None);
}

fn populated(world: &mut dyn World, at: u64) {
    memory(world, place(at, 0, 2), BOTH);
    memory(world, place(at, 8, 4), Mode::Wp);
    assert_eq!(fill(world, at, 7), None);
    world.begin(0, Act::Fork);
    assert!(matches!(world.event(), Event::Fork(_)));
    assert_eq!(world.outcome(0), Outcome::Done);
    assert_eq!(world.does(Act::Populate(place(at, 0, 1))), Outcome::Done);
    assert_eq!(world.move_pages(at, 1, at + 8 * PAGE), Ok(1));
    world.child_reads(at);
    assert_eq!(world.child_read(), 7);
}
