//! In which order cgroups are visited (SPEC 3.10, 3.11).

use super::heat::HeatWalk;
use super::{Cause, Host, Reclaim};
use crate::counters::Counter;
use crate::folio::LruvecId;
use crate::lru::Mm;
use crate::memcg::{MemcgId, Protection, TreeWalk};
use crate::memcg_lru::{MEMCG_NR_BINS, Op, Seg};
use crate::switches::MemcgWalk;

/// A pass over the cgroups of one node.
pub(super) enum Pass {
    Tree(TreeWalk<MemcgId>),
    MemcgLru(BinWalk),
    Heat(HeatWalk),
}

/// A pass over the old generation of the memcg LRU.
pub(super) struct BinWalk {
    seq: u64,
    first_bin: u32,
    bin: u32,
    /// The cgroup visited last; what is to be done with it when the walk goes on.
    at: Option<LruvecId>,
    pub(super) op: Option<Op>,
    over: bool,
}

impl Reclaim {
    pub(super) fn new_pass(&self, mm: &Mm, host: &mut dyn Host) -> Pass {
        let whole = self.full_walk || self.request.cause == Cause::Kswapd;
        match mm.switches.memcg_walk {
            MemcgWalk::MemcgLru63 | MemcgWalk::MemcgLru67 if mm.generational() && self.global() => {
                let bin = host.random(MEMCG_NR_BINS);
                Pass::MemcgLru(BinWalk {
                    seq: mm.memcg_lru[self.node as usize].seq,
                    first_bin: bin,
                    bin,
                    at: None,
                    op: None,
                    over: false,
                })
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
            Pass::MemcgLru(walk) => self.next_of_bins(walk, mm, host),
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

    fn next_of_bins(
        &mut self,
        walk: &mut BinWalk,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) -> Option<LruvecId> {
        loop {
            if walk.over {
                return None;
            }
            let Some(id) = self.next_in_bin(walk, mm, host) else {
                walk.at = None;
                walk.bin = (walk.bin + 1) % MEMCG_NR_BINS;
                walk.over = walk.bin == walk.first_bin;
                continue;
            };
            walk.at = Some(id);
            walk.op = self.before_visit(id, mm);
            if walk.op.is_none() {
                return Some(id);
            }
            if self.should_abort(host) {
                apply(walk, mm, host);
                walk.over = true;
            }
        }
    }

    /// The next member of the walk's generation in its bin. What was decided about the
    /// last one is done when the walk has left it.
    fn next_in_bin(
        &self,
        walk: &mut BinWalk,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) -> Option<LruvecId> {
        let stays = |id: &LruvecId, mm: &Mm| {
            let place = mm.lruvec(*id).place;
            (place.seq, place.bin) == (walk.seq, walk.bin)
        };
        let next = match walk.at {
            // Somebody moved it meanwhile, and its links with it: from the start.
            Some(id) if !stays(&id, mm) => mm.first_memcg(self.node, walk.seq, walk.bin),
            Some(id) => mm.next_memcg(id),
            None => mm.first_memcg(self.node, walk.seq, walk.bin),
        };
        apply(walk, mm, host);
        next.filter(|id| {
            let place = mm.lruvec(*id).place;
            place.seq == walk.seq
        })
    }

    /// The tests before any work on a cgroup; an operation instead of a visit.
    fn before_visit(&mut self, id: LruvecId, mm: &mut Mm) -> Option<Op> {
        let tail = mm.lruvec(id).place.seg == Seg::Tail;
        let second = if tail { Op::Young } else { Op::Tail };
        let old = mm.switches.memcg_walk == MemcgWalk::MemcgLru63;
        if old && !self.big_enough(id, mm) {
            return Some(second);
        }
        let memcg = mm.memcg_of(id);
        match mm.memcgs.protection(MemcgId::ROOT, memcg) {
            Protection::BelowMin => Some(Op::Young),
            Protection::BelowLow if !tail => Some(Op::Tail),
            Protection::BelowLow => {
                mm.memcgs.count(memcg, Counter::MemcgLow, 1);
                None
            }
            Protection::Open => None,
        }
    }

    /// Enough was reclaimed: the walk stops where it is.
    pub(super) fn end_memcg_lru(&mut self, mm: &mut Mm, host: &mut dyn Host) {
        if let Some(Pass::MemcgLru(walk)) = &mut self.pass {
            apply(walk, mm, host);
            walk.over = true;
        }
    }
}

fn apply(walk: &mut BinWalk, mm: &mut Mm, host: &mut dyn Host) {
    if let (Some(id), Some(op)) = (walk.at, walk.op.take()) {
        mm.rotate_memcg(id, op, &mut |n| host.random(n));
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
        let head = self.lruvec(id).place.seg == Seg::Head;
        if !head && self.memcgs.usage(memcg) > soft {
            self.rotate_memcg(id, Op::Head, random);
        }
    }
}
