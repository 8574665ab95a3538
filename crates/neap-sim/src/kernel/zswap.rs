//! zswap's own reclaim: the shrinker, the pool worker, and write-back of one entry
//! (SPEC 1.10-1.12).

use neap_policy::{
    Counter, Flags, LruvecId, MemcgId, Mm, Owner, PoolWorker, Ticket, Visit, Walk, Writeback,
};
use neap_units::Pages;

use super::machine::{Event, Machine, NOWHERE};
use super::swap::Ledger;

impl Machine {
    /// Runs zswap's shrinker for some lists (kernel: one do_shrink_slab call).
    pub(super) fn shrink_zswap(&mut self, mm: &mut Mm, lruvec: LruvecId, priority: u8) {
        let memcg = mm.memcg_of(lruvec);
        let owner = Owner {
            bytes: mm.memcgs.zswap_bytes(memcg),
            stored: mm.memcgs.zswapped(memcg),
            writeback: mm.memcgs.zswap_writeback(memcg),
            may_io: true,
        };
        let Some(zswap) = &mut self.zswap else {
            return;
        };
        let Some(mut call) = zswap.shrink_begin(lruvec, priority, &owner) else {
            return;
        };
        loop {
            let next = self
                .zswap
                .as_mut()
                .and_then(|z| z.shrink_next(&mut call, owner.writeback));
            let Some(ticket) = next else {
                break;
            };
            let outcome = self.write_back(mm, &ticket);
            if let Some(zswap) = &mut self.zswap {
                zswap.shrink_report(&mut call, outcome);
            }
        }
        if let Some(zswap) = &mut self.zswap {
            let shrunk = zswap.shrink_end(call);
            mm.memcgs
                .count(memcg, Counter::SlabsScanned, shrunk.scanned);
        }
    }

    /// Writes one entry to the device (SPEC 1.12).
    fn write_back(&mut self, mm: &mut Mm, ticket: &Ticket) -> Writeback {
        let Some(swap) = &mut self.swap else {
            return Writeback::Gone;
        };
        if swap.cached(ticket.slot).is_some() {
            return Writeback::Exists;
        }
        let shadow = swap.take_shadow(ticket.slot);
        swap.slots.dup(ticket.slot);
        let memcg = mm.memcg_of(ticket.owner);
        let cpu = self.cpu;
        // Forced: reclaim must be able to go on above the limit.
        let _ = mm.memcgs.try_charge(cpu, memcg, Pages(1), true);
        let id = self.alloc(mm, memcg, NOWHERE, Flags::SWAPBACKED);
        mm.folios.set_slot(id, Some(ticket.slot.0));
        if let Some(swap) = &mut self.swap {
            swap.set_cached(ticket.slot, Some(id));
        }
        if let (Some(shadow), true) = (shadow, mm.switches.writeback_refault) {
            mm.refault(id, shadow, false);
        }
        self.queue_add(mm, id);
        let mut ledger = Ledger {
            nodes: mm.nodes(),
            memcgs: &mut mm.memcgs,
        };
        let taken = self
            .zswap
            .as_mut()
            .and_then(|z| z.write_back(ticket, &mut ledger));
        if taken.is_none() {
            self.uncache(mm, id, None);
            self.free(mm, id);
            return Writeback::Gone;
        }
        self.spent += self.config.contents[0].decompress();
        mm.memcgs.count(memcg, Counter::Zswpwb, 1);
        mm.memcgs.count(memcg, Counter::Pswpout, 1);
        mm.folios
            .flags_mut(id)
            .set(Flags::RECLAIM.with(Flags::WRITEBACK), true);
        if self.write(id, Pages(1)) {
            self.write_ended(mm, id, cpu);
        }
        Writeback::Written
    }

    /// One owner's turn on every node (kernel: shrink_memcg).
    pub(super) fn shrink_memcg(&mut self, mm: &mut Mm, memcg: MemcgId) -> Visit {
        if !mm.memcgs.zswap_writeback(memcg) {
            return Visit::WritebackOff;
        }
        if !mm.memcgs.online(memcg) {
            return Visit::Offline;
        }
        let budget = mm.switches.pool_worker.budget();
        let (mut visited, mut rotated, mut written) = (0, 0, 0);
        for node in 0..mm.nodes() {
            let mut walk = Walk::of_limit(mm.lruvec_of(memcg, node), budget);
            while let Some(ticket) = self.zswap.as_mut().and_then(|z| walk.next(z)) {
                let outcome = self.write_back(mm, &ticket);
                if let Some(zswap) = &mut self.zswap {
                    walk.report(zswap, outcome);
                }
            }
            visited += walk.visited;
            rotated += walk.rotated;
            written += walk.written;
        }
        Visit::of_walk(visited, rotated, written)
    }

    pub(super) fn wake_worker(&mut self) {
        if !self.worker_awake {
            self.worker_awake = true;
            self.schedule(self.now + self.spent, Event::PoolWorker);
        }
    }

    /// A run of the pool worker, all at once but for the time it takes.
    pub(super) fn run_worker(&mut self, mm: &mut Mm) {
        self.worker_awake = false;
        let mut run = PoolWorker::new(mm.switches.pool_worker);
        loop {
            let next = mm.memcgs.next_after(self.worker_cursor);
            self.worker_cursor = next;
            let go_on = match next {
                None => run.round_ended(),
                Some(memcg) => {
                    let visit = self.shrink_memcg(mm, memcg);
                    if visit == Visit::Offline && run.offline_restarts() {
                        self.worker_cursor = None;
                    }
                    run.visited(visit)
                }
            };
            if !go_on || self.zswap.as_ref().is_none_or(|zswap| zswap.worker_done()) {
                return;
            }
        }
    }
}
