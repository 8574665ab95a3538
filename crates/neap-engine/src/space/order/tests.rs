//! Stories that threads tell of a small memory, against what is there in the end.

mod forks;

use std::collections::VecDeque;

use super::*;

/// Nothing of what was there before, and yet a mapping; the one that the kernel tells of and the one
/// that it does not.
const FRESH: u32 = 0;
const UNKNOWN: u32 = 1;
const PLACES: usize = 12;

/// Memory that threads change, with what they have not told yet.
struct Kernel {
    places: [Option<u32>; PLACES],
    /// Whose the mappings are: nobody touches another's.
    owner: [usize; PLACES],
    untold: [VecDeque<Shape>; 3],
    /// What stayed behind a move of each thread, to be unmapped as a whole some time.
    husk: [Option<Range<usize>>; 3],
    read: Vec<Shape>,
    /// What each forked child has, in the order of reading: those that are told of, and by thread those that are not.
    children: Vec<[Option<u32>; PLACES]>,
    unborn: [Option<[Option<u32>; PLACES]>; 3],
    /// Some moves leave something behind.
    husks: bool,
    random: u64,
}

impl Kernel {
    fn below(&mut self, most: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) as usize % most
    }

    fn change(&mut self, thread: usize) {
        let (mut len, mut what) = (1 + self.below(3), self.below(6));
        let mut from = self.below(PLACES - len + 1);
        if what == 4 {
            let Some(husk) = self.husk[thread].take() else {
                return;
            };
            (from, len, what) = (husk.start, husk.len(), 0);
        }
        let told = |place: &Option<u32>| place.is_some_and(|held| held != UNKNOWN);
        let owner = self.owner;
        let mine = |at: usize| owner[at..at + len].iter().all(|&owner| owner == thread);
        let there = |places: &[Option<u32>]| places.iter().all(told);
        let range = |start: usize| start as u64..(start + len) as u64;
        match what {
            5 => {
                // What a mapping grows by in place is not told.
                let told_of = from > 0 && told(&self.places[from - 1]) && owner[from - 1] == thread;
                if told_of && self.places[from..from + len].iter().all(Option::is_none) {
                    self.places[from..from + len].fill(Some(FRESH));
                    self.owner[from..from + len].fill(thread);
                }
            }
            0 if mine(from) && self.places[from..from + len].iter().all(Option::is_some) => {
                // Who unmaps nothing that is told of tells nothing.
                let tells = self.places[from..from + len].iter().any(told);
                self.places[from..from + len].fill(None);
                if tells {
                    self.untold[thread].push_back(Shape::Unmap(range(from)));
                }
            }
            1 if self.places[from..from + len].iter().all(Option::is_none) => {
                self.places[from..from + len].fill(Some(UNKNOWN));
                self.owner[from..from + len].fill(thread);
            }
            _ => {
                let to = self.below(PLACES - len + 1);
                let apart = from + len <= to || to + len <= from;
                let free = self.places[to..to + len].iter().all(Option::is_none);
                let may = mine(from) && (free || mine(to));
                if !apart || !may || !there(&self.places[from..from + len]) {
                    return;
                }
                if self.places[to..to + len].iter().any(told) {
                    self.untold[thread].push_back(Shape::Unmap(range(to)));
                }
                let stays = self.below(4) == 0 && self.husks;
                if stays {
                    self.husk[thread] = Some(from..from + len);
                }
                for at in 0..len {
                    self.places[to + at] = self.places[from + at];
                    self.places[from + at] = stays.then_some(FRESH);
                    self.owner[to + at] = thread;
                }
                // What it grows by is not told.
                let grown = to + len..(to + len + self.below(3)).min(PLACES);
                if self.below(3) == 0 && self.places[grown.clone()].iter().all(Option::is_none) {
                    self.places[grown.clone()].fill(Some(FRESH));
                    self.owner[grown].fill(thread);
                }
                let (from, to) = (range(from), range(to));
                let from_again = from.clone();
                self.untold[thread].push_back(Shape::Move { from, to });
                if !stays {
                    self.untold[thread].push_back(Shape::Unmap(from_again));
                }
            }
        }
    }

    /// A story of some changes.
    fn story(seed: u64, changes: usize, delay: usize) -> (Kernel, [Option<u32>; PLACES]) {
        Self::story_with_forks(seed, changes, delay, 0)
    }

    /// Of so many calls one is a fork; 0: none is.
    fn story_with_forks(
        seed: u64,
        changes: usize,
        delay: usize,
        forks: usize,
    ) -> (Kernel, [Option<u32>; PLACES]) {
        let mut kernel = Kernel {
            places: [None; PLACES],
            owner: [0; PLACES],
            untold: Default::default(),
            husk: Default::default(),
            read: Vec::new(),
            children: Vec::new(),
            unborn: Default::default(),
            husks: forks == 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        for place in 0..PLACES {
            kernel.places[place] = match kernel.below(6) {
                0 => None,
                1 => Some(UNKNOWN),
                _ => Some(10 + place as u32),
            };
            kernel.owner[place] = kernel.below(10) / 4;
        }
        let before = kernel
            .places
            .map(|held| held.filter(|&held| held > UNKNOWN));
        for _ in 0..changes {
            let thread = kernel.below(3);
            if kernel.untold[thread].is_empty() {
                match forks > 0 && kernel.below(forks) == 0 {
                    true => kernel.fork(thread),
                    false => kernel.change(thread),
                }
            }
            for _ in 0..delay {
                kernel.hear();
            }
        }
        while kernel.untold.iter().any(|untold| !untold.is_empty()) {
            kernel.hear();
        }
        (kernel, before)
    }

    fn fork(&mut self, thread: usize) {
        self.untold[thread].push_back(Shape::Still);
        self.unborn[thread] = Some(self.places);
    }

    fn hear(&mut self) {
        let thread = self.below(3);
        let told = self.untold[thread].pop_front();
        if told == Some(Shape::Still) {
            self.children.extend(self.unborn[thread].take());
        }
        self.read.extend(told);
    }
}

/// Of a story without forks.
fn in_order(read: &[Shape], taken: Ranges, now: &Registered) -> Vec<usize> {
    super::in_order(read, &taken, now, &Births::default())
}

fn replay(before: [Option<u32>; PLACES], read: &[Shape], order: &[usize]) -> [Option<u32>; PLACES] {
    let mut places = before;
    let span = |range: &Range<u64>| range.start as usize..range.end as usize;
    for &at in order {
        match &read[at] {
            Shape::Unmap(range) => places[span(range)].fill(None),
            Shape::Move { from, to } => {
                let moved = places[span(from)].to_vec();
                places[span(from)].fill(None);
                places[span(to)].copy_from_slice(&moved);
            }
            Shape::Discard(_) | Shape::Still => {}
        }
    }
    places
}

/// Of so many stories, how many are understood wrongly; in order of reading, and in ours.
fn wrong(changes: usize, delay: usize) -> (u32, u32) {
    let (mut as_read, mut ordered) = (0, 0);
    for seed in 1..50_001 {
        let (kernel, before) = Kernel::story(seed, changes, delay);
        let truth = kernel
            .places
            .map(|held| held.filter(|&held| held > UNKNOWN));
        let mut taken = Ranges::default();
        for at in (0..PLACES).filter(|&at| before[at].is_some()) {
            taken.insert(at as u64..at as u64 + 1);
        }
        let plain: Vec<usize> = (0..kernel.read.len()).collect();
        let is_told = |at: u64| {
            let held = kernel.places.get(at as usize).copied().flatten();
            held.is_some_and(|held| held != UNKNOWN)
        };
        let order = in_order(&kernel.read, taken, &asked(&kernel.read, is_told));
        as_read += u32::from(replay(before, &kernel.read, &plain) != truth);
        ordered += u32::from(replay(before, &kernel.read, &order) != truth);
    }
    (as_read, ordered)
}

#[test]
fn short_stories_are_understood_also_when_they_are_told_late() {
    for (changes, delay) in [(3, 0), (4, 1), (6, 1), (8, 2), (12, 3)] {
        let (as_read, ordered) = wrong(changes, delay);
        assert!(as_read > 0, "nothing to be understood in {changes} changes");
        let most = if changes > 8 { 1 } else { 0 };
        assert!(ordered <= most, "{ordered} of 50,000 of {changes} changes");
    }
}

#[test]
fn of_long_stories_few_are_misunderstood() {
    // Where a place changes hands again and again within one story, two stories can look the same.
    for (changes, delay) in [(30, 3), (30, 6)] {
        let (_, ordered) = wrong(changes, delay);
        assert!(ordered <= 40, "{ordered} of 50,000");
    }
}

/// What the kernel says where it is to be asked.
fn asked(read: &[Shape], registered: impl Fn(u64) -> bool) -> Registered {
    let places = places_to_ask(read).into_iter();
    places.map(|at| (at, registered(at))).collect()
}

fn moved(from: Range<u64>, to: u64) -> Shape {
    let to = to..to + (from.end - from.start);
    Shape::Move { from, to }
}

fn taken(ranges: &[Range<u64>]) -> Ranges {
    let mut taken = Ranges::default();
    ranges.iter().cloned().for_each(|range| taken.insert(range));
    taken
}

#[test]
fn an_unmapping_of_what_stayed_behind_a_move_is_not_its_end() {
    // Moved, but for a husk; half of that is replaced by another mapping; then all of it is unmapped.
    let read = [
        moved(0..4, 6),
        Shape::Unmap(0..2),
        moved(10..12, 0),
        Shape::Unmap(10..12),
        Shape::Unmap(0..4),
    ];
    let before = taken(&[0..4, 10..12]);
    let now = asked(&read, |at| (6..10).contains(&at));
    assert_eq!(in_order(&read, before.clone(), &now), [0, 1, 2, 4]);
    // The other mapping is there: it was the end of the first move, told late.
    let now = asked(&read, |at| at < 2 || (6..10).contains(&at));
    assert_eq!(in_order(&read, before, &now), [0, 1, 2]);
}

#[test]
fn where_the_kernel_cannot_be_asked_an_unmapping_ends_a_move() {
    // Of a process that is gone, whose child needs what came to the place before the fork.
    let read = [
        moved(0..4, 100),
        moved(20..22, 0),
        Shape::Unmap(20..22),
        Shape::Unmap(0..4),
        Shape::Still,
    ];
    let order = in_order(&read, taken(&[0..4, 20..22]), &Registered::new());
    assert_eq!(order, [0, 1, 4]);
}

#[test]
fn what_is_discarded_before_it_moves_to_an_empty_place_is_discarded_there() {
    // 0..8 shrank to 100..104, one page of that was discarded and moved to where the tail had been.
    let read = [
        moved(0..4, 100),
        Shape::Unmap(4..8),
        Shape::Unmap(0..4),
        Shape::Discard(103..104),
        moved(103..104, 4),
        Shape::Unmap(103..104),
    ];
    let now = asked(&read, |at| (100..103).contains(&at) || at == 4);
    assert_eq!(in_order(&read, taken(&[0..4, 4..8]), &now), [0, 1, 3, 4]);
}

#[test]
fn what_a_mapping_grew_by_may_leave_an_empty_place() {
    // 20..21 came to 0 and grew to 0..4, and left in three pieces; the end of the first move is told last.
    let read = [
        moved(0..8, 100),
        moved(20..21, 0),
        Shape::Unmap(20..21),
        moved(0..1, 50),
        Shape::Unmap(0..1),
        moved(1..2, 55),
        Shape::Unmap(1..2),
        moved(2..4, 60),
        Shape::Unmap(2..4),
        moved(30..31, 0),
        Shape::Unmap(30..31),
        Shape::Unmap(0..8),
    ];
    let is_there = |at| at < 1 || (100..108).contains(&at) || matches!(at, 50 | 55 | 60 | 61);
    let now = asked(&read, is_there);
    let before = taken(&[0..8, 20..21, 30..31]);
    assert_eq!(in_order(&read, before.clone(), &now), [0, 1, 3, 5, 7, 9]);
    // Of a process that is gone.
    let order = in_order(&read, before, &Registered::new());
    assert_eq!(order, [0, 1, 3, 5, 7, 9]);
}

#[test]
fn a_mapping_may_grow_over_what_was_unmapped() {
    // 20..22 came to 5 and was unmapped; then the mapping below grew over the place, which nobody tells.
    let read = [moved(20..22, 5), Shape::Unmap(20..22), Shape::Unmap(5..7)];
    let now = asked(&read, |at| at < 7);
    assert_eq!(in_order(&read, taken(&[3..5, 20..22]), &now), [0, 2]);
}

#[test]
fn an_end_is_that_of_the_last_move_from_there() {
    let read = [
        moved(0..4, 100), // and a husk stays, which leaves in two pieces
        moved(0..2, 50),
        Shape::Unmap(0..2),
        moved(2..4, 60),
        Shape::Unmap(2..4),
        moved(40..44, 0),
        Shape::Unmap(40..44),
        moved(0..4, 70),
        moved(20..22, 0),
        Shape::Unmap(20..22),
        Shape::Unmap(0..4), // the end of the move to 70
    ];
    let is_there = |at| at < 2 || (50..104).contains(&at);
    let now = asked(&read, is_there);
    let before = taken(&[0..4, 20..22, 40..44]);
    assert_eq!(in_order(&read, before.clone(), &now), [0, 1, 3, 5, 7, 8]);
    let (ends, _) = ends(&read);
    assert_eq!(ends.get(&7), Some(&10));
    // Of a process that is gone.
    let order = in_order(&read, before, &Registered::new());
    assert_eq!(order, [0, 1, 3, 5, 7, 8]);
}

#[test]
fn discards_and_forks_stay_between_the_changes_they_were_read_between() {
    let read = [
        Shape::Still,
        Shape::Unmap(5..7),
        Shape::Still,
        moved(0..2, 5), // replaced what was unmapped
        Shape::Unmap(0..2),
        Shape::Still,
        Shape::Unmap(9..10),
        Shape::Still,
    ];
    let now = asked(&read, |at| (5..7).contains(&at));
    let order = in_order(&read, taken(&[0..2, 5..7, 9..10]), &now);
    assert_eq!(order, [0, 1, 3, 2, 5, 6, 7]);
}

#[test]
fn what_was_in_the_way_has_left_before() {
    let read = [
        Shape::Still,
        moved(5..7, 0),
        Shape::Unmap(0..2),
        Shape::Unmap(5..7),
    ];
    let now = asked(&read, |_| false);
    assert_eq!(
        in_order(&read, taken(std::slice::from_ref(&(5..7))), &now),
        [0, 1, 2]
    );
    assert_eq!(in_order(&read, taken(&[5..7, 1..2]), &now), [0, 2, 1]);
}

/// Why nothing is registered between a change and its application: the kernel's answer would be about that.
#[test]
fn what_is_registered_too_early_turns_the_order() {
    let (from, to, beside) = (0x1_0000..0x1_2000, 0x2_0000..0x2_2000, 0x2_2000..0x2_4000);
    let whole = to.start..beside.end;
    let read = [
        Shape::Move {
            from: from.clone(),
            to: to.clone(),
        },
        Shape::Unmap(whole),
    ];
    let order = |is_registered: bool| {
        let mut taken = Ranges::default();
        taken.insert(from.clone());
        taken.insert(beside.clone());
        let answer = |at: u64| (at, is_registered && at >= to.start);
        let now = places_to_ask(&read).into_iter().map(answer).collect();
        in_order(&read, taken, &now)
    };
    assert_eq!(order(false), [0, 1], "it moved, and was unmapped there");
    assert_eq!(
        order(true),
        [1, 0],
        "it moved to where others were unmapped"
    );
}
