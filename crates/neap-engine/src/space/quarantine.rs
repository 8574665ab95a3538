//! Pages that the program has declared free, but that may still be there.
//!
//! The kernel announces madvise(DONTNEED) and madvise(FREE) alike, before it acts. After the first the
//! pages are gone; after the second they stay until memory is short, and a write revives them without
//! a fault, so that nobody would ever evict them again. They are looked for once the call that was
//! announced has surely acted: a page taken before that would come back with old bytes.

use std::ops::Range;

use neap_tuning::TUNING;

use super::Ranges;

/// Ranges on their way out of quarantine.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    /// Announced since `waiting` began to wait.
    new: Ranges,
    waiting: Ranges,
    since: u64,
}

impl Quarantine {
    /// An event announced that these pages go.
    pub fn enter(&mut self, range: Range<u64>) {
        self.new.insert(range);
    }

    /// All that is in it.
    pub fn all(&self) -> Ranges {
        let mut all = self.new.clone();
        for range in self.waiting.iter() {
            all.insert(range);
        }
        all
    }

    /// The mapping is gone, or elsewhere.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.new.remove(range.clone());
        self.waiting.remove(range.clone());
    }

    /// Ranges that have waited long enough at `now` (nanoseconds) and were not announced again.
    pub fn leave(&mut self, now: u64) -> Vec<Range<u64>> {
        let mut free = Vec::new();
        if now.saturating_sub(self.since) < TUNING.changes.madvise.0 {
            return free;
        }
        for range in std::mem::take(&mut self.waiting).iter() {
            if self.new.touches(&range) {
                self.new.insert(range);
            } else {
                free.push(range);
            }
        }
        self.waiting = std::mem::take(&mut self.new);
        self.since = now;
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_leaves_after_a_whole_quarantine_and_not_while_it_is_announced_again() {
        let mut quarantine = Quarantine::default();
        let start = 100 * TUNING.changes.madvise.0;
        quarantine.enter(0..10);
        quarantine.enter(20..30);
        assert!(quarantine.leave(start).is_empty());
        quarantine.enter(25..26);
        assert!(
            quarantine
                .leave(start + TUNING.changes.madvise.0 / 2)
                .is_empty()
        );
        assert_eq!(
            quarantine.leave(start + TUNING.changes.madvise.0),
            vec![0..10]
        );
        assert_eq!(
            quarantine.leave(start + 2 * TUNING.changes.madvise.0),
            vec![20..30]
        );
    }

    #[test]
    fn what_is_unmapped_does_not_leave() {
        let mut quarantine = Quarantine::default();
        quarantine.enter(0..10);
        quarantine.leave(TUNING.changes.madvise.0);
        quarantine.forget(&(0..5));
        assert_eq!(quarantine.leave(3 * TUNING.changes.madvise.0), vec![5..10]);
    }
}
