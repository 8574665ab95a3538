//! `memory.min` and `memory.low`: effective values, and how much they spare (SPEC 5.2, 5.3; kernel: mm/memcontrol.c,
//! `mem_cgroup_calculate_protection`).
//!
//! [`MinLow`] and [`ProtectionLevel`] are arithmetic alone. [`Memcgs`] applies them to its tree.

use neap_units::Pages;

use super::{Limits, MemcgId, Memcgs};

/// Smallest scan target of a protected cgroup (SPEC 5.3; SWAP_CLUSTER_MAX).
const SMALLEST_TARGET: Pages = Pages(32);

/// What protects a cgroup from one reclaimer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing, or it has more than that.
    Open,
    /// It is below its effective low: not reclaimed, unless a whole pass was in vain.
    BelowLow,
    /// It is below its effective min: never reclaimed.
    BelowMin,
}

/// Two amounts of memory: one for `memory.min`, one for `memory.low`. They are settings, effective values, or sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MinLow {
    /// By `memory.min`.
    pub min: Pages,
    /// By `memory.low`.
    pub low: Pages,
}

impl MinLow {
    /// What of a usage these settings cover: what a group claims of its parent's protection.
    #[inline]
    #[must_use]
    pub fn claim(self, usage: Pages) -> MinLow {
        MinLow {
            min: usage.min(self.min),
            low: usage.min(self.low),
        }
    }

    /// What a group gets that claims this much: all of it, or in proportion when its parent's effective protection is less
    /// than the `claims` of the parent's children together.
    #[inline]
    #[must_use]
    pub fn share(self, parent: MinLow, claims: MinLow) -> MinLow {
        MinLow {
            min: shared(self.min, parent.min, claims.min),
            low: shared(self.low, parent.low, claims.low),
        }
    }

    /// What a group of this usage is, with these effective values. The target of reclaim itself has none.
    #[inline]
    #[must_use]
    pub fn judge(self, usage: Pages) -> Protection {
        let covers = |protection: Pages| protection > Pages::ZERO && protection >= usage;
        if covers(self.min) {
            Protection::BelowMin
        } else if covers(self.low) {
            Protection::BelowLow
        } else {
            Protection::Open
        }
    }

    /// How much of `size` pages to scan in a group of this usage, before the priority is applied: less in proportion to
    /// what these effective values protect. `low_reclaim`: a pass that spared what is below low was in vain, so only min
    /// protects.
    #[must_use]
    pub fn scan(self, size: Pages, usage: Pages, low_reclaim: bool) -> ScanTarget {
        if self == MinLow::default() {
            return ScanTarget {
                pages: size,
                by_low: false,
            };
        }
        let by_low = !low_reclaim && self.low > self.min;
        let protection = if by_low { self.low } else { self.min };
        let whole = usage.max(protection).0 + 1;
        let spared = u128::from(size.0) * u128::from(protection.0) / u128::from(whole);
        ScanTarget {
            pages: (size - Pages(spared as u64)).max(SMALLEST_TARGET),
            by_low,
        }
    }
}

/// What [`MinLow::scan`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanTarget {
    /// How much to scan.
    pub pages: Pages,
    /// Low held pages back: a pass in vain may try without it.
    pub by_low: bool,
}

/// A child's share of what protects its parent: its own, or in proportion when the
/// children claim more than the parent has.
fn shared(own: Pages, parent: Pages, claims: Pages) -> Pages {
    if claims > parent {
        let share = u128::from(own.0) * u128::from(parent.0) / u128::from(claims.0);
        Pages(share as u64)
    } else {
        own
    }
}

/// A group on the way from the target of reclaim downwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtectionLevel {
    /// Its own settings.
    pub settings: MinLow,
    /// What it uses, with what lies below it.
    pub usage: Pages,
    /// What all children of its parent claim together, it among them: the sum of [`MinLow::claim`].
    pub claims: MinLow,
}

impl ProtectionLevel {
    /// What protects the group, given its parent's effective values. Right below the target or the root (`None`) the
    /// settings hold as they are.
    #[inline]
    #[must_use]
    pub fn effective(&self, parent: Option<MinLow>) -> MinLow {
        match parent {
            None => self.settings,
            Some(parent) => self.settings.claim(self.usage).share(parent, self.claims),
        }
    }
}

/// The effective protection of a group: the last of `path`, which leads from a child of the reclaim's target down to it.
/// Of an empty path, that is of the target itself, there is none.
#[must_use]
pub fn effective_protection(path: impl IntoIterator<Item = ProtectionLevel>) -> MinLow {
    let below = |parent: Option<MinLow>, level: ProtectionLevel| Some(level.effective(parent));
    path.into_iter().fold(None, below).unwrap_or_default()
}

impl Memcgs {
    /// Sets the limits of a cgroup.
    pub fn set_limits(&mut self, id: MemcgId, limits: Limits) {
        let before = self.claim(id);
        self.get_mut(id).limits = limits;
        self.propagate_protection(id, before);
    }

    /// What of a cgroup's usage its own min and low cover.
    #[inline]
    pub(super) fn claim(&self, id: MemcgId) -> MinLow {
        let at = self.get(id);
        at.limits.min_low().claim(Pages(at.usage))
    }

    /// Corrects the parent's sums after a change of usage or limits.
    pub(super) fn propagate_protection(&mut self, id: MemcgId, before: MinLow) {
        let after = self.claim(id);
        if before == after {
            return;
        }
        if let Some(parent) = self.parent(id) {
            let claims = &mut self.get_mut(parent).claims;
            claims.min = claims.min + after.min - before.min;
            claims.low = claims.low + after.low - before.low;
        }
    }

    /// Computes effective values on the way from the reclaimer's target down to `id`. The kernel relies on top-down visits;
    /// here each call is on its own, because walks may start anywhere.
    fn effective(&self, target: MemcgId, id: MemcgId) -> MinLow {
        if id == target || id == MemcgId::ROOT {
            return MinLow::default();
        }
        let at = self.get(id);
        let parent = at.parent.unwrap_or(MemcgId::ROOT);
        let top = parent == target || parent == MemcgId::ROOT;
        let above = (!top).then(|| self.effective(target, parent));
        let level = ProtectionLevel {
            settings: at.limits.min_low(),
            usage: Pages(at.usage),
            claims: self.get(parent).claims,
        };
        level.effective(above)
    }

    /// Judges a cgroup before a visit, and keeps its effective values for the scan.
    pub(crate) fn protection(&mut self, target: MemcgId, id: MemcgId) -> Protection {
        let effective = self.effective(target, id);
        let at = self.get_mut(id);
        at.effective = effective;
        effective.judge(Pages(at.usage))
    }

    /// Scales the size of a list by what the last [`Memcgs::protection`] found.
    pub(crate) fn scaled(&self, id: MemcgId, size: u64, low_reclaim: bool) -> ScanTarget {
        let at = self.get(id);
        at.effective.scan(Pages(size), Pages(at.usage), low_reclaim)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn both(pages: u64) -> MinLow {
        MinLow {
            min: Pages(pages),
            low: Pages(pages),
        }
    }

    #[test]
    fn the_target_has_no_protection_and_its_children_all_of_theirs() {
        assert_eq!(effective_protection([]), MinLow::default());
        let child = ProtectionLevel {
            settings: both(600),
            usage: Pages(100),
            claims: both(10_000),
        };
        assert_eq!(effective_protection([child]), both(600));
        assert_eq!(both(600).judge(Pages(600)), Protection::BelowMin);
        assert_eq!(both(600).judge(Pages(601)), Protection::Open);
        assert_eq!(MinLow::default().judge(Pages::ZERO), Protection::Open);
    }

    #[test]
    fn half_of_the_claims_is_half_for_each_and_so_on_downwards() {
        let level = |settings, usage, claims| ProtectionLevel {
            settings: both(settings),
            usage: Pages(usage),
            claims: both(claims),
        };
        let path = [level(600, 1280, 0), level(600, 640, 1200)];
        assert_eq!(effective_protection(path), both(300));
        // It claims no more than it uses.
        let below = level(500, 100, 400);
        assert_eq!(
            effective_protection([path[0], path[1], below]),
            both(100 * 300 / 400)
        );
    }

    proptest! {
        /// Siblings together get no more than their parent has, nobody more than it claims, and all get what they claim
        /// if that is within it.
        #[test]
        fn shares_are_within_what_the_parent_has(
            parent in 0u64..1000,
            children in prop::collection::vec((0u64..1000, 0u64..1000), 1..8),
        ) {
            let claim = |&(setting, usage): &(u64, u64)| both(setting).claim(Pages(usage));
            let sum = |all: &[MinLow]| both(all.iter().map(|of| of.min.0).sum());
            let claims: Vec<_> = children.iter().map(claim).collect();
            let shares: Vec<_> =
                claims.iter().map(|own| own.share(both(parent), sum(&claims))).collect();
            for (share, claim) in shares.iter().zip(&claims) {
                prop_assert!(share.min <= claim.min && share.low <= claim.low);
            }
            prop_assert!(sum(&shares).min <= Pages(parent));
            if sum(&claims).min.0 <= parent {
                prop_assert_eq!(shares, claims);
            }
        }

        /// A scan is never of more than there is (but for the smallest), and the less, the more is protected.
        #[test]
        fn more_protection_is_less_to_scan(
            size in 0u64..1 << 40,
            usage in 0u64..1 << 40,
            less in 0u64..1 << 40,
            more in 0u64..1 << 40,
        ) {
            let (less, more) = (less.min(more), less.max(more));
            let scan = |low| {
                let of = MinLow { low: Pages(low), ..MinLow::default() };
                of.scan(Pages(size), Pages(usage), false).pages
            };
            prop_assert!(scan(more) <= scan(less).max(SMALLEST_TARGET));
            prop_assert!(scan(less) <= Pages(size).max(SMALLEST_TARGET));
            let low = MinLow { low: Pages(more + 1), ..MinLow::default() };
            let after_a_pass_in_vain = ScanTarget {
                pages: Pages(size).max(SMALLEST_TARGET),
                by_low: false,
            };
            prop_assert_eq!(low.scan(Pages(size), Pages(usage), true), after_a_pass_in_vain);
        }
    }
}
