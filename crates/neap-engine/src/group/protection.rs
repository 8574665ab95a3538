//! `memory.min` and `memory.low` of groups at any depth: how much of them holds against reclaim for a group above.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::{MinLow, Protection, ProtectionLevel, effective_protection};
use neap_units::{PAGE_SIZE, Pages};

use super::{Group, Groups};

fn pages(bytes: u64) -> Pages {
    Pages(bytes / PAGE_SIZE as u64)
}

impl Group {
    /// Its settings, which hold against reclaim for the group right above it.
    pub fn protection(&self) -> MinLow {
        MinLow {
            min: pages(self.min.load(Relaxed)),
            low: pages(self.low.load(Relaxed)),
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
        let judge = |level: &Group| self.effective(&all, level, target).judge(level.pages());
        let levels = group.below(target).map(judge);
        levels.fold(Protection::Open, |most, level| match (most, level) {
            (Protection::BelowMin, _) | (_, Protection::BelowMin) => Protection::BelowMin,
            (Protection::BelowLow, _) | (_, Protection::BelowLow) => Protection::BelowLow,
            _ => Protection::Open,
        })
    }

    /// Whether `memory.low` protects some group from reclaim for this one.
    pub fn protects_by_low(&self, target: &Group) -> bool {
        let within = self.within(target);
        let mut verdicts = within.iter().map(|group| self.protects(group, target));
        verdicts.any(|verdict| verdict == Protection::BelowLow)
    }

    /// Whether something protects it from reclaim for the sake of all.
    pub fn is_kept_from_all(&self, group: &Group) -> bool {
        self.protects(group, self.top()) != Protection::Open
    }

    /// The effective protection of a group: no more than what its parent has, which the children share by what they claim.
    fn effective(&self, all: &[Arc<Group>], group: &Group, target: &Group) -> MinLow {
        let mut path: Vec<_> = group.below(target).collect();
        path.reverse();
        let level = |level: &&Group| ProtectionLevel {
            settings: level.protection(),
            usage: level.pages(),
            claims: claims(all, level),
        };
        effective_protection(path.iter().map(level))
    }
}

/// What the children of a group's parent claim together.
fn claims(all: &[Arc<Group>], group: &Group) -> MinLow {
    let parent = |group: &Group| group.parent.as_ref().map(|parent| parent.number);
    let siblings = all.iter().filter(|other| parent(other) == parent(group));
    siblings.fold(MinLow::default(), |sum, sibling| {
        let claim = sibling.protection().claim(sibling.pages());
        MinLow {
            min: sum.min + claim.min,
            low: sum.low + claim.low,
        }
    })
}
