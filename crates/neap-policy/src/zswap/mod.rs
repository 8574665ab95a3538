//! zswap: pages kept compressed in memory, in front of swap (SPEC 1).
//!
//! The module decides what is stored, what goes on to the device and when; it holds no
//! bytes. What a page compresses to is told by the caller, which also allocates, reads,
//! writes and charges. Way of a page: `store` in, `load` out, or `shrink` on to the
//! device. `entry` holds what is known of stored pages, `pool` how many pages they take.

mod entry;
mod load;
#[cfg(test)]
mod model;
mod pool;
#[cfg(test)]
mod prefix_tests;
mod shrink;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod zeromap;

use neap_units::{Bytes, Pages, SwapSlot};

use crate::folio::LruvecId;
use crate::limits::PoolGate;
use crate::shrinker::{LruState, ShrinkerRules};
use crate::switches::{FullPool, Incompressible, LargeStore, RatioScope, Switches, ZeroPages};
use entry::{Ends, Entries, MAX_LISTS};
use pool::Pool;

pub use load::{LoadError, Loaded, Loading};
pub use pool::PoolModel;
pub use shrink::{Owner, Ticket};
pub use stats::{FOLIO_ORDERS, OrderStats, ZswapStats};
pub use store::{Compressed, Outgoing, Refusal, Refused, Stored};
pub use zeromap::ZeroMap;

/// Who pays for compressed bytes: each call is one page more or less in the pool.
pub trait Accounts {
    /// A page of this owner came in and takes so many bytes (kernel:
    /// obj_cgroup_charge_zswap; never fails).
    fn charge(&mut self, owner: LruvecId, bytes: Bytes);
    /// A page of this owner went, and so many bytes with it.
    fn uncharge(&mut self, owner: LruvecId, bytes: Bytes);
}

/// How zswap is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZswapConfig {
    /// Whether it takes pages (kernel: parameters/enabled).
    pub enabled: bool,
    /// Whether reclaim shrinks it (parameters/shrinker_enabled).
    pub shrinker_enabled: bool,
    /// RAM of the machine.
    pub ram: Pages,
    /// Most of it the pool takes (default 20).
    pub max_pool_percent: u8,
    /// Share of the limit at which a full pool opens again (default 90).
    pub accept_threshold_percent: u8,
    /// Model of the pool.
    pub pool: PoolModel,
    /// Slots of all swap areas, counting the header.
    pub slots: u32,
}

impl ZswapConfig {
    /// The kernel's defaults, switched on, with shrinker, for a machine of `ram` and
    /// swap areas of `slots`.
    #[must_use]
    pub fn new(ram: Pages, slots: u32) -> ZswapConfig {
        ZswapConfig {
            enabled: true,
            shrinker_enabled: true,
            ram,
            max_pool_percent: 20,
            accept_threshold_percent: 90,
            pool: PoolModel::default(),
            slots,
        }
    }
}

/// The switches that zswap looks at.
#[derive(Clone, Copy, Debug)]
struct Rules {
    shrinker: ShrinkerRules,
    large_store: LargeStore,
    zero_pages: ZeroPages,
    incompressible: Incompressible,
    ratio: RatioScope,
    full_pool: FullPool,
}

impl Rules {
    fn new(switches: &Switches) -> Rules {
        Rules {
            shrinker: ShrinkerRules::new(switches),
            large_store: switches.large_store,
            zero_pages: switches.zero_pages,
            incompressible: switches.incompressible,
            ratio: switches.ratio_scope,
            full_pool: switches.full_pool,
        }
    }
}

/// The entries of one (cgroup, node).
#[derive(Clone, Copy, Debug, Default)]
struct List {
    ends: Ends,
    state: LruState,
    /// Bytes of the entries on the list.
    bytes: u64,
}

/// zswap of one machine.
#[derive(Debug)]
pub struct Zswap {
    config: ZswapConfig,
    rules: Rules,
    entries: Entries,
    lists: Vec<List>,
    pool: Pool,
    gate: PoolGate,
    stats: ZswapStats,
    orders: [OrderStats; FOLIO_ORDERS],
    work: ShrinkerWork,
}

/// What the shrinkers of all lists are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShrinkerWork {
    /// Calls under way.
    pub shrinkers: u64,
    /// Objects deferred to later calls (kernel: nr_deferred).
    pub deferred: u64,
}

impl Zswap {
    /// An empty pool.
    #[must_use]
    pub fn new(config: ZswapConfig, switches: &Switches) -> Zswap {
        let max = Pages(config.ram.0 * u64::from(config.max_pool_percent) / 100);
        Zswap {
            config,
            rules: Rules::new(switches),
            entries: Entries::new(config.slots),
            lists: Vec::new(),
            pool: Pool::new(config.pool),
            gate: PoolGate::new(max, config.accept_threshold_percent),
            stats: ZswapStats::default(),
            orders: Default::default(),
            work: ShrinkerWork::default(),
        }
    }

    /// Makes a list for a (cgroup, node), and all with lower numbers.
    pub fn add_list(&mut self, list: LruvecId) {
        let needed = list.0 as usize + 1;
        assert!(needed <= MAX_LISTS, "too many cgroups and nodes");
        if self.lists.len() < needed {
            self.lists.resize(needed, List::default());
        }
    }

    /// The cgroup of a list goes: its entries pass to its parent's list, behind what is
    /// there (kernel: memcg_reparent_list_lrus). Charges stay with the caller.
    pub fn reparent(&mut self, from: LruvecId, to: LruvecId) {
        let left = &mut self.lists[from.0 as usize];
        let (mut ends, bytes) = (
            std::mem::take(&mut left.ends),
            std::mem::take(&mut left.bytes),
        );
        self.work.deferred -= left.state.deferred;
        left.state.forget();
        let heir = &mut self.lists[to.0 as usize];
        ends.splice(&mut self.entries, &mut heir.ends, to);
        heir.bytes += bytes;
    }

    /// Switches zswap on or off; what is stored stays.
    pub fn set_enabled(&mut self, enabled: bool) {
        self.config.enabled = enabled;
    }

    /// Whether it takes pages.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.config.enabled
    }

    /// What its shrinkers are about.
    #[must_use]
    pub fn work(&self) -> ShrinkerWork {
        self.work
    }

    /// Pages the pool holds from the system.
    #[must_use]
    pub fn pool_pages(&self) -> Pages {
        self.pool.pages()
    }

    /// Bytes of all entries.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes(self.pool.bytes())
    }

    /// Entries stored.
    #[must_use]
    pub fn stored(&self) -> u64 {
        self.entries.stored()
    }

    /// Whether a page is stored for a slot.
    #[inline]
    #[must_use]
    pub fn contains(&self, slot: SwapSlot) -> bool {
        self.entries.get(slot).is_some()
    }

    /// The limit of the pool and its flag.
    #[must_use]
    pub fn gate(&self) -> &PoolGate {
        &self.gate
    }

    /// Whether the pool is down to its accept threshold, where the pool worker stops.
    #[must_use]
    pub fn worker_done(&self) -> bool {
        self.gate.below_threshold(self.pool.pages())
    }

    /// The debug counters.
    #[must_use]
    pub fn stats(&self) -> ZswapStats {
        ZswapStats {
            pool_limit_hit: self.gate.limit_hits(),
            pool_total_size: Bytes::from(self.pool.pages()).0,
            stored_pages: self.entries.stored(),
            ..self.stats
        }
    }

    /// Counters of folios of each order.
    #[must_use]
    pub fn orders(&self) -> &[OrderStats; FOLIO_ORDERS] {
        &self.orders
    }

    /// The same, for the swap-outs and swap-ins that do not pass through here.
    pub fn orders_mut(&mut self) -> &mut [OrderStats; FOLIO_ORDERS] {
        &mut self.orders
    }

    /// A disk swap-in counts for the shrinker of this owner (SPEC 2.4 says which do).
    #[inline]
    pub fn on_disk_swapin(&mut self, owner: LruvecId) {
        self.lists[owner.0 as usize].state.on_disk_swapin();
    }

    /// Entries on a list.
    #[must_use]
    pub fn list_len(&self, list: LruvecId) -> u64 {
        self.lists[list.0 as usize].ends.len
    }

    /// The counters of a list.
    #[must_use]
    pub fn list_state(&self, list: LruvecId) -> LruState {
        self.lists[list.0 as usize].state
    }

    /// Frees the entry of a slot, if it has one.
    fn free(&mut self, slot: SwapSlot, accounts: &mut impl Accounts) -> Option<entry::Entry> {
        let entry = self.entries.get(slot)?;
        if entry.length > 0 {
            let list = &mut self.lists[entry.list.0 as usize];
            list.ends.unlink(&mut self.entries, slot);
            list.bytes -= u64::from(entry.length);
        } else {
            self.stats.same_filled_pages -= 1;
        }
        self.stats.stored_incompressible_pages -= u64::from(entry.length == RAW);
        self.pool.sub(entry.length, self.entries.place(slot));
        self.entries.remove(slot);
        accounts.uncharge(entry.list, Bytes(entry.length.into()));
        Some(entry)
    }

    /// Panics unless lists, pool and counters agree.
    pub fn check(&self) {
        let (mut listed, mut bytes) = (0, 0);
        for (number, list) in self.lists.iter().enumerate() {
            list.ends.check(&self.entries);
            let mut sum = 0;
            for slot in list.ends.iter(&self.entries) {
                let entry = self.entries.get(slot).expect("an entry on a list");
                assert_eq!(entry.list.0 as usize, number, "list of {slot}");
                sum += u64::from(entry.length);
            }
            assert_eq!(sum, list.bytes, "bytes of list {number}");
            listed += list.ends.len;
            bytes += sum;
        }
        assert_eq!(bytes, self.pool.bytes(), "bytes in the pool");
        let same_filled = self.stats.same_filled_pages;
        assert_eq!(listed + same_filled, self.entries.stored(), "entries");
    }
}

/// Length of a page that is kept raw.
const RAW: u16 = neap_units::PAGE_SIZE as u16;
