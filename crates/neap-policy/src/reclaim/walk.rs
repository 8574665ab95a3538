//! In which order cgroups are visited (SPEC 3.10, 3.11).

use super::heat::HeatWalk;
use super::{Cause, Host, Reclaim};
use crate::counters::Counter;
use crate::folio::LruvecId;
use crate::lru::Mm;
use crate::memcg::{MemcgId, Protection, TreeWalk};
use crate::memcg_lru::{BinWalk, Groups, MemcgLru, MemcgTrigger, VisitRules};
use crate::switches::MemcgWalk;

/// A pass over the cgroups of one node.
pub(super) enum Pass {
    Tree(TreeWalk<MemcgId>),
    MemcgLru(BinWalk<MemcgId>),
    Heat(HeatWalk),
}

/// The rules of a visit that a kernel has.
pub(super) fn visit_rules(mm: &Mm) -> VisitRules {
    match mm.switches.memcg_walk {
        MemcgWalk::MemcgLru63 => VisitRules::V63,
        _ => VisitRules::V67,
    }
}

/// The cgroups of the node that a reclaim is at.
pub(super) struct NodeGroups<'a> {
    reclaim: &'a Reclaim,
    mm: &'a mut Mm,
    host: &'a mut dyn Host,
}

impl<'a> NodeGroups<'a> {
    pub(super) fn of(reclaim: &'a Reclaim, mm: &'a mut Mm, host: &'a mut dyn Host) -> Self {
        NodeGroups { reclaim, mm, host }
    }
}

impl Groups<MemcgId> for NodeGroups<'_> {
    fn lru(&mut self) -> &mut MemcgLru<MemcgId> {
        &mut self.mm.memcg_lru[self.reclaim.node as usize]
    }

    fn random(&mut self, n: u32) -> u32 {
        self.host.random(n)
    }

    fn protection(&mut self, id: MemcgId) -> Protection {
        self.mm.memcgs.protection(MemcgId::ROOT, id)
    }

    fn count_low(&mut self, id: MemcgId) {
        self.mm.memcgs.count(id, Counter::MemcgLow, 1);
    }

    fn online(&self, id: MemcgId) -> bool {
        self.mm.memcgs.online(id)
    }

    fn too_small(&self, id: MemcgId) -> bool {
        let lruvec = self.mm.lruvec_of(id, self.reclaim.node);
        !self.reclaim.big_enough(lruvec, self.mm)
    }

    fn enough(&self) -> bool {
        self.reclaim.should_abort(self.host)
    }
}

impl Reclaim {
    pub(super) fn new_pass(&self, mm: &mut Mm, host: &mut dyn Host) -> Pass {
        let whole = self.full_walk || self.request.cause == Cause::Kswapd;
        match mm.switches.memcg_walk {
            MemcgWalk::MemcgLru63 | MemcgWalk::MemcgLru67 if mm.generational() && self.global() => {
                let rules = visit_rules(mm);
                Pass::MemcgLru(BinWalk::new(rules, &mut NodeGroups::of(self, mm, host)))
            }
            MemcgWalk::Heat if self.global() => Pass::Heat(HeatWalk::default()),
            // Kernels with the first memcg LRU have no shared position for other walks.
            MemcgWalk::FullLinear | MemcgWalk::MemcgLru63 => Pass::Tree(TreeWalk::full()),
            _ if whole => Pass::Tree(TreeWalk::full()),
            _ => Pass::Tree(TreeWalk::shared()),
        }
    }

    /// The next lists to visit, if the pass goes on. Those that protection spares are
    /// passed over.
    pub(super) fn next_visit(&mut self, mm: &mut Mm, host: &mut dyn Host) -> Option<LruvecId> {
        let mut pass = self.pass.take()?;
        let next = match &mut pass {
            Pass::MemcgLru(walk) => {
                let memcg = walk.next_group(&mut NodeGroups::of(self, mm, host));
                memcg.map(|memcg| mm.lruvec_of(memcg, self.node))
            }
            Pass::Heat(walk) => self.next_by_heat(walk, mm),
            Pass::Tree(walk) => self.next_of_tree(walk, mm),
        };
        self.pass = Some(pass);
        next
    }

    fn next_of_tree(&mut self, walk: &mut TreeWalk<MemcgId>, mm: &mut Mm) -> Option<LruvecId> {
        let target = self.request.target;
        let root = mm.lruvec_of(target, self.node);
        loop {
            let mut cookie = mm.lruvec(root).cookie;
            let next = walk.next_group(&mm.memcgs, target, &mut cookie);
            mm.lruvec_mut(root).cookie = cookie;
            let memcg = next?;
            if !self.spared(memcg, mm) {
                return Some(mm.lruvec_of(memcg, self.node));
            }
        }
    }

    /// Whether protection takes a cgroup out of this pass.
    pub(super) fn spared(&mut self, memcg: MemcgId, mm: &mut Mm) -> bool {
        match mm.memcgs.protection(self.request.target, memcg) {
            Protection::Open => false,
            Protection::BelowMin => true,
            Protection::BelowLow if !self.low_reclaim => {
                self.low_skipped = true;
                true
            }
            Protection::BelowLow => {
                mm.memcgs.count(memcg, Counter::MemcgLow, 1);
                false
            }
        }
    }

    /// After a visit: walks that may be partial end when the goal is met.
    pub(super) fn end_walk_if_met(&mut self) {
        let met = self.goal_met();
        match &mut self.pass {
            Some(Pass::Tree(walk)) if met => walk.goal_met(),
            Some(Pass::Heat(walk)) if self.request.cause != Cause::Kswapd => walk.over |= met,
            _ => {}
        }
    }
}

impl Mm {
    /// Memory of a cgroup was charged: above its soft limit it goes to the head once
    /// (SPEC 3.10, trigger 1).
    pub fn check_soft_limit(&mut self, id: LruvecId, random: &mut dyn FnMut(u32) -> u32) {
        let memcg = self.memcg_of(id);
        let Some(soft) = self.memcgs.limits(memcg).soft_limit else {
            return;
        };
        if self.memcgs.usage(memcg) > soft {
            let node = self.node_of(id);
            self.note_on_memcg_lru(memcg, node, MemcgTrigger::AboveSoftLimit, random);
        }
    }
}
