//! Root `memory.reclaim` over many cgroups that touch shared memory at random (SPEC 7.3
//! and the measurement on Linux 6.12), with a clock of the simplest kind: tasks take turns.

use neap_policy::{Counter, Switches};

use super::*;

/// What is touched, and how reclaim asks.
struct Scenario {
    ram: Bytes,
    cgroups: u32,
    pages: u64,
    /// Touches of each cgroup in a burst, and the time between bursts.
    burst: u64,
    every: Nanos,
    /// Seconds before the first request, between requests, and requests.
    warm: u64,
    between: u64,
    requests: u64,
    request: Bytes,
    cpus: u32,
    /// How much slower than the default costs.
    slow: u64,
}

#[derive(Debug)]
struct Outcome {
    spread: f64,
    ratio: f64,
    scan_per_steal: f64,
    refaults: u64,
    again: u64,
    visited: u64,
    aged: u64,
    touches: u64,
}

impl Scenario {
    /// The machine of the measurement.
    fn linux_6_12() -> Scenario {
        Scenario {
            ram: Bytes::mib(2600),
            cgroups: 64,
            pages: 4096,
            burst: 68,
            every: Nanos::millis(50),
            warm: 20,
            between: 1,
            requests: 60,
            request: Bytes::mib(8),
            cpus: 2,
            slow: 1,
        }
    }

    /// The seed's machine, with a sixteenth of its pages and of its rates.
    fn seed(scale: u64) -> Scenario {
        Scenario {
            ram: Bytes(Bytes::gib(512).0 / scale),
            cgroups: 128,
            pages: 491_520 / scale,
            burst: 32_768 / scale / 4,
            every: Nanos::millis(250),
            warm: 60,
            between: 6,
            requests: 100,
            request: Bytes(Bytes::mib(256).0 / scale),
            cpus: 64,
            slow: 1,
        }
    }

    fn run(&self, switches: Switches, seed: u64) -> Outcome {
        let mut config = KernelConfig {
            ram: self.ram,
            switches,
            seed,
            cpus: self.cpus,
            ..KernelConfig::default()
        };
        let slow = self.slow;
        let c = &mut config.costs;
        for cost in [
            &mut c.scan,
            &mut c.unmap,
            &mut c.visit,
            &mut c.io,
            &mut c.walk_word,
            &mut c.fault,
            &mut c.clear,
        ] {
            cost.0 *= slow;
        }
        config.swap = Some(SwapConfig {
            size: Bytes(self.ram.0 / 2),
            latency: Nanos(500),
            synchronous: true,
        });
        let mut kernel = Kernel::new(&config);
        let tasks: Vec<_> = (0..self.cgroups)
            .map(|n| {
                let memcg = kernel.create_memcg(MemcgId::ROOT, "g");
                let space = kernel.create_space(memcg);
                let id = kernel.create_shmem(Pages(self.pages));
                let start = kernel.map(space, Area::shmem(id, Pages(self.pages)));
                (memcg, space, start, n)
            })
            .collect();
        let mut now = Nanos::ZERO;
        for &(_, space, start, n) in &tasks {
            for page in 0..self.pages {
                step(
                    &mut kernel,
                    &mut now,
                    n,
                    self.cpus,
                    Op::Touch {
                        space,
                        page: start + Pages(page),
                        write: true,
                    },
                );
            }
        }
        let mut clock = Clock {
            bursts: 0,
            start: now,
            touches: 0,
            state: seed,
        };
        let mut again = 0;
        for _ in 0..self.requests {
            let gap = if clock.bursts == 0 {
                self.warm
            } else {
                self.between
            };
            now += Nanos(gap * 1_000_000_000);
            clock.touch_until(now, self, &mut kernel, &tasks);
            let op = Op::Reclaim {
                memcg: MemcgId::ROOT,
                bytes: self.request,
                swappiness: None,
            };
            let (cpu, task) = (CpuId(0), TaskId(self.cgroups));
            let mut reply = kernel.enter(now, cpu, task, op);
            while let Reply::Continue { cpu: spent } = reply {
                now += spent;
                clock.touch_until(now, self, &mut kernel, &tasks);
                reply = kernel.resume(now, cpu, task);
            }
            again += u64::from(matches!(reply, Reply::Again { .. }));
        }
        let touches = clock.touches;
        eprintln!("took {:?} s", (now.0 - clock.start.0) / 1_000_000_000);
        self.outcome(&kernel, tasks.iter().map(|t| t.0), again, touches)
    }

    fn outcome(
        &self,
        kernel: &Kernel,
        memcgs: impl Iterator<Item = MemcgId>,
        again: u64,
        touches: u64,
    ) -> Outcome {
        let steals: Vec<f64> = memcgs
            .map(|memcg| kernel.vmstat(memcg).pgsteal() as f64)
            .collect();
        let n = steals.len() as f64;
        let mean = steals.iter().sum::<f64>() / n;
        let variance = steals.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n;
        let root = kernel.vmstat(MemcgId::ROOT);
        for (c, v) in root.iter() {
            if v > 0 {
                eprint!("{}={v} ", c.name());
            }
        }
        eprintln!(
            "inactive {:?} active {:?}",
            kernel
                .mm()
                .size(MemcgId::ROOT, neap_policy::Kind::Anon, false),
            kernel
                .mm()
                .size(MemcgId::ROOT, neap_policy::Kind::Anon, true)
        );
        Outcome {
            spread: variance.sqrt() / mean,
            ratio: mean * n / (self.request.whole_pages().0 * self.requests) as f64,
            scan_per_steal: root.pgscan() as f64 / root.pgsteal() as f64,
            refaults: root[Counter::WorkingsetRefaultAnon],
            again,
            visited: root[Counter::MemcgVisited],
            aged: root[Counter::MglruAged],
            touches,
        }
    }
}

/// Runs an entry to its end; true if it gave up.
fn step(kernel: &mut Kernel, now: &mut Nanos, task: u32, cpus: u32, op: Op) -> bool {
    let (cpu, task) = (CpuId(task % cpus), TaskId(task));
    let mut reply = kernel.enter(*now, cpu, task, op);
    loop {
        match reply {
            Reply::Continue { cpu } => *now += cpu,
            Reply::Wait { cpu, until } => *now = until.max(*now + cpu),
            Reply::Done { cpu } => {
                *now += cpu;
                return false;
            }
            Reply::Again { .. } => return true,
            Reply::Killed { .. } => panic!("killed"),
        }
        reply = kernel.resume(*now, cpu, task);
    }
}

/// Who touches when.
struct Clock {
    bursts: u64,
    start: Nanos,
    touches: u64,
    state: u64,
}

impl Clock {
    fn draw(&mut self, n: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.state >> 16) * u128::from(n)) >> 48) as u64
    }

    /// All bursts that are due. What faults cost is not part of the time between bursts.
    fn touch_until(
        &mut self,
        now: Nanos,
        scenario: &Scenario,
        kernel: &mut Kernel,
        tasks: &[(MemcgId, SpaceId, PageNr, u32)],
    ) {
        let tasks_n = tasks.len() as u64;
        let gap = scenario.every.0 / tasks_n;
        while self.start.0 + (self.bursts + 1) * gap <= now.0 {
            let (_, space, start, n) = tasks[(self.bursts % tasks_n) as usize];
            self.bursts += 1;
            for _ in 0..scenario.burst {
                let page = start + Pages(self.draw(scenario.pages));
                let write = self.draw(2) == 0;
                self.touches += 1;
                if !kernel.hit(space, page, write) {
                    let mut at = now;
                    step(
                        kernel,
                        &mut at,
                        n,
                        scenario.cpus,
                        Op::Touch { space, page, write },
                    );
                }
            }
        }
    }
}

#[test]
#[ignore = "for a look at numbers"]
fn show() {
    for slow in [1, 60, 120] {
        let scenario = Scenario {
            slow,
            ..Scenario::linux_6_12()
        };
        let classic = scenario.run(Switches::of_kernel((6, 12), false), 1);
        eprintln!("6.12 x{slow} classic {classic:?}");
        let mglru = scenario.run(Switches::of_kernel((6, 12), true), 1);
        eprintln!("6.12 x{slow} mglru {mglru:?}");
    }
    for slow in [] {
        let scenario = Scenario {
            slow,
            ..Scenario::seed(64)
        };
        let classic = scenario.run(Switches::of_kernel((6, 2), false), 1);
        eprintln!("seed x{slow} classic {classic:?}");
        let mglru = scenario.run(Switches::of_kernel((6, 3), true), 1);
        eprintln!("seed x{slow} mglru {mglru:?}");
    }
}
