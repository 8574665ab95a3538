//! `memory.min` and `memory.low` of groups at any depth: how much of them holds against reclaim for a group above.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{MinLow, Protection, ProtectionLevel, effective_protection};
use neap_units::{Bytes, PAGE_SIZE, Pages};

use super::{Group, Groups};

fn pages(bytes: u64) -> Pages {
    Pages(bytes / PAGE_SIZE as u64)
}

impl Group {
    /// Its settings, which hold against reclaim for the group right above it.
    pub fn protection(&self) -> MinLow {
        MinLow {
            min: self.min.load().whole_pages(),
            low: self.low.load().whole_pages(),
        }
    }

    /// Whether they protect all that it has.
    pub fn is_protected(&self) -> bool {
        self.protection().judge(self.pages()) != Protection::Open
    }

    fn pages(&self) -> Pages {
        pages(self.meter.usage())
    }

    /// The groups from this one up to those right below `target`.
    fn below(&self, target: &Self) -> impl Iterator<Item = &Self> {
        self.chain()
            .take_while(|group| group.number != target.number)
    }

    /// The number of the group above.
    fn above(&self) -> Option<u64> {
        self.parent.as_ref().map(|parent| parent.number)
    }

    /// What it uses beyond its settings.
    fn unprotected(&self) -> u64 {
        let protected = self.min.load().max(self.low.load());
        protected.excess(Bytes(self.meter.usage())).0
    }

    /// What of its usage its settings cover.
    fn claim(&self) -> MinLow {
        self.protection().claim(self.pages())
    }
}

impl Groups {
    /// What protects the pages of a group's own processes from reclaim for `target`, which is above it or the group itself. A group
    /// that is protected protects what is below it: as with the kernel's mount option memory_recursiveprot.
    pub fn protects(&self, group: &Group, target: &Group) -> Protection {
        let has_some = |level: &Group| level.protection() != MinLow::default();
        if !group.below(target).any(has_some) {
            return Protection::Open;
        }
        let all = self.below();
        protection(group, target, &|level| {
            let siblings = all.iter().filter(|other| other.above() == level.above());
            siblings.fold(MinLow::default(), |sum, sibling| plus(sum, sibling.claim()))
        })
    }

    /// Whether `memory.low` protects some group from reclaim for this one.
    pub fn protects_by_low(&self, target: &Group) -> bool {
        let mut claims: HashMap<Option<u64>, MinLow> = HashMap::new();
        for group in self.below().iter() {
            let sum = claims.entry(group.above()).or_default();
            *sum = plus(*sum, group.claim());
        }
        let claims = |level: &Group| claims.get(&level.above()).copied().unwrap_or_default();
        let within = self.within(target);
        let mut verdicts = within
            .iter()
            .map(|group| protection(group, target, &claims));
        verdicts.any(|verdict| verdict == Protection::BelowLow)
    }

    /// Whose processes are killed where the limit of a group cannot be met: its own. Of a service those of one job, which uses most
    /// beyond its protection. One that was killed already and has memory still comes last.
    pub fn victim(&self, group: &Arc<Group>) -> Option<Arc<Group>> {
        if group.parent.is_some() || group.root.is_some() {
            return Some(group.clone());
        }
        let jobs = self.units().into_iter();
        let jobs = jobs.filter(|job| job.meter.usage() > 0);
        let most = |job: &Arc<Group>| (job.unprotected(), job.meter.usage(), job.number);
        jobs.max_by_key(|job| (!job.killed.load(Relaxed), most(job)))
    }

    /// Whether something protects it from reclaim for the sake of all.
    pub fn is_kept_from_all(&self, group: &Group) -> bool {
        self.protects(group, self.top()) != Protection::Open
    }
}

/// What protects the pages of a group's own processes from reclaim for `target`. `claims`: what the children of a group's parent claim
/// together.
fn protection(group: &Group, target: &Group, claims: &impl Fn(&Group) -> MinLow) -> Protection {
    let judge = |level: &Group| effective(level, target, claims).judge(level.pages());
    let levels = group.below(target).map(judge);
    levels.fold(Protection::Open, |most, level| match (most, level) {
        (Protection::BelowMin, _) | (_, Protection::BelowMin) => Protection::BelowMin,
        (Protection::BelowLow, _) | (_, Protection::BelowLow) => Protection::BelowLow,
        _ => Protection::Open,
    })
}

/// The effective protection of a group: no more than what its parent has, which the children share by what they claim.
fn effective(group: &Group, target: &Group, claims: &impl Fn(&Group) -> MinLow) -> MinLow {
    let mut path: Vec<_> = group.below(target).collect();
    path.reverse();
    let level = |level: &&Group| ProtectionLevel {
        settings: level.protection(),
        usage: level.pages(),
        claims: claims(level),
    };
    effective_protection(path.iter().map(level))
}

fn plus(one: MinLow, other: MinLow) -> MinLow {
    MinLow {
        min: one.min + other.min,
        low: one.low + other.low,
    }
}
