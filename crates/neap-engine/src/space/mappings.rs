//! How many mappings a space has, and what the kernel takes for them.
//!
//! The kernel keeps some hundred bytes for each mapping, and a memory cgroup counts them: tens of thousands of mappings take
//! more than what a job may be over its limit. Nothing tells how many there are, so they are counted by and by: new ones
//! when they are registered, and all in rounds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use neap_sys::View;
use neap_tuning::TUNING;

use super::Space;

#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// As the last round found, with what was registered since.
    known: AtomicU64,
    /// The round that is under way: it has come to this address, and has counted so many.
    at: AtomicU64,
    counted: AtomicU64,
}

impl Mappings {
    /// New mappings begin at these addresses. What lies before the round's address counts for it, too: it will not come there again.
    pub fn found(&self, starts: impl Iterator<Item = u64>) {
        let at = self.at.load(Relaxed);
        let (mut all, mut passed) = (0, 0);
        for start in starts {
            all += 1;
            passed += u64::from(start < at);
        }
        self.known.fetch_add(all, Relaxed);
        self.counted.fetch_add(passed, Relaxed);
    }

    /// A forked child has what its parent has.
    pub fn inherit_from(&self, parent: &Self) {
        self.known.store(parent.known.load(Relaxed), Relaxed);
    }

    /// What the kernel takes for them, in bytes, beyond those that any program has.
    pub fn bytes(&self) -> u64 {
        let beyond = self.known.load(Relaxed);
        let beyond = beyond.saturating_sub(TUNING.limit.mappings_free);
        beyond * TUNING.limit.mapping.0
    }

    /// Goes on with the round. Only the sampler does.
    fn go_on(&self, view: &dyn View) {
        let at = self.at.load(Relaxed);
        let Ok((count, next)) = view.count(at, TUNING.looks.mappings_counted) else {
            return; // it is about to end
        };
        let counted = self.counted.fetch_add(count as u64, Relaxed) + count as u64;
        if next.is_none() {
            self.known.store(counted, Relaxed);
            self.counted.store(0, Relaxed);
        }
        self.at.store(next.unwrap_or(0), Relaxed);
    }
}

impl Space {
    /// Counts some of the mappings.
    pub fn count_mappings(&self) {
        if let Some(body) = self.body.get() {
            self.mappings.go_on(&*body.view);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: u64 = TUNING.limit.mappings_free;
    const EACH: u64 = TUNING.limit.mapping.0;

    #[test]
    fn what_any_program_has_costs_nothing() {
        let mappings = Mappings::default();
        mappings.found(0..FREE);
        assert_eq!(mappings.bytes(), 0);
        mappings.found(0..3);
        assert_eq!(mappings.bytes(), 3 * EACH);
        let child = Mappings::default();
        child.inherit_from(&mappings);
        assert_eq!(child.bytes(), 3 * EACH);
    }

    /// What comes during a round is counted once, wherever it is.
    #[test]
    fn what_comes_behind_a_round_is_in_what_it_finds() {
        let mappings = Mappings::default();
        mappings.at.store(50, Relaxed);
        mappings.counted.store(FREE, Relaxed);
        mappings.found([10, 20, 60].into_iter());
        assert_eq!(mappings.counted.load(Relaxed), FREE + 2);
        assert_eq!(mappings.known.load(Relaxed), 3);
    }
}
