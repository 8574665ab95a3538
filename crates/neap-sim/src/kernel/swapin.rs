//! Back from swap: the page of a fault and its neighbours (SPEC 1.7, 2).

use neap_policy::{
    Counter, Flags, FolioId, LoadError, Loading, LruvecId, Mm, Source, Swapin, SwapinPath,
};
use neap_units::{PageNr, Pages, SwapSlot};

use super::fault::{Fault, Missing};
use super::ids::AreaId;
use super::machine::{Event, Machine, NOWHERE};
use super::swap::Ledger;
use super::tables::Entry;
use crate::swap::Direction;

/// A neighbour of a fault's page: where it lies.
#[derive(Clone, Copy, Debug)]
enum Neighbour {
    /// A page of the area.
    Page(u64),
    /// A slot of the device.
    Slot(SwapSlot),
}

/// What a fault still has to read ahead: it may have to make room in between.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Lists of the page of the fault, which is read already.
    owner: LruvecId,
    /// In reverse order.
    rest: Vec<Neighbour>,
    path: SwapinPath,
    /// The window was that page alone.
    alone: bool,
}

impl Machine {
    /// Reads the page of a fault, and neighbours as the readahead of its kind says. Then
    /// the fault is to be tried again, when the read has ended.
    pub(super) fn swap_in(
        &mut self,
        mm: &mut Mm,
        fault: &Fault,
        at: u64,
        slot: SwapSlot,
        ahead: &mut Option<Ahead>,
    ) -> Result<(), Missing> {
        let private = self.tables.area(fault.area).private;
        let path = self.path(slot, private);
        // The page itself first: without it there is nothing to read ahead for, and the
        // window is opened once, however often the charge has to be tried.
        let key = self.key_of(fault.area, at);
        let (id, source) = self.read_slot(mm, fault, slot, Some(key))?;
        let (mut rest, alone) = self.window(fault, at, slot, path);
        rest.reverse();
        let memcg = self.space(fault.space).memcg;
        mm.memcgs.count(memcg, Counter::Pgmajfault, 1);
        let mut device = Vec::new();
        self.note_read(mm, id, source, false, &mut device);
        *ahead = Some(Ahead {
            owner: mm.folios.lruvec(id),
            rest,
            path,
            alone,
        });
        self.read_ahead(mm, fault, ahead, device)
    }

    /// Goes on with what a fault reads ahead, and submits it with what is to be read `device`
    /// already. Neighbours are charged as the page itself is: at the limit reclaim comes in
    /// between.
    pub(super) fn read_ahead(
        &mut self,
        mm: &mut Mm,
        fault: &Fault,
        ahead: &mut Option<Ahead>,
        mut device: Vec<FolioId>,
    ) -> Result<(), Missing> {
        let Some(mut window) = ahead.take() else {
            return Ok(());
        };
        let together = window.path == SwapinPath::Cluster;
        while let Some(neighbour) = window.rest.pop() {
            let Some((slot, key)) = self.to_read(fault, neighbour) else {
                continue;
            };
            match self.read_slot(mm, fault, slot, key) {
                Ok((id, source)) => self.note_read(mm, id, source, true, &mut device),
                Err(Missing::Room(level)) => {
                    window.rest.push(neighbour);
                    *ahead = Some(window);
                    self.submit_reads(mm, &device, together);
                    return Err(Missing::Room(level));
                }
                Err(_) => break,
            }
        }
        if window.path != SwapinPath::Direct {
            let read_last = window.alone;
            self.count_swapin(mm, window.owner, Swapin::ReadaheadEnded { read_last });
        }
        self.submit_reads(mm, &device, together);
        Ok(())
    }

    /// Slot and key of a neighbour, if it is out and nobody reads it.
    fn to_read(&self, fault: &Fault, neighbour: Neighbour) -> Option<(SwapSlot, Option<u32>)> {
        let (slot, key) = match neighbour {
            Neighbour::Slot(slot) => (slot, None),
            Neighbour::Page(at) => {
                let entries = self.tables.area(fault.area).entries;
                let Entry::Slot(slot) = self.tables.entry(entries + at) else {
                    return None;
                };
                (slot, Some(self.key_of(fault.area, at)))
            }
        };
        let swap = self.swap.as_ref()?;
        let users = swap.slots.users(slot);
        let out = swap.cached(slot).is_none() && users != 0 && users != u8::MAX;
        out.then_some((slot, key))
    }

    /// A folio was read, or has to be: what is counted, and what readahead marks.
    fn note_read(
        &mut self,
        mm: &mut Mm,
        id: FolioId,
        source: Source,
        readahead: bool,
        device: &mut Vec<FolioId>,
    ) {
        if source == Source::Device {
            device.push(id);
            if let Some(slot) = mm.folios.slot(id) {
                self.gauges.read(SwapSlot(slot), self.now + self.spent);
            }
        }
        if readahead {
            let flags = mm.folios.flags_mut(id);
            flags.set(Flags::READAHEAD, true);
            flags.set(Flags::DISK_READ, source == Source::Device);
            mm.memcgs.count(mm.folio_memcg(id), Counter::SwapRa, 1);
        }
        let owner = mm.folios.lruvec(id);
        self.count_swapin(mm, owner, Swapin::Read { source, readahead });
    }

    /// Which way a fault reads. Shared memory always goes by place on the device.
    fn path(&self, slot: SwapSlot, private: bool) -> SwapinPath {
        let Some(swap) = &self.swap else {
            return SwapinPath::Direct;
        };
        let device = swap.device.config();
        if !private {
            return SwapinPath::Cluster;
        }
        let sole = swap.slots.users(slot) == 1;
        SwapinPath::of_fault(device.synchronous, sole, true, device.rotating)
    }

    /// The others to read with a page, and whether the window is that page alone. A window
    /// that finds no other is none of one: what it holds is read within it.
    fn window(
        &mut self,
        fault: &Fault,
        at: u64,
        slot: SwapSlot,
        path: SwapinPath,
    ) -> (Vec<Neighbour>, bool) {
        match path {
            SwapinPath::Direct => (Vec::new(), true),
            SwapinPath::Cluster => {
                let Some(swap) = &mut self.swap else {
                    return (Vec::new(), true);
                };
                let slots = swap.readahead.fault(slot, SwapSlot(swap.slots.len()));
                let alone = slots.len() == 1;
                let others = slots.map(SwapSlot).filter(|&other| other != slot);
                (others.map(Neighbour::Slot).collect(), alone)
            }
            SwapinPath::Vma => {
                let area = self.tables.area_mut(fault.area);
                let (start, len) = (area.start, area.area.len.0);
                let pages = area.readahead.fault(fault.page);
                let alone = pages.end.0 - pages.start.0 == 1;
                let pages = pages.start.0.max(start) - start..pages.end.0.min(start + len) - start;
                let others = pages.filter(|&page| page != at);
                (others.map(Neighbour::Page).collect(), alone)
            }
        }
    }

    /// Key of a page of an area.
    pub(super) fn key_of(&self, area: AreaId, at: u64) -> u32 {
        let area = self.tables.area(area);
        (self.tables.object(area.object).key + area.area.offset.0 + at) as u32
    }

    /// Allocates a folio for a slot in the swap cache and reads what needs no device.
    fn read_slot(
        &mut self,
        mm: &mut Mm,
        fault: &Fault,
        slot: SwapSlot,
        key: Option<u32>,
    ) -> Result<(FolioId, Source), Missing> {
        let owner = self
            .swap
            .as_ref()
            .map(|swap| swap.owner(slot))
            .ok_or(Missing::Memory)?;
        let memcg = mm.memcg_of(owner);
        self.charge(mm, memcg, 1, key.is_none())?;
        let id = self.alloc(mm, memcg, key.unwrap_or(NOWHERE), Flags::SWAPBACKED);
        mm.folios.set_slot(id, Some(slot.0));
        let Some(swap) = &mut self.swap else {
            return Err(Missing::Memory);
        };
        swap.slots.dup(slot);
        let shadow = swap.take_shadow(slot);
        swap.set_cached(slot, id);
        let zero = swap.zero.is_zero(slot);
        if let Some(shadow) = shadow {
            mm.refault(id, shadow, fault.recency);
        }
        if fault.recency {
            mm.note_fault(id);
        }
        self.queue_add(mm, id);
        let source = self.source(mm, id, slot, zero);
        if let Some(swap) = &mut self.swap {
            swap.versions.read(slot, source);
        }
        mm.folios
            .flags_mut(id)
            .set(Flags::LOCKED, source == Source::Device);
        Ok((id, source))
    }

    fn source(&mut self, mm: &mut Mm, id: FolioId, slot: SwapSlot, zero: bool) -> Source {
        let memcg = mm.folio_memcg(id);
        if zero {
            self.spent += self.config.costs.clear;
            mm.memcgs.count(memcg, Counter::SwpinZero, 1);
            return Source::ZeroMap;
        }
        let mut ledger = Ledger {
            charged: self.config.zswap_charged,
            nodes: mm.nodes(),
            memcgs: &mut mm.memcgs,
        };
        let loaded = self.zswap.as_mut().map_or(Ok::<_, LoadError>(None), |z| {
            z.load(slot, 1, Loading::Exclusive, &mut ledger)
        });
        if let Ok(Some(loaded)) = loaded {
            let cost = match loaded.decompressed() {
                true => self.compressor(mm, id).1,
                false => self.config.costs.clear,
            };
            self.spent += cost;
            // The pool has it no more: memory is the only copy.
            mm.folios.flags_mut(id).set(Flags::DIRTY, true);
            mm.memcgs.count(memcg, Counter::Zswpin, 1);
            return Source::Zswap;
        }
        mm.memcgs.count(memcg, Counter::Pswpin, 1);
        Source::Device
    }

    fn count_swapin(&mut self, mm: &Mm, owner: LruvecId, event: Swapin) {
        if mm.switches.swapin_count.counts(event)
            && let Some(zswap) = &mut self.zswap
        {
            zswap.on_disk_swapin(owner);
            self.gauges.counted();
        }
    }

    /// Submits reads, as one request if they lie together.
    fn submit_reads(&mut self, mm: &mut Mm, reads: &[FolioId], together: bool) {
        let Some(swap) = &mut self.swap else {
            return;
        };
        let size = if together { reads.len().max(1) } else { 1 };
        let mut ends = Vec::new();
        for request in reads.chunks(size) {
            self.spent += self.config.costs.io;
            let at = self.now + self.spent;
            let end = swap
                .device
                .submit(at, Direction::Read, Pages(request.len() as u64));
            if swap.device.config().synchronous {
                self.spent += end.saturating_sub(at);
                for &id in request {
                    mm.folios.flags_mut(id).set(Flags::LOCKED, false);
                }
            } else {
                ends.extend(request.iter().map(|&id| (id, end)));
            }
        }
        for (id, end) in ends {
            self.reads.insert(id.0, end);
            self.schedule(end, Event::ReadEnd(id.0));
        }
    }

    pub(super) fn read_ended(&mut self, mm: &mut Mm, id: FolioId) {
        self.reads.remove(&id.0);
        mm.folios.flags_mut(id).set(Flags::LOCKED, false);
        if let Some(slot) = mm.folios.slot(id) {
            self.reap_cached(mm, SwapSlot(slot));
        }
    }

    /// A fault finds its page in the swap cache: maps it, and drops what swap has of it
    /// where it is not needed any more.
    pub(super) fn map_cached(
        &mut self,
        mm: &mut Mm,
        fault: &Fault,
        at: u64,
        id: FolioId,
        slot: SwapSlot,
    ) {
        let area = self.tables.area(fault.area);
        let (private, entries, object) = (area.private, area.entries, area.object);
        if mm.folios.key(id) == NOWHERE {
            mm.folios.set_key(id, self.key_of(fault.area, at));
        }
        if mm.folios.flags_mut(id).take(Flags::READAHEAD) {
            mm.memcgs.count(mm.folio_memcg(id), Counter::SwapRaHit, 1);
            if mm.folios.flags_mut(id).take(Flags::DISK_READ) {
                let owner = mm.folios.lruvec(id);
                self.count_swapin(mm, owner, Swapin::FirstUse);
            }
            let swap = self.swap.as_ref();
            let rotating = swap.is_some_and(|swap| swap.device.config().rotating);
            if private && !rotating {
                let area = self.tables.area_mut(fault.area);
                area.readahead.hit_at(PageNr(fault.page.0));
            } else if let Some(swap) = &mut self.swap {
                swap.readahead.hit();
            }
        }
        if private {
            self.tables.set_entry(entries + at, Entry::Folio(id));
            self.map_page(fault.area, at, fault.write);
            let Some(swap) = &mut self.swap else {
                return;
            };
            // The cache still refers to the slot, and the page is mapped: nothing is to be freed.
            let freed = swap.slots.put(slot);
            debug_assert!(!freed, "{slot} is cached");
            let alone = swap.slots.users(slot) == 1;
            let direct = swap.device.config().synchronous;
            // A fault past the swap cache leaves nothing there.
            if alone && (fault.write || direct || swap.slots.half_full()) {
                self.uncache(mm, id, None);
                mm.folios.flags_mut(id).set(Flags::DIRTY, true);
            }
            return;
        }
        let base = self.tables.object(object).entries;
        let page = self.tables.area(fault.area).area.offset.0 + at;
        if let Some(base) = base {
            self.tables.set_entry(base + page, Entry::Folio(id));
        }
        self.map_page(fault.area, at, fault.write);
        self.uncache(mm, id, None);
        mm.folios.flags_mut(id).set(Flags::DIRTY, true);
        self.put_slot(mm, slot);
    }
}
