//! Forks in stories of threads, against what their children have.

use super::*;

type Places = [Option<u32>; PLACES];

/// What the kernel says of a place.
fn is_told(places: &Places, at: u64) -> bool {
    let held = places.get(at as usize).copied().flatten();
    held.is_some_and(|held| held != UNKNOWN)
}

/// Where the forks of a story are.
fn forks(read: &[Shape]) -> Vec<usize> {
    let all = 0..read.len();
    all.filter(|&at| read[at] == Shape::Still).collect()
}

/// Each child of a story says what it has, and its parent what is there now.
fn births(
    read: &[Shape],
    taken: &Ranges,
    now: impl Fn(u64) -> bool,
    has: &[&dyn Fn(u64) -> bool],
) -> Births {
    births_but(read, taken, Ranges::default(), now, has)
}

/// The same where something was registered while a fork was under way.
fn births_but(
    read: &[Shape],
    taken: &Ranges,
    unsure: Ranges,
    now: impl Fn(u64) -> bool,
    has: &[&dyn Fn(u64) -> bool],
) -> Births {
    let places = places_to_ask_children(read, taken, &unsure);
    let birth = |(at, has): (usize, &&dyn Fn(u64) -> bool)| Birth {
        at,
        has: places.iter().map(|&at| (at, has(at))).collect(),
    };
    Births {
        now: places.iter().map(|&at| (at, now(at))).collect(),
        forks: forks(read).into_iter().zip(has).map(birth).collect(),
        unsure,
    }
}

/// How many children have other pages in the table than they were forked with.
fn misplaced(kernel: &Kernel, before: Places, order: &[usize]) -> u32 {
    let misses = |(fork, child): (usize, &Places)| {
        let place = order.iter().position(|&at| at == fork);
        let table = replay(before, &kernel.read, &order[..place.expect("a fork")]);
        // Nobody asks for what is not registered.
        let asked = (0..PLACES).filter(|&at| is_told(child, at as u64));
        let held = |at: usize| child[at].filter(|&held| held > UNKNOWN);
        asked.into_iter().any(|at| table[at] != held(at))
    };
    let children = forks(&kernel.read).into_iter().zip(&kernel.children);
    children.filter(|&child| misses(child)).count() as u32
}

/// Of the children in 50,000 stories, how many have other pages in the table than they were forked with: where they are not asked, and where
/// they are.
fn wrong(changes: usize, delay: usize) -> (u32, u32) {
    let (mut as_read, mut placed) = (0, 0);
    for seed in 1..50_001 {
        let (kernel, before) = Kernel::story_with_forks(seed, changes, delay, 4);
        let read = &kernel.read;
        let mut taken = Ranges::default();
        for at in (0..PLACES).filter(|&at| before[at].is_some()) {
            taken.insert(at as u64..at as u64 + 1);
        }
        let there = |at| is_told(&kernel.places, at);
        let now = asked(read, there);
        let has = kernel
            .children
            .iter()
            .map(|child| move |at| is_told(child, at));
        let has: Vec<_> = has.collect();
        let has: Vec<_> = has.iter().map(|has| has as &dyn Fn(u64) -> bool).collect();
        let births = births(read, &taken, there, &has);
        let order = |births: &Births| super::super::in_order(read, &taken, &now, births);
        as_read += misplaced(&kernel, before, &order(&Births::default()));
        placed += misplaced(&kernel, before, &order(&births));
    }
    (as_read, placed)
}

#[test]
fn forks_are_placed_by_what_their_children_have() {
    for (changes, delay, most) in [(3, 0, 2), (4, 1, 3), (6, 1, 2), (8, 2, 2), (12, 3, 12)] {
        let (as_read, placed) = wrong(changes, delay);
        assert!(as_read > 400, "{as_read} of {changes} changes");
        // What grew over a place before the fork, or behind it: both look the same.
        assert!(placed <= most, "{placed} of {changes} changes");
    }
}

/// The order of a story with one fork, whose child has these places and whose parent has those now.
fn order(
    read: &[Shape],
    before: &[Range<u64>],
    child: &dyn Fn(u64) -> bool,
    now: &dyn Fn(u64) -> bool,
) -> Vec<usize> {
    let before = taken(before);
    let births = births(read, &before, now, &[child]);
    super::super::in_order(read, &before, &asked(read, now), &births)
}

fn is_in(place: Range<u64>) -> impl Fn(u64) -> bool {
    move |at| place.contains(&at)
}

#[test]
fn the_same_story_is_told_of_a_fork_before_a_move_and_behind_it() {
    let read = [
        Shape::Unmap(8..10),
        Shape::Still,
        moved(0..2, 8),
        Shape::Unmap(0..2),
    ];
    let before = [0..2, 8..10];
    let of = |child: &dyn Fn(u64) -> bool| order(&read, &before, child, &is_in(8..10));
    assert_eq!(of(&|_| true), [1, 0, 2], "it has both");
    assert_eq!(of(&is_in(0..2)), [0, 1, 2], "there is room");
    assert_eq!(of(&is_in(8..10)), [0, 2, 1], "it has moved");
    assert_eq!(of(&|_| false), [0, 2, 1], "neither (MADV_DONTFORK)");
}

#[test]
fn what_has_nothing_to_do_with_each_other_may_be_on_two_sides_of_a_fork() {
    let read = [
        Shape::Unmap(8..10),
        Shape::Still,
        moved(0..2, 20),
        Shape::Unmap(0..2),
    ];
    let order = order(&read, &[0..2, 8..10], &|at| at >= 8, &is_in(20..22));
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn two_forks_may_be_read_in_the_other_order() {
    let read = [Shape::Still, Shape::Unmap(0..2), Shape::Still];
    let mut before = Ranges::default();
    before.insert(0..2);
    let births = births(&read, &before, |_| false, &[&|_| false, &|_| true]);
    let order = super::super::in_order(&read, &before, &Registered::new(), &births);
    assert_eq!(order, [2, 1, 0]);
}

/// One thread shrinks a mapping, grows it and forks: its child has that place, and nothing of what was there before.
#[test]
fn where_something_has_grown_since_a_child_is_not_believed() {
    let read = [Shape::Unmap(4..8), Shape::Still];
    let of = |now: &dyn Fn(u64) -> bool| order(&read, &[0..4, 4..8], &|_| true, now);
    assert_eq!(of(&|_| true), [0, 1]);
    assert_eq!(of(&is_in(0..4)), [1, 0], "nothing has grown");
}

/// What stays behind a move (MREMAP_DONTUNMAP) to where something was: before and after, the same is registered.
#[test]
fn where_a_child_cannot_tell_its_fork_stays_where_it_was_read() {
    let of = |read: &[Shape]| order(read, &[0..2, 8..10], &|_| true, &|_| true);
    let read = [Shape::Unmap(8..10), moved(0..2, 8), Shape::Still];
    assert_eq!(of(&read), [0, 1, 2]);
    let read = [Shape::Still, Shape::Unmap(8..10), moved(0..2, 8)];
    assert_eq!(of(&read), [0, 1, 2]);
}

/// What is discarded before it moves stays before that, on whichever side of a fork.
#[test]
fn a_discard_stays_with_what_was_changed_behind_it() {
    let read = [
        Shape::Still,
        Shape::Discard(0..1),
        moved(0..2, 8),
        Shape::Unmap(0..2),
    ];
    let of = |child: Range<u64>| order(&read, &[0..1, 1..2], &is_in(child), &is_in(8..10));
    assert_eq!(of(8..10), [1, 2, 0]);
    assert_eq!(of(0..2), [0, 1, 2]);
}

/// What the child lacks may be kept from it (MADV_DONTFORK). What it has was there, and came to no place from nowhere.
#[test]
fn what_a_child_has_says_more_than_what_it_lacks() {
    // 20 comes to 0 and grows to 0..8, where two mappings were; the first of them was kept from children.
    let read = [
        Shape::Still,
        Shape::Unmap(0..8),
        moved(20..21, 0),
        Shape::Unmap(20..21),
    ];
    let child = |at| (4..6).contains(&at) || at == 20;
    let order = order(&read, &[0..2, 4..6, 20..21], &child, &is_in(0..8));
    assert_eq!(order, [0, 1, 2]);
}

/// A child grows a mapping to where its parent had unmapped something before the fork. It has a part of that, and nothing of what was there.
#[test]
fn a_child_may_have_grown_to_where_something_was_unmapped() {
    let of = |read: &[Shape], child: &dyn Fn(u64) -> bool| {
        order(read, std::slice::from_ref(&(16..25)), child, &is_in(13..15))
    };
    let unmapped = [Shape::Unmap(16..25), Shape::Still];
    assert_eq!(of(&unmapped, &is_in(13..22)), [0, 1], "it has grown");
    assert_eq!(of(&unmapped, &is_in(16..22)), [1, 0], "from nowhere");
    assert_eq!(of(&unmapped, &is_in(13..25)), [1, 0], "it has all");
    let forked = [Shape::Still, Shape::Unmap(16..25)];
    assert_eq!(
        of(&forked, &is_in(13..22)),
        [0, 1],
        "the rest was kept from it"
    );
}

/// It registers what came meanwhile, and the child was copied before that.
#[test]
fn what_was_registered_while_a_fork_was_under_way_need_not_be_in_its_child() {
    let order = |read: &[Shape], taken: &Ranges, unsure, has: &dyn Fn(u64) -> bool| {
        let births = births_but(read, taken, unsure, |at| at == 9, &[has]);
        super::super::in_order(read, taken, &Registered::new(), &births)
    };
    let forked = [Shape::Still, Shape::Unmap(10..30)];
    let all = taken(&[10..15, 20..30]);
    let has = is_in(9..15);
    let sure = Ranges::default();
    assert_eq!(
        order(&forked, &all, sure, &has),
        [1, 0],
        "it would have grown since"
    );
    assert_eq!(
        order(&forked, &all, taken(std::slice::from_ref(&(20..30))), &has),
        [0, 1]
    );
    // Also where that is on both sides of what was there before.
    let read_late = [Shape::Unmap(10..30), Shape::Still];
    let all = taken(std::slice::from_ref(&(10..30)));
    let unsure = taken(&[10..15, 20..30]);
    assert_eq!(order(&read_late, &all, unsure, &is_in(15..20)), [1, 0]);
}
