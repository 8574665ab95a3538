//! A visit of generations: age or evict (SPEC 3.6, 3.7, 3.10).

use neap_units::{Nanos, Pages};

use super::walk::{NodeGroups, Pass, visit_rules};
use super::{Cause, Host, Reclaim, Visit, VisitWork};
use crate::counters::Counter;
use crate::folio::{Flags, FolioId, Kind, LruvecId, list_of};
use crate::generations::MIN_LRU_BATCH;
use crate::lru::Mm;
use crate::memcg::{MemcgId, Protection};
use crate::memcg_lru::{MemcgTrigger, Visited, initial_priority, too_small};
use crate::shrinker::DEF_PRIORITY;
use crate::switches::Lru;

/// Free pages that allocating one page wants to see for compaction (kernel: compact_gap
/// of order 0).
const COMPACT_GAP: u64 = 2;

/// How much of some lists to scan.
enum Target {
    Scan(u64),
    /// A generation was opened: done here, and to be rotated.
    Aged,
}

impl Reclaim {
    /// Starts large requests with the priority that should meet them in one pass.
    pub(super) fn set_initial_priority(&mut self, mm: &Mm) {
        if self.priority != DEF_PRIORITY as i8 {
            return;
        }
        let root = mm.lruvec(mm.lruvec_of(MemcgId::ROOT, self.node));
        let mut reclaimable = root.total[list_of(Kind::File, false)];
        if mm.free_swap > Pages::ZERO {
            reclaimable += root.total[list_of(Kind::Anon, false)];
        }
        let rules = visit_rules(mm);
        self.priority = initial_priority(rules, Pages(reclaimable), Pages(self.goal)) as i8;
    }

    /// Before a pass of kswapd: when there is nothing to evict but the working set of the
    /// last `min_ttl`, somebody has to go instead (SPEC 3.6; kernel: lru_gen_age_node).
    /// Before the rework not if the pass began with the first priority.
    pub(super) fn keep_working_set(&self, first: u8, mm: &mut Mm, host: &mut dyn Host) {
        let on = self.request.cause == Cause::Kswapd && mm.min_ttl > Nanos::ZERO;
        let too_early = first == DEF_PRIORITY && mm.switches.lru == Lru::Mglru63;
        if !on || too_early {
            return;
        }
        let root = MemcgId::ROOT;
        let mut at = mm.memcgs.next(root, None);
        while let Some(memcg) = at {
            if self.has_aged_out(memcg, mm) {
                return;
            }
            at = mm.memcgs.next(root, Some(memcg));
        }
        host.out_of_memory(mm);
    }

    /// Whether a cgroup has enough to scan that is older than `min_ttl`.
    fn has_aged_out(&self, memcg: MemcgId, mm: &mut Mm) -> bool {
        let lruvec = mm.lruvec_of(memcg, self.node);
        let below_min = mm.memcgs.protection(MemcgId::ROOT, memcg) == Protection::BelowMin;
        if below_min || !self.big_enough(lruvec, mm) {
            return false;
        }
        let can_swap = self.effective_swappiness(lruvec, mm) > 0;
        mm.oldest_birth(lruvec, can_swap) + mm.min_ttl < mm.now
    }

    /// Swappiness for some lists: 0 without at least a batch of free swap.
    fn effective_swappiness(&self, lruvec: LruvecId, mm: &Mm) -> u8 {
        let free = mm.memcgs.swap_available(mm.memcg_of(lruvec), mm.free_swap);
        if free < Pages(MIN_LRU_BATCH) {
            0
        } else {
            self.swappiness(mm)
        }
    }

    /// Whether enough was reclaimed for everyone to stop (SPEC 3.7). Reclaim of a cgroup
    /// never stops within it, to be fair.
    pub(super) fn should_abort(&self, host: &dyn Host) -> bool {
        if !self.global() {
            return false;
        }
        // What kswapd reclaimed before this pass does not count.
        let kswapd = self.request.cause == Cause::Kswapd;
        let before = if kswapd { self.before_node } else { 0 };
        if self.reclaimed - before >= self.goal.max(COMPACT_GAP) {
            return true;
        }
        kswapd && host.balanced(self.node)
    }

    /// One round of a visit; false when it is over.
    pub(super) fn generation_round(
        &mut self,
        lruvec: LruvecId,
        scanned: &mut u64,
        aged: &mut bool,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) -> bool {
        let swappiness = self.effective_swappiness(lruvec, mm);
        let target = match self.target(lruvec, swappiness, mm, host) {
            Target::Aged => {
                *aged = true;
                return false;
            }
            Target::Scan(0) => return false,
            Target::Scan(pages) => pages,
        };
        let moved = self.evict(lruvec, swappiness, target, mm, host);
        *scanned += moved;
        moved > 0 && *scanned < target && !self.should_abort(host)
    }

    fn target(
        &mut self,
        lruvec: LruvecId,
        swappiness: u8,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) -> Target {
        let can_swap = swappiness > 0;
        let (age, total) = mm.should_age(lruvec, can_swap);
        let memcg = mm.memcg_of(lruvec);
        if total > 0 && !mm.memcgs.online(memcg) {
            return Target::Scan(total);
        }
        let mut size = total;
        if mm.switches.mglru_proportional {
            let target = mm.memcgs.scaled(memcg, total, self.low_reclaim);
            self.low_skipped |= target.by_low;
            size = target.pages.0.min(total);
        }
        if !age || self.priority == DEF_PRIORITY as i8 {
            return Target::Scan(size >> self.priority());
        }
        host.walk_page_tables(mm, lruvec, can_swap);
        mm.open_generation(lruvec, can_swap);
        Target::Aged
    }

    /// Isolates and reclaims once; returns pages that moved (kernel: evict_folios).
    fn evict(
        &mut self,
        lruvec: LruvecId,
        swappiness: u8,
        target: u64,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) -> u64 {
        let mut batch = std::mem::take(&mut self.batch);
        let round = mm.isolate_generation(lruvec, swappiness, target, &mut batch);
        let memcg = mm.memcg_of(lruvec);
        mm.memcgs.count(memcg, Counter::Pgrefill, round.sorted);
        let mut freed = self.shrink_folios(&mut batch, true, mm, host).freed;
        // Clean folios whose write ended meanwhile get one more try.
        let mut again = Vec::new();
        for id in batch.drain(..) {
            if !put_aside(id, mm) {
                again.push(id);
            }
        }
        if !again.is_empty() {
            freed += self.shrink_folios(&mut again, false, mm, host).freed;
            for id in again {
                mm.folios.flags_mut(id).set(Flags::ACTIVE, true);
                mm.put_back(id);
            }
        }
        self.batch = batch;
        self.count(mm, lruvec, round.kind, round.isolated, freed);
        round.scanned
    }

    /// What a visit means for the cgroup's place (SPEC 3.10: triggers 2-6).
    pub(super) fn after_visit(&mut self, visit: &Visit, mm: &mut Mm, host: &mut dyn Host) {
        let VisitWork::Generations { aged, .. } = visit.work else {
            self.end_walk_if_met();
            return;
        };
        let mut pass = self.pass.take();
        let on_memcg_lru = if let Some(Pass::MemcgLru(walk)) = &mut pass {
            walk.end_visit(&mut NodeGroups::of(self, mm, host), Visited { aged });
            true
        } else {
            false
        };
        self.pass = pass;
        if on_memcg_lru {
            return;
        }
        if aged {
            let (memcg, node) = (mm.memcg_of(visit.lruvec), self.node);
            mm.note_on_memcg_lru(memcg, node, MemcgTrigger::Aged, |n| host.random(n));
        }
        self.note_heat(visit, mm);
        self.end_walk_if_met();
    }

    /// Whether a cgroup has anything to scan at this priority.
    pub(super) fn big_enough(&self, lruvec: LruvecId, mm: &Mm) -> bool {
        let can_swap = self.effective_swappiness(lruvec, mm) > 0;
        let total = mm.evictable(lruvec, can_swap);
        let online = mm.memcgs.online(mm.memcg_of(lruvec));
        !too_small(Pages(total), self.priority(), online)
    }
}

/// Puts a folio back that reclaim rejected: never into the oldest generation, unless its
/// write is under way. False for a clean one that nobody uses, whose write ended
/// meanwhile.
fn put_aside(id: FolioId, mm: &mut Mm) -> bool {
    let flags = mm.folios.flags_mut(id);
    let pending = flags.any(Flags::DIRTY.with(Flags::WRITEBACK));
    if flags.has(Flags::RECLAIM) && pending {
        if flags.has(Flags::WORKINGSET) {
            flags.set(Flags::REFERENCED, true);
        }
        // It is on its way out, whatever made reclaim leave it for now.
        flags.set(Flags::ACTIVE, false);
    } else if pending || flags.any(Flags::ACTIVE.with(Flags::REFERENCED).with(Flags::LOCKED)) {
        flags.set_refs(0);
        flags.set(Flags::REFERENCED.with(Flags::WORKINGSET), false);
        flags.set(Flags::ACTIVE, true);
    } else {
        return false;
    }
    mm.put_back(id);
    true
}
