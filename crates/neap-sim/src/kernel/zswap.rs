//! zswap's own reclaim: the shrinker, the pool worker, and write-back of one entry
//! (SPEC 1.10-1.12).

use neap_policy::{
    Counter, Flags, LruvecId, MemcgId, Mm, Owner, ShrinkCall, Ticket, Visit, Writeback,
};
use neap_units::{Nanos, Pages};

use super::machine::{Event, Machine, NOWHERE};
use super::swap::Ledger;
use crate::swap::Turn;

/// Turns a storer takes at most to pay for a page that a full pool took.
const PAYING_TURNS: u32 = 16;

impl Machine {
    /// Begins a call of zswap's shrinker for some lists (kernel: do_shrink_slab). Whoever
    /// reclaims goes on with it, so that the calls of several interleave.
    pub(super) fn begin_shrinker(&mut self, mm: &Mm, lruvec: LruvecId, priority: u8) {
        let memcg = mm.memcg_of(lruvec);
        let owner = Owner {
            bytes: mm.memcgs.zswap_bytes(memcg),
            stored: mm.memcgs.zswapped(memcg),
            writeback: mm.memcgs.zswap_writeback(memcg),
            may_io: true,
        };
        let zswap = self.zswap.as_mut();
        self.shrinker = zswap.and_then(|zswap| zswap.shrink_begin(lruvec, priority, &owner));
    }

    /// Goes on with a call for the rest of the slice; true when it is over.
    pub(super) fn shrink(&mut self, mm: &mut Mm, call: &mut ShrinkCall<LruvecId>) -> bool {
        let memcg = mm.memcg_of(call.list());
        let writeback = mm.memcgs.zswap_writeback(memcg);
        loop {
            let before = call.visited();
            let zswap = self.zswap.as_mut();
            let next = zswap.and_then(|zswap| zswap.shrink_next(call, writeback));
            self.spent += self.config.costs.scan * (call.visited() - before);
            let Some(ticket) = next else {
                break;
            };
            let outcome = self.write_back(mm, &ticket);
            if let Some(zswap) = &mut self.zswap {
                zswap.shrink_report(call, outcome);
            }
            if self.over_slice() || self.congested.is_some() {
                return false;
            }
        }
        if let Some(zswap) = &mut self.zswap {
            let scanned = zswap.shrink_end(*call).scanned;
            mm.memcgs.count(memcg, Counter::SlabsScanned, scanned);
        }
        true
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
            swap.set_cached(ticket.slot, id);
        }
        if let (Some(shadow), true) = (shadow, mm.switches.writeback_refault) {
            mm.refault(id, shadow, self.in_fault);
        }
        self.queue_add(mm, id);
        let mut ledger = Ledger {
            charged: self.config.zswap_charged,
            nodes: mm.nodes(),
            memcgs: &mut mm.memcgs,
        };
        let zswap = self.zswap.as_mut();
        let taken = zswap.and_then(|zswap| zswap.write_back(ticket, &mut ledger));
        if taken.is_none() {
            self.uncache(mm, id, None);
            self.free(mm, id);
            return Writeback::Gone;
        }
        if let Some(swap) = &mut self.swap {
            swap.versions.written_back(ticket.slot);
        }
        self.gauges.written_back(ticket.slot, self.now + self.spent);
        self.spent += self.config.contents[0].decompress();
        mm.memcgs.count(memcg, Counter::Zswpwb, 1);
        mm.memcgs.count(memcg, Counter::Pswpout, 1);
        let marks = Flags::RECLAIM.with(Flags::WRITEBACK);
        mm.folios.flags_mut(id).set(marks, true);
        if self.write(id, Pages(1)) {
            self.write_ended(mm, id, cpu);
        }
        Writeback::Written
    }

    /// One owner's turn on every node (kernel: shrink_memcg).
    pub(super) fn shrink_memcg(&mut self, mm: &mut Mm, memcg: MemcgId) -> Visit {
        let mut turn = match Turn::new(mm, memcg, mm.switches.pool_worker.budget()) {
            Ok(turn) => turn,
            Err(visit) => return visit,
        };
        while let Some(ticket) = self.zswap.as_mut().and_then(|zswap| turn.next(mm, zswap)) {
            let outcome = self.write_back(mm, &ticket);
            if let Some(zswap) = &mut self.zswap {
                turn.report(zswap, outcome);
            }
        }
        turn.visit()
    }

    /// The storer of a page that a full pool took writes back as many (SPEC 9.5).
    pub(super) fn pay_owed(&mut self, mm: &mut Mm, memcg: MemcgId, owed: u32) {
        let stored = |machine: &Machine| machine.zswap.as_ref().map_or(0, |zswap| zswap.stored());
        let goal = stored(self).saturating_sub(owed.into());
        for _ in 0..PAYING_TURNS {
            if owed == 0 || stored(self) <= goal {
                return;
            }
            self.shrink_memcg(mm, memcg);
        }
    }

    /// A refused store wakes the pool worker, which starts on another CPU a little later.
    pub(super) fn wake_worker(&mut self, mm: &mut Mm) {
        let now = self.now + self.spent;
        if !self.worker.awake() {
            self.worker.wake(mm);
            self.worker_due = now + self.config.costs.wake;
            self.schedule(self.worker_due, Event::PoolWorker);
        } else if self.worker_due <= now {
            // It runs beside the task, which must not get ahead of it.
            let (cpu, spent) = (self.cpu, self.spent);
            let (congested, started) = (self.congested, self.now);
            self.now = self.worker_due;
            self.spent = Nanos::ZERO;
            self.run_worker(mm);
            (self.cpu, self.spent) = (cpu, spent);
            (self.congested, self.now) = (congested, started);
        }
    }

    /// A slice of the pool worker, on the last CPU.
    pub(super) fn run_worker(&mut self, mm: &mut Mm) {
        if !self.worker.awake() || self.worker_due > self.now {
            return;
        }
        self.cpu = self.last_cpu();
        self.congested = None;
        while !self.over_slice() && self.congested.is_none() {
            let zswap = self.zswap.as_mut();
            let Some(ticket) = zswap.and_then(|zswap| self.worker.next(mm, zswap)) else {
                return;
            };
            let outcome = self.write_back(mm, &ticket);
            if let Some(zswap) = &mut self.zswap {
                self.worker.report(zswap, outcome);
            }
        }
        self.worker_due = self.next_slice();
        self.schedule(self.worker_due, Event::PoolWorker);
    }
}
