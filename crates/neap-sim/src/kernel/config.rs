//! What the imagined machine is made of.

use neap_policy::{PoolModel, SMALL_BATCH, Switches};
use neap_units::{Bytes, Nanos};

use crate::compress::PageModel;
use crate::swap::DeviceConfig;

/// The machine and the kernel that runs it.
#[derive(Clone, Debug)]
pub struct KernelConfig {
    /// Memory of the machine, all nodes together.
    pub ram: Bytes,
    /// NUMA nodes; memory is split evenly.
    pub nodes: u32,
    /// CPUs; split evenly over the nodes.
    pub cpus: u32,
    /// Which kernel.
    pub switches: Switches,
    /// `vm.swappiness`, 0..=200 (SPEC 0: 60).
    pub swappiness: u8,
    /// `lru_gen/min_ttl_ms`: with generations, kswapd kills rather than evict what was used
    /// within this time; zero: off.
    pub min_ttl: Nanos,
    /// `vm.page-cluster`: readahead is at most 2^n pages (SPEC 0: 3).
    pub page_cluster: u32,
    /// The swap device; without one anonymous memory cannot leave.
    pub swap: Option<SwapConfig>,
    /// What that device is like, if `swap` alone does not say it.
    pub swap_device: Option<DeviceConfig>,
    /// Which CPU hears that a write has ended.
    pub completion: Completion,
    /// Whether large folios get runs of slots (a block device, CONFIG_THP_SWAP).
    pub thp_swap: bool,
    /// The compressed cache before it.
    pub zswap: Option<ZswapConfig>,
    /// Whether compressed pages are charged and counted by cgroup. Not so with version 1
    /// of cgroups, where zswap's shrinker therefore finds nothing to do.
    pub zswap_charged: bool,
    /// Whether swap fills up clusters that have free slots before it begins fresh ones
    /// (6.18).
    pub prefer_nonfull: bool,
    /// How zswap's pool packs.
    pub pool: PoolModel,
    /// What pages hold; the high eight bits of an area's `content` choose.
    pub contents: Vec<PageModel>,
    /// Where files are.
    pub disk: DeviceConfig,
    /// Pages of a folio that a compressor takes at once, in the time of one (SPEC 9.8).
    pub compress_batch: u64,
    /// Folios in a per-CPU batch (15, later 31).
    pub batch: usize,
    /// What things cost.
    pub costs: Costs,
    /// Seed of every choice the kernel leaves to chance.
    pub seed: u64,
}

impl KernelConfig {
    /// What the swap device is like.
    pub(super) fn device(&self) -> Option<DeviceConfig> {
        let swap = self.swap?;
        Some(self.swap_device.unwrap_or(DeviceConfig {
            read_latency: swap.latency,
            write_latency: swap.latency,
            synchronous: swap.synchronous,
            ..DeviceConfig::nvme()
        }))
    }
}

impl Default for KernelConfig {
    /// One node, two CPUs, 1 GiB, no swap.
    fn default() -> KernelConfig {
        KernelConfig {
            ram: Bytes::gib(1),
            nodes: 1,
            cpus: 2,
            switches: Switches::default(),
            swappiness: 60,
            min_ttl: Nanos::ZERO,
            page_cluster: 3,
            swap: None,
            swap_device: None,
            completion: Completion::Submitter,
            thp_swap: true,
            zswap: None,
            zswap_charged: true,
            prefer_nonfull: false,
            pool: PoolModel::default(),
            contents: vec![PageModel::fixed(1024, Nanos(5_000), Nanos(2_000))],
            disk: DeviceConfig::nvme(),
            compress_batch: 1,
            batch: SMALL_BATCH,
            costs: Costs::default(),
            seed: 1,
        }
    }
}

/// Where a device's interrupts go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// To the CPU that submitted the request: a queue for each.
    Submitter,
    /// To any other.
    Elsewhere,
}

/// A swap device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwapConfig {
    /// Its size.
    pub size: Bytes,
    /// Time of one read or write.
    pub latency: Nanos,
    /// Whether reads and writes finish within the call (zram, RAM disk).
    pub synchronous: bool,
}

/// The compressed cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZswapConfig {
    /// `max_pool_percent` of memory.
    pub max_pool_percent: u8,
    /// `accept_threshold_percent` of that.
    pub accept_threshold_percent: u8,
    /// `shrinker_enabled`.
    pub shrinker: bool,
}

/// CPU time of what the kernel does on a large server. Chosen, not fitted: looking at a
/// mapped folio is about ten cache misses (its record, its neighbours' on the list, the
/// reverse map, the page table), a microsecond in all; evicting one costs five more, the
/// upper end of what SPEC 7.2 derives for asynchronous writes (2.4 to 6 us a page). Time
/// that reclaim takes is time in which others touch pages, so results depend on it;
/// experiments say how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A touch of a present page.
    pub hit: Nanos,
    /// Entry, page-table work and exit of a fault.
    pub fault: Nanos,
    /// Clearing a page.
    pub clear: Nanos,
    /// Looking at one folio on a list.
    pub scan: Nanos,
    /// Reverse map and unmapping of one folio.
    pub unmap: Nanos,
    /// Aging: one word of 64 page-table entries.
    pub walk_word: Nanos,
    /// Aging: one folio that is found young.
    pub promote: Nanos,
    /// Visiting one cgroup.
    pub visit: Nanos,
    /// Submitting one I/O or copying one page from or to a RAM disk.
    pub io: Nanos,
    /// From waking a kernel thread on another CPU to its first instruction.
    pub wake: Nanos,
    /// CPU time after which a kernel entry lets others run.
    pub slice: Nanos,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            hit: Nanos(2),
            fault: Nanos(500),
            clear: Nanos(250),
            scan: Nanos(1_000),
            unmap: Nanos(2_000),
            walk_word: Nanos(100),
            promote: Nanos(100),
            visit: Nanos(500),
            io: Nanos(3_000),
            wake: Nanos(20_000),
            slice: Nanos(50_000),
        }
    }
}
