//! The pool worker: whose turn it is, and when a run has failed too often.

use neap_policy::{NextOwner, Owners, PoolWorker, PoolWorkerVersion, Visit};

use super::{Decider, Noted, numbers};

/// What a worker meets when it goes on to the next owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// The end of the round.
    Nobody,
    /// An owner whose turn it is.
    Owner,
    /// One without a turn.
    Passed {
        /// Why.
        visit: Visit,
    },
}

/// What a worker is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskWorker {
    /// [`PoolWorker::advance`].
    Advance {
        /// What it met.
        met: Met,
    },
    /// [`PoolWorker::visited`].
    Visited {
        /// What came of the turn.
        visit: Visit,
    },
}

/// What a worker answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkerSays {
    /// This owner is to be visited.
    Turn,
    /// The run goes on.
    GoesOn,
    /// The run is over.
    Over,
}

numbers! { enum Visit {
    0 = NotCandidate, 1 = WritebackOff, 2 = Offline, 3 = Nothing, 4 = Aged, 5 = Written,
} }
numbers! { enum Met { 0 = Nobody, 1 = Owner, 2 = Passed { visit } } }
numbers! { enum AskWorker { 0 = Advance { met }, 1 = Visited { visit } } }
numbers! { enum WorkerSays { 0 = Turn, 1 = GoesOn, 2 = Over } }

/// Owners of which the next is known.
struct One(Met);

impl Owners for One {
    type Turn = ();

    fn next_owner(&mut self) -> Option<Result<(), Visit>> {
        match self.0 {
            Met::Nobody => None,
            Met::Owner => Some(Ok(())),
            Met::Passed { visit } => Some(Err(visit)),
        }
    }

    fn restart(&mut self) {}
}

/// Owners, and what the worker met of them.
struct Overheard<'a, O> {
    owners: &'a mut O,
    met: Met,
}

impl<O: Owners> Owners for Overheard<'_, O> {
    type Turn = O::Turn;

    fn next_owner(&mut self) -> Option<Result<O::Turn, Visit>> {
        let next = self.owners.next_owner();
        self.met = match &next {
            None => Met::Nobody,
            Some(Ok(_)) => Met::Owner,
            Some(Err(visit)) => Met::Passed { visit: *visit },
        };
        next
    }

    fn restart(&mut self) {
        self.owners.restart();
    }
}

fn says<T>(next: &NextOwner<T>) -> WorkerSays {
    match next {
        NextOwner::Turn(_) => WorkerSays::Turn,
        NextOwner::Passed => WorkerSays::GoesOn,
        NextOwner::Over => WorkerSays::Over,
    }
}

impl Decider for PoolWorker {
    const NAME: &'static str = "worker";
    const PLACE: u8 = 7;
    type Made = ();
    type Ask = AskWorker;
    type Answer = WorkerSays;

    fn make((): &()) -> Self {
        PoolWorker::new(PoolWorkerVersion::WLatest)
    }

    fn decide(&mut self, ask: &AskWorker) -> WorkerSays {
        match *ask {
            AskWorker::Advance { met } => says(&self.advance(&mut One(met))),
            AskWorker::Visited { visit } => match self.visited(visit) {
                true => WorkerSays::GoesOn,
                false => WorkerSays::Over,
            },
        }
    }
}

impl Noted<PoolWorker> {
    /// [`PoolWorker::advance`].
    pub fn advance<O: Owners>(&mut self, owners: &mut O) -> NextOwner<O::Turn> {
        let met = Met::Nobody;
        let mut owners = Overheard { owners, met };
        let next = self.decider.advance(&mut owners);
        let met = owners.met;
        self.pen.note(&AskWorker::Advance { met }, &says(&next));
        next
    }

    /// [`PoolWorker::visited`].
    #[must_use]
    pub fn visited(&mut self, visit: Visit) -> bool {
        self.decide(AskWorker::Visited { visit }) == WorkerSays::GoesOn
    }
}
