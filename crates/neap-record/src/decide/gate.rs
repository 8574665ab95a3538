//! The gate of the pool: what is admitted, and when the pool is small enough again.

use neap_policy::{Admission, PoolGate};
use neap_units::Pages;

use super::{Decider, Noted, numbers};

/// Where the gate closes, and where it opens again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GateLimit {
    /// Pages that the pool may have.
    pub max: Pages,
    /// Of these, in percent: where it opens again.
    pub accept: u8,
}

/// What the gate is asked or told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskGate {
    /// [`PoolGate::admit`].
    Admit {
        /// The owner is below its limit.
        allowed: bool,
        /// Pages of the pool.
        pool: Pages,
    },
    /// [`PoolGate::set_max`].
    SetMax {
        /// The new limit.
        limit: GateLimit,
    },
}

numbers! { struct GateLimit { max, accept } }
numbers! { enum AskGate { 0 = Admit { allowed, pool }, 1 = SetMax { limit } } }
numbers! { enum Admission { 0 = Admitted, 1 = OwnerLimit, 2 = PoolFull } }

impl Decider for PoolGate {
    const NAME: &'static str = "gate";
    const PLACE: u8 = 3;
    type Made = GateLimit;
    type Ask = AskGate;
    type Answer = Option<Admission>;

    fn make(limit: &GateLimit) -> Self {
        PoolGate::new(limit.max, limit.accept)
    }

    fn decide(&mut self, ask: &AskGate) -> Option<Admission> {
        match ask {
            AskGate::Admit { allowed, pool } => Some(self.admit(*allowed, *pool)),
            AskGate::SetMax { limit } => {
                self.set_max(limit.max, limit.accept);
                None
            }
        }
    }
}

impl Noted<PoolGate> {
    /// [`PoolGate::admit`].
    pub fn admit(&mut self, allowed: bool, pool: Pages) -> Admission {
        let admission = self.decider.admit(allowed, pool);
        self.pen
            .note(&AskGate::Admit { allowed, pool }, &Some(admission));
        admission
    }

    /// [`PoolGate::set_max`].
    pub fn set_max(&mut self, max: Pages, accept: u8) {
        let limit = GateLimit { max, accept };
        self.decide(AskGate::SetMax { limit });
    }
}
