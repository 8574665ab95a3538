//! Out of memory: unmap, find storage, write, free (SPEC 1.2, 5.5).

use neap_policy::{
    Compressed, Counter, Flags, FolioId, Kind, LruvecId, Mm, Outgoing, Pageout, Source, Zswap,
};
use neap_units::{Nanos, Pages, SwapSlot};

use super::machine::{Event, Machine, NOWHERE, has_recency, kind_of, view};
use super::swap::Ledger;
use super::tables::Entry;
use crate::compress::PageImage;
use crate::swap::Direction;

/// Order of a folio of 2 MiB (kernel: HPAGE_PMD_ORDER).
const PMD_ORDER: u8 = 9;

impl Machine {
    /// See [`neap_policy::Host::pageout`].
    pub(super) fn page_out(&mut self, mm: &mut Mm, id: FolioId, target: LruvecId) -> Pageout {
        self.spent += self.config.costs.unmap;
        let flags = mm.folios.flags(id);
        if kind_of(flags) == Kind::File {
            self.unmap_folio(mm, id, None);
            if mm.folios.flags(id).has(Flags::DIRTY) {
                mm.folios.flags_mut(id).set(Flags::RECLAIM, true);
                return Pageout::Activate;
            }
            self.drop_file(mm, id, target);
            return Pageout::Freed { wrote: false };
        }
        if !flags.has(Flags::SWAPCACHE) && !self.add_to_swap(mm, id) {
            return self.split_or_activate(mm, id);
        }
        let slot = mm.folios.slot(id).map(SwapSlot);
        self.unmap_folio(mm, id, slot);
        if !mm.folios.flags_mut(id).take(Flags::DIRTY) {
            self.free_cached(mm, id, target);
            return Pageout::Freed { wrote: false };
        }
        self.swap_out(mm, id, target)
    }

    /// A clean file page leaves a shadow.
    fn drop_file(&mut self, mm: &mut Mm, id: FolioId, target: LruvecId) {
        let (object, page) = self.tables.resolve(mm.folios.key(id));
        let shadow = mm.evict_shadow(id, target);
        if let Some(base) = self.tables.object(object).entries {
            for at in page..page + mm.folios.pages(id) {
                let entry = self.leave_shadow(shadow);
                self.tables.set_entry(base + at, entry);
            }
        }
        self.free(mm, id);
    }

    /// Gives a folio slots, and makes it differ from them.
    fn add_to_swap(&mut self, mm: &mut Mm, id: FolioId) -> bool {
        let (order, pages) = (mm.folios.flags(id).order(), mm.folios.pages(id));
        let cpu = self.cpu as u32;
        let memcg = mm.folio_memcg(id);
        let Some(swap) = &mut self.swap else {
            return false;
        };
        let Some(first) = swap.slots.alloc(cpu, order) else {
            mm.memcgs.count(memcg, Counter::MemcgSwapFail, 1);
            return false;
        };
        if !mm.memcgs.charge_swap(memcg, Pages(pages)) {
            for slot in first.0..first.0 + pages as u32 {
                swap.slots.put(SwapSlot(slot));
            }
            return false;
        }
        for slot in first.0..first.0 + pages as u32 {
            swap.set_cached(SwapSlot(slot), id);
            swap.set_owner(SwapSlot(slot), mm.folios.lruvec(id));
        }
        mm.free_swap = swap.free();
        mm.folios.set_slot(id, Some(first.0));
        mm.folios.flags_mut(id).set(Flags::DIRTY, true);
        true
    }

    /// Without slots in one piece a large folio is split, and its pages are tried.
    fn split_or_activate(&mut self, mm: &mut Mm, id: FolioId) -> Pageout {
        let order = mm.folios.flags(id).order();
        if order == 0 {
            return Pageout::Activate;
        }
        if order == PMD_ORDER {
            let memcg = mm.folio_memcg(id);
            mm.memcgs.count(memcg, Counter::ThpSwpoutFallback, 1);
        }
        if let Some(zswap) = &mut self.zswap {
            zswap.orders_mut()[usize::from(order)].swpout_fallback += 1;
        }
        self.split(mm, id);
        Pageout::Split
    }

    /// Splits a folio that is on no list into single pages; the parts wait in `parts`.
    fn split(&mut self, mm: &mut Mm, id: FolioId) {
        let (flags, key) = (mm.folios.flags(id), mm.folios.key(id));
        let pages = mm.folios.pages(id);
        *mm.folios.flags_mut(id) = flags.with_order(0);
        let places: Vec<_> = self.mappings(key).collect();
        self.parts.push(id);
        for at in 1..pages {
            let part = mm
                .folios
                .alloc(mm.folios.lruvec(id), key + at as u32, flags.with_order(0));
            for place in &places {
                let area = self.tables.area(place.area);
                let entry = area.entries + place.at + at;
                if place.at + at < area.area.len.0 && self.tables.entry(entry) == Entry::Folio(id) {
                    self.tables.set_entry(entry, Entry::Folio(part));
                }
            }
            let (object, page) = self.tables.resolve(key);
            if let Some(base) = self.tables.object(object).entries {
                self.tables.set_entry(base + page + at, Entry::Folio(part));
            }
            self.parts.push(part);
        }
    }

    /// Takes a folio out of all page tables. With a slot, what mapped it refers to that
    /// from now on; of shared memory, the object does.
    fn unmap_folio(&mut self, mm: &mut Mm, id: FolioId, slot: Option<SwapSlot>) {
        let pages = mm.folios.pages(id);
        let key = mm.folios.key(id);
        let (object, page) = self.tables.resolve(key);
        let (mut dirty, mut next) = (false, 0);
        while let Some(place) = self.next_mapping((object, page), &mut next) {
            let area = self.tables.area(place.area);
            let (bits, entries, private) = (area.bits, area.entries, area.private);
            let (len, space) = (area.area.len.0, area.space);
            let counts = has_recency(mm, area.area.advice);
            for at in place.at..(place.at + pages).min(len) {
                if private && self.tables.entry(entries + at) != Entry::Folio(id) {
                    continue;
                }
                if let Some((accessed, was_dirty)) = self.tables.unmap(bits + at) {
                    dirty |= was_dirty;
                    self.space_mut(space).rss -= 1;
                    if accessed && counts && !private && slot.is_none() {
                        mm.mark_accessed(id);
                    }
                }
                if let (true, Some(first), Some(swap)) = (private, slot, &mut self.swap) {
                    let slot = SwapSlot(first.0 + (at - place.at) as u32);
                    swap.slots.dup(slot);
                    self.tables.set_entry(entries + at, Entry::Slot(slot));
                }
            }
        }
        if dirty {
            mm.folios.flags_mut(id).set(Flags::DIRTY, true);
        }
        if let (Some(base), Some(first)) = (self.tables.object(object).entries, slot) {
            for at in 0..pages {
                let slot = SwapSlot(first.0 + at as u32);
                if self.tables.entry(base + page + at) == Entry::Folio(id) {
                    if let Some(swap) = &mut self.swap {
                        swap.slots.dup(slot);
                    }
                    self.tables.set_entry(base + page + at, Entry::Slot(slot));
                }
            }
        }
    }

    /// A folio in the swap cache that is clean and unmapped is freed, with a shadow.
    fn free_cached(&mut self, mm: &mut Mm, id: FolioId, target: LruvecId) {
        let shadow = mm.evict_shadow(id, target);
        self.uncache(mm, id, Some(shadow));
        self.free(mm, id);
    }

    /// Writes a folio of the swap cache: to the zero map, to zswap, or to the device.
    fn swap_out(&mut self, mm: &mut Mm, id: FolioId, target: LruvecId) -> Pageout {
        let pages = mm.folios.pages(id);
        let Some(first) = mm.folios.slot(id).map(SwapSlot) else {
            return Pageout::Keep;
        };
        if self.nobody_needs(first, pages) {
            self.free_cached(mm, id, target);
            return Pageout::Freed { wrote: false };
        }
        let memcg = mm.folio_memcg(id);
        self.look_at(mm, id, pages);
        if self.all_zero(mm, first, pages) {
            self.went_out(first, pages, Source::ZeroMap);
            mm.memcgs.count(memcg, Counter::SwpoutZero, pages);
            self.free_cached(mm, id, target);
            return Pageout::Freed { wrote: true };
        }
        let stored = u64::from(self.store(mm, id, first));
        self.went_out(first, stored, Source::Zswap);
        mm.memcgs.count(memcg, Counter::Zswpout, stored);
        if stored == pages {
            self.free_cached(mm, id, target);
            return Pageout::Freed { wrote: true };
        }
        if self.zswap.is_some() && !mm.memcgs.zswap_writeback(memcg) {
            mm.folios.flags_mut(id).set(Flags::DIRTY, true);
            return Pageout::Activate;
        }
        let rest = SwapSlot(first.0 + stored as u32);
        self.went_out(rest, pages - stored, Source::Device);
        mm.memcgs.count(memcg, Counter::Pswpout, pages - stored);
        if stored == 0 {
            self.count_whole(mm, id);
        }
        if self.write(id, Pages(pages - stored)) {
            self.free_cached(mm, id, target);
            return Pageout::Freed { wrote: true };
        }
        mm.folios
            .flags_mut(id)
            .set(Flags::WRITEBACK.with(Flags::RECLAIM), true);
        Pageout::Writing
    }

    /// A folio goes to the device whole.
    fn count_whole(&mut self, mm: &mut Mm, id: FolioId) {
        let order = mm.folios.flags(id).order();
        if order == PMD_ORDER {
            let memcg = mm.folio_memcg(id);
            mm.memcgs.count(memcg, Counter::ThpSwpout, 1);
        }
        if let Some(zswap) = &mut self.zswap {
            zswap.orders_mut()[usize::from(order)].swpout += 1;
        }
    }

    fn went_out(&mut self, first: SwapSlot, pages: u64, place: Source) {
        if let Some(swap) = &mut self.swap {
            swap.versions.out(first, pages, place);
        }
    }

    /// Whether only the swap cache refers to the slots.
    fn nobody_needs(&self, first: SwapSlot, pages: u64) -> bool {
        let swap = self.swap.as_ref();
        swap.is_some_and(|swap| {
            (first.0..first.0 + pages as u32).all(|slot| swap.slots.users(SwapSlot(slot)) == 1)
        })
    }

    /// Submits a write; true if it is finished already.
    pub(super) fn write(&mut self, id: FolioId, pages: Pages) -> bool {
        self.spent += self.config.costs.io;
        let Some(swap) = &mut self.swap else {
            return true;
        };
        let at = self.now + self.spent;
        let end = swap.device.submit(at, Direction::Write, pages);
        if swap.device.config().synchronous {
            self.spent += end.saturating_sub(at);
            return true;
        }
        self.congested = swap.device.full_until(at);
        let cpu = self.completes_on();
        self.schedule(end, Event::WriteEnd(id.0, cpu));
        false
    }

    /// A write has ended: the folio may go to the reclaim end of its list (SPEC 4.3).
    pub(super) fn write_ended(&mut self, mm: &mut Mm, id: FolioId, cpu: usize) {
        mm.folios.flags_mut(id).set(Flags::WRITEBACK, false);
        let end = mm.switches.rotate.writeback_ended(view(mm, id));
        if end.clear_mark {
            mm.folios.flags_mut(id).set(Flags::RECLAIM, false);
        }
        if end.queue {
            self.queue_rotate(mm, id, cpu);
        }
        if let Some(slot) = mm.folios.slot(id) {
            self.reap_cached(mm, SwapSlot(slot));
        }
    }

    /// Frees the folio of a slot if the swap cache is all that has it.
    pub(super) fn reap_cached(&mut self, mm: &mut Mm, slot: SwapSlot) {
        let Some(id) = self.swap.as_ref().and_then(|swap| swap.cached(slot)) else {
            return;
        };
        let flags = mm.folios.flags(id);
        let busy = Flags::LOCKED.with(Flags::WRITEBACK);
        let Some(first) = mm.folios.slot(id) else {
            return;
        };
        let needed = !self.nobody_needs(SwapSlot(first), mm.folios.pages(id));
        if needed || self.map_count(mm, id, 1) > 0 {
            return;
        }
        if flags.any(busy) {
            // Its object may go before the I/O ends, which will look here again.
            mm.folios.set_key(id, NOWHERE);
            return;
        }
        self.uncache(mm, id, None);
        self.free(mm, id);
    }

    fn all_zero(&mut self, mm: &Mm, first: SwapSlot, pages: u64) -> bool {
        let zero_map = mm.switches.zero_pages == neap_policy::ZeroPages::ZeroMap;
        let is_zero = |image: &PageImage| matches!(image, PageImage::Zero(_));
        let zero = zero_map && self.images.iter().all(is_zero);
        if let (true, Some(swap)) = (zero_map, &mut self.swap) {
            swap.zero.set(first, pages as u32, zero);
        }
        zero
    }

    /// Finds what a compressor makes of the pages of a folio.
    fn look_at(&mut self, mm: &Mm, id: FolioId, pages: u64) {
        let (object, page) = self.tables.resolve(mm.folios.key(id));
        let content = self.tables.object(object).content;
        let class = (content >> 24) as usize % self.config.contents.len();
        let model = &self.config.contents[class];
        self.images.clear();
        let images = (page..page + pages).map(|page| model.image(content.into(), page, 0));
        self.images.extend(images);
    }

    /// Offers a folio to zswap; how many of its pages are stored, from the first on.
    fn store(&mut self, mm: &mut Mm, id: FolioId, first: SwapSlot) -> u32 {
        let pages = mm.folios.pages(id) as u32;
        let memcg = mm.folio_memcg(id);
        let folio = Outgoing {
            first,
            pages,
            owner: mm.folios.lruvec(id),
            writeback: mm.memcgs.zswap_writeback(memcg),
        };
        let considers = |zswap: &Zswap| zswap.considers(pages);
        let mut admitted = true;
        if self.zswap.as_ref().is_some_and(considers) && !self.below_zswap_max(mm, memcg) {
            admitted = self.shrink_memcg(mm, memcg).wrote();
        }
        let class = self.compressor(mm, id);
        let Some(zswap) = &mut self.zswap else {
            return 0;
        };
        let mut compressed = 0;
        let images = &self.images;
        let mut ledger = Ledger {
            charged: self.config.zswap_charged,
            nodes: mm.nodes(),
            memcgs: &mut mm.memcgs,
        };
        let stored = zswap.store(&folio, admitted, &mut ledger, |at| {
            compressed += 1;
            match images[at as usize] {
                PageImage::Zero(bytes) | PageImage::SameFilled(bytes) => {
                    Compressed::SameFilled(bytes)
                }
                PageImage::Bytes(bytes) => Compressed::Bytes(bytes),
            }
        });
        self.spent += class.0 * u64::div_ceil(compressed, self.config.compress_batch.max(1));
        self.compressions += compressed;
        match stored {
            Ok(stored) => {
                self.pay_owed(mm, memcg, stored.owed);
                pages
            }
            Err(refused) => {
                if refused.wake_worker {
                    self.wake_worker(mm);
                }
                refused.kept
            }
        }
    }

    /// Times to compress and decompress a page of a folio.
    pub(super) fn compressor(&self, mm: &Mm, id: FolioId) -> (Nanos, Nanos) {
        let (object, _) = self.tables.resolve(mm.folios.key(id));
        let class = (self.tables.object(object).content >> 24) as usize;
        let model = &self.config.contents[class % self.config.contents.len()];
        (model.compress(), model.decompress())
    }

    /// `memory.zswap.max` of the owner and all above it (SPEC 1.4).
    fn below_zswap_max(&self, mm: &Mm, memcg: neap_policy::MemcgId) -> bool {
        let level = |id| (mm.memcgs.zswap_bytes(id), mm.memcgs.limits(id).zswap_max);
        neap_policy::zswap_max_allows(mm.memcgs.ancestors(memcg).map(level))
    }
}
