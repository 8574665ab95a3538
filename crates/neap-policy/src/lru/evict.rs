//! Which folios of the generations to try next, and when to age instead (SPEC 3.6, 3.7).

use neap_units::Nanos;

use super::Mm;
use crate::folio::{Flags, FolioId, Kind, LruvecId};
use crate::generations::{Aging, MIN_LRU_BATCH, MIN_NR_GENS, Spread, Trigger, index, kind_to_scan};
use crate::switches::Lru;

/// Most folios looked at for a batch (SPEC 0).
const MAX_LRU_BATCH: u64 = 4096;

/// One round of isolation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Eviction {
    /// Pages looked at; 0 when nothing moved.
    pub(crate) scanned: u64,
    /// Of those, moved to another generation.
    pub(crate) sorted: u64,
    /// Of those, isolated.
    pub(crate) isolated: u64,
    /// What was isolated.
    pub(crate) kind: Kind,
}

impl Mm {
    /// When the oldest generation that may be evicted was opened. Before the rework that
    /// of files is asked, whose generations are never more.
    pub(crate) fn oldest_birth(&self, id: LruvecId, can_swap: bool) -> Nanos {
        let generations = &self.lruvec(id).generations;
        let [anon, file] = self.oldest(id);
        let oldest = match self.switches.lru {
            Lru::Mglru614 if can_swap => anon.min(file),
            _ => file,
        };
        generations.births[index(oldest)]
    }

    /// Whether the lists want a new generation, and pages that could be scanned.
    pub(crate) fn should_age(&self, id: LruvecId, can_swap: bool) -> (bool, u64) {
        let [anon, file] = self.oldest(id);
        let rework = self.switches.lru == Lru::Mglru614;
        let oldest = match (can_swap, rework) {
            (true, true) => anon.min(file),
            (true, false) => anon,
            (false, _) => file,
        };
        let spread = self.spread(id, can_swap);
        let trigger = if rework {
            Trigger::Edge
        } else {
            Trigger::Spread(spread)
        };
        match self.window(id).aging(oldest, &trigger) {
            Aging::Needed => (true, 0),
            Aging::Wanted => (true, spread.total),
            Aging::Not => (false, spread.total),
        }
    }

    /// Sequence number of the oldest generation of each kind.
    fn oldest(&self, id: LruvecId) -> [u64; 2] {
        Kind::BOTH.map(|kind| self.min_seq(id, kind))
    }

    fn spread(&self, id: LruvecId, can_swap: bool) -> Spread {
        let generations = &self.lruvec(id).generations;
        let window = generations.lists.window();
        let mut spread = Spread::default();
        for kind in Kind::BOTH {
            if kind == Kind::Anon && !can_swap {
                continue;
            }
            for seq in window.min_seq(kind)..=window.max_seq() {
                let pages = generations.pages_at(seq, kind);
                spread.total += pages;
                if seq == window.max_seq() {
                    spread.young += pages;
                } else if seq == window.youngest_inactive() {
                    spread.old += pages;
                }
            }
        }
        spread
    }

    /// Evictable pages of some lists.
    pub(crate) fn evictable(&self, id: LruvecId, can_swap: bool) -> u64 {
        self.spread(id, can_swap).total
    }

    /// Takes up to 64 folios from the oldest generation of one kind, or of the other, and
    /// sorts those that belong elsewhere (kernel: isolate_folios). `target` bounds what is
    /// looked at.
    pub(crate) fn isolate_generation(
        &mut self,
        id: LruvecId,
        swappiness: u8,
        target: u64,
        into: &mut Vec<FolioId>,
    ) -> Eviction {
        let can_swap = swappiness > 0;
        // The newest kernels look at no more than the target; those before at a fixed cap.
        let most = match self.switches.lru {
            Lru::Mglru614 => target.clamp(1, MAX_LRU_BATCH),
            _ => MAX_LRU_BATCH,
        };
        let feedback = &self.lruvec(id).generations.feedback;
        let mut kind = kind_to_scan(feedback, self.oldest(id), swappiness, self.switches.lru);
        let mut round = self.scan_kind(id, kind, most, into);
        if round.scanned == 0 && can_swap {
            kind = kind.other();
            round = self.scan_kind(id, kind, most, into);
        }
        let moved = self.advance_min_seq(id, can_swap);
        round.scanned += u64::from(moved);
        let first = if can_swap { Kind::Anon } else { Kind::File };
        let window = self.window(id);
        let left = match self.switches.lru {
            Lru::Mglru614 if can_swap => window.count(Kind::Anon).max(window.count(Kind::File)),
            _ => window.count(first),
        };
        if left == MIN_NR_GENS {
            round.scanned = 0;
        }
        round
    }

    fn scan_kind(
        &mut self,
        id: LruvecId,
        kind: Kind,
        most: u64,
        into: &mut Vec<FolioId>,
    ) -> Eviction {
        let mut round = Eviction {
            scanned: 0,
            sorted: 0,
            isolated: 0,
            kind,
        };
        let Some(oldest) = self.window(id).evictable(kind).map(index) else {
            return round;
        };
        let feedback = &self.lruvec(id).generations.feedback[kind as usize];
        let limit = feedback.tier_limit(self.switches.lru);
        let mut looks = most;
        while looks > 0 && round.isolated < MIN_LRU_BATCH {
            let Some(folio) = self.generations(id).list(kind, oldest).tail() else {
                break;
            };
            looks -= 1;
            let pages = self.folios.pages(folio);
            round.scanned += pages;
            if self.sort(id, folio, oldest, limit) {
                round.sorted += pages;
            } else {
                self.isolate(folio);
                round.isolated += pages;
                into.push(folio);
            }
        }
        // Sorting alone is no progress unless the cap stopped it.
        if round.isolated == 0 && looks > 0 {
            round.scanned = 0;
        }
        round
    }

    /// Moves a folio of the oldest generation that is not to be evicted now (kernel:
    /// sort_folio).
    fn sort(&mut self, id: LruvecId, folio: FolioId, oldest: usize, limit: usize) -> bool {
        let flags = self.folios.flags(folio);
        let kind = Kind::of(flags);
        let own = flags.generation().unwrap_or(oldest);
        if own != oldest {
            self.relink_generation(folio, own, false);
            return true;
        }
        let tier = self.tier(flags);
        let saturated = Mm::saturated(flags);
        if tier > limit || saturated {
            let pages = self.folios.pages(folio);
            let to = self.increment(folio, false);
            self.relink_generation(folio, to, true);
            let rework = self.switches.lru == Lru::Mglru614;
            if !(rework && saturated) {
                let feedback = &mut self.lruvec_mut(id).generations.feedback[kind as usize];
                feedback.protected[tier] += pages;
            }
            return true;
        }
        let dirty_file = kind == Kind::File && flags.has(Flags::DIRTY);
        if flags.any(
            Flags::WRITEBACK
                .with(Flags::LOCKED)
                .with(Flags::UNEVICTABLE),
        ) || dirty_file
        {
            let to = self.increment(folio, true);
            self.relink_generation(folio, to, false);
            return true;
        }
        false
    }

    fn isolate(&mut self, folio: FolioId) {
        let flags = self.folios.flags_mut(folio);
        // One access is none: the count starts with the second.
        if !flags.has(Flags::REFERENCED) {
            flags.set_refs(0);
            flags.set(Flags::WORKINGSET, false);
        }
        flags.set(Flags::RECLAIM.with(Flags::REFERENCED), false);
        self.remove_folio(folio);
        self.folios.flags_mut(folio).set(Flags::ACTIVE, false);
    }
}
