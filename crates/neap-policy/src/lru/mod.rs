//! The lists of every (cgroup, node): active and inactive, or generations; what comes back
//! too soon; and sizes with what lies below (SPEC 3.2-3.9).

mod classic;
mod evict;
mod generations;
mod insert;
mod workingset;

pub(crate) use classic::Deactivate;
pub use generations::Promotion;
pub use workingset::Shadow;

use generations::Aged;
use neap_units::{Nanos, Pages};

use crate::counters::Counters;
use crate::folio::{FolioId, Folios, Kind, LruvecId, list_of};
use crate::generations::NonresidentAge;
use crate::list::List;
use crate::memcg::{Cookie, Limits, MemcgId, Memcgs};
use crate::memcg_lru::{MEMCG_NR_BINS, MemcgLru, MemcgTrigger};
use crate::reclaim::HeatLevel;
use crate::switches::{Lru, Switches};

/// The lists of one cgroup on one node.
pub(crate) struct Lruvec {
    pub(crate) memcg: MemcgId,
    /// The cgroup above, on the same node.
    parent: Option<LruvecId>,
    /// Classic lists, by [`list_of`].
    lists: [List<FolioId>; 4],
    /// Pages by [`list_of`], here and with those below. With generations the two
    /// youngest count as active.
    pub(crate) own: [u64; 4],
    pub(crate) total: [u64; 4],
    /// Cost of reclaim from either kind (SPEC 3.2).
    cost: [u64; 2],
    /// Evictions and activations here and below.
    nonresident_age: NonresidentAge,
    /// Recent refaults here and below, and what they were when reclaim last ended.
    activates: [u64; 2],
    refaults: [u64; 2],
    generations: Aged,
    /// Where the walks from this cgroup are.
    pub(crate) cookie: Cookie<MemcgId>,
    /// Heat level of the walk by heat, with the time of its last decay.
    pub(crate) heat: HeatLevel,
}

/// The state of all lists and cgroups: what reclaim decides on.
pub struct Mm {
    /// Which kernel.
    pub switches: Switches,
    /// `vm.swappiness`.
    pub swappiness: u8,
    /// Free slots of all swap devices; zero without one.
    pub free_swap: Pages,
    /// Working set that is to be kept, in time (kernel: `lru_gen/min_ttl_ms`); zero: none.
    /// It is no setting of a version: it came with generations and is off unless set.
    pub min_ttl: Nanos,
    /// What time it is.
    pub now: Nanos,
    /// All folios.
    pub folios: Folios,
    /// All cgroups.
    pub memcgs: Memcgs,
    pub(crate) lruvecs: Vec<Lruvec>,
    /// The memcg LRU of each node.
    pub(crate) memcg_lru: Vec<MemcgLru<MemcgId>>,
    nodes: u32,
}

impl Mm {
    /// An empty machine with a root cgroup.
    #[must_use]
    pub fn new(switches: Switches, swappiness: u8, nodes: u32, cpus: u32) -> Mm {
        let nodes = nodes.max(1);
        let mut mm = Mm {
            switches,
            swappiness,
            free_swap: Pages::ZERO,
            min_ttl: Nanos::ZERO,
            now: Nanos::ZERO,
            folios: Folios::default(),
            memcgs: Memcgs::new(cpus),
            lruvecs: Vec::new(),
            memcg_lru: (0..nodes).map(|_| MemcgLru::default()).collect(),
            nodes,
        };
        mm.add_lruvecs(MemcgId::ROOT, &mut |_| 0);
        mm
    }

    /// Makes a cgroup below `parent`. `random(n)` draws below n: where it starts on the
    /// memcg LRU of each node.
    pub fn create_memcg(
        &mut self,
        parent: MemcgId,
        name: &str,
        mut random: impl FnMut(u32) -> u32,
    ) -> MemcgId {
        let id = self.memcgs.create(parent, name);
        self.add_lruvecs(id, &mut random);
        id
    }

    fn add_lruvecs(&mut self, memcg: MemcgId, random: &mut dyn FnMut(u32) -> u32) {
        let parent = self.memcgs.parent(memcg);
        for node in 0..self.nodes {
            self.lruvecs.push(Lruvec {
                memcg,
                parent: parent.map(|id| self.lruvec_of(id, node)),
                lists: [List::default(); 4],
                own: [0; 4],
                total: [0; 4],
                cost: [0; 2],
                nonresident_age: NonresidentAge::default(),
                activates: [0; 2],
                refaults: [0; 2],
                generations: Aged::new(self.now),
                cookie: Cookie::default(),
                heat: HeatLevel::default(),
            });
            self.memcg_lru[node as usize].insert(memcg, random(MEMCG_NR_BINS));
        }
    }

    /// Takes a cgroup offline (`rmdir`); what it still has stays charged to it.
    pub fn offline_memcg(&mut self, memcg: MemcgId, mut random: impl FnMut(u32) -> u32) {
        self.memcgs.get_mut(memcg).online = false;
        for node in 0..self.nodes {
            self.note_on_memcg_lru(memcg, node, MemcgTrigger::Offline, &mut random);
        }
    }

    /// Something happened to a cgroup on a node that may move it on the memcg LRU.
    pub(crate) fn note_on_memcg_lru(
        &mut self,
        memcg: MemcgId,
        node: u32,
        trigger: MemcgTrigger,
        random: impl FnOnce(u32) -> u32,
    ) {
        self.memcg_lru[node as usize].note(memcg, trigger, random);
    }

    /// Sets the limits of a cgroup.
    pub fn set_limits(&mut self, memcg: MemcgId, limits: Limits) {
        self.memcgs.set_limits(memcg, limits);
    }

    /// The lists of a cgroup on a node.
    #[inline]
    #[must_use]
    pub fn lruvec_of(&self, memcg: MemcgId, node: u32) -> LruvecId {
        LruvecId(memcg.0 * self.nodes + node)
    }

    /// The cgroup of some lists.
    #[inline]
    #[must_use]
    pub fn memcg_of(&self, id: LruvecId) -> MemcgId {
        self.lruvecs[id.index()].memcg
    }

    /// The node of some lists.
    #[inline]
    #[must_use]
    pub fn node_of(&self, id: LruvecId) -> u32 {
        id.0 % self.nodes
    }

    /// The cgroup a folio is charged to.
    #[inline]
    #[must_use]
    pub fn folio_memcg(&self, id: FolioId) -> MemcgId {
        self.memcg_of(self.folios.lruvec(id))
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Counters of a cgroup and all below it; of the root, those of the machine.
    #[must_use]
    pub fn counters(&self, memcg: MemcgId) -> &Counters {
        self.memcgs.counters(memcg)
    }

    /// Pages of one kind on a cgroup's lists and below, active or not.
    #[must_use]
    pub fn size(&self, memcg: MemcgId, kind: Kind, active: bool) -> Pages {
        let node = |node| self.lruvecs[self.lruvec_of(memcg, node).index()].total;
        Pages(
            (0..self.nodes)
                .map(|n| node(n)[list_of(kind, active)])
                .sum(),
        )
    }

    /// Sequence number of the youngest generation of some lists.
    #[must_use]
    pub fn max_seq(&self, id: LruvecId) -> u64 {
        self.window(id).max_seq()
    }

    #[inline]
    pub(crate) fn lruvec(&self, id: LruvecId) -> &Lruvec {
        &self.lruvecs[id.index()]
    }

    #[inline]
    pub(crate) fn lruvec_mut(&mut self, id: LruvecId) -> &mut Lruvec {
        &mut self.lruvecs[id.index()]
    }

    /// Whether folios are kept in generations.
    #[inline]
    #[must_use]
    pub fn generational(&self) -> bool {
        self.switches.lru != Lru::Classic
    }

    /// Changes the size of one list here and above.
    #[inline]
    fn resize(&mut self, id: LruvecId, list: usize, delta: i64) {
        let own = &mut self.lruvecs[id.index()].own[list];
        *own = own.wrapping_add_signed(delta);
        let mut at = Some(id);
        while let Some(id) = at {
            let lruvec = &mut self.lruvecs[id.index()];
            lruvec.total[list] = lruvec.total[list].wrapping_add_signed(delta);
            at = lruvec.parent;
        }
    }

    /// The lists and those above.
    fn upwards(&self, id: LruvecId) -> impl Iterator<Item = LruvecId> + '_ {
        std::iter::successors(Some(id), |&id| self.lruvec(id).parent)
    }

    /// Reclaim of a cgroup on a node ends: refaults are counted from here (kernel:
    /// snapshot_refaults).
    pub(crate) fn snapshot_refaults(&mut self, id: LruvecId) {
        let lruvec = self.lruvec_mut(id);
        lruvec.refaults = lruvec.activates;
    }

    /// Panics unless sizes, lists and generations of every cgroup agree.
    pub fn check(&self) {
        let mut below = vec![[0u64; 4]; self.lruvecs.len()];
        for (at, lruvec) in self.lruvecs.iter().enumerate() {
            let id = LruvecId(at as u32);
            if self.generational() {
                self.check_generations(id);
            } else {
                self.check_classic(id);
            }
            for above in self.upwards(id) {
                for (sum, own) in below[above.index()].iter_mut().zip(lruvec.own) {
                    *sum += own;
                }
            }
        }
        for (lruvec, below) in self.lruvecs.iter().zip(&below) {
            assert_eq!(&lruvec.total, below, "sizes below {:?}", lruvec.memcg);
        }
        for lru in &self.memcg_lru {
            lru.check();
            assert_eq!(lru.len(), self.memcgs.len().into(), "cgroups on a node");
        }
    }
}

#[cfg(test)]
mod tests;
