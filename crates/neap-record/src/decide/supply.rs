//! The outlook, and how hard the shrinker is asked.

use neap_policy::{Look, Outlook, Pass, PoolHolds, Supply, WritePressure};
use neap_units::{Bytes, Nanos, Pages};

use super::{Decider, Noted, numbers};

/// No machine has so many pages.
const MANY: Pages = Pages(1 << 40);
const MUCH: Bytes = Bytes(1 << 52);

/// What an outlook is asked or told.
#[derive(Clone, Debug)]
pub enum AskOutlook {
    /// [`Outlook::judge`].
    Judge {
        /// What the pass achieved.
        pass: Pass,
        /// What it is judged by.
        look: Look,
    },
    /// [`Outlook::begin`].
    Begin {
        /// The time.
        now: Nanos,
    },
    /// [`Outlook::relieve`].
    Relieve,
}

/// What an outlook says.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    supply: Supply,
    /// [`Outlook::is_over`].
    over: bool,
}

numbers! { struct Pass { stored, vain, refused, moved } }
numbers! { struct Look { now, resident, round, written, writing, late, far_over } }
numbers! { enum Supply { 0 = Flows, 1 = Stuck, 2 = Dry } }
numbers! { enum AskOutlook { 0 = Judge { pass, look }, 1 = Begin { now }, 2 = Relieve } }
numbers! { struct Judged { supply, over } }

impl Decider for Outlook {
    const NAME: &'static str = "outlook";
    const PLACE: u8 = 5;
    type Made = Pages;
    type Ask = AskOutlook;
    type Answer = Option<Judged>;

    fn make(batch: &Pages) -> Self {
        Outlook::new(*batch)
    }

    fn may_ask(&self, ask: &AskOutlook) -> bool {
        match ask {
            AskOutlook::Judge { pass, look } => {
                let pages = [pass.stored, pass.refused, look.resident, look.written];
                pages.into_iter().all(|pages| pages < MANY)
                    && pass.vain <= pass.stored
                    && look.round < MANY.0
            }
            AskOutlook::Begin { .. } | AskOutlook::Relieve => true,
        }
    }

    fn decide(&mut self, ask: &AskOutlook) -> Option<Judged> {
        match ask {
            AskOutlook::Judge { pass, look } => {
                let supply = self.judge(pass, look);
                let over = self.is_over();
                return Some(Judged { supply, over });
            }
            AskOutlook::Begin { now } => self.begin(*now),
            AskOutlook::Relieve => self.relieve(),
        }
        None
    }
}

impl Noted<Outlook> {
    /// [`Outlook::judge`].
    pub fn judge(&mut self, pass: Pass, look: Look) -> Supply {
        let supply = self.decider.judge(&pass, &look);
        let over = self.decider.is_over();
        self.pen.note(
            &AskOutlook::Judge { pass, look },
            &Some(Judged { supply, over }),
        );
        supply
    }

    /// [`Outlook::begin`].
    pub fn begin(&mut self, now: Nanos) {
        self.decide(AskOutlook::Begin { now });
    }

    /// [`Outlook::relieve`].
    pub fn relieve(&mut self) {
        self.decide(AskOutlook::Relieve);
    }
}

/// A pass that stored so many pages, and the pool, where it was looked at.
#[derive(Clone, Debug)]
pub struct AskPressure {
    stored: Pages,
    pool: Option<PoolHolds>,
}

numbers! { struct PoolHolds { takes, holds } }
numbers! { struct AskPressure { stored, pool } }

impl Decider for WritePressure {
    const NAME: &'static str = "pressure";
    const PLACE: u8 = 6;
    type Made = Bytes;
    type Ask = AskPressure;
    type Answer = Option<u8>;

    fn make(limit: &Bytes) -> Self {
        WritePressure::new(*limit)
    }

    fn may_ask(&self, ask: &AskPressure) -> bool {
        ask.stored < MANY && ask.pool.is_none_or(|pool| pool.takes < MUCH)
    }

    fn decide(&mut self, ask: &AskPressure) -> Option<u8> {
        self.note(ask.stored, || ask.pool.unwrap_or_default())
    }
}

impl Noted<WritePressure> {
    /// [`WritePressure::note`].
    pub fn asks(&mut self, stored: Pages, pool: impl FnOnce() -> PoolHolds) -> Option<u8> {
        let mut held = None;
        let priority = self.decider.note(stored, || *held.insert(pool()));
        self.pen
            .note(&AskPressure { stored, pool: held }, &priority);
        priority
    }
}
