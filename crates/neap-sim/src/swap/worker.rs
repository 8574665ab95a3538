//! Write-back driven by limits: a cgroup's turn, and the pool worker that goes round
//! (SPEC 1.11).

use neap_policy::{
    LruvecId, MemcgId, Mm, NextOwner, Owners, PoolWorker, Ticket, Visit, Walk, Writeback, Zswap,
};

/// One cgroup's turn: a walk on each node (kernel: shrink_memcg).
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    memcg: MemcgId,
    node: u32,
    budget: u64,
    walk: Walk<LruvecId>,
    /// Visited, rotated and written on the nodes before.
    sums: (u64, u64, u64),
}

impl Turn {
    /// A turn of `memcg` with `budget` entries on each node, or what it is instead.
    ///
    /// # Errors
    /// The cgroup is no candidate.
    pub fn new(mm: &Mm, memcg: MemcgId, budget: u64) -> Result<Turn, Visit> {
        if !mm.memcgs.zswap_writeback(memcg) {
            return Err(Visit::WritebackOff);
        }
        if !mm.memcgs.online(memcg) {
            return Err(Visit::Offline);
        }
        Ok(Turn {
            memcg,
            node: 0,
            budget,
            walk: Walk::of_limit(mm.lruvec_of(memcg, 0), budget),
            sums: (0, 0, 0),
        })
    }

    /// The next entry to write back; none: the turn is over.
    pub fn next(&mut self, mm: &Mm, zswap: &mut Zswap) -> Option<Ticket> {
        loop {
            if let Some(ticket) = self.walk.next(zswap) {
                return Some(ticket);
            }
            if self.node + 1 >= mm.nodes() {
                return None;
            }
            self.sums = self.all();
            self.node += 1;
            let list = mm.lruvec_of(self.memcg, self.node);
            self.walk = Walk::of_limit(list, self.budget);
        }
    }

    /// Reports what became of the last entry.
    pub fn report(&mut self, zswap: &mut Zswap, outcome: Writeback) {
        zswap.report(&mut self.walk, outcome);
    }

    fn all(&self) -> (u64, u64, u64) {
        let (visited, rotated, written) = self.sums;
        (
            visited + self.walk.visited,
            rotated + self.walk.rotated,
            written + self.walk.written,
        )
    }

    /// What the turn came to.
    #[must_use]
    pub fn visit(&self) -> Visit {
        let (visited, rotated, written) = self.all();
        Visit::of_walk(visited, rotated, written)
    }
}

/// The pool worker: asleep, or on its round.
#[derive(Clone, Debug, Default)]
pub struct Worker {
    /// Where its round is; none: at the start.
    cursor: Option<MemcgId>,
    run: Option<(PoolWorker, Option<Turn>)>,
}

impl Worker {
    /// Wakes it. Awake, it stays so.
    pub fn wake(&mut self, mm: &Mm) {
        if self.run.is_none() {
            self.run = Some((PoolWorker::new(mm.switches.pool_worker), None));
        }
    }

    /// Whether it has work.
    #[must_use]
    pub fn awake(&self) -> bool {
        self.run.is_some()
    }

    /// The next entry to write back; none: it sleeps again.
    pub fn next(&mut self, mm: &Mm, zswap: &mut Zswap) -> Option<Ticket> {
        let (mut run, mut turn) = self.run.take()?;
        loop {
            if let Some(mut now) = turn.take() {
                if let Some(ticket) = now.next(mm, zswap) {
                    self.run = Some((run, Some(now)));
                    return Some(ticket);
                }
                if !run.visited(now.visit()) || zswap.worker_done() {
                    return None;
                }
            }
            turn = match run.advance(&mut InTreeOrder(mm, &mut self.cursor)) {
                NextOwner::Turn(turn) => Some(turn),
                NextOwner::Passed => None,
                NextOwner::Over => return None,
            };
        }
    }

    /// Reports what became of the last entry.
    pub fn report(&mut self, zswap: &mut Zswap, outcome: Writeback) {
        if let Some((_, Some(turn))) = &mut self.run {
            turn.report(zswap, outcome);
        }
    }
}

/// The cgroups, after the one whose turn was last.
struct InTreeOrder<'a>(&'a Mm, &'a mut Option<MemcgId>);

impl Owners for InTreeOrder<'_> {
    type Turn = Turn;

    fn next_owner(&mut self) -> Option<Result<Turn, Visit>> {
        let InTreeOrder(mm, cursor) = self;
        **cursor = mm.memcgs.next(MemcgId::ROOT, **cursor);
        let budget = mm.switches.pool_worker.budget();
        cursor.map(|memcg| Turn::new(mm, memcg, budget))
    }

    fn restart(&mut self) {
        *self.1 = None;
    }
}

#[cfg(test)]
mod tests {
    use neap_policy::{
        Accounts, Compressed, LruvecId, Outgoing, PoolWorkerVersion, Switches, ZswapConfig,
    };
    use neap_units::{Bytes, Pages, SwapSlot};

    use super::*;

    struct Free;

    impl Accounts for Free {
        fn charge(&mut self, _: LruvecId, _: Bytes) {}
        fn uncharge(&mut self, _: LruvecId, _: Bytes) {}
    }

    /// A pool of 200 raw pages, full, in one of two cgroups; what a run writes.
    fn run(version: PoolWorkerVersion) -> u32 {
        let mut switches = Switches::of_kernel((6, 18), false);
        switches.pool_worker = version;
        let mut mm = Mm::new(switches, 60, 1, 1);
        let job = mm.create_memcg(MemcgId::ROOT, "job", |_| 0);
        let empty = mm.create_memcg(MemcgId::ROOT, "empty", |_| 0);
        let mut zswap = Zswap::new(ZswapConfig::new(Pages(1000), 4096), &switches);
        zswap.add_list(mm.lruvec_of(empty, 0));
        for slot in 1..=201 {
            let folio = Outgoing {
                first: SwapSlot(slot),
                pages: 1,
                owner: mm.lruvec_of(job, 0),
                writeback: true,
            };
            let stored = zswap.store(&folio, true, &mut Free, |_| Compressed::Bytes(4096));
            assert_eq!(stored.is_ok(), slot <= 200);
        }
        let mut worker = Worker::default();
        worker.wake(&mm);
        let mut written = 0;
        while let Some(ticket) = worker.next(&mm, &mut zswap) {
            assert!(zswap.write_back(&ticket, &mut Free).is_some());
            worker.report(&mut zswap, Writeback::Written);
            written += 1;
        }
        assert!(!worker.awake());
        written
    }

    #[test]
    fn the_worker_makes_room_where_its_budget_outlasts_second_chances() {
        // Six turns of 32 take away second chances; the seventh the last 8, and writes 24.
        assert_eq!(run(PoolWorkerVersion::WLatest), 24);
        assert_eq!(run(PoolWorkerVersion::AgeFree), 24);
        // With a budget of one, sixteen referenced heads end the run.
        assert_eq!(run(PoolWorkerVersion::W612), 0);
        assert_eq!(run(PoolWorkerVersion::W68), 0);
    }
}
