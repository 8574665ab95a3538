//! What a run is like: which things happen in it, and how often.

use neap_imagined::{Chance, Odds};

/// Drawn from the seed of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// What the kernel and the agents do wrong.
    pub odds: Odds,
    /// Threads of the first program.
    pub threads: usize,
    /// How often programs get on within a call of the engine, of 1,000 calls.
    pub within: u32,
    pub forks: bool,
    /// Forks take no turns with changes of mappings.
    pub races: bool,
    /// The kernel announces no forks. Of 1,000 chances to kill a parent meanwhile so many are taken.
    pub untold: bool,
    pub killed: u32,
    /// Memory is thrown away and declared free.
    pub discards: bool,
    /// Mappings come, go and move.
    pub changes: bool,
    /// Memory is locked, protected, kept from children.
    pub attributes: bool,
    /// The swap file's length in bytes; 0: none.
    pub swap: u64,
    /// Of 1,000 transfers of the swap file so many fail.
    pub disk_errs: u32,
    /// Most pages of the pool.
    pub pool: u64,
    /// Reads that follow the one before, of 1,000.
    pub walks: u32,
    /// Most pages of the first mapping.
    pub most: u64,
    /// Programs say how they use their memory.
    pub hints: bool,
    /// Agents are killed.
    pub kills: bool,
    /// Threads of the engine that take turns; 0: whoever drives the run is the engine, too.
    pub hands: usize,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x706c_616e);
        let mut sometimes = |permille: u32, odds: u32| match chance.happens(permille) {
            true => odds,
            false => 0,
        };
        let odds = Odds {
            again: sometimes(300, 50),
            no_memory: sometimes(200, 30),
            short: sometimes(300, 100),
            late: sometimes(300, 150),
            false_exists: sometimes(200, 50),
        };
        let within = sometimes(800, 150);
        let disk_errs = sometimes(100, 50);
        let walks = 200 + sometimes(300, 790);
        let most = 48 + u64::from(sometimes(200, 80));
        Self {
            odds,
            within,
            disk_errs,
            walks,
            most,
            threads: 1 + chance.below(3) as usize,
            forks: chance.happens(500),
            races: false,
            untold: false,
            killed: 0,
            discards: chance.happens(500),
            changes: chance.happens(800),
            attributes: chance.happens(400),
            swap: if chance.happens(700) { 8 << 20 } else { 0 },
            pool: [16, 64, 256][chance.below(3) as usize],
            kills: chance.happens(50),
            hints: Chance::new(seed ^ 0x6869_6e74).happens(500), // what else is drawn stays as it was
            hands: 0,
        }
        .with_races(chance.happens(300))
    }

    /// A run of its own kind: what threads do beside forks, and not much else.
    fn with_races(self, races: bool) -> Self {
        let threads = if races { 3 } else { self.threads };
        Self {
            races,
            threads,
            forks: self.forks || races,
            changes: self.changes || races,
            ..self
        }
    }

    /// Processes fork, and nobody announces it.
    pub fn untold(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x666f_726b);
        let plan = match chance.happens(300) {
            true => Self::with_threads(seed),
            false => Self::of(seed),
        };
        Self {
            untold: true,
            killed: if chance.happens(500) { 150 } else { 0 },
            forks: true,
            races: false,
            threads: 1 + chance.below(3) as usize,
            ..plan
        }
    }

    /// The same, with the engine in threads of its own.
    pub fn with_threads(seed: u64) -> Self {
        let plan = Self::of(seed);
        Self {
            hands: 3,
            within: plan.within.max(50),
            ..plan
        }
    }
}
