//! When the pool worker gives up: the failure budget of the limit-driven write-back
//! (SPEC 1.11, `W612`).

/// Failures after which the worker ends (kernel: MAX_RECLAIM_RETRIES).
pub const MAX_RECLAIM_RETRIES: u32 = 16;

/// What came of one owner's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// It has nothing in the pool, or may not write back: skipped free of charge.
    NotCandidate,
    /// It was tried, and nothing was written.
    Nothing,
    /// At least one entry was written.
    Written,
}

/// One run of the pool worker. The caller walks the owners round and round, reports
/// each turn and each end of a round, and stops when told to or when the pool is below
/// its accept threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolWorker {
    failures: u32,
    candidates: u32,
}

impl PoolWorker {
    /// A run without failures.
    #[must_use]
    pub fn new() -> PoolWorker {
        PoolWorker::default()
    }

    /// Reports an owner's turn. Returns whether to go on.
    #[must_use]
    pub fn visited(&mut self, visit: Visit) -> bool {
        match visit {
            Visit::NotCandidate => (),
            Visit::Nothing => {
                self.candidates += 1;
                self.failures += 1;
            }
            Visit::Written => self.candidates += 1,
        }
        self.goes_on()
    }

    /// Reports the end of a round over all owners, which is a failure only if the round
    /// had no candidate. Returns whether to go on.
    #[must_use]
    pub fn round_ended(&mut self) -> bool {
        if std::mem::take(&mut self.candidates) == 0 {
            self.failures += 1;
        }
        self.goes_on()
    }

    fn goes_on(self) -> bool {
        self.failures < MAX_RECLAIM_RETRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_owners_cost_nothing_while_one_can_write() {
        let mut worker = PoolWorker::new();
        for _ in 0..1000 {
            for _ in 0..11 {
                assert!(worker.visited(Visit::NotCandidate));
            }
            assert!(worker.visited(Visit::Written));
            assert!(worker.round_ended());
        }
    }

    #[test]
    fn sixteen_turns_without_a_write_end_the_run() {
        let mut worker = PoolWorker::new();
        for _ in 0..15 {
            assert!(worker.visited(Visit::Nothing));
        }
        assert!(!worker.visited(Visit::Nothing));
    }

    #[test]
    fn sixteen_rounds_without_a_candidate_end_the_run() {
        let mut worker = PoolWorker::new();
        for _ in 0..15 {
            assert!(worker.visited(Visit::NotCandidate));
            assert!(worker.round_ended());
        }
        assert!(!worker.round_ended());
    }
}
