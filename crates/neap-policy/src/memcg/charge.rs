//! Charges: pages against every level's max, through per-CPU stocks; swap slots; the
//! bytes of compressed pages (SPEC 5.1).

use neap_units::{Bytes, Pages};

use super::{MemcgId, Memcgs};
use crate::counters::Counter;

/// Pages a charge takes at once and over-high work is counted in (SPEC 0:
/// MEMCG_CHARGE_BATCH).
pub const CHARGE_BATCH: u64 = 64;

/// Pages charged to one cgroup that a CPU has not handed out yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stock {
    memcg: Option<MemcgId>,
    pages: u64,
}

/// A charge that fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Charged {
    /// Pages the task owes because some level is above high.
    pub owed: Pages,
}

/// The level whose max a charge does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverLimit(pub MemcgId);

impl Memcgs {
    /// Charges pages to a cgroup and all above it, if every level has room; `force`
    /// charges anyhow. A CPU's stock serves first, and takes up the rest of a batch.
    ///
    /// # Errors
    /// The lowest level without room.
    pub fn try_charge(
        &mut self,
        cpu: usize,
        memcg: MemcgId,
        pages: Pages,
        force: bool,
    ) -> Result<Charged, OverLimit> {
        let none = Charged { owed: Pages::ZERO };
        let stock = &mut self.stocks[cpu];
        if stock.memcg == Some(memcg) && stock.pages >= pages.0 {
            stock.pages -= pages.0;
            return Ok(none);
        }
        let batch = pages.0.max(CHARGE_BATCH);
        let charged = match self.charge_levels(memcg, batch) {
            Ok(()) => batch,
            Err(_) if batch > pages.0 && self.charge_levels(memcg, pages.0).is_ok() => pages.0,
            Err(over) if !force => return Err(over),
            Err(_) => {
                self.add_usage(memcg, pages.0);
                return Ok(none);
            }
        };
        self.refill(cpu, memcg, charged - pages.0);
        let over = |id| self.over_high(id) > 0 || self.over_swap_high(id) > 0;
        let owed = if self.ancestors(memcg).any(over) {
            charged
        } else {
            0
        };
        Ok(Charged { owed: Pages(owed) })
    }

    fn charge_levels(&mut self, memcg: MemcgId, pages: u64) -> Result<(), OverLimit> {
        let full = self.ancestors(memcg).find(|&id| {
            let at = self.get(id);
            at.limits.max.is_some_and(|max| at.usage + pages > max.0)
        });
        match full {
            Some(id) => Err(OverLimit(id)),
            None => {
                self.add_usage(memcg, pages);
                Ok(())
            }
        }
    }

    fn add_usage(&mut self, memcg: MemcgId, pages: u64) {
        let mut at = Some(memcg);
        while let Some(id) = at {
            let before = self.claim(id);
            self.get_mut(id).usage += pages;
            self.propagate_protection(id, before);
            at = self.parent(id);
        }
    }

    fn sub_usage(&mut self, memcg: MemcgId, pages: u64) {
        let mut at = Some(memcg);
        while let Some(id) = at {
            let before = self.claim(id);
            let level = self.get_mut(id);
            debug_assert!(level.usage >= pages, "uncharged more than was charged");
            level.usage -= pages;
            self.propagate_protection(id, before);
            at = self.parent(id);
        }
    }

    fn refill(&mut self, cpu: usize, memcg: MemcgId, pages: u64) {
        if self.stocks[cpu].memcg != Some(memcg) {
            self.drain_stock(cpu);
            self.stocks[cpu].memcg = Some(memcg);
        }
        self.stocks[cpu].pages += pages;
        // A stock above one batch goes back at once, as in the kernel.
        if self.stocks[cpu].pages > CHARGE_BATCH {
            self.drain_stock(cpu);
        }
    }

    fn drain_stock(&mut self, cpu: usize) {
        let stock = std::mem::take(&mut self.stocks[cpu]);
        if let Some(memcg) = stock.memcg {
            self.sub_usage(memcg, stock.pages);
        }
    }

    /// Gives back every stock of a cgroup and of those below it.
    pub fn drain_stocks(&mut self, root: MemcgId) {
        for cpu in 0..self.stocks.len() {
            let drain = self.stocks[cpu]
                .memcg
                .is_some_and(|id| self.is_below(id, root));
            if drain {
                self.drain_stock(cpu);
            }
        }
    }

    /// Gives back pages.
    pub fn uncharge(&mut self, memcg: MemcgId, pages: Pages) {
        self.sub_usage(memcg, pages.0);
    }

    /// Room below max at a level.
    #[must_use]
    pub fn margin(&self, memcg: MemcgId) -> Pages {
        let at = self.get(memcg);
        match at.limits.max {
            Some(max) => max.saturating_sub(Pages(at.usage)),
            None => Pages(u64::MAX),
        }
    }

    /// Charges swap slots. Refused with an event when some level has no room.
    pub fn charge_swap(&mut self, memcg: MemcgId, pages: Pages) -> bool {
        let full = self.ancestors(memcg).find(|&id| {
            let at = self.get(id);
            at.limits
                .swap_max
                .is_some_and(|max| at.swap + pages.0 > max.0)
        });
        if let Some(id) = full {
            self.count(id, Counter::MemcgSwapMax, 1);
            self.count(id, Counter::MemcgSwapFail, 1);
            return false;
        }
        let mut at = Some(memcg);
        while let Some(id) = at {
            self.get_mut(id).swap += pages.0;
            at = self.parent(id);
        }
        true
    }

    /// Gives back swap slots.
    pub fn uncharge_swap(&mut self, memcg: MemcgId, pages: Pages) {
        let mut at = Some(memcg);
        while let Some(id) = at {
            self.get_mut(id).swap -= pages.0;
            at = self.parent(id);
        }
    }

    /// Swap slots a cgroup may still take, of `free` on the device.
    #[must_use]
    pub fn swap_available(&self, memcg: MemcgId, free: Pages) -> Pages {
        let room = self.ancestors(memcg).filter_map(|id| {
            let at = self.get(id);
            at.limits
                .swap_max
                .map(|max| max.saturating_sub(Pages(at.swap)))
        });
        room.fold(free, Pages::min)
    }

    /// Charges a compressed page: always, also above max (SPEC 5.1). The bytes of one
    /// cgroup are charged in whole pages.
    pub fn charge_zswap(&mut self, memcg: MemcgId, bytes: Bytes) {
        self.change_zswap(memcg, |own| own + bytes.0);
        self.get_mut(memcg).own_zswapped += 1;
        let mut at = Some(memcg);
        while let Some(id) = at {
            let level = self.get_mut(id);
            level.zswap_bytes += bytes.0;
            level.zswapped += 1;
            at = level.parent;
        }
    }

    /// Gives back a compressed page.
    pub fn uncharge_zswap(&mut self, memcg: MemcgId, bytes: Bytes) {
        self.change_zswap(memcg, |own| own - bytes.0);
        self.get_mut(memcg).own_zswapped -= 1;
        let mut at = Some(memcg);
        while let Some(id) = at {
            let level = self.get_mut(id);
            level.zswap_bytes -= bytes.0;
            level.zswapped -= 1;
            at = level.parent;
        }
    }

    /// A cgroup is removed: what it has in zswap is its parent's from now on (kernel:
    /// memcg_reparent_objcgs).
    pub fn reparent_zswap(&mut self, memcg: MemcgId) {
        let Some(parent) = self.parent(memcg) else {
            return;
        };
        let at = self.get_mut(memcg);
        let bytes = std::mem::take(&mut at.own_zswap_bytes);
        let entries = std::mem::take(&mut at.own_zswapped);
        at.zswap_bytes -= bytes;
        at.zswapped -= entries;
        self.sub_usage(memcg, Bytes(bytes).pages_up().0);
        self.change_zswap(parent, |own| own + bytes);
        self.get_mut(parent).own_zswapped += entries;
    }

    fn change_zswap(&mut self, memcg: MemcgId, change: impl Fn(u64) -> u64) {
        let own = &mut self.get_mut(memcg).own_zswap_bytes;
        let before = Bytes(*own).pages_up().0;
        *own = change(*own);
        let after = Bytes(*own).pages_up().0;
        if after > before {
            self.add_usage(memcg, after - before);
        } else if after < before {
            self.sub_usage(memcg, before - after);
        }
    }

    /// Whether write-back from zswap is on for a cgroup and all above it.
    #[must_use]
    pub fn zswap_writeback(&self, memcg: MemcgId) -> bool {
        self.ancestors(memcg)
            .all(|id| self.limits(id).zswap_writeback)
    }

    /// Pages above high at one level.
    #[must_use]
    pub fn over_high(&self, memcg: MemcgId) -> u64 {
        let at = self.get(memcg);
        at.limits
            .high
            .map_or(0, |high| at.usage.saturating_sub(high.0))
    }

    /// Slots above swap.high at one level.
    #[must_use]
    pub fn over_swap_high(&self, memcg: MemcgId) -> u64 {
        let at = self.get(memcg);
        at.limits
            .swap_high
            .map_or(0, |high| at.swap.saturating_sub(high.0))
    }
}
