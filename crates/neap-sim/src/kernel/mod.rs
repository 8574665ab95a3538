//! The imagined kernel: all state of the machine's memory, without a clock of its own.
//!
//! A task enters with an [`Op`]; the [`Reply`] says how much CPU time that took and whether
//! to come back. Nothing happens between calls: whoever owns the clock calls
//! [`Kernel::fire`] when [`Kernel::next_event`] is due.

mod config;
mod ids;
mod space;

pub use config::{Costs, KernelConfig, Limits, SwapConfig, ZswapConfig};
pub use ids::{CpuId, FileId, MemcgId, NodeId, ShmemId, SpaceId, TaskId};
use neap_policy::{Counter, Counters};
use neap_units::{Bytes, Nanos, PageNr, Pages};
use space::Space;
pub use space::{Advice, Area, AreaKind};

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

struct Memcg {
    parent: Option<MemcgId>,
    name: String,
    limits: Limits,
    counters: Counters,
    online: bool,
}

/// The memory of one machine and all that manages it.
pub struct Kernel {
    config: KernelConfig,
    memcgs: Vec<Memcg>,
    spaces: Vec<Option<Space>>,
    files: Vec<Pages>,
    shmems: Vec<Pages>,
}

impl Kernel {
    /// An empty machine with a root cgroup.
    #[must_use]
    pub fn new(config: &KernelConfig) -> Kernel {
        let mut kernel = Kernel {
            config: config.clone(),
            memcgs: Vec::new(),
            spaces: Vec::new(),
            files: Vec::new(),
            shmems: Vec::new(),
        };
        kernel.push_memcg(None, "/");
        kernel
    }

    fn push_memcg(&mut self, parent: Option<MemcgId>, name: &str) -> MemcgId {
        self.memcgs.push(Memcg {
            parent,
            name: name.to_owned(),
            limits: Limits::default(),
            counters: Counters::default(),
            online: true,
        });
        MemcgId(self.memcgs.len() as u32 - 1)
    }

    /// Makes a cgroup below `parent`.
    pub fn create_memcg(&mut self, parent: MemcgId, name: &str) -> MemcgId {
        self.push_memcg(Some(parent), name)
    }

    /// Takes a cgroup without tasks offline; what it still has stays charged to it.
    pub fn remove_memcg(&mut self, memcg: MemcgId) {
        self.memcgs[memcg.index()].online = false;
    }

    /// Name of a cgroup.
    #[must_use]
    pub fn memcg_name(&self, memcg: MemcgId) -> &str {
        &self.memcgs[memcg.index()].name
    }

    /// Sets the limits of a cgroup.
    pub fn set_limits(&mut self, memcg: MemcgId, limits: Limits) {
        self.memcgs[memcg.index()].limits = limits;
    }

    /// Makes an empty address space whose memory is charged to `memcg`.
    pub fn create_space(&mut self, memcg: MemcgId) -> SpaceId {
        self.spaces.push(Some(Space::new(memcg)));
        SpaceId(self.spaces.len() as u32 - 1)
    }

    /// Makes a file of this length; its pages are on disk and clean.
    pub fn create_file(&mut self, len: Pages) -> FileId {
        self.files.push(len);
        FileId(self.files.len() as u32 - 1)
    }

    /// Makes an object of shared anonymous memory.
    pub fn create_shmem(&mut self, len: Pages) -> ShmemId {
        self.shmems.push(len);
        ShmemId(self.shmems.len() as u32 - 1)
    }

    /// Maps an area and returns its first page.
    pub fn map(&mut self, space: SpaceId, area: Area) -> PageNr {
        self.space(space).map(area)
    }

    /// Unmaps the area that starts at `start`.
    pub fn unmap(&mut self, space: SpaceId, start: PageNr) {
        self.space(space).areas.retain(|m| m.start != start.0);
    }

    /// Changes the hint of the area that starts at `start`.
    pub fn advise(&mut self, space: SpaceId, start: PageNr, advice: Advice) {
        if let Some(mapped) = self.space(space).find(start) {
            mapped.area.advice = advice;
        }
    }

    /// Copies an address space; private memory is shared until one side writes.
    pub fn fork(&mut self, space: SpaceId) -> SpaceId {
        let copy = self.space(space).clone();
        self.spaces.push(Some(copy));
        SpaceId(self.spaces.len() as u32 - 1)
    }

    /// Ends an address space.
    pub fn exit_space(&mut self, space: SpaceId) {
        self.spaces[space.index()] = None;
    }

    fn space(&mut self, space: SpaceId) -> &mut Space {
        let slot = self.spaces.get_mut(space.index()).and_then(Option::as_mut);
        slot.expect("the space exists")
    }

    /// A touch of a present page: whether it was one. The fast way before [`Kernel::enter`].
    #[inline]
    pub fn hit(&mut self, space: SpaceId, page: PageNr, write: bool) -> bool {
        let Some(mapped) = self.space(space).find(page) else {
            return false;
        };
        let at = page.0 - mapped.start;
        let (word, bit) = ((at / 64) as usize, 1 << (at % 64));
        if mapped.present[word] & bit == 0 {
            return false;
        }
        mapped.accessed[word] |= bit;
        if write {
            mapped.dirty[word] |= bit;
        }
        true
    }

    /// A task enters the kernel. Whatever `Op::Touch` hits needs no second call.
    pub fn enter(&mut self, _now: Nanos, _cpu: CpuId, _task: TaskId, op: Op) -> Reply {
        let costs = self.config.costs;
        match op {
            Op::Touch { space, page, write } => {
                if self.hit(space, page, write) {
                    return Reply::Done { cpu: costs.hit };
                }
                self.first_touch(space, page);
                self.hit(space, page, write);
                Reply::Done {
                    cpu: costs.fault + costs.clear,
                }
            }
            Op::FileIo { .. } => Reply::Done { cpu: costs.io },
            Op::Reclaim { .. } => Reply::Again { cpu: costs.visit },
        }
    }

    fn first_touch(&mut self, space: SpaceId, page: PageNr) {
        let memcg = self.space(space).memcg;
        let mapped = self.space(space).find(page);
        let mapped = mapped.unwrap_or_else(|| panic!("{}", space::outside(space, page)));
        let at = page.0 - mapped.start;
        mapped.present[(at / 64) as usize] |= 1 << (at % 64);
        self.count(memcg, Counter::Pgfault, 1);
    }

    fn count(&mut self, memcg: MemcgId, counter: Counter, n: u64) {
        let mut at = Some(memcg);
        while let Some(id) = at {
            let memcg = &mut self.memcgs[id.index()];
            memcg.counters[counter] += n;
            at = memcg.parent;
        }
    }

    /// The next slice of a task's kernel entry.
    pub fn resume(&mut self, _now: Nanos, _cpu: CpuId, _task: TaskId) -> Reply {
        Reply::Done { cpu: Nanos::ZERO }
    }

    /// When the kernel wants to run on its own (I/O that ends, kswapd, workers).
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// Runs what is due.
    pub fn fire(&mut self, _now: Nanos) {}

    /// Counters of a cgroup and all below it; of the root, those of the machine.
    #[must_use]
    pub fn vmstat(&self, memcg: MemcgId) -> &Counters {
        &self.memcgs[memcg.index()].counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_touch_hits() {
        let mut kernel = Kernel::new(&KernelConfig::default());
        let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
        let space = kernel.create_space(memcg);
        let start = kernel.map(space, Area::anon(Pages(4)));
        assert!(!kernel.hit(space, start, false));
        let op = Op::Touch {
            space,
            page: start,
            write: true,
        };
        kernel.enter(Nanos::ZERO, CpuId(0), TaskId(0), op);
        assert!(kernel.hit(space, start, false));
        assert_eq!(kernel.vmstat(MemcgId::ROOT)[Counter::Pgfault], 1);
        assert_eq!(kernel.memcg_name(memcg), "job");
    }
}
