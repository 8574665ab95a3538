//! A folio's way out and back: zero map, zswap, device, in this order (SPEC 1.2, 1.7).

use neap_policy::{
    Accounts, ClusterReadahead, Compressed, Counter, Loading, LruvecId, MemcgId, Mm, Outgoing,
    Owner, Refused, Source, Swapin, Switches, Ticket, ZeroMap, ZeroPages, Zswap, ZswapConfig,
    ZswapMax, zswap_max_allows,
};
use neap_units::{Bytes, Nanos, PAGE_SIZE, Pages, SwapSlot};

use super::{Device, DeviceConfig, Direction, SlotConfig, SwapSlots};
use crate::compress::{PageImage, PageModel};

/// CPU time to fill or copy a page. Chosen: a page at 20 GB/s.
const COPY: Nanos = Nanos(200);

/// How swap is set up.
#[derive(Clone, Debug)]
pub struct SwapSetup {
    /// Which kernel.
    pub switches: Switches,
    /// `vm.page-cluster`.
    pub page_cluster: u32,
    /// How slots are handed out.
    pub slots: SlotConfig,
    /// The device.
    pub device: DeviceConfig,
    /// zswap; none: it was never switched on.
    pub zswap: Option<ZswapConfig>,
    /// What pages compress to.
    pub model: PageModel,
    /// Whether compressed bytes are charged and counted by cgroup: not with cgroup v1,
    /// where the shrinker therefore finds nothing.
    pub charged: bool,
    /// Seed of what pages compress to.
    pub seed: u64,
    /// CPU time to submit a request.
    pub submit: Nanos,
}

/// What a page holds: whose it is, and how often it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageKey {
    /// A number of its own for each page with content of its own.
    pub page: u64,
    /// Writes so far, or anything that changes with them.
    pub version: u32,
}

/// What became of a folio that was to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Marked as zeros: clean now.
    Zero,
    /// In zswap: clean now. So many entries are owed in return.
    Zswap {
        /// Entries to be written back by the storer (SPEC 9.5).
        owed: u32,
    },
    /// On its way to the device.
    Device {
        /// When the write ends.
        end: Nanos,
    },
    /// Not to be written: dirty again, and back to the active side.
    Refused,
}

/// A page that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadIn {
    /// Where it came from.
    pub source: Source,
    /// CPU time it took.
    pub cpu: Nanos,
    /// When the device has it; none: it is there.
    pub end: Option<Nanos>,
}

/// An entry that left zswap for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenBack {
    /// CPU time it took.
    pub cpu: Nanos,
    /// When the write ends.
    pub end: Nanos,
}

/// Charges compressed bytes to the cgroups of lists.
struct Ledger<'a> {
    mm: &'a mut Mm,
    charged: bool,
}

impl Accounts for Ledger<'_> {
    fn charge(&mut self, owner: LruvecId, bytes: Bytes) {
        if self.charged {
            let memcg = self.mm.memcg_of(owner);
            self.mm.memcgs.charge_zswap(memcg, bytes);
        }
    }

    fn uncharge(&mut self, owner: LruvecId, bytes: Bytes) {
        if self.charged {
            let memcg = self.mm.memcg_of(owner);
            self.mm.memcgs.uncharge_zswap(memcg, bytes);
        }
    }
}

/// The swap of one machine.
#[derive(Debug)]
pub struct Swap {
    /// Slots.
    pub slots: SwapSlots,
    /// The device.
    pub device: Device,
    /// zswap, if it was ever switched on.
    pub zswap: Option<Zswap>,
    /// Readahead by place on the device.
    pub cluster: ClusterReadahead,
    zero: ZeroMap,
    setup: SwapSetup,
}

impl Swap {
    /// Swap without a page in it.
    #[must_use]
    pub fn new(setup: SwapSetup) -> Swap {
        let slots = SwapSlots::new(setup.slots);
        let zswap = setup.zswap.map(|config| {
            let config = ZswapConfig {
                slots: slots.len(),
                ..config
            };
            Zswap::new(config, &setup.switches)
        });
        Swap {
            device: Device::new(setup.device),
            zswap,
            cluster: ClusterReadahead::new(1 << setup.page_cluster.min(5)),
            zero: ZeroMap::new(slots.len()),
            slots,
            setup,
        }
    }

    /// How it was set up.
    #[must_use]
    pub fn setup(&self) -> &SwapSetup {
        &self.setup
    }

    /// Makes the list of a new (cgroup, node).
    pub fn add_list(&mut self, list: LruvecId) {
        if let Some(zswap) = &mut self.zswap {
            zswap.add_list(list);
        }
    }

    /// Whether a store of so many pages would meet the limit of its owner, so that one turn
    /// of its own is to be taken first (SPEC 1.4).
    #[must_use]
    pub fn owner_is_full(&self, mm: &Mm, memcg: MemcgId, pages: u32) -> bool {
        let considers = |zswap: &Zswap| zswap.considers(pages);
        let memcgs = &mm.memcgs;
        let below_root = memcgs.ancestors(memcg).filter(|id| *id != MemcgId::ROOT);
        let mut levels = below_root.map(|id| {
            let limit = memcgs.limits(id).zswap_max;
            (
                memcgs.zswap_bytes(id),
                limit.map_or(ZswapMax::Max, ZswapMax::Pages),
            )
        });
        self.zswap.as_ref().is_some_and(considers) && !zswap_max_allows(&mut levels)
    }

    /// Writes a folio that has slots. `admitted`: its owner is not full, or its turn wrote
    /// something. `page`: what each page holds.
    pub fn write(
        &mut self,
        mm: &mut Mm,
        now: Nanos,
        folio: &Outgoing,
        admitted: bool,
        page: impl Fn(u32) -> PageKey,
    ) -> (Written, Nanos) {
        let memcg = mm.memcg_of(folio.owner);
        let pages = u64::from(folio.pages);
        let mut cpu = Nanos::ZERO;
        let (model, seed) = (&self.setup.model, self.setup.seed);
        let image = |at| {
            let PageKey { page, version } = page(at);
            model.image(seed, page, version)
        };
        if self.setup.switches.zero_pages == ZeroPages::ZeroMap {
            let zero = (0..folio.pages).all(|at| matches!(image(at), PageImage::Zero(_)));
            self.zero.set(folio.first, folio.pages, zero);
            if zero {
                mm.memcgs.count(memcg, Counter::SwpoutZero, pages);
                return (Written::Zero, COPY * pages);
            }
        }
        let mut ledger = Ledger {
            mm,
            charged: self.setup.charged,
        };
        let stored = self.zswap.as_mut().map(|zswap| {
            zswap.store(folio, admitted, &mut ledger, |at| {
                cpu += model.compress();
                compressed(image(at))
            })
        });
        match stored {
            Some(Ok(stored)) => {
                mm.memcgs.count(memcg, Counter::Zswpout, pages);
                (Written::Zswap { owed: stored.owed }, cpu)
            }
            // The rule holds only while zswap is on.
            Some(Err(_)) if !folio.writeback && self.enabled() => (Written::Refused, cpu),
            _ => {
                mm.memcgs.count(memcg, Counter::Pswpout, pages);
                let (end, submit) = self.submit(now + cpu, Direction::Write, pages);
                (Written::Device { end }, cpu + submit)
            }
        }
    }

    fn enabled(&self) -> bool {
        self.zswap.as_ref().is_some_and(Zswap::enabled)
    }

    /// Whether the last refused store asks for the pool worker.
    #[must_use]
    pub fn wants_worker(&self, refused: &Refused) -> bool {
        refused.wake_worker
    }

    /// A request: when it ends, and the CPU time of the caller.
    fn submit(&mut self, now: Nanos, direction: Direction, pages: u64) -> (Nanos, Nanos) {
        let end = self.device.submit(now, direction, Pages(pages));
        let submit = self.setup.submit;
        if self.device.config().synchronous {
            return (end, submit + end.saturating_sub(now));
        }
        (end, submit)
    }

    /// Reads the page of a slot for a folio of `owner`. `readahead`: not the page of the
    /// fault. Counts the read for the shrinker if the rule says so.
    pub fn read(
        &mut self,
        mm: &mut Mm,
        now: Nanos,
        slot: SwapSlot,
        owner: LruvecId,
        readahead: bool,
    ) -> ReadIn {
        let memcg = mm.memcg_of(owner);
        let mut ledger = Ledger {
            mm,
            charged: self.setup.charged,
        };
        let load = |zswap: &mut Zswap| zswap.load(slot, 1, Loading::Exclusive, &mut ledger);
        let (source, cpu, end) = if self.zero.is_zero(slot) {
            mm.memcgs.count(memcg, Counter::SwpinZero, 1);
            (Source::ZeroMap, COPY, None)
        } else if let Some(Ok(Some(loaded))) = self.zswap.as_mut().map(load) {
            mm.memcgs.count(memcg, Counter::Zswpin, 1);
            let cpu = match loaded.decompressed() {
                true => self.setup.model.decompress(),
                false => COPY,
            };
            (Source::Zswap, cpu, None)
        } else {
            mm.memcgs.count(memcg, Counter::Pswpin, 1);
            let (end, cpu) = self.submit(now, Direction::Read, 1);
            let waits = !self.device.config().synchronous;
            (Source::Device, cpu, waits.then_some(end))
        };
        self.note(owner, Swapin::Read { source, readahead });
        ReadIn { source, cpu, end }
    }

    /// Something happened that a rule for counting swap-ins may count (SPEC 2.4).
    pub fn note(&mut self, owner: LruvecId, event: Swapin) {
        if let Some(zswap) = &mut self.zswap
            && self.setup.switches.swapin_count.counts(event)
        {
            zswap.on_disk_swapin(owner);
        }
    }

    /// A user of a slot goes; with the last one, whatever is stored for it. Returns whether
    /// it was the last.
    pub fn put(&mut self, mm: &mut Mm, slot: SwapSlot) -> bool {
        if !self.slots.put(slot) {
            return false;
        }
        self.zero.set(slot, 1, false);
        let mut ledger = Ledger {
            mm,
            charged: self.setup.charged,
        };
        if let Some(zswap) = &mut self.zswap {
            zswap.invalidate(slot, 1, &mut ledger);
        }
        true
    }

    /// What the shrinker must know of a cgroup.
    #[must_use]
    pub fn owner(&self, mm: &Mm, memcg: MemcgId, may_io: bool) -> Owner {
        Owner {
            bytes: mm.memcgs.zswap_bytes(memcg),
            stored: mm.memcgs.zswapped(memcg),
            writeback: mm.memcgs.zswap_writeback(memcg),
            may_io,
        }
    }

    /// Writes back the entry of a ticket, whose slot has a fresh folio in the swap cache
    /// now; none: the entry is gone, and the folio is to be dropped.
    pub fn write_back(&mut self, mm: &mut Mm, now: Nanos, ticket: &Ticket) -> Option<WrittenBack> {
        let memcg = mm.memcg_of(ticket.owner);
        let mut ledger = Ledger {
            mm,
            charged: self.setup.charged,
        };
        let length = self.zswap.as_mut()?.write_back(ticket, &mut ledger)?;
        mm.memcgs.count(memcg, Counter::Zswpwb, 1);
        mm.memcgs.count(memcg, Counter::Pswpout, 1);
        let unpack = match usize::from(length) < PAGE_SIZE {
            true => self.setup.model.decompress(),
            false => COPY,
        };
        let (end, submit) = self.submit(now + unpack, Direction::Write, 1);
        Some(WrittenBack {
            cpu: unpack + submit,
            end,
        })
    }
}

fn compressed(image: PageImage) -> Compressed {
    match image {
        PageImage::Zero(bytes) | PageImage::SameFilled(bytes) => Compressed::SameFilled(bytes),
        PageImage::Bytes(bytes) => Compressed::Bytes(bytes),
    }
}
