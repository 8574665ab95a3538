//! Back from swap: the page of a fault and its neighbours (SPEC 1.7, 2).

use neap_policy::{Counter, Flags, FolioId, LoadError, Loading, Mm, Source, Swapin, SwapinPath};
use neap_units::{PageNr, Pages, SwapSlot};

use super::fault::{Fault, Missing};
use super::ids::AreaId;
use super::machine::{Event, Machine, NOWHERE};
use super::swap::Ledger;
use super::tables::Entry;
use crate::swap::Direction;

impl Machine {
    /// Reads the page of a fault, and neighbours as the readahead of its kind says. Then
    /// the fault is to be tried again, when the read has ended.
    pub(super) fn swap_in(
        &mut self,
        mm: &mut Mm,
        fault: &Fault,
        at: u64,
        slot: SwapSlot,
    ) -> Result<(), Missing> {
        let private = self.tables.area(fault.area).private;
        let path = self.path(slot, private);
        // The page itself first: without it there is nothing to read ahead for, and the
        // window is opened once, however often the charge has to be tried.
        let key = self.key_of(fault.area, at);
        let (id, source) = self.read_slot(mm, fault, slot, Some(key))?;
        let window = self.window(fault, at, slot, path);
        let alone = window.is_empty();
        let memcg = self.space(fault.space).memcg;
        mm.memcgs.count(memcg, Counter::Pgmajfault, 1);
        let mut device = Vec::new();
        self.note_read(mm, id, source, false, &mut device);
        for (slot, key) in window {
            let cached = self.swap.as_ref().is_none_or(|s| {
                s.cached(slot).is_some()
                    || s.slots.users(slot) == 0
                    || s.slots.users(slot) == u8::MAX
            });
            if cached {
                continue;
            }
            let Ok((id, source)) = self.read_slot(mm, fault, slot, key) else {
                break;
            };
            self.note_read(mm, id, source, true, &mut device);
        }
        if path != SwapinPath::Direct {
            self.count_swapin(mm, id, Swapin::ReadaheadEnded { read_last: alone });
        }
        self.submit_reads(mm, &device, path == SwapinPath::Cluster);
        Ok(())
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
        }
        if readahead {
            let flags = mm.folios.flags_mut(id);
            flags.set(Flags::READAHEAD, true);
            flags.set(Flags::DISK_READ, source == Source::Device);
            mm.memcgs.count(mm.folio_memcg(id), Counter::SwapRa, 1);
        }
        self.count_swapin(mm, id, Swapin::Read { source, readahead });
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

    /// The other slots to read with one.
    fn window(
        &mut self,
        fault: &Fault,
        at: u64,
        slot: SwapSlot,
        path: SwapinPath,
    ) -> Vec<(SwapSlot, Option<u32>)> {
        match path {
            SwapinPath::Direct => Vec::new(),
            SwapinPath::Cluster => {
                let Some(swap) = &mut self.swap else {
                    return Vec::new();
                };
                let end = SwapSlot(swap.slots.len());
                let slots = swap.readahead.fault(slot, end);
                slots
                    .map(SwapSlot)
                    .filter(|&other| other != slot)
                    .map(|other| (other, None))
                    .collect()
            }
            SwapinPath::Vma => {
                let area = self.tables.area_mut(fault.area);
                let (start, len, entries) = (area.start, area.area.len.0, area.entries);
                let pages = area.readahead.fault(fault.page);
                let pages = pages.start.0.max(start) - start..pages.end.0.min(start + len) - start;
                let slot_of = |page| match self.tables.entry(entries + page) {
                    Entry::Slot(slot) => Some((slot, Some(self.key_of(fault.area, page)))),
                    _ => None,
                };
                pages
                    .filter(|&page| page != at)
                    .filter_map(slot_of)
                    .collect()
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
        swap.set_cached(slot, Some(id));
        let zero = swap.zero.is_zero(slot);
        if let Some(shadow) = swap.take_shadow(slot) {
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

    fn count_swapin(&mut self, mm: &Mm, id: FolioId, event: Swapin) {
        if mm.switches.swapin_count.counts(event)
            && let Some(zswap) = &mut self.zswap
        {
            zswap.on_disk_swapin(mm.folios.lruvec(id));
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
                self.count_swapin(mm, id, Swapin::FirstUse);
            }
            if private
                && !self
                    .swap
                    .as_ref()
                    .is_some_and(|s| s.device.config().rotating)
            {
                self.tables
                    .area_mut(fault.area)
                    .readahead
                    .hit_at(PageNr(fault.page.0));
            } else if let Some(swap) = &mut self.swap {
                swap.readahead.hit();
            }
        }
        if private {
            self.tables.set_entry(entries + at, Entry::Folio(id));
            self.map_page(fault.area, at, fault.write);
            self.put_slot(mm, slot);
            let Some(swap) = &self.swap else {
                return;
            };
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
