//! zswap within the imagined kernel: who pays, who writes back, and when.

use neap_policy::{Counter, FullPool, PoolWorkerVersion, Switches};

use super::tests::finish;
use super::*;
use crate::compress::PageModel;

fn machine(pool_percent: u8, switches: Switches) -> KernelConfig {
    KernelConfig {
        ram: Bytes::mib(64),
        switches,
        swap: Some(SwapConfig {
            size: Bytes::mib(64),
            latency: Nanos::micros(80),
            synchronous: false,
        }),
        zswap: Some(ZswapConfig {
            max_pool_percent: pool_percent,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        contents: vec![PageModel::fixed(2000, Nanos(5_000), Nanos(2_000))],
        ..KernelConfig::default()
    }
}

struct Job {
    kernel: Kernel,
    memcg: MemcgId,
    space: SpaceId,
}

/// A job that goes over 6,000 pages in a cgroup of 2,000.
fn job(config: &KernelConfig) -> Job {
    let mut kernel = Kernel::new(config);
    let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
    let limits = Limits {
        max: Some(Pages(2000)),
        ..Limits::default()
    };
    kernel.set_limits(memcg, limits);
    let space = kernel.create_space(memcg);
    let start = kernel.map(space, Area::anon(Pages(6000)));
    let mut now = Nanos::ZERO;
    for n in 0..20_000u64 {
        let page = start + Pages(n * 7919 % 6000);
        let write = n % 3 == 0;
        let op = Op::Touch { space, page, write };
        let (reply, at) = finish(&mut kernel, op, now);
        assert!(matches!(reply, Reply::Done { .. }), "{n} {reply:?}");
        now = at;
    }
    if let Some(zswap) = kernel.zswap() {
        zswap.check();
    }
    Job {
        kernel,
        memcg,
        space,
    }
}

fn latest() -> Switches {
    Switches {
        pool_worker: PoolWorkerVersion::WLatest,
        ..Switches::of_kernel((6, 18), false)
    }
}

#[test]
fn the_entries_of_a_cgroup_that_goes_pass_to_its_parent() {
    let Job {
        mut kernel,
        memcg,
        space,
    } = job(&machine(50, latest()));
    let (bytes, usage) = (kernel.zswap_usage(memcg), kernel.usage(MemcgId::ROOT));
    assert!(bytes > Bytes::ZERO);
    kernel.remove_memcg(memcg);
    assert_eq!(kernel.zswap_usage(memcg), Bytes::ZERO);
    assert_eq!(kernel.zswap_usage(MemcgId::ROOT), bytes);
    assert!(kernel.usage(MemcgId::ROOT).0.abs_diff(usage.0) <= 1);
    kernel.exit_space(space);
    kernel.drain();
    assert_eq!(kernel.zswap_usage(MemcgId::ROOT), Bytes::ZERO);
    assert_eq!(kernel.usage(MemcgId::ROOT), Pages::ZERO);
}

#[test]
fn with_version_1_of_cgroups_nobody_pays_and_the_shrinker_finds_nothing() {
    let paid = job(&machine(50, latest()));
    let free = job(&KernelConfig {
        zswap_charged: false,
        ..machine(50, latest())
    });
    assert!(paid.kernel.zswap_usage(paid.memcg) > Bytes::ZERO);
    assert!(paid.kernel.vmstat(paid.memcg)[Counter::Zswpwb] > 0);
    let counters = free.kernel.vmstat(free.memcg);
    assert_eq!(free.kernel.zswap_usage(free.memcg), Bytes::ZERO);
    assert_eq!(counters[Counter::Zswpwb], 0);
    assert_eq!(counters[Counter::SlabsScanned], 0);
    assert!(counters[Counter::Zswpout] > 1000);
}

#[test]
fn a_full_pool_sends_the_newest_page_out_or_trades_it_for_the_oldest() {
    let run = |full_pool| {
        let job = job(&KernelConfig {
            zswap_charged: false,
            ..machine(
                10,
                Switches {
                    full_pool,
                    ..latest()
                },
            )
        });
        let counters = job.kernel.vmstat(job.memcg);
        let refused = counters[Counter::Pswpout] - counters[Counter::Zswpwb];
        (refused, counters[Counter::Zswpwb])
    };
    let (refused, _) = run(FullPool::Refuse);
    assert!(refused > 200, "{refused}");
    let (refused, traded) = run(FullPool::Trade);
    assert!(refused * 20 < traded, "{refused} refused, {traded} traded");
}
