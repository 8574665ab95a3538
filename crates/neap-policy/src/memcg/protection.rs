//! `memory.min` and `memory.low`: effective values, and how much they spare (SPEC 5.2, 5.3).

use super::{Limits, MemcgId, Memcgs};

/// Smallest scan target of a protected cgroup (SPEC 5.3; SWAP_CLUSTER_MAX).
const SMALLEST_TARGET: u64 = 32;

/// What protects a cgroup from one reclaimer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protection {
    /// Nothing, or it has more than that.
    Open,
    /// It is below its effective low.
    BelowLow,
    /// It is below its effective min.
    BelowMin,
}

impl Memcgs {
    /// Sets the limits of a cgroup.
    pub fn set_limits(&mut self, id: MemcgId, limits: Limits) {
        let before = self.protected(id);
        self.get_mut(id).limits = limits;
        self.propagate_protection(id, before);
    }

    /// What of a cgroup's usage its own min and low cover.
    #[inline]
    pub(super) fn protected(&self, id: MemcgId) -> (u64, u64) {
        let at = self.get(id);
        (at.usage.min(at.limits.min.0), at.usage.min(at.limits.low.0))
    }

    /// Corrects the parent's sums after a change of usage or limits.
    pub(super) fn propagate_protection(&mut self, id: MemcgId, before: (u64, u64)) {
        let after = self.protected(id);
        if before == after {
            return;
        }
        if let Some(parent) = self.parent(id) {
            let parent = self.get_mut(parent);
            parent.children_min = parent.children_min + after.0 - before.0;
            parent.children_low = parent.children_low + after.1 - before.1;
        }
    }

    /// Computes effective values on the way from the reclaimer's target down to `id`
    /// (kernel: mem_cgroup_calculate_protection, which relies on top-down visits; here
    /// each call is on its own, because walks may start anywhere).
    fn effective(&self, target: MemcgId, id: MemcgId) -> (u64, u64) {
        if id == target || id == MemcgId::ROOT {
            return (0, 0);
        }
        let at = self.get(id);
        let parent = at.parent.unwrap_or(MemcgId::ROOT);
        if parent == target || parent == MemcgId::ROOT {
            return (at.limits.min.0, at.limits.low.0);
        }
        let above = self.effective(target, parent);
        let own = self.protected(id);
        let sums = self.get(parent);
        (
            shared(own.0, above.0, sums.children_min),
            shared(own.1, above.1, sums.children_low),
        )
    }

    /// Judges a cgroup before a visit, and keeps its effective values for the scan.
    pub(crate) fn protection(&mut self, target: MemcgId, id: MemcgId) -> Protection {
        let (emin, elow) = self.effective(target, id);
        let at = self.get_mut(id);
        (at.emin, at.elow) = (emin, elow);
        if id == target || id == MemcgId::ROOT {
            Protection::Open
        } else if emin > 0 && emin >= at.usage {
            Protection::BelowMin
        } else if elow > 0 && elow >= at.usage {
            Protection::BelowLow
        } else {
            Protection::Open
        }
    }

    /// Scales the size of a list by what the last [`Memcgs::protection`] found. The flag
    /// tells that low held pages back, so that a pass in vain may try without it.
    pub(crate) fn scaled(&self, id: MemcgId, size: u64, low_reclaim: bool) -> (u64, bool) {
        let at = self.get(id);
        if at.emin == 0 && at.elow == 0 {
            return (size, false);
        }
        let by_low = !low_reclaim && at.elow > at.emin;
        let protection = if by_low { at.elow } else { at.emin };
        let usage = at.usage.max(protection);
        let spared = u128::from(size) * u128::from(protection) / u128::from(usage + 1);
        ((size - spared as u64).max(SMALLEST_TARGET), by_low)
    }
}

/// A child's share of what protects its parent: its own, or in proportion when the
/// children claim more than the parent has.
fn shared(own: u64, parent: u64, siblings: u64) -> u64 {
    if siblings > parent {
        (u128::from(own) * u128::from(parent) / u128::from(siblings)) as u64
    } else {
        own
    }
}
