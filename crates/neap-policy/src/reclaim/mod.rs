//! Reclaim: who is visited at which priority, and when it is enough (SPEC 3.1, 3.10-3.12).
//!
//! A [`Reclaim`] does one small step for each call, so that many reclaimers of one cgroup
//! interleave as they do on a real machine.

mod classic;
mod folios;
mod generations;
mod heat;
mod host;
mod walk;

pub(crate) use heat::HeatLevel;
pub use host::{Host, Pageout, Referenced};

use neap_units::Pages;

use crate::counters::Counter;
use crate::folio::{FolioId, Kind, LruvecId};
use crate::lru::Mm;
use crate::memcg::MemcgId;
use crate::shrinker::DEF_PRIORITY;
use crate::switches::MemcgWalk;

/// Smallest goal, and pages of one chunk (SPEC 0).
pub(crate) const SWAP_CLUSTER_MAX: u64 = 32;

/// On whose behalf pages are reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The background reclaimer of a node.
    Kswapd,
    /// A task that wants a free page.
    Direct,
    /// A task whose cgroup is at a limit.
    Limit,
    /// A write to `memory.reclaim`.
    Proactive,
}

impl Cause {
    fn counters(self) -> [Counter; 2] {
        match self {
            Cause::Kswapd => [Counter::PgscanKswapd, Counter::PgstealKswapd],
            Cause::Direct | Cause::Limit => [Counter::PgscanDirect, Counter::PgstealDirect],
            Cause::Proactive => [Counter::PgscanProactive, Counter::PgstealProactive],
        }
    }
}

/// What is to be reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// On whose behalf.
    pub cause: Cause,
    /// From this cgroup and those below.
    pub target: MemcgId,
    /// How much; at least 32 pages are aimed at.
    pub goal: Pages,
    /// Instead of `vm.swappiness`.
    pub swappiness: Option<u8>,
    /// From which nodes.
    pub nodes: Nodes,
}

/// The nodes that a reclaim asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nodes {
    /// One.
    Only(u32),
    /// All, from that of the caller's CPU on (kernel: the order of its zonelist).
    From(u32),
}

impl Nodes {
    fn first(self) -> u32 {
        match self {
            Nodes::Only(node) | Nodes::From(node) => node,
        }
    }

    /// The node after another, until all have been asked.
    fn after(self, node: u32, of: u32) -> Option<u32> {
        let Nodes::From(first) = self else {
            return None;
        };
        let next = (node + 1) % of;
        // A first node that there is not would never come round.
        (next != first % of).then_some(next)
    }
}

/// What one step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do.
    More,
    /// Reclaim is over.
    Done,
}

/// One reclaim, from the first visit to the last.
pub struct Reclaim {
    request: Request,
    goal: u64,
    reclaimed: u64,
    /// Pages scanned at this priority.
    scanned: u64,
    priority: i8,
    /// What a fruitless descent may try next (SPEC 3.1).
    low_reclaim: bool,
    low_skipped: bool,
    force_deactivate: bool,
    skipped_deactivate: bool,
    full_walk: bool,
    node: u32,
    /// Reclaimed when the pass over this node began.
    before_node: u64,
    balance: classic::Balance,
    pass: Option<walk::Pass>,
    visit: Option<Visit>,
    batch: Vec<FolioId>,
}

/// A visit of one cgroup on one node, under way.
struct Visit {
    lruvec: LruvecId,
    scanned: u64,
    reclaimed: u64,
    work: VisitWork,
}

enum VisitWork {
    Classic(classic::Chunks),
    Generations { scanned: u64, aged: bool },
}

impl Reclaim {
    /// A reclaim that has not begun.
    #[must_use]
    pub fn new(request: Request) -> Reclaim {
        Reclaim {
            request,
            goal: request.goal.0.max(SWAP_CLUSTER_MAX),
            reclaimed: 0,
            scanned: 0,
            priority: DEF_PRIORITY as i8,
            low_reclaim: false,
            low_skipped: false,
            force_deactivate: false,
            skipped_deactivate: false,
            full_walk: request.cause == Cause::Kswapd,
            node: request.nodes.first(),
            before_node: 0,
            balance: classic::Balance::default(),
            pass: None,
            visit: None,
            batch: Vec::new(),
        }
    }

    /// What was asked for.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Pages reclaimed so far.
    #[must_use]
    pub fn reclaimed(&self) -> Pages {
        Pages(self.reclaimed)
    }

    /// Scan priority now.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.priority.max(0) as u8
    }

    /// Whether traversal is that of global reclaim: no target, or the root.
    fn global(&self) -> bool {
        self.request.target == MemcgId::ROOT
    }

    /// Whether statistics and balance are those of a cgroup: also for `memory.reclaim` of
    /// the root.
    fn on_behalf_of_cgroup(&self) -> bool {
        matches!(self.request.cause, Cause::Limit | Cause::Proactive)
    }

    fn goal_met(&self) -> bool {
        self.reclaimed >= self.goal
    }

    fn swappiness(&self, mm: &Mm) -> u8 {
        self.request.swappiness.unwrap_or(mm.swappiness)
    }

    /// Does a little: a chunk of a visit, or the choice of whom to visit next.
    pub fn step(&mut self, mm: &mut Mm, host: &mut dyn Host) -> Progress {
        if let Some(mut visit) = self.visit.take() {
            if self.advance(&mut visit, mm, host) {
                self.visit = Some(visit);
            } else {
                self.finish_visit(&visit, mm, host);
            }
            return Progress::More;
        }
        if self.pass.is_none() {
            self.begin_node(mm, host);
        }
        if let Some(lruvec) = self.next_visit(mm, host) {
            let root = MemcgId::ROOT;
            mm.memcgs.count(root, Counter::MemcgVisited, 1);
            self.visit = Some(self.begin_visit(lruvec, mm));
            return Progress::More;
        }
        self.pass = None;
        self.end_node(mm, host)
    }

    /// Runs to the end.
    pub fn run(&mut self, mm: &mut Mm, host: &mut dyn Host) -> Pages {
        while self.step(mm, host) == Progress::More {}
        self.reclaimed()
    }

    fn begin_node(&mut self, mm: &mut Mm, host: &mut dyn Host) {
        self.before_node = self.reclaimed;
        if mm.generational() && self.global() {
            let first = self.priority();
            self.set_initial_priority(mm);
            self.keep_working_set(first, mm, host);
        }
        if !mm.generational() {
            self.balance = self.balance_of(mm, host);
        }
        self.pass = Some(self.new_pass(mm, host));
    }

    fn begin_visit(&mut self, lruvec: LruvecId, mm: &mut Mm) -> Visit {
        let work = if mm.generational() {
            VisitWork::Generations {
                scanned: 0,
                aged: false,
            }
        } else {
            VisitWork::Classic(self.scan_targets(lruvec, mm))
        };
        Visit {
            lruvec,
            scanned: self.scanned,
            reclaimed: self.reclaimed,
            work,
        }
    }

    /// One chunk of a visit; false when it is over.
    fn advance(&mut self, visit: &mut Visit, mm: &mut Mm, host: &mut dyn Host) -> bool {
        match &mut visit.work {
            VisitWork::Classic(chunks) => self.classic_chunk(visit.lruvec, chunks, mm, host),
            VisitWork::Generations { scanned, aged } => {
                self.generation_round(visit.lruvec, scanned, aged, mm, host)
            }
        }
    }

    fn finish_visit(&mut self, visit: &Visit, mm: &mut Mm, host: &mut dyn Host) {
        if let VisitWork::Classic(_) = visit.work {
            self.end_classic(visit.lruvec, mm, host);
        }
        host.shrink_slab(mm, visit.lruvec, self.priority());
        self.after_visit(visit, mm, host);
    }

    /// A pass over one node is over: the next node, the next priority, or the end.
    fn end_node(&mut self, mm: &mut Mm, host: &mut dyn Host) -> Progress {
        if self.request.cause == Cause::Kswapd {
            return self.end_kswapd_pass(host);
        }
        if let Some(next) = self.request.nodes.after(self.node, mm.nodes()) {
            self.node = next;
            return Progress::More;
        }
        self.node = self.request.nodes.first();
        self.scanned = 0;
        self.priority -= 1;
        if !self.goal_met() && self.priority >= 0 {
            return Progress::More;
        }
        self.snapshot(mm);
        if self.reclaimed == 0 && self.try_harder(mm) {
            self.priority = DEF_PRIORITY as i8;
            return Progress::More;
        }
        Progress::Done
    }

    /// After a descent in vain: everyone instead of a part, then the active lists, then
    /// what low protects.
    fn try_harder(&mut self, mm: &Mm) -> bool {
        let partial = !matches!(
            mm.switches.memcg_walk,
            MemcgWalk::FullLinear | MemcgWalk::MemcgLru63
        );
        if partial && !self.full_walk {
            self.full_walk = true;
        } else if self.skipped_deactivate && !self.force_deactivate {
            self.force_deactivate = true;
            self.skipped_deactivate = false;
        } else if self.low_skipped && !self.low_reclaim {
            self.force_deactivate = false;
            self.low_reclaim = true;
            self.low_skipped = false;
        } else {
            return false;
        }
        true
    }

    /// kswapd goes on until its node is balanced, with more pressure when a pass did not
    /// scan its goal or reclaimed nothing (kernel: balance_pgdat).
    fn end_kswapd_pass(&mut self, host: &mut dyn Host) -> Progress {
        let progress = self.reclaimed > self.before_node;
        if self.scanned < self.goal || !progress {
            self.priority -= 1;
        }
        self.scanned = 0;
        if self.priority < 1 || host.balanced(self.node) {
            return Progress::Done;
        }
        Progress::More
    }

    fn snapshot(&self, mm: &mut Mm) {
        for node in 0..mm.nodes() {
            let id = mm.lruvec_of(self.request.target, node);
            mm.snapshot_refaults(id);
        }
    }

    /// Counts pages looked at and pages reclaimed of some lists.
    fn count(&mut self, mm: &mut Mm, lruvec: LruvecId, kind: Kind, scanned: u64, stolen: u64) {
        let memcg = mm.memcg_of(lruvec);
        let [scan, steal] = self.request.cause.counters();
        let by_kind = [
            kind.pick(Counter::PgscanAnon, Counter::PgscanFile),
            kind.pick(Counter::PgstealAnon, Counter::PgstealFile),
        ];
        for (counters, pages) in [([scan, by_kind[0]], scanned), ([steal, by_kind[1]], stolen)] {
            if pages > 0 {
                mm.memcgs.count(memcg, counters[0], pages);
                mm.memcgs.count(memcg, counters[1], pages);
            }
        }
        self.scanned += scanned;
        self.reclaimed += stolen;
    }
}

#[cfg(test)]
mod memcg_lru_tests;
#[cfg(test)]
mod tests;
