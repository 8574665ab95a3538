//! Whether loaded pages of a space should leave their compressed copies in the pool.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use neap_tuning::TUNING;

/// What became of copies that were kept.
#[derive(Debug, Default)]
pub struct Copies {
    looked: AtomicU32,
    same: AtomicU32,
    batches: AtomicU32,
}

impl Copies {
    /// A page that had a copy leaves again, and is the same or not.
    pub fn note(&self, same: bool) {
        self.same.fetch_add(same.into(), Relaxed);
        if self.looked.fetch_add(1, Relaxed) + 1 == TUNING.loads.copies_lately {
            // What others note in between may be lost; nothing is exact here.
            self.same.store(self.same.load(Relaxed) / 2, Relaxed);
            self.looked.store(TUNING.loads.copies_lately / 2, Relaxed);
        }
    }

    /// Whether the next batch of pages is to leave copies.
    #[must_use]
    pub fn wanted(&self) -> bool {
        let (looked, same) = (self.looked.load(Relaxed), self.same.load(Relaxed));
        let pays = looked < TUNING.loads.copies_enough
            || !TUNING
                .loads
                .copies_pay
                .is_more_than(same.into(), looked.into());
        pays || self
            .batches
            .fetch_add(1, Relaxed)
            .is_multiple_of(TUNING.loads.copies_tried)
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
