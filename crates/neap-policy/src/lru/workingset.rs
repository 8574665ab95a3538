//! What an evicted page leaves behind, and what its return says (SPEC 3.2, 3.9; kernel:
//! mm/workingset.c).

use neap_units::Pages;

use super::Mm;
use crate::counters::Counter;
use crate::folio::{Flags, FolioId, Kind, LruvecId};
use crate::generations::{MAX_NR_TIERS, Refault, competing, tier_of};
use crate::switches::{Lru, MemcgWalk, Recency};

/// Eight bytes in place of an evicted folio: whose it was, when it left, and whether it
/// had been part of the working set. The two highest bits are free, for whoever keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shadow(u64);

/// Bits of the lists' id.
const LRUVEC_BITS: u32 = 20;
/// Bits that are left for the token.
const TOKEN_BITS: u32 = Shadow::BITS - LRUVEC_BITS - 1;
/// Bits of the reference field in a token of generations.
const REFS_BITS: u32 = 2;
/// Accesses that count: the reference field and the mark after it.
pub(super) const MOST_REFS: u32 = 1 << REFS_BITS;

impl Shadow {
    /// Bits that it has.
    pub const BITS: u32 = u64::BITS - 2;

    /// The shadow as a number below 2^62.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The shadow of a number that [`Shadow::bits`] gave; higher bits are ignored.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Shadow {
        Shadow(bits & (u64::MAX >> (u64::BITS - Shadow::BITS)))
    }

    fn pack(lruvec: LruvecId, workingset: bool, token: u64) -> Shadow {
        let low = u64::from(lruvec.0) << 1 | u64::from(workingset);
        Shadow::from_bits(token << (LRUVEC_BITS + 1) | low)
    }

    fn lruvec(self) -> LruvecId {
        LruvecId((self.0 >> 1) as u32 & ((1 << LRUVEC_BITS) - 1))
    }

    fn workingset(self) -> bool {
        self.0 & 1 != 0
    }

    fn token(self) -> u64 {
        self.0 >> (LRUVEC_BITS + 1)
    }
}

const _: () = assert!(size_of::<Shadow>() == 8);

impl Mm {
    /// The non-resident age advances, here and above.
    pub(super) fn age_nonresident(&mut self, id: LruvecId, pages: u64) {
        let mut at = Some(id);
        while let Some(id) = at {
            let lruvec = self.lruvec_mut(id);
            lruvec.nonresident_age.advance(pages);
            at = lruvec.parent;
        }
    }

    /// A folio is evicted by a reclaimer of `target`'s lists: the shadow it leaves. The
    /// classic lists remember the age of the reclaimer's target, because its size is what
    /// the page competed for (kernel: workingset_eviction); generations that of the owner.
    pub fn evict_shadow(&mut self, id: FolioId, target: LruvecId) -> Shadow {
        if self.generational() {
            return self.generation_shadow(id);
        }
        let age = self.lruvec(target).nonresident_age.stamp(TOKEN_BITS);
        let pages = self.folios.pages(id);
        self.age_nonresident(target, pages);
        let workingset = self.folios.flags(id).has(Flags::WORKINGSET);
        Shadow::pack(target, workingset, age)
    }

    fn generation_shadow(&mut self, id: FolioId) -> Shadow {
        let flags = self.folios.flags(id);
        let lruvec = self.folios.lruvec(id);
        let pages = self.folios.pages(id);
        let kind = Kind::of(flags);
        let tier = self.tier(flags);
        let rework = self.switches.lru == Lru::Mglru614;
        let generations = &mut self.lruvec_mut(lruvec).generations;
        generations.feedback[kind as usize].evicted[tier] += pages;
        let (field, mark) = if rework {
            (flags.refs(), flags.has(Flags::WORKINGSET))
        } else {
            let refs = total_refs(flags);
            (refs.saturating_sub(1), refs > 0)
        };
        let token = generations.lists.window().min_seq(kind) << REFS_BITS | u64::from(field);
        Shadow::pack(lruvec, mark, token)
    }

    /// A folio was read in where a shadow lay. `faulting`: during a fault of a mapping
    /// whose accesses count.
    pub fn refault(&mut self, id: FolioId, shadow: Shadow, faulting: bool) {
        let lruvec = self.folios.lruvec(id);
        let kind = Kind::of(self.folios.flags(id));
        let pages = self.folios.pages(id);
        if self.generational() {
            if shadow.lruvec() == lruvec {
                self.refault_generation(id, shadow, faulting);
            }
            return;
        }
        self.count_workingset(lruvec, kind, WORKINGSET_REFAULT, pages);
        let refault = Refault::judge(self.recent(shadow, kind), true, shadow.workingset());
        if refault.activated {
            self.folios.flags_mut(id).set(Flags::ACTIVE, true);
            self.age_nonresident(lruvec, pages);
            self.count_activate(lruvec, kind, pages);
        }
        if refault.restored {
            self.folios.flags_mut(id).set(Flags::WORKINGSET, true);
            self.note_cost(lruvec, kind, pages, 0);
            self.count_workingset(lruvec, kind, WORKINGSET_RESTORE, pages);
        }
    }

    /// Whether a page left so lately that it could have stayed if all lists of the lists it
    /// left had been its own.
    fn recent(&self, shadow: Shadow, kind: Kind) -> bool {
        let lruvec = self.lruvec(shadow.lruvec());
        let swap = self.memcgs.swap_available(lruvec.memcg, self.free_swap) > Pages::ZERO;
        let distance = lruvec.nonresident_age.distance(shadow.token(), TOKEN_BITS);
        distance <= competing(kind, &lruvec.total, swap)
    }

    fn refault_generation(&mut self, id: FolioId, shadow: Shadow, faulting: bool) {
        let lruvec = self.folios.lruvec(id);
        let kind = Kind::of(self.folios.flags(id));
        let pages = self.folios.pages(id);
        self.count_workingset(lruvec, kind, WORKINGSET_REFAULT, pages);
        let seq = shadow.token() >> REFS_BITS;
        let window = self.window(lruvec);
        let recent = window.recent(kind, seq, self.switches.lru);
        if !recent {
            return;
        }
        let field = (shadow.token() & ((1 << REFS_BITS) - 1)) as u32;
        let refs = field + u32::from(shadow.workingset());
        let tier = match (self.switches.lru, shadow.workingset()) {
            (Lru::Mglru614, true) => MAX_NR_TIERS - 1,
            (Lru::Mglru614, false) => tier_of(field),
            _ => tier_of(refs),
        };
        let generations = &mut self.lruvec_mut(lruvec).generations;
        generations.feedback[kind as usize].refaulted[tier] += pages;
        let first = self.is_before_6_7();
        let refault = match (self.switches.lru, first) {
            (Lru::Mglru614, _) => Refault::judge(recent, faulting, shadow.workingset()),
            (_, true) => Refault::judge_before_6_14(faulting, refs, MOST_REFS),
            (_, false) => Refault::judge_before_6_14(faulting, refs, MOST_REFS - 1),
        };
        if refault.activated {
            self.count_activate(lruvec, kind, pages);
        }
        if refault.restored {
            self.restore(id, lruvec, kind);
        }
    }

    /// Whether generations are those of 6.1 to 6.6, as two other rules tell that changed in 6.3 and in 6.7.
    fn is_before_6_7(&self) -> bool {
        let first_lru = self.switches.memcg_walk == MemcgWalk::MemcgLru63;
        first_lru || self.switches.recency == Recency::SequentialOnly
    }

    /// A folio is of the working set again. From 6.7 to 6.13 it also passes for one with all accesses that count, so
    /// that reclaim spares it once.
    fn restore(&mut self, id: FolioId, lruvec: LruvecId, kind: Kind) {
        let spared = self.switches.lru == Lru::Mglru63 && !self.is_before_6_7();
        let flags = self.folios.flags_mut(id);
        flags.set(Flags::WORKINGSET, true);
        if spared {
            flags.set_refs(MOST_REFS - 1);
        }
        let pages = self.folios.pages(id);
        self.count_workingset(lruvec, kind, WORKINGSET_RESTORE, pages);
    }

    fn count_workingset(&mut self, id: LruvecId, kind: Kind, which: [Counter; 2], pages: u64) {
        let memcg = self.memcg_of(id);
        self.memcgs.count(memcg, which[kind as usize], pages);
    }

    /// Counts recent refaults: as an event, and for the decision to deactivate.
    pub(super) fn count_activate(&mut self, id: LruvecId, kind: Kind, pages: u64) {
        self.count_workingset(id, kind, WORKINGSET_ACTIVATE, pages);
        let mut at = Some(id);
        while let Some(id) = at {
            let lruvec = self.lruvec_mut(id);
            lruvec.activates[kind as usize] += pages;
            at = lruvec.parent;
        }
    }

    /// Tier of a folio: how often it was accessed through file descriptors (SPEC 3.5). Since
    /// the rework the mark alone means the highest tier.
    pub(super) fn tier(&self, flags: Flags) -> usize {
        match (self.switches.lru, flags.has(Flags::WORKINGSET)) {
            (Lru::Mglru614, true) => MAX_NR_TIERS - 1,
            (Lru::Mglru614, false) => tier_of(flags.refs()),
            _ => tier_of(total_refs(flags)),
        }
    }

    /// A folio goes back to an active list after reclaim looked at it: it proved itself,
    /// and the age advances (kernel: move_folios_to_lru).
    pub(crate) fn put_back(&mut self, id: FolioId) {
        self.insert(id, false);
        let flags = self.folios.flags(id);
        if !self.generational() && flags.has(Flags::ACTIVE) {
            let lruvec = self.folios.lruvec(id);
            self.age_nonresident(lruvec, 1 << flags.order());
        }
    }
}

const WORKINGSET_REFAULT: [Counter; 2] = [
    Counter::WorkingsetRefaultAnon,
    Counter::WorkingsetRefaultFile,
];
const WORKINGSET_ACTIVATE: [Counter; 2] = [
    Counter::WorkingsetActivateAnon,
    Counter::WorkingsetActivateFile,
];
const WORKINGSET_RESTORE: [Counter; 2] = [
    Counter::WorkingsetRestoreAnon,
    Counter::WorkingsetRestoreFile,
];

/// Accesses beyond the first: the field and the mark after it (SPEC 3.5).
pub(super) fn total_refs(flags: Flags) -> u32 {
    flags.refs() + u32::from(flags.has(Flags::WORKINGSET))
}
