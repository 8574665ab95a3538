use neap_policy::{Counter, Lru, MemcgWalk, Switches};

use super::*;
use crate::compress::PageModel;

fn touch(kernel: &mut Kernel, space: SpaceId, page: PageNr, write: bool) -> Reply {
    let op = Op::Touch { space, page, write };
    finish(kernel, op, Nanos::ZERO).0
}

/// Runs an entry to its end, waiting where it waits.
pub(super) fn finish(kernel: &mut Kernel, op: Op, mut now: Nanos) -> (Reply, Nanos) {
    let (cpu, task) = (CpuId(0), TaskId(0));
    let mut reply = kernel.enter(now, cpu, task, op);
    for slices in 0.. {
        assert!(slices < 1_000_000, "{op:?} never ends: {reply:?}");
        match reply {
            Reply::Continue { cpu: spent } => now += spent,
            Reply::Wait { cpu: spent, until } => now = until.max(now + spent),
            other => return (other, now),
        }
        kernel.fire(now);
        reply = kernel.resume(now, cpu, task);
    }
    unreachable!("the loop returns")
}

#[test]
fn a_second_touch_hits() {
    let mut kernel = Kernel::new(&KernelConfig::default());
    let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
    let space = kernel.create_space(memcg);
    let start = kernel.map(space, Area::anon(Pages(4)));
    assert!(!kernel.hit(space, start, false));
    touch(&mut kernel, space, start, true);
    assert!(kernel.hit(space, start, true));
    assert_eq!(kernel.vmstat(MemcgId::ROOT)[Counter::Pgfault], 1);
    assert_eq!(kernel.memcg_name(memcg), "job");
}

/// A machine with a RAM disk as swap.
fn machine(ram: Bytes, switches: Switches) -> KernelConfig {
    KernelConfig {
        ram,
        switches,
        swap: Some(SwapConfig {
            size: ram,
            latency: Nanos(500),
            synchronous: true,
        }),
        ..KernelConfig::default()
    }
}

/// Charges, lists, generations and the memcg LRU agree; after teardown nothing is left.
pub(super) fn teardown(mut kernel: Kernel, spaces: &[SpaceId]) {
    kernel.drain();
    kernel.mm.check();
    let all: u64 = kernel.machine.used.iter().sum();
    let pool = kernel.mm.memcgs.usage(MemcgId::ROOT).0 - all;
    assert!(pool <= kernel.zswap_usage(MemcgId::ROOT).0.div_ceil(4096) + 64);
    for &space in spaces {
        kernel.exit_space(space);
    }
    for object in kernel.machine.shmems.clone() {
        kernel.machine.remove_pages(&mut kernel.mm, object);
    }
    kernel.fire(Nanos(u64::MAX));
    kernel.drain();
    kernel.mm.check();
    assert_eq!(kernel.mm.folios.live(), 0, "folios");
    assert_eq!(kernel.usage(MemcgId::ROOT), Pages::ZERO, "charges");
    assert_eq!(
        kernel.swap_usage(MemcgId::ROOT),
        Pages::ZERO,
        "slots charged"
    );
    assert_eq!(
        kernel.zswap_usage(MemcgId::ROOT),
        Bytes::ZERO,
        "bytes in the pool"
    );
    let free = kernel
        .machine
        .swap
        .as_ref()
        .map_or(Pages::ZERO, |swap| swap.free());
    assert_eq!(kernel.mm.free_swap, free);
    if let Some(swap) = &kernel.machine.swap {
        assert_eq!(swap.slots.used(), Pages::ZERO, "slots");
    }
}

fn kernels() -> impl Iterator<Item = Switches> {
    let of = |lru, memcg_walk| Switches {
        lru,
        memcg_walk,
        ..Switches::default()
    };
    Lru::ALL
        .iter()
        .flat_map(move |&lru| MemcgWalk::ALL.iter().map(move |&walk| of(lru, walk)))
}

#[test]
fn a_cgroup_lives_within_its_max_on_every_kernel() {
    for switches in kernels() {
        let mut kernel = Kernel::new(&machine(Bytes::mib(64), switches));
        let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
        kernel.set_limits(
            memcg,
            Limits {
                max: Some(Pages(1000)),
                ..Limits::default()
            },
        );
        let space = kernel.create_space(memcg);
        let start = kernel.map(space, Area::anon(Pages(1500)));
        for round in 0..3 {
            for page in 0..1500 {
                let reply = touch(&mut kernel, space, start + Pages(page), true);
                assert!(
                    matches!(reply, Reply::Done { .. }),
                    "{switches:?} {round} {page} {reply:?}"
                );
                assert!(kernel.usage(memcg) <= Pages(1000));
            }
        }
        let counters = kernel.vmstat(memcg);
        assert!(
            counters[Counter::Pswpout] >= 1500 && counters[Counter::Pswpin] >= 1000,
            "{switches:?}"
        );
        assert!(counters[Counter::PgstealDirect] >= 3500 / 2);
        teardown(kernel, &[space]);
    }
}

#[test]
fn above_swap_high_a_task_is_throttled_and_each_time_counts() {
    let mut kernel = Kernel::new(&machine(Bytes::mib(64), Switches::default()));
    let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
    let limits = Limits {
        max: Some(Pages(1000)),
        swap_high: Some(Pages(200)),
        ..Limits::default()
    };
    kernel.set_limits(memcg, limits);
    let space = kernel.create_space(memcg);
    let start = kernel.map(space, Area::anon(Pages(1500)));
    let mut now = Nanos::ZERO;
    for page in 0..1500 {
        let page = start + Pages(page);
        let op = Op::Touch {
            space,
            page,
            write: true,
        };
        now = finish(&mut kernel, op, now).1;
    }
    assert!(now > Nanos::millis(10), "waited {now}");
    let counters = kernel.vmstat(memcg);
    assert!(counters[Counter::MemcgSwapHigh] > 0);
    assert_eq!(counters[Counter::MemcgHigh], 0);
    teardown(kernel, &[space]);
}

#[test]
fn global_pressure_wakes_kswapd_and_keeps_everyone_alive() {
    for switches in kernels() {
        let mut config = machine(Bytes::mib(32), switches);
        config.swap.as_mut().unwrap().size = Bytes::mib(64);
        let mut kernel = Kernel::new(&config);
        let mut spaces = Vec::new();
        for n in 0..4 {
            let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
            let space = kernel.create_space(memcg);
            let id = kernel.create_shmem(Pages(3000));
            let start = kernel.map(space, Area::shmem(id, Pages(3000)));
            spaces.push((space, start, n));
        }
        let mut now = Nanos::ZERO;
        let mut state = 1u64;
        for _ in 0..40_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (space, start, _) = spaces[(state >> 40) as usize % 4];
            let page = start + Pages((state >> 33) % 3000);
            let op = Op::Touch {
                space,
                page,
                write: state >> 63 != 0,
            };
            let (reply, at) = finish(&mut kernel, op, now);
            now = at + Nanos(1000);
            assert!(
                matches!(reply, Reply::Done { .. }),
                "{switches:?} {reply:?}"
            );
        }
        let counters = kernel.vmstat(MemcgId::ROOT);
        assert!(counters[Counter::PgstealKswapd] > 0, "{switches:?}");
        assert!(counters[Counter::WorkingsetRefaultAnon] > 0, "{switches:?}");
        let spaces: Vec<_> = spaces.iter().map(|space| space.0).collect();
        teardown(kernel, &spaces);
    }
}

#[test]
fn zswap_keeps_pages_and_passes_on_cold_ones() {
    for synchronous in [false, true] {
        let mut config = machine(Bytes::mib(64), Switches::default());
        config.swap = Some(SwapConfig {
            size: Bytes::mib(128),
            latency: Nanos::micros(80),
            synchronous,
        });
        config.zswap = Some(ZswapConfig {
            max_pool_percent: 5,
            accept_threshold_percent: 90,
            shrinker: true,
        });
        config.contents = vec![PageModel::fixed(2000, Nanos(5000), Nanos(2000))];
        let mut kernel = Kernel::new(&config);
        let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
        kernel.set_limits(
            memcg,
            Limits {
                max: Some(Pages(2000)),
                ..Limits::default()
            },
        );
        let space = kernel.create_space(memcg);
        let start = kernel.map(space, Area::anon(Pages(6000)));
        let mut now = Nanos::ZERO;
        let mut state = 1u64;
        for n in 0..20_000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let page = start + Pages((state >> 33) % 6000);
            let (reply, at) = finish(
                &mut kernel,
                Op::Touch {
                    space,
                    page,
                    write: n % 3 == 0,
                },
                now,
            );
            now = at;
            assert!(matches!(reply, Reply::Done { .. }), "{n} {reply:?}");
        }
        let c = kernel.vmstat(memcg).clone();
        assert!(c[Counter::Zswpout] > 1000 && c[Counter::Zswpin] > 500);
        assert!(c[Counter::Zswpwb] > 100 && c[Counter::Pswpout] >= c[Counter::Zswpwb]);
        assert!(c[Counter::Pgmajfault] >= c[Counter::Zswpin] / 8);
        let stored = kernel.mm.memcgs.zswapped(memcg);
        assert!(c[Counter::Zswpout] >= c[Counter::Zswpin] + c[Counter::Zswpwb] + stored);
        teardown(kernel, &[space]);
    }
}

#[test]
fn forks_share_until_they_write() {
    let mut kernel = Kernel::new(&machine(Bytes::mib(64), Switches::default()));
    let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
    let parent = kernel.create_space(memcg);
    let start = kernel.map(parent, Area::anon(Pages(300)));
    for page in 0..300 {
        touch(&mut kernel, parent, start + Pages(page), true);
    }
    let child = kernel.fork(parent);
    assert_eq!(kernel.mm.folios.live(), 300);
    assert!(kernel.hit(child, start, false) && !kernel.hit(child, start, true));
    for page in 0..100 {
        touch(&mut kernel, child, start + Pages(page), true);
    }
    assert_eq!(kernel.mm.folios.live(), 400);
    let op = Op::Reclaim {
        memcg,
        bytes: Bytes::mib(1),
        swappiness: None,
    };
    finish(&mut kernel, op, Nanos::ZERO);
    for page in 0..300 {
        touch(&mut kernel, child, start + Pages(page), false);
        touch(&mut kernel, parent, start + Pages(page), true);
    }
    kernel.exit_space(parent);
    for page in 0..300 {
        touch(&mut kernel, child, start + Pages(page), true);
    }
    teardown(kernel, &[child]);
}

#[test]
fn large_folios_leave_whole_or_in_parts() {
    for thp_swap in [true, false] {
        let mut config = machine(Bytes::mib(64), Switches::default());
        config.thp_swap = thp_swap;
        let mut kernel = Kernel::new(&config);
        let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
        kernel.set_limits(
            memcg,
            Limits {
                high: Some(Pages(2048)),
                ..Limits::default()
            },
        );
        let space = kernel.create_space(memcg);
        let area = Area {
            folio_order: 9,
            ..Area::anon(Pages(4096))
        };
        let start = kernel.map(space, area);
        for page in (0..4096).step_by(64) {
            touch(&mut kernel, space, start + Pages(page), true);
        }
        let c = kernel.vmstat(memcg);
        assert!(c[Counter::MemcgHigh] > 0);
        assert_eq!(c[Counter::ThpSwpout] > 0, thp_swap);
        assert_eq!(c[Counter::MemcgSwapFail] > 0, !thp_swap);
        assert_eq!(c[Counter::ThpSwpoutFallback] > 0, !thp_swap);
        for page in 0..4096 {
            touch(&mut kernel, space, start + Pages(page), false);
        }
        teardown(kernel, &[space]);
    }
}

#[test]
fn file_pages_come_from_disk_and_leave_shadows() {
    for switches in kernels() {
        let mut kernel = Kernel::new(&machine(Bytes::mib(64), switches));
        let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
        kernel.set_limits(
            memcg,
            Limits {
                max: Some(Pages(1000)),
                ..Limits::default()
            },
        );
        let space = kernel.create_space(memcg);
        let file = kernel.create_file(Pages(3000));
        let start = kernel.map(space, Area::file(file, Pages(3000)));
        let mut now = Nanos::ZERO;
        for n in 0..6000 {
            let op = if n % 4 == 0 {
                Op::FileIo {
                    space,
                    file,
                    page: PageNr(n % 3000),
                    write: n % 8 == 0,
                    no_reuse: false,
                }
            } else {
                Op::Touch {
                    space,
                    page: start + Pages(n % 3000),
                    write: false,
                }
            };
            let (reply, at) = finish(&mut kernel, op, now);
            now = at;
            assert!(
                matches!(reply, Reply::Done { .. }),
                "{switches:?} {n} {reply:?}"
            );
        }
        let c = kernel.vmstat(memcg);
        assert!(c[Counter::WorkingsetRefaultFile] > 1000, "{switches:?}");
        assert!(c[Counter::PgstealFile] > 3000);
        kernel.exit_space(space);
        kernel.fire(Nanos(u64::MAX));
        kernel.remove_file(file);
        teardown(kernel, &[]);
    }
}

/// A mapped file of 3,000 pages that is touched twice, in order, on a machine whose memory holds half of it.
fn touched_file(switches: Switches, advice: Advice) -> Kernel {
    let mut kernel = Kernel::new(&machine(Bytes::mib(64), switches));
    let memcg = kernel.create_memcg(MemcgId::ROOT, "reader");
    let limits = Limits {
        max: Some(Pages(1500)),
        ..Limits::default()
    };
    kernel.set_limits(memcg, limits);
    let space = kernel.create_space(memcg);
    let file = kernel.create_file(Pages(3000));
    let area = Area {
        advice,
        ..Area::file(file, Pages(3000))
    };
    let start = kernel.map(space, area);
    let mut now = Nanos::ZERO;
    for n in 0..9000u64 {
        // Two pages of three are new; the third was touched a little before.
        let page = start
            + Pages(if n % 3 == 2 {
                n / 2 % 3000
            } else {
                n * 2 / 3 % 3000
            });
        if !kernel.hit(space, page, false) {
            let write = false;
            let op = Op::Touch { space, page, write };
            now = finish(&mut kernel, op, now).1;
        }
    }
    kernel
}

#[test]
fn accesses_that_a_hint_calls_random_activate_nothing() {
    let before = Switches {
        recency: neap_policy::Recency::SequentialOnly,
        ..Switches::of_kernel((6, 3), false)
    };
    let after = Switches {
        recency: neap_policy::Recency::Hints,
        ..before
    };
    let activated = |switches, advice| {
        let kernel = touched_file(switches, advice);
        kernel.vmstat(MemcgId::ROOT)[Counter::Pgactivate]
    };
    for advice in [Advice::Random, Advice::NoReuse, Advice::Sequential] {
        assert_eq!(activated(after, advice), 0, "{advice:?}");
    }
    assert!(activated(after, Advice::Normal) > 100);
    assert!(activated(before, Advice::Random) > 100);
    assert_eq!(activated(before, Advice::Sequential), 0);
    // With generations an access moves a page to the youngest.
    let promoted = |advice| {
        let mglru = Switches::of_kernel((6, 3), true);
        let kernel = touched_file(mglru, advice);
        kernel.vmstat(MemcgId::ROOT)[Counter::PgstealFile]
    };
    assert_ne!(promoted(Advice::Normal), promoted(Advice::NoReuse));
}
