//! Readahead within the imagined kernel: what it reads, and what of it counts for zswap's shrinker.

use neap_policy::{Counter, ShrinkerScheme, SwapinCount, Switches};

use super::tests::finish;
use super::*;

/// A kernel of the old scheme, whose shrinker protects as many entries as it counts swap-ins.
fn old(page_cluster: u32, zswap: bool) -> KernelConfig {
    KernelConfig {
        ram: Bytes::mib(64),
        page_cluster,
        switches: Switches {
            shrinker_scheme: ShrinkerScheme::Old,
            swapin_count: SwapinCount::V69Literal,
            ..Switches::of_kernel((6, 11), false)
        },
        swap: Some(SwapConfig {
            size: Bytes::mib(64),
            latency: Nanos::micros(80),
            synchronous: false,
        }),
        zswap: zswap.then_some(ZswapConfig {
            max_pool_percent: 20,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        ..KernelConfig::default()
    }
}

struct Job {
    kernel: Kernel,
    memcg: MemcgId,
    space: SpaceId,
    now: Nanos,
}

impl Job {
    fn new(config: &KernelConfig) -> Job {
        let mut kernel = Kernel::new(config);
        let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
        let space = kernel.create_space(memcg);
        Job {
            kernel,
            memcg,
            space,
            now: Nanos::ZERO,
        }
    }

    fn touch(&mut self, page: PageNr) {
        let op = Op::Touch {
            space: self.space,
            page,
            write: true,
        };
        let (reply, now) = finish(&mut self.kernel, op, self.now);
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
        self.now = now;
    }

    /// Has everything reclaimed that the cgroup has.
    fn evict(&mut self) {
        let op = Op::Reclaim {
            memcg: self.memcg,
            bytes: Bytes::mib(1),
            swappiness: None,
        };
        self.now = finish(&mut self.kernel, op, self.now).1 + Nanos::millis(10);
        self.kernel.fire(self.now);
        self.now = finish(&mut self.kernel, op, self.now).1;
        assert_eq!(self.kernel.mm.folios.live(), 0, "something stays");
    }

    fn counted(&self) -> u64 {
        let list = self.kernel.mm.lruvec_of(self.memcg, 0);
        let zswap = self.kernel.zswap().expect("a zswap");
        zswap.list_state(list).protected_or_disk_swapins
    }
}

#[test]
fn a_page_that_a_window_held_is_not_counted_though_it_was_the_only_one_there() {
    for (page_cluster, counted) in [(3, 0), (0, 1)] {
        let mut job = Job::new(&old(page_cluster, true));
        let start = job.kernel.map(job.space, Area::anon(Pages(16)));
        job.touch(start + Pages(8));
        job.evict();
        job.touch(start + Pages(8));
        let counters = job.kernel.vmstat(job.memcg);
        assert_eq!(
            (counters[Counter::Zswpin], counters[Counter::SwapRa]),
            (1, 0)
        );
        assert_eq!(job.counted(), counted, "window of 2^{page_cluster}");
    }
}

#[test]
fn readahead_makes_room_at_the_limit_as_the_fault_does() {
    let mut job = Job::new(&old(3, false));
    let start = job.kernel.map(job.space, Area::anon(Pages(16)));
    (0..16).for_each(|page| job.touch(start + Pages(page)));
    job.evict();
    let other = job.kernel.map(job.space, Area::anon(Pages(100)));
    (0..100).for_each(|page| job.touch(other + Pages(page)));
    job.kernel.drain();
    let limits = Limits {
        max: Some(job.kernel.usage(job.memcg) + Pages(1)),
        ..Limits::default()
    };
    job.kernel.set_limits(job.memcg, limits);
    job.touch(start + Pages(8));
    let counters = job.kernel.vmstat(job.memcg);
    assert_eq!(counters[Counter::SwapRa], 7, "of a window of 8");
    super::tests::teardown(job.kernel, &[job.space]);
}
