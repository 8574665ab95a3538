//! The simulator: accesses that it makes in a second of one core, and memory that it takes for a page.
//!
//! Times are of the processor, not of the wall, so that other work on the machine does not count. `present` is
//! a task that has its pages; `reclaim` has room for three quarters of them, so that the rest faults, is
//! compressed and read back. The memory is by how much the anonymous memory of this process grows for a task of
//! 1 GiB, half of which is out, on a machine with as much swap: when the task has touched all once, and when
//! every slot has been used.
#![forbid(unsafe_code)]

use std::fs;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use neap_sim::{
    Area, Bytes, Clockwork, KernelConfig, Limits, Load, Machine, MemcgId, Nanos, Pattern,
    SwapConfig, Walker, ZswapConfig,
};
use neap_units::Pages;

/// The task's memory: 256 MiB.
const PAGES: u64 = 65_536;
/// Simulated time within which it has touched every page.
const WARM: Nanos = Nanos(2_000_000_000);
/// Simulated time between two looks at the count.
const STEP: Nanos = Nanos(10_000_000);

/// Time this thread had a processor.
fn cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

/// Simulated time within which that of the memory has used every slot.
const USED: Nanos = Nanos(10_000_000_000);

/// Anonymous memory of this process, in bytes: what the program's own code takes is no machine's.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

/// Prints what the simulator takes for each page of a task.
fn memory() {
    const LARGE: u64 = 4 * PAGES;
    let before = resident();
    let (mut machine, _) = machine(Pattern::Sequential, LARGE, Some(Pages(LARGE / 2)));
    let each = || resident().saturating_sub(before) as f64 / LARGE as f64;
    let first = each();
    machine.run_until(USED);
    let all = each();
    println!(
        "sim/memory: {first:.1} bytes for each simulated page, the machine's frame included; {all:.1} \
         once every slot was used"
    );
}

/// A machine on which one task touches its memory without end, and where its touches are counted.
fn machine(pattern: Pattern, pages: u64, limit: Option<Pages>) -> (Machine, usize) {
    let config = KernelConfig {
        ram: Bytes::gib(4),
        swap: Some(SwapConfig {
            size: Bytes::from(Pages(pages)),
            latency: Nanos::micros(100),
            synchronous: false,
        }),
        zswap: Some(ZswapConfig {
            max_pool_percent: 20,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        ..KernelConfig::default()
    };
    let mut machine = Machine::new(&config, Clockwork::default());
    let memcg = machine.kernel().create_memcg(MemcgId::ROOT, "task");
    let limits = Limits {
        max: limit,
        ..Limits::default()
    };
    machine.kernel().set_limits(memcg, limits);
    let done = machine.shared().make(0);
    let area = Area::anon(Pages(pages));
    let load = Load {
        populate: true,
        done: Some(done),
        ..Load::new(memcg, area, Walker::new(pattern, pages))
    };
    machine.spawn(load.program(), Nanos::ZERO, false);
    machine.run_until(WARM);
    (machine, done)
}

fn accesses(c: &mut Criterion) {
    memory();
    let mut group = c.benchmark_group("sim");
    group.throughput(Throughput::Elements(1)).sample_size(20);
    let patterns = [
        ("sequential", Pattern::Sequential),
        ("random", Pattern::Random),
        ("zipf", Pattern::Zipf(1.0)),
    ];
    for (memory, limit) in [("present", None), ("reclaim", Some(Pages(PAGES * 3 / 4)))] {
        for (name, pattern) in patterns {
            let (mut machine, done) = machine(pattern, PAGES, limit);
            group.bench_function(BenchmarkId::new(memory, name), |b| {
                b.iter_custom(|wanted| {
                    let (first, begun) = (machine.shared().get(done), cpu_time());
                    let mut made = 0;
                    while made < wanted {
                        let next = Nanos(machine.now().0 + STEP.0);
                        machine.run_until(next);
                        made = machine.shared().get(done) - first;
                    }
                    let took = cpu_time().saturating_sub(begun).as_secs_f64();
                    Duration::from_secs_f64(took * wanted as f64 / made as f64)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, accesses);
criterion_main!(benches);
