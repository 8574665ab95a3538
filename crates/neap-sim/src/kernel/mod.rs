//! The imagined kernel: all state of the machine's memory, without a clock of its own.
//!
//! A task enters with an [`Op`]; the [`Reply`] says how much CPU time that took and whether
//! to come back. Nothing happens between calls: whoever owns the clock calls
//! [`Kernel::fire`] when [`Kernel::next_event`] is due.

mod config;
#[cfg(test)]
mod fairness_tests;
mod fault;
mod gauges;
mod host;
mod ids;
mod kswapd;
mod lifecycle;
mod machine;
mod pageout;
#[cfg(test)]
mod random_tests;
mod rmap;
mod space;
mod swap;
mod swapin;
mod tables;
mod task;
mod versions;
mod zswap;

use std::cmp::Reverse;

pub use config::{Completion, Costs, KernelConfig, SwapConfig, ZswapConfig};
pub use gauges::GaugeMeans;
pub use ids::{CpuId, FileId, NodeId, ShmemId, SpaceId, TaskId};
use kswapd::Kswapd;
use machine::{Event, Machine};
pub use neap_policy::Advice;
use neap_policy::{Counters, FolioId, Mm, OrderStats};
pub use neap_policy::{Limits, MemcgId};
use neap_units::{Bytes, Nanos, PageNr, Pages};
pub use space::{Area, AreaKind};

/// What a task asks of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Load or store at a page.
    Touch {
        /// Where.
        space: SpaceId,
        /// Which page.
        page: PageNr,
        /// Store.
        write: bool,
    },
    /// `read()` or `write()` of one page of a file on behalf of a space.
    FileIo {
        /// Whose cgroup pays.
        space: SpaceId,
        /// Which file.
        file: FileId,
        /// Which page of it.
        page: PageNr,
        /// `write()`.
        write: bool,
        /// The file was opened or advised NOREUSE.
        no_reuse: bool,
    },
    /// A write to `memory.reclaim`.
    Reclaim {
        /// Of this cgroup.
        memcg: MemcgId,
        /// How much.
        bytes: Bytes,
        /// `swappiness=`, if given.
        swappiness: Option<u8>,
    },
}

/// What came of a kernel entry, or of one slice of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Finished; the task used this much CPU.
    Done {
        /// CPU time.
        cpu: Nanos,
    },
    /// `memory.reclaim` gave up (kernel: EAGAIN). Finished, too.
    Again {
        /// CPU time.
        cpu: Nanos,
    },
    /// A slice is over: call [`Kernel::resume`] when the CPU time has passed.
    Continue {
        /// CPU time.
        cpu: Nanos,
    },
    /// The task sleeps after the CPU time: resume at `until`.
    Wait {
        /// CPU time.
        cpu: Nanos,
        /// When to resume.
        until: Nanos,
    },
    /// The task was killed for want of memory. Its space stays until `exit_space`.
    Killed {
        /// CPU time.
        cpu: Nanos,
    },
}

/// The memory of one machine and all that manages it.
pub struct Kernel {
    mm: Mm,
    machine: Machine,
    /// Kernel entries under way, by task.
    entries: Vec<Option<task::Entry>>,
    kswapd: Vec<Kswapd>,
}

impl Kernel {
    /// An empty machine with a root cgroup.
    #[must_use]
    pub fn new(config: &KernelConfig) -> Kernel {
        let nodes = config.nodes.max(1);
        let mut mm = Mm::new(config.switches, config.swappiness, nodes, config.cpus);
        mm.min_ttl = config.min_ttl;
        let mut machine = Machine::new(config);
        mm.free_swap = machine
            .swap
            .as_ref()
            .map_or(Pages::ZERO, |swap| swap.free());
        machine.add_memcg(&mm, MemcgId::ROOT);
        Kernel {
            mm,
            machine,
            entries: Vec::new(),
            kswapd: (0..nodes).map(|_| Kswapd::default()).collect(),
        }
    }

    /// Makes a cgroup below `parent`.
    pub fn create_memcg(&mut self, parent: MemcgId, name: &str) -> MemcgId {
        let machine = &mut self.machine;
        let id = self.mm.create_memcg(parent, name, |n| machine.draw(n));
        machine.add_memcg(&self.mm, id);
        id
    }

    /// Takes a cgroup without tasks offline; what it still has stays charged to it.
    pub fn remove_memcg(&mut self, memcg: MemcgId) {
        let machine = &mut self.machine;
        self.mm.offline_memcg(memcg, |n| machine.draw(n));
        let parent = self.mm.memcgs.parent(memcg).unwrap_or(MemcgId::ROOT);
        for node in 0..self.mm.nodes() {
            let (from, to) = (
                self.mm.lruvec_of(memcg, node),
                self.mm.lruvec_of(parent, node),
            );
            if let Some(zswap) = &mut self.machine.zswap {
                zswap.reparent(from, to);
            }
        }
        self.mm.memcgs.reparent_zswap(memcg);
    }

    /// Name of a cgroup.
    #[must_use]
    pub fn memcg_name(&self, memcg: MemcgId) -> &str {
        self.mm.memcgs.name(memcg)
    }

    /// Sets the limits of a cgroup.
    pub fn set_limits(&mut self, memcg: MemcgId, limits: Limits) {
        self.mm.set_limits(memcg, limits);
    }

    /// Makes an empty address space whose memory is charged to `memcg`.
    pub fn create_space(&mut self, memcg: MemcgId) -> SpaceId {
        self.machine.create_space(memcg)
    }

    /// Makes a file of this length; its pages are on disk and clean.
    pub fn create_file(&mut self, len: Pages) -> FileId {
        let object = self.machine.create_object(len, false);
        self.machine.files.push(object);
        FileId(self.machine.files.len() as u32 - 1)
    }

    /// Makes an object of shared anonymous memory.
    pub fn create_shmem(&mut self, len: Pages) -> ShmemId {
        let object = self.machine.create_object(len, true);
        self.machine.shmems.push(object);
        ShmemId(self.machine.shmems.len() as u32 - 1)
    }

    /// Drops the cached pages of a file that nobody maps.
    pub fn remove_file(&mut self, id: FileId) {
        let object = self.machine.files[id.index()];
        self.machine.remove_pages(&mut self.mm, object);
    }

    /// Maps an area and returns its first page.
    pub fn map(&mut self, space: SpaceId, area: Area) -> PageNr {
        self.machine.map(space, area)
    }

    /// Unmaps the area that starts at `start`.
    pub fn unmap(&mut self, space: SpaceId, start: PageNr) {
        self.machine.unmap_area(&mut self.mm, space, start);
    }

    /// Changes the hint of the area that holds `page`.
    pub fn advise(&mut self, space: SpaceId, page: PageNr, advice: Advice) {
        if let Some(area) = self.machine.space_mut(space).find(page) {
            self.machine.tables.area_mut(area).area.advice = advice;
        }
    }

    /// Copies an address space; private memory is shared until one side writes.
    pub fn fork(&mut self, space: SpaceId) -> SpaceId {
        self.machine.fork(&mut self.mm, space)
    }

    /// Ends an address space.
    pub fn exit_space(&mut self, space: SpaceId) {
        self.machine.exit_space(&mut self.mm, space);
    }

    /// A touch of a present page: whether it was one. The fast way before [`Kernel::enter`].
    #[inline]
    pub fn hit(&mut self, space: SpaceId, page: PageNr, write: bool) -> bool {
        let Some(area) = self.machine.space_mut(space).find(page) else {
            return false;
        };
        let state = self.machine.tables.area(area);
        let (bit, private) = (state.bits + page.0 - state.start, state.private);
        self.machine.tables.touch(bit, write, private)
    }

    /// A task enters the kernel. Whatever `Op::Touch` hits needs no second call.
    pub fn enter(&mut self, now: Nanos, cpu: CpuId, task: TaskId, op: Op) -> Reply {
        if let Op::Touch { space, page, write } = op
            && self.hit(space, page, write)
        {
            return Reply::Done {
                cpu: self.machine.config.costs.hit,
            };
        }
        if self.entries.len() <= task.index() {
            self.entries.resize_with(task.index() + 1, || None);
        }
        self.entries[task.index()] = Some(task::Entry::new(op));
        self.resume(now, cpu, task)
    }

    /// The next slice of a task's kernel entry.
    pub fn resume(&mut self, now: Nanos, cpu: CpuId, task: TaskId) -> Reply {
        self.fire(now);
        self.machine.begin(&mut self.mm, now, cpu.index());
        let slot = self.entries.get_mut(task.index());
        let Some(entry) = slot.and_then(Option::as_mut) else {
            return Reply::Done { cpu: Nanos::ZERO };
        };
        let reply = entry.run(&mut self.mm, &mut self.machine);
        self.machine.in_fault = false;
        if !matches!(reply, Reply::Continue { .. } | Reply::Wait { .. }) {
            self.entries[task.index()] = None;
        }
        self.wake_kswapd();
        reply
    }

    /// When the kernel wants to run on its own (I/O that ends, kswapd, workers).
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.machine.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Runs what is due.
    pub fn fire(&mut self, now: Nanos) {
        while let Some(&Reverse((at, _, event))) = self.machine.events.peek()
            && at <= now
        {
            self.machine.events.pop();
            self.machine.begin(&mut self.mm, at, self.machine.cpu);
            match event {
                Event::ReadEnd(id) => self.machine.read_ended(&mut self.mm, FolioId(id)),
                Event::WriteEnd(id, cpu) => {
                    self.machine.write_ended(&mut self.mm, FolioId(id), cpu);
                }
                Event::Kswapd(node) => self.run_kswapd(node),
                Event::PoolWorker => self.machine.run_worker(&mut self.mm),
            }
        }
    }

    /// Counters of a cgroup and all below it; of the root, those of the machine.
    #[must_use]
    pub fn vmstat(&self, memcg: MemcgId) -> &Counters {
        self.mm.counters(memcg)
    }

    /// Folios of an order, 0..=9, that went out or came in while there is zswap.
    #[must_use]
    pub fn order_stats(&self, order: u8) -> Option<OrderStats> {
        let orders = self.machine.zswap.as_ref()?.orders();
        orders.get(usize::from(order)).copied()
    }

    /// Pages of zswap's pool now, and objects that its shrinkers put off.
    #[must_use]
    pub fn pool_and_deferred(&self) -> (u64, u64) {
        let zswap = self.machine.zswap.as_ref();
        zswap.map_or((0, 0), |zswap| {
            (zswap.pool_pages().0, zswap.work().deferred)
        })
    }

    /// The pool and its shrinkers, weighted with time.
    #[must_use]
    pub fn gauges(&self) -> GaugeMeans {
        self.machine.gauges.means()
    }

    /// Pages that zswap gave to a compressor.
    #[must_use]
    pub fn compressions(&self) -> u64 {
        self.machine.compressions
    }

    /// `memory.current` of a cgroup.
    #[must_use]
    pub fn usage(&self, memcg: MemcgId) -> Pages {
        self.mm.memcgs.usage(memcg)
    }

    /// `memory.swap.current` of a cgroup.
    #[must_use]
    pub fn swap_usage(&self, memcg: MemcgId) -> Pages {
        self.mm.memcgs.swap(memcg)
    }

    /// `memory.zswap.current` of a cgroup.
    #[must_use]
    pub fn zswap_usage(&self, memcg: MemcgId) -> Bytes {
        self.mm.memcgs.zswap_bytes(memcg)
    }

    /// Pages zswap's pool takes.
    #[must_use]
    pub fn pool_pages(&self) -> Pages {
        self.machine
            .zswap
            .as_ref()
            .map_or(Pages::ZERO, |zswap| zswap.pool_pages())
    }

    /// zswap itself, for its statistics.
    #[must_use]
    pub fn zswap(&self) -> Option<&neap_policy::Zswap> {
        self.machine.zswap.as_ref()
    }

    /// The lists and cgroups, for a look inside.
    #[must_use]
    pub fn mm(&self) -> &Mm {
        &self.mm
    }

    /// Puts what waits in per-CPU batches onto lists, and gives back stocks of charges
    /// (kernel: lru_add_drain_all, drain_all_stock).
    pub fn drain(&mut self) {
        self.machine.drain_all(&mut self.mm);
        self.mm.memcgs.drain_stocks(MemcgId::ROOT);
    }
}

#[cfg(test)]
mod hints_tests;
#[cfg(test)]
mod readahead_tests;
#[cfg(test)]
mod switch_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod zswap_tests;
