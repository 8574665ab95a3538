//! Whether loaded pages of a space should leave their compressed copies in the pool.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Looks after which what was seen counts for half.
const WINDOW: u32 = 256;
/// Fewer say nothing.
const ENOUGH: u32 = 64;
/// The first time a copy is decompressed to see whether its page is still the same, which takes two fifths of
/// compressing the page anew: so many in a hundred must be the same for that to pay.
const PAYS_FROM_PERCENT: u32 = 40;
/// Where it does not pay one batch in so many leaves its copies, to see whether that is still so.
const PROBE_EVERY: u32 = 16;

/// What became of copies that were kept.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    looked: AtomicU32,
    same: AtomicU32,
    batches: AtomicU32,
}

impl Copies {
    /// A page that had a copy leaves again, and is the same or not.
    pub fn note(&self, same: bool) {
        self.same.fetch_add(same.into(), Relaxed);
        if self.looked.fetch_add(1, Relaxed) + 1 == WINDOW {
            // What others note in between may be lost; nothing is exact here.
            self.same.store(self.same.load(Relaxed) / 2, Relaxed);
            self.looked.store(WINDOW / 2, Relaxed);
        }
    }

    /// Whether the next batch of pages is to leave copies.
    pub fn wanted(&self) -> bool {
        let (looked, same) = (self.looked.load(Relaxed), self.same.load(Relaxed));
        let pays = looked < ENOUGH || same * 100 >= looked * PAYS_FROM_PERCENT;
        pays || self
            .batches
            .fetch_add(1, Relaxed)
            .is_multiple_of(PROBE_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_of(copies: &Copies, batches: usize) -> usize {
        (0..batches).filter(|_| copies.wanted()).count()
    }

    #[test]
    fn copies_are_kept_while_they_are_the_same_and_probed_when_not() {
        let copies = Copies::default();
        assert_eq!(kept_of(&copies, 100), 100, "nothing is known");
        (0..1000).for_each(|_| copies.note(false));
        assert_eq!(kept_of(&copies, 160), 10);
        (0..150).for_each(|_| copies.note(true));
        assert_eq!(kept_of(&copies, 100), 100, "the program reads now");
    }
}
