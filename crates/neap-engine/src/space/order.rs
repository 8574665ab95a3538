//! The order of changes, when threads change mappings at the same time.
//!
//! A thread tells of its change after it has let go of the address space, so another may have taken the
//! place meanwhile, and be read first. What is read is therefore kept until nothing is still to come: the
//! kernel says so (it fills again). Then the story is whole, and put in order: nothing can come to a place
//! before what is there has left.

use std::ops::Range;

use super::Ranges;

/// What a change does to places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// An unmapping.
    Unmap(Range<u64>),
    /// A mapping moved.
    Move {
        /// Its old place.
        from: Range<u64>,
        /// Its new place, as far as it was there before.
        to: Range<u64>,
    },
    /// Nothing leaves and nothing comes.
    Still,
}

/// The changes, which are all since nothing was to come, in the order in which they were made, as indices of
/// the order in which they were read. Those are left out that only tell the end of a move. `taken`: where
/// mappings were before, as far as is known. `registered` says whether a mapping that the kernel tells of is at a
/// place now.
pub(crate) fn in_order(
    read: &[Shape],
    taken: Ranges,
    registered: impl Fn(u64) -> bool,
) -> Vec<usize> {
    let mut story = Story {
        read,
        left: (0..read.len()).collect(),
        told: Vec::with_capacity(read.len()),
        waits: Vec::new(),
        taken,
    };
    story.drop_ends();
    story.join_replacements();
    story.learn(registered);
    while let Some(&first) = story.left.first() {
        story.tell(first);
    }
    story.told
}

struct Story<'a> {
    read: &'a [Shape],
    /// Not told yet, in the order in which they were read.
    left: Vec<usize>,
    told: Vec<usize>,
    /// Moves that are about to be told, once what was in their way is.
    waits: Vec<usize>,
    /// Where mappings are after what was told.
    taken: Ranges,
}

impl Story<'_> {
    /// A move ends with an unmapping of the old place, unless it leaves an empty mapping there.
    fn drop_ends(&mut self) {
        for (at, shape) in self.read.iter().enumerate() {
            if let Shape::Move { from, .. } = shape {
                let is_end =
                    |&other: &usize| other > at && self.read[other] == Shape::Unmap(from.clone());
                if let Some(end) = self.left.iter().position(is_end) {
                    self.left.remove(end);
                }
            }
        }
    }

    /// A move to where something was (MREMAP_FIXED) first tells that this is unmapped, and only when that was
    /// read that it has moved: in between others may be read that came later. So it is put there.
    fn join_replacements(&mut self) {
        for at in 0..self.read.len() {
            let Shape::Move { from, to } = &self.read[at] else {
                continue;
            };
            let Some(place) = self.left.iter().position(|&other| other == at) else {
                continue;
            };
            let meets = |range: &Range<u64>| range.start < from.end && from.start < range.end;
            // Back to the unmapping, but not beyond what made its old place what it is.
            let mut before = self.left[..place].iter().enumerate().rev();
            let found = before.find_map(|(before, &other)| match &self.read[other] {
                Shape::Unmap(range) if range.start == to.start && range.end >= to.end => {
                    Some(Some(before))
                }
                Shape::Move { to: came, .. } if meets(came) => Some(None),
                _ => None,
            });
            if let Some(Some(unmapping)) = found {
                self.left.remove(place);
                self.left.insert(unmapping + 1, at);
            }
        }
    }

    /// An unmapping covers memory of other kinds, too, which is not known to have been there. What moved to such
    /// a place and is still there came after it.
    fn learn(&mut self, registered: impl Fn(u64) -> bool) {
        let moves = |part: &Range<u64>| {
            let meets = |range: &Range<u64>| range.start < part.end && part.start < range.end;
            let left = self.left.iter();
            left.filter(|&&other| match &self.read[other] {
                Shape::Move { from, to } => meets(to) || meets(from),
                _ => false,
            })
            .count()
        };
        let mut learnt = Vec::new();
        for (i, &arrival) in self.left.iter().enumerate() {
            let Shape::Move { to, .. } = &self.read[arrival] else {
                continue;
            };
            for &later in &self.left[i + 1..] {
                let Shape::Unmap(range) = &self.read[later] else {
                    continue;
                };
                let part = range.start.max(to.start)..range.end.min(to.end);
                // Where more than one move has been, what is there now says nothing of this one.
                if part.start < part.end && moves(&part) == 1 && registered(part.start) {
                    learnt.push(part);
                }
            }
        }
        for part in learnt {
            self.taken.insert(part);
        }
    }

    fn tell(&mut self, at: usize) {
        self.waits.push(at);
        if let Shape::Move { to, .. } = &self.read[at] {
            while let Some(first) = self.in_the_way(to) {
                self.tell(first);
            }
        }
        self.waits.pop();
        self.left.retain(|&other| other != at);
        self.told.push(at);
        match self.read[at].clone() {
            Shape::Unmap(range) => self.taken.remove(range),
            Shape::Move { from, to } => {
                self.taken.remove(from);
                self.taken.insert(to);
            }
            Shape::Still => {}
        }
    }

    /// What has to leave before something can come to this place.
    fn in_the_way(&self, to: &Range<u64>) -> Option<usize> {
        let leaves = |&&change: &&usize| {
            let from = match &self.read[change] {
                Shape::Unmap(range) | Shape::Move { from: range, .. } => range,
                Shape::Still => return false,
            };
            let part = from.start.max(to.start)..from.end.min(to.end);
            part.start < part.end && self.taken.touches(&part) && !self.waits.contains(&change)
        };
        self.left.iter().find(leaves).copied()
    }
}

#[cfg(test)]
mod tests {
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
        read: Vec<Shape>,
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
            let len = 1 + self.below(3);
            let from = self.below(PLACES - len + 1);
            let told = |place: &Option<u32>| place.is_some_and(|held| held != UNKNOWN);
            let owner = self.owner;
            let mine = |at: usize| owner[at..at + len].iter().all(|&owner| owner == thread);
            let there = |places: &[Option<u32>]| places.iter().all(told);
            let range = |start: usize| start as u64..(start + len) as u64;
            match self.below(4) {
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
                    let stays = self.below(4) == 0;
                    for at in 0..len {
                        self.places[to + at] = self.places[from + at];
                        self.places[from + at] = stays.then_some(FRESH);
                        self.owner[to + at] = thread;
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
            let mut kernel = Kernel {
                places: [None; PLACES],
                owner: [0; PLACES],
                untold: Default::default(),
                read: Vec::new(),
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
                    kernel.change(thread);
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

        fn hear(&mut self) {
            let thread = self.below(3);
            self.read.extend(self.untold[thread].pop_front());
        }
    }

    fn replay(
        before: [Option<u32>; PLACES],
        read: &[Shape],
        order: &[usize],
    ) -> [Option<u32>; PLACES] {
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
                Shape::Still => {}
            }
        }
        places
    }

    /// Of so many stories, how many are understood wrongly; in order of reading, and in ours.
    fn wrong(changes: usize, delay: usize) -> (u32, u32) {
        let (mut as_read, mut ordered) = (0, 0);
        for seed in 1..20_001 {
            let (kernel, before) = Kernel::story(seed, changes, delay);
            let truth = kernel
                .places
                .map(|held| held.filter(|&held| held > UNKNOWN));
            let mut taken = Ranges::default();
            for at in (0..PLACES).filter(|&at| before[at].is_some()) {
                taken.insert(at as u64..at as u64 + 1);
            }
            let plain: Vec<usize> = (0..kernel.read.len()).collect();
            let order = in_order(&kernel.read, taken, |at| {
                kernel.places[at as usize].is_some_and(|held| held != UNKNOWN)
            });
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
            let most = if changes > 6 { 3 } else { 0 };
            assert!(ordered <= most, "{ordered} of 20,000 of {changes} changes");
        }
    }

    #[test]
    fn of_long_stories_few_are_misunderstood() {
        // Where a place changes hands again and again within one story, two stories can look the same.
        for (changes, delay) in [(30, 3), (30, 6)] {
            let (_, ordered) = wrong(changes, delay);
            assert!(ordered <= 20, "{ordered} of 20,000");
        }
    }

    #[test]
    fn what_was_in_the_way_has_left_before() {
        let (from, to) = (5..7, 0..2);
        let read = [
            Shape::Still,
            Shape::Move { from, to },
            Shape::Unmap(0..2),
            Shape::Unmap(5..7),
        ];
        let mut taken = Ranges::default();
        taken.insert(5..7);
        assert_eq!(in_order(&read, taken.clone(), |_| false), [0, 1, 2]);
        taken.insert(1..2);
        assert_eq!(in_order(&read, taken, |_| false), [0, 2, 1]);
    }
}
