//! What reclaim asks of the machine.

use neap_policy::{Flags, FolioId, Host, LruvecId, MemcgId, Mm, Pageout, Referenced};
use neap_units::{Nanos, Pages};

use super::Reply;
use super::machine::{Event, Machine};
use crate::swap::Direction;

impl Host for Machine {
    fn random(&mut self, n: u32) -> u32 {
        self.draw(n)
    }

    fn referenced(&mut self, mm: &mut Mm, id: FolioId, target: MemcgId) -> Referenced {
        self.find_references(mm, id, target)
    }

    fn walk_page_tables(&mut self, mm: &mut Mm, lruvec: LruvecId, can_swap: bool) {
        self.walk_tables(mm, lruvec, can_swap);
    }

    fn pageout(&mut self, mm: &mut Mm, id: FolioId, target: LruvecId) -> Pageout {
        self.page_out(mm, id, target)
    }

    /// Flushers are not tasks here: they write at once, as fast as the disk takes it.
    fn flush(&mut self, mm: &mut Mm, id: FolioId) {
        let flags = mm.folios.flags_mut(id);
        flags.set(Flags::DIRTY, false);
        flags.set(Flags::WRITEBACK, true);
        let pages = mm.folios.pages(id);
        let end = self
            .disk
            .submit(self.now + self.spent, Direction::Write, Pages(pages));
        let cpu = self.completes_on();
        self.schedule(end, Event::WriteEnd(id.0, cpu));
    }

    fn take_parts(&mut self, into: &mut Vec<FolioId>) {
        into.append(&mut self.parts);
    }

    fn shrink_slab(&mut self, mm: &mut Mm, lruvec: LruvecId, priority: u8) {
        self.spent += self.config.costs.visit;
        self.begin_shrinker(mm, lruvec, priority);
    }

    fn out_of_memory(&mut self, mm: &mut Mm) {
        self.kill_largest(mm);
    }

    fn balanced(&self, node: u32) -> bool {
        self.free_pages(node) >= self.marks.high
    }

    fn free_and_high(&self, node: u32) -> (u64, u64) {
        (self.free_pages(node), self.marks.high)
    }

    fn drain_batches(&mut self, mm: &mut Mm) {
        self.drain_cpu(mm, self.cpu);
    }
}

impl Machine {
    /// Whether the task sleeps or lets others run before it goes on.
    pub(super) fn pause(&mut self) -> Option<Reply> {
        let cpu = self.spent;
        match self.congested.take() {
            Some(until) if until > self.now + cpu => Some(Reply::Wait { cpu, until }),
            _ => self.over_slice().then_some(Reply::Continue { cpu }),
        }
    }

    /// When a kernel thread that has used its slice goes on.
    pub(super) fn next_slice(&mut self) -> Nanos {
        let ready = self.now + self.spent;
        self.congested
            .take()
            .map_or(ready, |until| until.max(ready))
    }

    /// CPU time of this slice.
    pub(super) fn over_slice(&self) -> bool {
        self.spent >= self.config.costs.slice.max(Nanos(1))
    }
}
