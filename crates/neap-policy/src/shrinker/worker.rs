//! The pool worker's round over the owners, and when it gives up: the failure budget of the
//! limit-driven write-back (SPEC 1.11).

use crate::switches::PoolWorkerVersion;

/// Failures after which the worker ends (kernel: MAX_RECLAIM_RETRIES).
pub const MAX_RECLAIM_RETRIES: u32 = 16;

impl PoolWorkerVersion {
    /// Entries visited in one owner's turn on each node. With 1, every referenced entry
    /// is a failed turn, and 16 of them end a run.
    #[must_use]
    pub const fn budget(self) -> u64 {
        match self {
            PoolWorkerVersion::W68 | PoolWorkerVersion::W612 => 1,
            PoolWorkerVersion::WLatest | PoolWorkerVersion::AgeFree => 32,
        }
    }
}

/// What came of one owner's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// It has nothing in the pool.
    NotCandidate,
    /// It may not write back.
    WritebackOff,
    /// It is going away.
    Offline,
    /// It was tried, and nothing was written, nor did an entry lose its second chance.
    Nothing,
    /// It was tried, and entries lost their second chance, but nothing was written.
    Aged,
    /// At least one entry was written.
    Written,
}

impl Visit {
    /// What a walk that visited so many entries, rotated and wrote so many came to.
    #[must_use]
    pub const fn of_walk(visited: u64, rotated: u64, written: u64) -> Visit {
        match (visited, rotated, written) {
            (0, ..) => Visit::NotCandidate,
            (_, 0, 0) => Visit::Nothing,
            (_, _, 0) => Visit::Aged,
            _ => Visit::Written,
        }
    }

    /// Whether it helps a store that met its owner's limit (kernel: shrink_memcg
    /// returned 0).
    #[must_use]
    pub const fn wrote(self) -> bool {
        matches!(self, Visit::Written)
    }
}

/// The owners that the worker goes round.
pub trait Owners {
    /// An owner's turn.
    type Turn;

    /// The owner after the last one: its turn, or why it has none. None: the round is over, and
    /// the next call begins another.
    fn next_owner(&mut self) -> Option<Result<Self::Turn, Visit>>;

    /// Sends the round back to its start.
    fn restart(&mut self);
}

/// What the worker came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextOwner<T> {
    /// An owner: its turn is to be taken, and reported ([`PoolWorker::visited`]).
    Turn(T),
    /// The end of a round, or an owner that has no turn. The worker goes on.
    Passed,
    /// The end of the run.
    Over,
}

/// One run of the pool worker. The caller asks for one owner after another, gives each its
/// turn, reports it, and stops when told to or when the pool is below its accept threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolWorker {
    version: PoolWorkerVersion,
    failures: u32,
    candidates: u32,
}

impl PoolWorker {
    /// A run without failures.
    #[must_use]
    pub fn new(version: PoolWorkerVersion) -> PoolWorker {
        PoolWorker {
            version,
            failures: 0,
            candidates: 0,
        }
    }

    /// Goes to the next owner.
    pub fn advance<S: Owners>(&mut self, owners: &mut S) -> NextOwner<S::Turn> {
        let goes_on = match owners.next_owner() {
            Some(Ok(turn)) => return NextOwner::Turn(turn),
            Some(Err(visit)) => {
                if visit == Visit::Offline && self.version == PoolWorkerVersion::W68 {
                    owners.restart();
                }
                self.visited(visit)
            }
            None => self.round_ended(),
        };
        match goes_on {
            true => NextOwner::Passed,
            false => NextOwner::Over,
        }
    }

    /// Reports an owner's turn. Returns whether to go on.
    #[must_use]
    pub fn visited(&mut self, visit: Visit) -> bool {
        if self.version == PoolWorkerVersion::W68 {
            self.failures += u32::from(!visit.wrote());
            return visit != Visit::WritebackOff && self.goes_on();
        }
        match visit {
            Visit::NotCandidate | Visit::WritebackOff | Visit::Offline => (),
            Visit::Nothing => self.candidate(true),
            Visit::Aged => self.candidate(self.version != PoolWorkerVersion::AgeFree),
            Visit::Written => self.candidate(false),
        }
        self.goes_on()
    }

    /// The end of a round over all owners, which is a failure only if the round
    /// had no candidate, or always in 6.8. Returns whether to go on.
    fn round_ended(&mut self) -> bool {
        if std::mem::take(&mut self.candidates) == 0 {
            self.failures += 1;
        }
        self.goes_on()
    }

    fn candidate(&mut self, failed: bool) {
        self.candidates += 1;
        self.failures += u32::from(failed);
    }

    fn goes_on(self) -> bool {
        self.failures < MAX_RECLAIM_RETRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: [PoolWorkerVersion; 3] = [
        PoolWorkerVersion::W612,
        PoolWorkerVersion::WLatest,
        PoolWorkerVersion::AgeFree,
    ];

    #[test]
    fn empty_owners_cost_nothing_while_one_can_write() {
        for version in NEW {
            let mut worker = PoolWorker::new(version);
            for _ in 0..1000 {
                for _ in 0..11 {
                    assert!(worker.visited(Visit::NotCandidate));
                }
                assert!(worker.visited(Visit::WritebackOff));
                assert!(worker.visited(Visit::Offline));
                assert!(worker.visited(Visit::Written));
                assert!(worker.round_ended());
            }
        }
    }

    #[test]
    fn sixteen_turns_without_a_write_end_the_run() {
        for version in NEW {
            let mut worker = PoolWorker::new(version);
            for _ in 0..15 {
                assert!(worker.visited(Visit::Nothing));
            }
            assert!(!worker.visited(Visit::Nothing));
        }
    }

    #[test]
    fn sixteen_rounds_without_a_candidate_end_the_run() {
        for version in NEW {
            let mut worker = PoolWorker::new(version);
            for _ in 0..15 {
                assert!(worker.visited(Visit::NotCandidate));
                assert!(worker.round_ended());
            }
            assert!(!worker.round_ended());
        }
    }

    #[test]
    fn in_6_8_eleven_empty_services_of_31_end_the_run_in_the_second_round() {
        let mut worker = PoolWorker::new(PoolWorkerVersion::W68);
        let mut written = 0;
        let gave_up_in = (1..).find(|_| {
            let owners = (0..31).all(|owner| {
                let visit = if owner % 3 == 0 {
                    Visit::NotCandidate
                } else {
                    Visit::Written
                };
                written += u32::from(visit.wrote());
                worker.visited(visit)
            });
            !(owners && worker.round_ended())
        });
        assert_eq!(gave_up_in, Some(2));
        assert!(
            (20..41).contains(&written),
            "about 40 pages at most: {written}"
        );
    }

    #[test]
    fn in_6_8_an_owner_without_write_back_ends_the_run_at_once() {
        let mut worker = PoolWorker::new(PoolWorkerVersion::W68);
        assert!(worker.visited(Visit::Offline));
        assert!(!worker.visited(Visit::WritebackOff));
    }

    /// Owners 0 to 2, of which the second is going away.
    #[derive(Default)]
    struct Three(u32);

    impl Owners for Three {
        type Turn = u32;

        fn next_owner(&mut self) -> Option<Result<u32, Visit>> {
            self.0 = (self.0 + 1) % 4;
            match self.0 {
                0 => None,
                2 => Some(Err(Visit::Offline)),
                owner => Some(Ok(owner - 1)),
            }
        }

        fn restart(&mut self) {
            self.0 = 0;
        }
    }

    #[test]
    fn an_owner_that_goes_away_is_passed_over_and_in_6_8_sends_the_round_back() {
        use NextOwner::{Over, Passed, Turn};
        let (mut worker, mut three) = (PoolWorker::new(PoolWorkerVersion::WLatest), Three(0));
        for _ in 0..1000 {
            for expected in [Turn(0), Passed, Turn(2), Passed] {
                assert_eq!(worker.advance(&mut three), expected);
                let NextOwner::Turn(_) = expected else {
                    continue;
                };
                assert!(worker.visited(Visit::Written));
            }
        }
        let (mut worker, mut three) = (PoolWorker::new(PoolWorkerVersion::W68), Three(0));
        for failed in 1..=16 {
            assert_eq!(worker.advance(&mut three), Turn(0), "from the start");
            assert!(worker.visited(Visit::Written));
            let goes_on = if failed < 16 { Passed } else { Over };
            assert_eq!(worker.advance(&mut three), goes_on);
        }
    }

    #[test]
    fn referenced_heads_end_a_run_of_budget_one_but_not_one_that_counts_ageing() {
        let run = |version| {
            let mut worker = PoolWorker::new(version);
            (0..100).take_while(|_| worker.visited(Visit::Aged)).count()
        };
        assert_eq!(run(PoolWorkerVersion::W612), 15);
        assert_eq!(run(PoolWorkerVersion::AgeFree), 100);
        assert_eq!(PoolWorkerVersion::W612.budget(), 1);
        assert_eq!(PoolWorkerVersion::WLatest.budget(), 32);
    }

    #[test]
    fn a_walk_is_what_it_did() {
        assert_eq!(Visit::of_walk(0, 0, 0), Visit::NotCandidate);
        assert_eq!(Visit::of_walk(4, 0, 0), Visit::Nothing);
        assert_eq!(Visit::of_walk(4, 4, 0), Visit::Aged);
        assert_eq!(Visit::of_walk(4, 3, 1), Visit::Written);
    }
}
