//! Memory cgroups: the tree, charges and their limits, protection, events (SPEC 5).

mod charge;
mod iter;
mod protection;
mod throttle;

pub use charge::{CHARGE_BATCH, Charged, OverLimit};
pub use iter::{Cookie, GroupTree, TreeWalk};
pub use protection::{MinLow, Protection, ProtectionLevel, ScanTarget, effective_protection};
pub use throttle::{SHORTEST_DELAY, high_delay, over_high_delay, swap_high_delay};

use neap_units::{Bytes, Pages};

use crate::counters::{Counter, Counters};
use crate::list::LinkId;

/// A memory cgroup.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemcgId(pub u32);

impl LinkId for MemcgId {
    #[inline]
    fn from_raw(raw: u32) -> MemcgId {
        MemcgId(raw)
    }

    #[inline]
    fn raw(self) -> u32 {
        self.0
    }
}

impl MemcgId {
    /// The root cgroup.
    pub const ROOT: MemcgId = MemcgId(0);

    /// The id as an array index.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Limits of a memory cgroup; `None` is the kernel's "max".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// `memory.max`.
    pub max: Option<Pages>,
    /// `memory.high`.
    pub high: Option<Pages>,
    /// `memory.low`.
    pub low: Pages,
    /// `memory.min`.
    pub min: Pages,
    /// `memory.swap.max`.
    pub swap_max: Option<Pages>,
    /// `memory.swap.high`.
    pub swap_high: Option<Pages>,
    /// `memory.zswap.max`.
    pub zswap_max: Option<Pages>,
    /// `memory.zswap.writeback`.
    pub zswap_writeback: bool,
    /// The soft limit of version 1.
    pub soft_limit: Option<Pages>,
}

impl Limits {
    /// `memory.min` and `memory.low`.
    #[inline]
    #[must_use]
    pub fn min_low(&self) -> MinLow {
        MinLow {
            min: self.min,
            low: self.low,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max: None,
            high: None,
            low: Pages::ZERO,
            min: Pages::ZERO,
            swap_max: None,
            swap_high: None,
            zswap_max: None,
            zswap_writeback: true,
            soft_limit: None,
        }
    }
}

/// One cgroup. Amounts include what lies below it.
#[derive(Clone, Debug)]
pub(crate) struct Memcg {
    parent: Option<MemcgId>,
    first_child: Option<MemcgId>,
    last_child: Option<MemcgId>,
    next_sibling: Option<MemcgId>,
    name: String,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) online: bool,
    /// Pages charged.
    usage: u64,
    /// Swap slots charged.
    swap: u64,
    /// Compressed bytes and entries in zswap, with those below.
    zswap_bytes: u64,
    zswapped: u64,
    /// Compressed bytes of this cgroup alone, which are charged in whole pages, and
    /// entries.
    own_zswap_bytes: u64,
    own_zswapped: u64,
    /// Effective protection for the reclaimer that looked last (kernel: emin, elow).
    effective: MinLow,
    /// What the children claim of this cgroup's protection.
    claims: MinLow,
}

/// The tree of cgroups.
pub struct Memcgs {
    all: Vec<Memcg>,
    /// A stock of charged pages for each CPU.
    stocks: Vec<charge::Stock>,
}

impl Memcgs {
    /// A root cgroup on a machine of some CPUs.
    #[must_use]
    pub fn new(cpus: u32) -> Memcgs {
        let mut memcgs = Memcgs {
            all: Vec::new(),
            stocks: vec![charge::Stock::default(); cpus.max(1) as usize],
        };
        memcgs.push(None, "/");
        memcgs
    }

    fn push(&mut self, parent: Option<MemcgId>, name: &str) -> MemcgId {
        let id = MemcgId(self.all.len() as u32);
        self.all.push(Memcg {
            parent,
            first_child: None,
            last_child: None,
            next_sibling: None,
            name: name.to_owned(),
            limits: Limits::default(),
            counters: Counters::default(),
            online: true,
            usage: 0,
            swap: 0,
            zswap_bytes: 0,
            zswapped: 0,
            own_zswap_bytes: 0,
            own_zswapped: 0,
            effective: MinLow::default(),
            claims: MinLow::default(),
        });
        id
    }

    /// Makes a cgroup, the last child of `parent`.
    pub fn create(&mut self, parent: MemcgId, name: &str) -> MemcgId {
        let id = self.push(Some(parent), name);
        let last = self.all[parent.index()].last_child.replace(id);
        match last {
            Some(last) => self.all[last.index()].next_sibling = Some(id),
            None => self.all[parent.index()].first_child = Some(id),
        }
        id
    }

    #[inline]
    pub(crate) fn get(&self, id: MemcgId) -> &Memcg {
        &self.all[id.index()]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: MemcgId) -> &mut Memcg {
        &mut self.all[id.index()]
    }

    /// Cgroups ever made.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// Never: there is a root.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Name of a cgroup.
    #[must_use]
    pub fn name(&self, id: MemcgId) -> &str {
        &self.get(id).name
    }

    /// The cgroup above.
    #[inline]
    #[must_use]
    pub fn parent(&self, id: MemcgId) -> Option<MemcgId> {
        self.get(id).parent
    }

    /// The cgroup and all above it, up to the root.
    #[inline]
    pub fn ancestors(&self, id: MemcgId) -> impl Iterator<Item = MemcgId> + '_ {
        std::iter::successors(Some(id), |&id| self.parent(id))
    }

    /// Whether `id` is `root` or lies below it.
    #[must_use]
    pub fn is_below(&self, id: MemcgId, root: MemcgId) -> bool {
        root == MemcgId::ROOT || self.ancestors(id).any(|above| above == root)
    }

    /// Limits of a cgroup.
    #[must_use]
    pub fn limits(&self, id: MemcgId) -> &Limits {
        &self.get(id).limits
    }

    /// Whether tasks may still live in it.
    #[must_use]
    pub fn online(&self, id: MemcgId) -> bool {
        self.get(id).online
    }

    /// `memory.current`.
    #[inline]
    #[must_use]
    pub fn usage(&self, id: MemcgId) -> Pages {
        Pages(self.get(id).usage)
    }

    /// `memory.swap.current`.
    #[must_use]
    pub fn swap(&self, id: MemcgId) -> Pages {
        Pages(self.get(id).swap)
    }

    /// `memory.zswap.current`, with what lies below.
    #[must_use]
    pub fn zswap_bytes(&self, id: MemcgId) -> Bytes {
        Bytes(self.get(id).zswap_bytes)
    }

    /// Entries in zswap, with what lies below.
    #[must_use]
    pub fn zswapped(&self, id: MemcgId) -> u64 {
        self.get(id).zswapped
    }

    /// Counters of a cgroup and all below it.
    #[must_use]
    pub fn counters(&self, id: MemcgId) -> &Counters {
        &self.get(id).counters
    }

    /// Counts an event for a cgroup and all above it.
    #[inline]
    pub fn count(&mut self, id: MemcgId, counter: Counter, n: u64) {
        let mut at = Some(id);
        while let Some(id) = at {
            let memcg = &mut self.all[id.index()];
            memcg.counters[counter] += n;
            at = memcg.parent;
        }
    }
}

#[cfg(test)]
mod tests;
