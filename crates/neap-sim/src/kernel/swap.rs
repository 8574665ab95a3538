//! Swap areas as the kernel sees them: slots, the swap cache, shadows, who pays.

use neap_policy::{
    Accounts, ClusterReadahead, FolioId, LruvecId, Memcgs, Mm, Shadow, ZeroMap, Zswap,
};
use neap_units::{Bytes, Pages, SwapSlot};

use super::config::KernelConfig;
use super::machine::Machine;
use super::versions::Versions;
use crate::swap::{Device, SlotConfig, SwapSlots};

/// What swap knows of a slot, in one place because whoever asks for one asks for all: low and high
/// half of what it holds, a tag with the folio in the swap cache or with the shadow that lies there
/// instead; and who pays for the slot. Plain numbers, all 0 at first, so that slots nobody used take
/// no memory.
type Record = [u32; 3];

const OWNER: usize = 2;

/// Tags in the two bits above a shadow.
const CACHED: u64 = 1 << Shadow::BITS;
const SHADOW: u64 = 2 << Shadow::BITS;
const TAGS: u64 = 3 << Shadow::BITS;

#[inline]
fn held(record: &Record) -> u64 {
    u64::from(record[0]) | u64::from(record[1]) << 32
}

#[inline]
fn hold(record: &mut Record, what: u64) {
    (record[0], record[1]) = (what as u32, (what >> 32) as u32);
}

/// All there is to know of swap.
pub(super) struct Swap {
    pub(super) slots: SwapSlots,
    pub(super) device: Device,
    pub(super) zero: ZeroMap,
    pub(super) readahead: ClusterReadahead,
    /// What reading back must give.
    pub(super) versions: Versions,
    records: Vec<Record>,
}

impl Swap {
    pub(super) fn new(config: &KernelConfig) -> Option<Swap> {
        let swap = config.swap?;
        let device = config.device()?;
        let slots = SwapSlots::new(SlotConfig {
            slots: swap.size.whole_pages(),
            cpus: if device.rotating { 1 } else { config.cpus },
            large: config.thp_swap,
            prefer_nonfull: config.prefer_nonfull,
        });
        let len = slots.len();
        Some(Swap {
            slots,
            device: Device::new(device),
            zero: ZeroMap::new(len),
            readahead: ClusterReadahead::new(1 << config.page_cluster),
            versions: Versions::default(),
            records: vec![[0; 3]; len as usize],
        })
    }

    pub(super) fn zswap(&self, config: &KernelConfig) -> Option<Zswap> {
        let zswap = config.zswap?;
        let settings = neap_policy::ZswapConfig {
            shrinker_enabled: zswap.shrinker,
            max_pool_percent: zswap.max_pool_percent,
            accept_threshold_percent: zswap.accept_threshold_percent,
            pool: config.pool,
            ..neap_policy::ZswapConfig::new(config.ram.whole_pages(), self.slots.len())
        };
        Some(Zswap::new(settings, &config.switches))
    }

    /// Slots nobody uses.
    pub(super) fn free(&self) -> Pages {
        Pages(u64::from(self.slots.len()).saturating_sub(1 + self.slots.used().0))
    }

    /// Pages of the machine's memory that the device takes, if it is memory: for all slots in use but those whose pages
    /// zswap has, so that a page on its way out counts already.
    pub(super) fn device_memory(&self, in_zswap: u64) -> Pages {
        let Some(memory) = self.device.config().memory else {
            return Pages::ZERO;
        };
        let on_device = self.slots.used().0.saturating_sub(in_zswap);
        Bytes(on_device * u64::from(memory.bytes)).pages_up()
    }

    /// The folio of a slot in the swap cache.
    #[inline]
    pub(super) fn cached(&self, slot: SwapSlot) -> Option<FolioId> {
        let holds = held(&self.records[slot.index()]);
        (holds & TAGS == CACHED).then_some(FolioId(holds as u32))
    }

    /// Puts a folio into the swap cache, where no shadow is left.
    pub(super) fn set_cached(&mut self, slot: SwapSlot, id: FolioId) {
        let record = &mut self.records[slot.index()];
        debug_assert!(held(record) == 0, "{slot} holds something");
        hold(record, CACHED | u64::from(id.0));
    }

    /// Takes a folio out of the swap cache, leaving a shadow or nothing.
    pub(super) fn set_gone(&mut self, slot: SwapSlot, shadow: Option<Shadow>) {
        let record = &mut self.records[slot.index()];
        hold(record, shadow.map_or(0, |shadow| SHADOW | shadow.bits()));
    }

    pub(super) fn take_shadow(&mut self, slot: SwapSlot) -> Option<Shadow> {
        let record = &mut self.records[slot.index()];
        let holds = held(record);
        if holds & TAGS != SHADOW {
            return None;
        }
        hold(record, 0);
        Some(Shadow::from_bits(holds))
    }

    pub(super) fn owner(&self, slot: SwapSlot) -> LruvecId {
        LruvecId(self.records[slot.index()][OWNER])
    }

    pub(super) fn set_owner(&mut self, slot: SwapSlot, owner: LruvecId) {
        self.records[slot.index()][OWNER] = owner.0;
    }
}

/// Charges of compressed pages, as zswap makes them.
pub(super) struct Ledger<'a> {
    pub(super) memcgs: &'a mut Memcgs,
    pub(super) nodes: u32,
    pub(super) charged: bool,
}

impl Accounts for Ledger<'_> {
    fn charge(&mut self, owner: LruvecId, bytes: Bytes) {
        if self.charged {
            let memcg = self.payer(owner);
            self.memcgs.charge_zswap(memcg, bytes);
        }
    }

    fn uncharge(&mut self, owner: LruvecId, bytes: Bytes) {
        if self.charged {
            let memcg = self.payer(owner);
            self.memcgs.uncharge_zswap(memcg, bytes);
        }
    }
}

impl Ledger<'_> {
    /// Whoever pays for entries of some lists: of a cgroup that is gone, the one above.
    fn payer(&self, owner: LruvecId) -> neap_policy::MemcgId {
        let memcg = neap_policy::MemcgId(owner.0 / self.nodes);
        let mut levels = self.memcgs.ancestors(memcg);
        levels.find(|&id| self.memcgs.online(id)).unwrap_or(memcg)
    }
}

impl Machine {
    /// A reference to a slot goes; with the last one, all that swap knows of it.
    pub(super) fn put_slot(&mut self, mm: &mut Mm, slot: SwapSlot) {
        let Some(swap) = &mut self.swap else {
            return;
        };
        if !swap.slots.put(slot) {
            // Only the swap cache may be left: a folio nobody maps or will ask for.
            if swap.slots.users(slot) == 1 && swap.cached(slot).is_some() {
                self.reap_cached(mm, slot);
            }
            return;
        }
        swap.zero.set(slot, 1, false);
        swap.versions.gone(slot);
        self.gauges.gone(slot);
        swap.take_shadow(slot);
        let owner = mm.memcg_of(swap.owner(slot));
        mm.memcgs.uncharge_swap(owner, Pages(1));
        mm.free_swap = swap.free();
        let nodes = mm.nodes();
        if let Some(zswap) = &mut self.zswap {
            let mut ledger = Ledger {
                charged: self.config.zswap_charged,
                memcgs: &mut mm.memcgs,
                nodes,
            };
            zswap.invalidate(slot, 1, &mut ledger);
        }
    }

    /// Takes a folio out of the swap cache, leaving a shadow or nothing, and puts the
    /// cache's references.
    pub(super) fn uncache(&mut self, mm: &mut Mm, id: FolioId, shadow: Option<Shadow>) {
        let Some(first) = mm.folios.slot(id) else {
            return;
        };
        mm.folios.set_slot(id, None);
        for slot in first..first + mm.folios.pages(id) as u32 {
            let slot = SwapSlot(slot);
            if let Some(swap) = &mut self.swap {
                swap.set_gone(slot, shadow);
            }
            self.put_slot(mm, slot);
        }
    }
}
