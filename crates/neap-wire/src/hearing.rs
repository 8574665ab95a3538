//! Notes of a program, from words that may be anything.

use core::ops::Range;

use crate::notes::{ADVICE, NOTES, WORDS, place};
use crate::read::touched;

/// What a program says of a range of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whole pages.
    pub range: Range<u64>,
    /// As madvise(2) numbers it; perhaps none that there is.
    pub advice: u32,
}

/// What came since the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// A look for new memory was asked for.
    pub looks: bool,
    /// Some notes were lost: there were more than the ring holds.
    pub missed: bool,
}

/// How far the notes of a space have been read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hearing {
    looks: u64,
    /// The last note that was read, and where it ended.
    last: u64,
    end: u64,
    /// A note that was being written the last time.
    awaited: u64,
}

/// A note as the first read has it, if it was the same note both times: it may have grown meanwhile, of which the next look
/// tells.
fn note(once: &[u64; WORDS], again: &[u64; WORDS], number: u64) -> Option<(u64, u64)> {
    let at = place(number);
    let same = once[at..at + 2] == again[at..at + 2];
    (same && once[at] == number).then_some((once[at + 1], once[at + 2]))
}

impl Hearing {
    /// Passes to `each` what the notes say that has not been heard. `once` and `again` are two reads of all words, one after
    /// the other.
    pub fn hear(
        &mut self,
        once: &[u64; WORDS],
        again: &[u64; WORDS],
        mut each: impl FnMut(Note),
    ) -> Heard {
        let mut heard = Heard {
            looks: once[0] != self.looks,
            missed: false,
        };
        self.looks = once[0];
        let mut tell = |first: u64, start: u64, end: u64| {
            let range = touched(start, end);
            if !range.is_empty() {
                let advice = (first & ADVICE) as u32;
                each(Note { range, advice });
            }
        };
        // The last one may have grown: the program went on where it had ended.
        if let Some((first, end)) = note(once, again, self.last)
            && self.last != 0
            && end > self.end
        {
            tell(first, self.end, end);
            self.end = end;
        }
        let written = once[1];
        let oldest = written.saturating_sub(NOTES as u64);
        if written < self.last || oldest > self.last {
            heard.missed = true;
            self.last = oldest;
        }
        while self.last < written {
            let next = self.last + 1;
            match note(once, again, next) {
                Some((first, end)) => {
                    tell(first, first & !ADVICE, end);
                    self.end = end;
                }
                // One that is never finished is not waited for again.
                None if self.awaited != next => {
                    self.awaited = next;
                    return heard;
                }
                None => {
                    heard.missed = true;
                    self.end = u64::MAX;
                }
            }
            self.last = next;
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    const PAGE: u64 = 4096;

    /// What a library does.
    struct Ring(Box<[u64; WORDS]>);

    impl Ring {
        fn new() -> Self {
            Self(Box::new([0; WORDS]))
        }

        fn write(&mut self, advice: u64, start: u64, end: u64) {
            self.0[1] += 1;
            let (number, at) = (self.0[1], place(self.0[1]));
            self.0[at..at + 3].copy_from_slice(&[number, start | advice, end]);
        }
    }

    fn hear(hearing: &mut Hearing, ring: &Ring) -> (Vec<(u32, u64, u64)>, bool) {
        let mut notes = vec![];
        let heard = hearing.hear(&ring.0, &ring.0, |note| {
            notes.push((note.advice, note.range.start / PAGE, note.range.end / PAGE));
        });
        (notes, heard.missed)
    }

    #[test]
    fn each_note_is_heard_once() {
        let (mut ring, mut hearing) = (Ring::new(), Hearing::default());
        assert_eq!(hear(&mut hearing, &ring), (vec![], false));
        ring.write(20, PAGE, 3 * PAGE);
        ring.write(21, 8 * PAGE, 9 * PAGE);
        let both = vec![(20, 1, 3), (21, 8, 9)];
        assert_eq!(hear(&mut hearing, &ring), (both, false));
        assert_eq!(hear(&mut hearing, &ring), (vec![], false));
    }

    #[test]
    fn a_note_that_grew_tells_of_the_rest() {
        let (mut ring, mut hearing) = (Ring::new(), Hearing::default());
        ring.write(3, PAGE, 3 * PAGE);
        hear(&mut hearing, &ring);
        ring.0[place(1) + 2] = 5 * PAGE;
        ring.write(2, 0, PAGE);
        let rest = vec![(3, 3, 5), (2, 0, 1)];
        assert_eq!(hear(&mut hearing, &ring), (rest, false));
        assert_eq!(hear(&mut hearing, &ring), (vec![], false));
    }

    #[test]
    fn of_too_many_notes_the_last_are_heard() {
        let (mut ring, mut hearing) = (Ring::new(), Hearing::default());
        (0..200).for_each(|page| ring.write(1, page * PAGE, (page + 1) * PAGE));
        let (notes, missed) = hear(&mut hearing, &ring);
        assert!(missed && notes.len() == NOTES && notes[0] == (1, 136, 137));
        assert_eq!(hear(&mut hearing, &ring), (vec![], false));
    }

    #[test]
    fn a_note_that_is_being_written_is_waited_for_once() {
        let (mut ring, mut hearing) = (Ring::new(), Hearing::default());
        ring.write(2, 0, PAGE);
        ring.write(2, 4 * PAGE, 5 * PAGE);
        ring.0[place(1)] = 0;
        assert_eq!(hear(&mut hearing, &ring), (vec![], false));
        assert_eq!(hear(&mut hearing, &ring), (vec![(2, 4, 5)], true));
        // What is not the same twice is being written, too.
        ring.write(2, 6 * PAGE, 7 * PAGE);
        let mut later = Ring(ring.0.clone());
        later.0[place(3)] = 0;
        let mut none = true;
        hearing.hear(&ring.0, &later.0, |_| none = false);
        assert!(none);
        // One that grows between two reads is taken as it was, and then the rest.
        later.0[place(3)] = 3;
        later.0[place(3) + 2] = 9 * PAGE;
        let mut heard = vec![];
        hearing.hear(&ring.0, &later.0, |note| heard.push(note.range.end / PAGE));
        assert_eq!(heard, [7]);
        assert_eq!(hear(&mut hearing, &later), (vec![(2, 7, 9)], false));
        let mut new = Ring::new();
        new.write(2, 0, PAGE);
        let begun = vec![(2, 0, 1)];
        assert_eq!(
            hear(&mut hearing, &new),
            (begun, true),
            "a ring that begins anew"
        );
    }
}
