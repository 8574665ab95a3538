//! The pacer: when memory is registered and reclaimed, and who waits.

use neap_policy::{Pacer, Plan};
use neap_units::{Bytes, Nanos};

use super::{Decider, Noted, numbers};

/// What a pacer is made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacerOf {
    /// The limit.
    pub limit: Bytes,
    /// Cpus that fault at once.
    pub cpus: u32,
}

/// What a pacer is asked or told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskPacer {
    /// [`Pacer::observe`].
    Observe {
        /// The time.
        now: Nanos,
        /// What the job uses.
        usage: Bytes,
    },
    /// [`Pacer::observe_native`].
    Native {
        /// The time.
        now: Nanos,
        /// What neap's own work does not explain.
        grown: Bytes,
    },
    /// [`Pacer::set_limit`].
    Limit {
        /// The new one.
        limit: Bytes,
    },
    /// [`Pacer::arm`].
    Arm,
}

numbers! { struct PacerOf { limit, cpus } }
numbers! { enum AskPacer {
    0 = Observe { now, usage }, 1 = Native { now, grown }, 2 = Limit { limit }, 3 = Arm,
} }
numbers! { struct Plan { arm, reclaim_to, hold_above, next_sample } }

impl Decider for Pacer {
    const NAME: &'static str = "pacer";
    const PLACE: u8 = 4;
    type Made = PacerOf;
    type Ask = AskPacer;
    type Answer = Option<Plan>;

    fn make(of: &PacerOf) -> Self {
        Pacer::new(of.limit, of.cpus)
    }

    fn decide(&mut self, ask: &AskPacer) -> Option<Plan> {
        match *ask {
            AskPacer::Observe { now, usage } => return Some(self.observe(now, usage)),
            AskPacer::Native { now, grown } => self.observe_native(now, grown),
            AskPacer::Limit { limit } => self.set_limit(limit),
            AskPacer::Arm => self.arm(),
        }
        None
    }
}

impl Noted<Pacer> {
    /// [`Pacer::observe`].
    pub fn observe(&mut self, now: Nanos, usage: Bytes) -> Plan {
        let plan = self.decider.observe(now, usage);
        self.pen
            .note(&AskPacer::Observe { now, usage }, &Some(plan));
        plan
    }

    /// [`Pacer::observe_native`].
    pub fn observe_native(&mut self, now: Nanos, grown: Bytes) {
        self.decide(AskPacer::Native { now, grown });
    }

    /// [`Pacer::set_limit`]: told where it moves.
    pub fn set_limit(&mut self, limit: Bytes) {
        if limit != self.decider.limit() {
            self.decide(AskPacer::Limit { limit });
        }
    }

    /// [`Pacer::arm`].
    pub fn arm(&mut self) {
        self.decide(AskPacer::Arm);
    }
}
