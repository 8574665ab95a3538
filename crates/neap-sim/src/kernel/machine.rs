//! The machine around the policy: memory of its nodes, what runs on which CPU, chance.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use neap_policy::{
    Advice, Batch, Batches, Flags, FolioId, FolioView, Kind, LruvecId, MemcgId, Mm, Shadow,
    ShrinkCall, Zswap,
};
use neap_units::{Nanos, PAGE_SHIFT, Pages};

use super::config::{Completion, KernelConfig};
use super::gauges::Gauges;
use super::ids::{ObjectId, SpaceId};
use super::space::Space;
use super::swap::Swap;
use super::tables::{Entry, Tables};
use crate::compress::PageImage;
use crate::swap::{Device, Worker};

/// Key of folios of the swap cache that no object has taken yet: they get their own when a
/// fault finds them. The first object of a machine has this key, and no areas.
pub(super) const NOWHERE: u32 = 0;

/// What happens on its own at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// A read into a folio ends.
    ReadEnd(u32),
    /// A write of a folio ends, on a CPU.
    WriteEnd(u32, usize),
    /// kswapd of a node goes on.
    Kswapd(u32),
    /// The pool worker goes on.
    PoolWorker,
}

/// Watermarks of one node in pages (kernel: `__setup_per_zone_wmarks`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Watermarks {
    pub(super) min: u64,
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Watermarks {
    fn new(pages: u64, nodes: u64) -> Watermarks {
        let kib = (pages * nodes) << (PAGE_SHIFT - 10);
        // min_free_kbytes: 4 * sqrt of the memory in KiB, within 128 KiB and 256 MiB.
        let min_free = (kib * 16).isqrt().clamp(128, 262_144);
        let min = (min_free >> (PAGE_SHIFT - 10)) / nodes;
        // watermark_scale_factor 10: a thousandth of the node between marks.
        let gap = (min / 4).max(pages / 1000);
        Watermarks {
            min,
            low: min + gap,
            high: min + 2 * gap,
        }
    }
}

/// Everything but the policy's own state.
pub(super) struct Machine {
    pub(super) config: KernelConfig,
    pub(super) tables: Tables,
    pub(super) spaces: Vec<Option<Space>>,
    /// Numbers of spaces that ended and are free.
    pub(super) ended: u32,
    pub(super) memcg_spaces: Vec<Vec<SpaceId>>,
    pub(super) swap: Option<Swap>,
    pub(super) zswap: Option<Zswap>,
    pub(super) disk: Device,
    /// When reads under way end, by folio.
    pub(super) reads: BTreeMap<u32, Nanos>,
    pub(super) files: Vec<ObjectId>,
    pub(super) shmems: Vec<ObjectId>,
    pub(super) node_pages: u64,
    pub(super) used: Vec<u64>,
    pub(super) marks: Watermarks,
    pub(super) events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    event_seq: u64,
    shadows: Vec<Shadow>,
    free_shadows: Vec<u32>,
    batches: Vec<Batches>,
    pub(super) parts: Vec<FolioId>,
    /// What a compressor makes of the pages of the folio on its way out.
    pub(super) images: Vec<PageImage>,
    /// Pages given to a compressor.
    pub(super) compressions: u64,
    random: u64,
    pub(super) now: Nanos,
    pub(super) cpu: usize,
    /// CPU time of the entry under way.
    pub(super) spent: Nanos,
    /// The task is in a fault of a mapping whose accesses count (kernel: in_lru_fault).
    pub(super) in_fault: bool,
    /// Pages the task owes because a level is above high.
    pub(super) owed: u64,
    pub(super) worker: Worker,
    /// When it goes on.
    pub(super) worker_due: Nanos,
    /// The queue of the swap device is full until then: whoever wrote sleeps.
    pub(super) congested: Option<Nanos>,
    /// A call of zswap's shrinker that reclaim has asked for: whoever reclaims takes it and
    /// goes on with it.
    pub(super) shrinker: Option<ShrinkCall<LruvecId>>,
    /// Whether the walk of the page tables of some lists is their first.
    pub(super) walked: Vec<bool>,
    pub(super) gauges: Gauges,
}

impl Machine {
    pub(super) fn new(config: &KernelConfig) -> Machine {
        let nodes = u64::from(config.nodes.max(1));
        let node_pages = config.ram.whole_pages().0 / nodes;
        let swap = Swap::new(config);
        let zswap = swap.as_ref().and_then(|swap| swap.zswap(config));
        let mut tables = Tables::default();
        tables.add_object(Pages(1), false, true, 0);
        Machine {
            config: config.clone(),
            tables,
            reads: BTreeMap::new(),
            files: Vec::new(),
            shmems: Vec::new(),
            spaces: Vec::new(),
            ended: 0,
            memcg_spaces: Vec::new(),
            swap,
            zswap,
            disk: Device::new(config.disk),
            node_pages,
            used: vec![0; nodes as usize],
            marks: Watermarks::new(node_pages, nodes),
            events: BinaryHeap::new(),
            event_seq: 0,
            shadows: Vec::new(),
            free_shadows: Vec::new(),
            batches: vec![Batches::new(config.batch); config.cpus.max(1) as usize],
            parts: Vec::new(),
            images: Vec::new(),
            compressions: 0,
            random: config.seed,
            now: Nanos::ZERO,
            cpu: 0,
            spent: Nanos::ZERO,
            in_fault: false,
            owed: 0,
            worker: Worker::default(),
            worker_due: Nanos::ZERO,
            congested: None,
            shrinker: None,
            walked: Vec::new(),
            gauges: Gauges::default(),
        }
    }

    /// Begins a slice of somebody's kernel entry.
    pub(super) fn begin(&mut self, mm: &mut Mm, now: Nanos, cpu: usize) {
        if let Some(zswap) = &self.zswap {
            self.gauges.pass(now, zswap);
        }
        self.now = now;
        mm.now = now;
        self.cpu = if cpu < self.batches.len() {
            cpu
        } else {
            cpu % self.batches.len()
        };
        self.spent = Nanos::ZERO;
    }

    /// A cgroup was made.
    pub(super) fn add_memcg(&mut self, mm: &Mm, memcg: MemcgId) {
        self.memcg_spaces.push(Vec::new());
        for node in 0..mm.nodes() {
            self.walked.push(false);
            if let Some(zswap) = &mut self.zswap {
                zswap.add_list(mm.lruvec_of(memcg, node));
            }
        }
    }

    pub(super) fn last_cpu(&self) -> usize {
        self.batches.len() - 1
    }

    pub(super) fn node_of_cpu(&self) -> u32 {
        match self.used.len() {
            1 => 0,
            nodes => (self.cpu * nodes / self.batches.len()) as u32,
        }
    }

    /// A number below `n` (splitmix64: 64 bits of state pass every test that matters here).
    pub(super) fn draw(&mut self, n: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (((z >> 32) * u64::from(n)) >> 32) as u32
    }

    /// The CPU on which the device says that a write has ended which this one submitted.
    pub(super) fn completes_on(&mut self) -> usize {
        let others = self.last_cpu();
        match self.config.completion {
            Completion::Elsewhere if others > 0 => {
                (self.cpu + 1 + self.draw(others as u32) as usize) % (others + 1)
            }
            _ => self.cpu,
        }
    }

    pub(super) fn schedule(&mut self, at: Nanos, event: Event) {
        self.event_seq += 1;
        self.events.push(Reverse((at, self.event_seq, event)));
    }

    pub(super) fn space(&self, id: SpaceId) -> &Space {
        self.spaces[id.index()].as_ref().expect("a live space")
    }

    pub(super) fn space_mut(&mut self, id: SpaceId) -> &mut Space {
        let space = self.spaces.get_mut(id.index()).and_then(Option::as_mut);
        space.expect("a live space")
    }

    /// Free pages of a node: what folios, the pool and a swap device in memory leave.
    pub(super) fn free_pages(&self, node: u32) -> u64 {
        let pool = self.zswap.as_ref().map_or(0, |zswap| zswap.pool_pages().0);
        let stored = self.zswap.as_ref().map_or(0, Zswap::stored);
        let device = self.swap.as_ref();
        let compressed = pool + device.map_or(0, |swap| swap.device_memory(stored).0);
        let compressed = match self.used.len() {
            1 => compressed,
            nodes => compressed / nodes as u64,
        };
        (self.node_pages).saturating_sub(self.used[node as usize] + compressed)
    }

    /// Takes pages that were charged and are free.
    pub(super) fn alloc(&mut self, mm: &mut Mm, memcg: MemcgId, key: u32, flags: Flags) -> FolioId {
        let node = self.node_for(1 << flags.order());
        self.used[node as usize] += 1 << flags.order();
        let lruvec = mm.lruvec_of(memcg, node);
        mm.folios.alloc(lruvec, key, flags)
    }

    /// The node of this CPU, or the one with most room when that has little.
    fn node_for(&self, pages: u64) -> u32 {
        let near = self.node_of_cpu();
        if self.free_pages(near) >= self.marks.low + pages {
            return near;
        }
        let nodes = 0..self.used.len() as u32;
        nodes
            .max_by_key(|&node| (self.free_pages(node), Reverse(node)))
            .unwrap_or(near)
    }

    /// Ends a folio that nothing refers to.
    pub(super) fn free(&mut self, mm: &mut Mm, id: FolioId) {
        let flags = mm.folios.flags(id);
        if flags.has(Flags::LRU) {
            mm.remove_folio(id);
        }
        if flags.any(Flags::IN_ADD.with(Flags::IN_ROTATE)) {
            for batches in &mut self.batches {
                batches.forget(id.0);
            }
        }
        let pages = mm.folios.pages(id);
        let memcg = mm.folio_memcg(id);
        let node = mm.node_of(mm.folios.lruvec(id));
        self.used[node as usize] -= pages;
        mm.memcgs.uncharge(memcg, Pages(pages));
        mm.folios.free(id);
    }

    /// Puts a new folio into this CPU's add batch.
    pub(super) fn queue_add(&mut self, mm: &mut Mm, id: FolioId) {
        let flags = mm.folios.flags_mut(id);
        flags.set(Flags::IN_ADD, true);
        let large = flags.order() > 0;
        if self.batches[self.cpu].queue(Batch::Add, id.0, large) {
            self.drain_one(mm, self.cpu, Batch::Add);
        }
    }

    pub(super) fn queue_rotate(&mut self, mm: &mut Mm, id: FolioId, cpu: usize) {
        let flags = mm.folios.flags_mut(id);
        if flags.has(Flags::IN_ROTATE) {
            return;
        }
        flags.set(Flags::IN_ROTATE, true);
        let large = flags.order() > 0;
        if self.batches[cpu].queue(Batch::Rotate, id.0, large) {
            self.drain_one(mm, cpu, Batch::Rotate);
        }
    }

    fn drain_one(&mut self, mm: &mut Mm, cpu: usize, batch: Batch) {
        let rule = mm.switches.rotate;
        while let Some(id) = self.batches[cpu].take(batch) {
            let id = FolioId(id);
            let seen = view(mm, id);
            if batch == Batch::Add {
                let tail = rule.adds_at_tail(seen);
                let flags = mm.folios.flags_mut(id);
                flags.set(Flags::IN_ADD, false);
                if tail {
                    flags.set(Flags::RECLAIM.with(Flags::ACTIVE), false);
                }
                mm.add_folio(id, tail);
            } else {
                mm.folios.flags_mut(id).set(Flags::IN_ROTATE, false);
                if rule.moves(seen) {
                    mm.rotate_reclaimable(id);
                }
            }
        }
    }

    /// Puts what waits in a CPU's batches onto lists.
    pub(super) fn drain_cpu(&mut self, mm: &mut Mm, cpu: usize) {
        self.drain_one(mm, cpu, Batch::Add);
        self.drain_one(mm, cpu, Batch::Rotate);
    }

    pub(super) fn drain_all(&mut self, mm: &mut Mm) {
        for cpu in 0..self.batches.len() {
            self.drain_cpu(mm, cpu);
        }
    }

    /// Leaves a shadow where a file page was.
    pub(super) fn leave_shadow(&mut self, shadow: Shadow) -> Entry {
        let number = match self.free_shadows.pop() {
            Some(number) => {
                self.shadows[number as usize] = shadow;
                number
            }
            None => {
                self.shadows.push(shadow);
                self.shadows.len() as u32 - 1
            }
        };
        Entry::Shadow(number)
    }

    pub(super) fn take_shadow(&mut self, number: u32) -> Shadow {
        self.free_shadows.push(number);
        self.shadows[number as usize]
    }
}

/// What the rules of batches look at.
pub(super) fn view(mm: &Mm, id: FolioId) -> FolioView {
    let flags = mm.folios.flags(id);
    FolioView {
        locked: flags.has(Flags::LOCKED),
        dirty: flags.has(Flags::DIRTY),
        writeback: flags.has(Flags::WRITEBACK),
        unevictable: flags.has(Flags::UNEVICTABLE),
        on_lru: flags.has(Flags::LRU),
        active: flags.has(Flags::ACTIVE),
        reclaim: flags.has(Flags::RECLAIM),
    }
}

/// Whether accesses through a mapping count (SPEC 4.1).
pub(super) fn has_recency(mm: &Mm, advice: Advice) -> bool {
    advice.has_recency(mm.switches.recency, mm.generational())
}

/// Kind of a folio.
pub(super) fn kind_of(flags: Flags) -> Kind {
    if flags.has(Flags::SWAPBACKED) {
        Kind::Anon
    } else {
        Kind::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_ends_elsewhere_is_rotated_there() {
        let of = |completion, cpus| {
            let config = KernelConfig {
                completion,
                cpus,
                ..KernelConfig::default()
            };
            let mut machine = Machine::new(&config);
            machine.cpu = 1 % cpus as usize;
            let mut seen: Vec<usize> = (0..200).map(|_| machine.completes_on()).collect();
            seen.sort_unstable();
            seen.dedup();
            seen
        };
        assert_eq!(of(Completion::Submitter, 4), [1]);
        assert_eq!(of(Completion::Elsewhere, 4), [0, 2, 3]);
        assert_eq!(of(Completion::Elsewhere, 1), [0], "there is no other");
    }
}
