//! The imagined kernel, with the switches of the one the check runs on.

use std::io;

use neap_policy::{Lru, MemcgWalk, Switches};
use neap_sim::{
    Area, Costs, CpuId, DeviceConfig, Kernel, KernelConfig, Limits, MemcgId, Op, PageModel, Reply,
    SpaceId, SwapConfig, TaskId, ZswapConfig,
};
use neap_units::{Bytes, Nanos, PageNr, Pages};

use crate::pattern::{Pattern, Stream, THINK};
use crate::{COUNTERS, Counts, Setting};

/// Times of the machine of the check, taken on it by other means: CPU time of the child
/// with zswap off and on, with more memory than it fills and less, and of a byte sent to
/// another CPU and back. A fault took 1.65 us, an eviction 3.4 us by the disk and as much by
/// zswap, the way to the other CPU 22 us. How an eviction is split between looking at three
/// folios, unmapping one and submitting it is chosen.
const COSTS: Costs = Costs {
    hit: Nanos(2),
    fault: Nanos(1_400),
    clear: Nanos(250),
    scan: Nanos(60),
    unmap: Nanos(400),
    walk_word: Nanos(40),
    promote: Nanos(100),
    visit: Nanos(500),
    io: Nanos(2_800),
    wake: Nanos(22_000),
    slice: Nanos(50_000),
};

/// One node, two CPUs, and swap on a virtual disk that says it rotates, takes 650 MB/s and
/// has 256 requests (queue/nr_requests).
fn config(setting: &Setting) -> KernelConfig {
    let device = DeviceConfig {
        read_latency: Nanos::micros(100),
        write_latency: Nanos::micros(100),
        bandwidth: Bytes::mib(620),
        depth: 64,
        requests: 256,
        rotating: true,
        ..DeviceConfig::nvme()
    };
    KernelConfig {
        ram: Bytes::mib(setting.ram_mib),
        nodes: 1,
        cpus: 2,
        switches: Switches {
            lru: Lru::Classic,
            memcg_walk: MemcgWalk::PartialCookie,
            ..Switches::of_kernel((6, 18), false)
        },
        swap: Some(SwapConfig {
            size: Bytes::mib(setting.swap_mib),
            latency: device.read_latency,
            synchronous: false,
        }),
        swap_device: Some(device),
        zswap: Some(ZswapConfig {
            max_pool_percent: setting.pool_percent,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        contents: vec![PageModel::fixed(
            setting.compressed,
            Nanos(2_000),
            Nanos(1_000),
        )],
        batch: 31,
        zswap_charged: false,
        prefer_nonfull: setting.prefer_nonfull,
        costs: COSTS,
        ..KernelConfig::default()
    }
}

/// A task that is the only one, and the clock that goes with it.
struct Run {
    kernel: Kernel,
    space: SpaceId,
    start: PageNr,
    now: Nanos,
}

impl Run {
    fn touch(&mut self, page: u64, write: bool) -> io::Result<()> {
        self.now += THINK;
        let page = PageNr(self.start.0 + page);
        let (cpu, task) = (CpuId(0), TaskId(0));
        if self.kernel.hit(self.space, page, write) {
            return Ok(());
        }
        let op = Op::Touch {
            space: self.space,
            page,
            write,
        };
        self.catch_up();
        let mut reply = self.kernel.enter(self.now, cpu, task, op);
        loop {
            match reply {
                Reply::Done { cpu } | Reply::Again { cpu } => {
                    self.now += cpu;
                    return Ok(());
                }
                Reply::Continue { cpu } => self.now += cpu,
                Reply::Wait { cpu, until } => self.now = until.max(self.now + cpu),
                Reply::Killed { .. } => return Err(io::Error::other("killed for want of memory")),
            }
            self.catch_up();
            reply = self.kernel.resume(self.now, cpu, task);
        }
    }

    fn catch_up(&mut self) {
        while let Some(at) = self.kernel.next_event()
            && at <= self.now
        {
            self.kernel.fire(at);
        }
    }

    fn counts(&self) -> Counts {
        let vmstat = self.kernel.vmstat(MemcgId::ROOT);
        Counts(std::array::from_fn(|at| {
            let found = vmstat.iter().find(|(c, _)| c.name() == COUNTERS[at]);
            found.map_or(0, |(_, value)| value)
        }))
    }
}

/// Runs a pattern in the simulator. Returns the counters of its filling and of its run.
pub fn run(setting: &Setting, pattern: Pattern) -> io::Result<(Counts, Counts)> {
    let mut kernel = Kernel::new(&config(setting));
    let memcg = kernel.create_memcg(MemcgId::ROOT, "check");
    kernel.set_limits(
        memcg,
        Limits {
            max: Some(Pages(setting.limit_mib * 256)),
            ..Limits::default()
        },
    );
    let space = kernel.create_space(memcg);
    let pages = setting.mib * 256;
    let start = kernel.map(space, Area::anon(Pages(pages)));
    let mut run = Run {
        kernel,
        space,
        start,
        now: Nanos::ZERO,
    };
    for page in 0..pages {
        run.touch(page, true)?;
    }
    let filled = run.counts();
    for (page, write) in Stream::new(pattern, pages, setting.accesses, setting.seed) {
        run.touch(page, write)?;
    }
    Ok((filled, run.counts().since(&filled)))
}
