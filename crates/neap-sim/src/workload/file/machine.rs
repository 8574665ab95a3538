//! The `[machine]` and `[[group]]` tables.

use neap_policy::{
    FullPool, Incompressible, LargeStore, Lru, MemcgWalk, PenaltySpend, PoolWorkerVersion,
    RatioScope, Recency, ReclaimBatching, Rotate, ShrinkerLimit, ShrinkerScheme, SwapinCount,
    Switches, ZeroPages,
};
use neap_units::{Bytes, Nanos};

use super::node::Node;
use super::{GroupSpec, WorkloadFault};
use crate::kernel::{KernelConfig, Limits, SwapConfig, ZswapConfig};
use crate::swap::DeviceConfig;

/// The smallest size that is any memory.
pub(super) const PAGE: Bytes = Bytes::kib(4);
/// The most memory of all tasks, and the most swap: its bookkeeping takes about 32 bytes a page.
pub(super) const MOST: Bytes = Bytes::gib(1 << 10);

/// The longest time of a swap read: what takes longer is no swap, and the sum of many must fit in a clock.
pub const MAX_SWAP_LATENCY: Nanos = Nanos::millis(10_000);

/// The machine and its kernel.
pub(super) fn kernel(node: &Node<'_>, seed: u64) -> Result<KernelConfig, WorkloadFault> {
    let base = KernelConfig::default();
    let version = version(node)?;
    let mut switches = Switches::of_kernel(version, node.flag("mglru", false)?);
    if let Some(node) = node.table("switches")? {
        read_switches(&node, &mut switches)?;
    }
    let config = KernelConfig {
        ram: node
            .size_within("ram", Bytes::mib(16), Bytes::gib(16 << 10))?
            .unwrap_or(base.ram),
        nodes: node.within("nodes", 1, 1, 64)? as u32,
        cpus: node.within("cpus", 2, 1, 4096)? as u32,
        switches,
        swappiness: node.within("swappiness", 60, 0, 200)? as u8,
        min_ttl: node.duration("min_ttl", base.min_ttl)?,
        page_cluster: node.within("page_cluster", 3, 0, 9)? as u32,
        swap: node.table("swap")?.map(|node| swap(&node)).transpose()?,
        disk: node.word("disk", disks())?.unwrap_or(base.disk),
        zswap: node.table("zswap")?.map(|node| zswap(&node)).transpose()?,
        seed,
        ..base
    };
    node.finish()?;
    agree(node, version, &config)?;
    Ok(config)
}

/// What files may lie on.
const DISKS: [&str; 4] = ["ram", "nvme", "ssd", "disk"];

fn disks() -> impl Iterator<Item = (&'static str, DeviceConfig)> {
    let named = |name| Some((name, DeviceConfig::named(name)?));
    DISKS.into_iter().filter_map(named)
}

/// Refuses keys that are each sound, but of which one does nothing beside the other.
fn agree(node: &Node<'_>, version: (u32, u32), config: &KernelConfig) -> Result<(), WorkloadFault> {
    let classic = config.switches.lru == Lru::Classic;
    if config.zswap.is_some() && config.swap.is_none() {
        return Err(node.fault(
            "zswap",
            "has no swap behind it: add [machine.swap] with size",
        ));
    }
    if classic && config.min_ttl > Nanos::ZERO {
        return Err(node.fault("min_ttl", "is of the other LRU, of mglru = true"));
    }
    if node.flag("mglru", false)? && version < MGLRU_SINCE {
        return Err(node.fault(
            "mglru",
            "is not in that kernel: write kernel = \"6.1\" or later",
        ));
    }
    Ok(())
}

/// The first version with the multi-generational LRU.
pub const MGLRU_SINCE: (u32, u32) = (6, 1);

/// A Linux version whose rules are known, from 6.0 to 6.19.
#[must_use]
pub fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let version = (major.parse().ok()?, minor.parse().ok()?);
    ((6, 0)..=(6, 19)).contains(&version).then_some(version)
}

fn version(node: &Node<'_>) -> Result<(u32, u32), WorkloadFault> {
    let Some(text) = node.text("kernel")? else {
        return Ok((6, 12));
    };
    parse_version(&text).ok_or_else(|| {
        node.fault(
            "kernel",
            &format!("{text:?} is no version from 6.0 to 6.19: write \"6.12\""),
        )
    })
}

macro_rules! word_switches {
    ($($key:ident: $kind:ident,)+) => {
        /// Sets each switch of words that is named.
        fn read_words(node: &Node<'_>, switches: &mut Switches) -> Result<(), WorkloadFault> {
            $(
                let words = $kind::ALL.iter().map(|&value| (value.name(), value));
                if let Some(value) = node.word(stringify!($key), words)? {
                    switches.$key = value;
                }
            )+
            Ok(())
        }

        /// Each switch of words, and the words.
        #[cfg(test)]
        pub(super) fn switch_words() -> Vec<(&'static str, Vec<&'static str>)> {
            vec![$((
                stringify!($key),
                $kind::ALL.iter().map(|value| value.name()).collect(),
            ),)+]
        }
    };
}

word_switches!(
    shrinker_scheme: ShrinkerScheme,
    swapin_count: SwapinCount,
    large_store: LargeStore,
    zero_pages: ZeroPages,
    incompressible: Incompressible,
    pool_worker: PoolWorkerVersion,
    penalty_spend: PenaltySpend,
    ratio_scope: RatioScope,
    shrinker_limit: ShrinkerLimit,
    full_pool: FullPool,
    lru: Lru,
    memcg_walk: MemcgWalk,
    rotate: Rotate,
    reclaim_batching: ReclaimBatching,
    recency: Recency,
);

/// Sets each switch that is named.
fn read_switches(node: &Node<'_>, switches: &mut Switches) -> Result<(), WorkloadFault> {
    read_words(node, switches)?;
    switches.mglru_proportional = node.flag("mglru_proportional", switches.mglru_proportional)?;
    switches.writeback_refault = node.flag("writeback_refault", switches.writeback_refault)?;
    node.finish()
}

fn swap(node: &Node<'_>) -> Result<SwapConfig, WorkloadFault> {
    let size = node.size_within("size", PAGE, MOST)?;
    let size = size.ok_or_else(|| node.fault("size", "is missing: write size = \"8G\""))?;
    let latency = node.duration("latency", Nanos::micros(100))?;
    if latency > MAX_SWAP_LATENCY {
        return Err(node.fault("latency", "write at most \"10s\""));
    }
    let config = SwapConfig {
        size,
        latency,
        synchronous: node.flag("synchronous", false)?,
    };
    node.finish()?;
    Ok(config)
}

fn zswap(node: &Node<'_>) -> Result<ZswapConfig, WorkloadFault> {
    let config = ZswapConfig {
        max_pool_percent: node.within("max_pool_percent", 20, 0, 100)? as u8,
        accept_threshold_percent: node.within("accept_threshold_percent", 90, 0, 100)? as u8,
        shrinker: node.flag("shrinker", false)?,
    };
    node.finish()?;
    Ok(config)
}

/// A cgroup; `known` are those before it.
pub(super) fn group(node: &Node<'_>, known: &[GroupSpec]) -> Result<GroupSpec, WorkloadFault> {
    let name = node.text("name")?;
    let name = name.ok_or_else(|| node.fault("name", "is missing: write name = \"job\""))?;
    if name.is_empty() || name == "/" {
        return Err(node.fault(
            "name",
            &format!("{name:?} is the root: write name = \"job\""),
        ));
    }
    if known.iter().any(|group| group.name == name) {
        return Err(node.fault(
            "name",
            &format!("{name:?} is taken: give each group its own"),
        ));
    }
    let names = known.iter().map(|group| group.name.as_str());
    let parent = one_of(node, "parent", names)?;
    let pages = |size: Option<Bytes>| size.map(Bytes::whole_pages);
    let none = Limits::default();
    let limits = Limits {
        max: pages(node.size_within("max", PAGE, Bytes(u64::MAX))?),
        high: pages(node.size("high")?),
        low: pages(node.size("low")?).unwrap_or(none.low),
        min: pages(node.size("min")?).unwrap_or(none.min),
        swap_max: pages(node.size("swap_max")?),
        swap_high: pages(node.size("swap_high")?),
        zswap_max: pages(node.size("zswap_max")?),
        zswap_writeback: node.flag("zswap_writeback", true)?,
        soft_limit: pages(node.size("soft_limit")?),
    };
    node.finish()?;
    Ok(GroupSpec {
        name,
        parent,
        limits,
    })
}

/// A name among those known, if the key is there.
pub(super) fn one_of<'a>(
    node: &Node<'_>,
    key: &'static str,
    known: impl Iterator<Item = &'a str>,
) -> Result<Option<String>, WorkloadFault> {
    let Some(name) = node.text(key)? else {
        return Ok(None);
    };
    let known: Vec<&str> = known.collect();
    match known.contains(&name.as_str()) {
        true => Ok(Some(name)),
        false if known.is_empty() => Err(node.fault(
            key,
            &format!("no group is called {name:?}: add a [[group]] above"),
        )),
        false => Err(node.fault(
            key,
            &format!("no group is called {name:?}: there is {}", known.join(", ")),
        )),
    }
}
