//! Whatever programs do, in whatever order: charges, slots, lists and tables agree, and
//! nothing is left when they are gone.

use neap_policy::{
    Counter, FullPool, Incompressible, LargeStore, Lru, MemcgWalk, OrderStats, PenaltySpend,
    PoolWorkerVersion, RatioScope, Recency, ReclaimBatching, Rotate, ShrinkerLimit, ShrinkerScheme,
    SwapinCount, Switches, ZeroPages,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::tests::{finish, teardown};
use super::*;
use crate::compress::PageModel;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Touch {
        who: u8,
        area: u8,
        page: u16,
        write: bool,
    },
    Sweep {
        who: u8,
        area: u8,
    },
    Fork {
        who: u8,
    },
    Exit {
        who: u8,
    },
    Map {
        who: u8,
        order: u8,
    },
    Unmap {
        who: u8,
        area: u8,
    },
    Reclaim {
        memcg: u8,
        pages: u16,
    },
    Limit {
        memcg: u8,
        pages: u16,
    },
    Wait {
        micros: u16,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let (who, area) = (0u8..6, 0u8..4);
    prop_oneof![
        8 => (who.clone(), area.clone(), any::<u16>(), any::<bool>())
            .prop_map(|(who, area, page, write)| Event::Touch { who, area, page, write }),
        4 => (who.clone(), area.clone()).prop_map(|(who, area)| Event::Sweep { who, area }),
        1 => who.clone().prop_map(|who| Event::Fork { who }),
        1 => who.clone().prop_map(|who| Event::Exit { who }),
        2 => (who.clone(), 0u8..10).prop_map(|(who, order)| Event::Map { who, order }),
        1 => (who, area).prop_map(|(who, area)| Event::Unmap { who, area }),
        2 => (0u8..3, 1u16..2000).prop_map(|(memcg, pages)| Event::Reclaim { memcg, pages }),
        1 => (0u8..3, 200u16..2000).prop_map(|(memcg, pages)| Event::Limit { memcg, pages }),
        1 => (1u16..1000).prop_map(|micros| Event::Wait { micros }),
    ]
}

/// Any value of every switch.
fn switches() -> impl Strategy<Value = Switches> {
    let zswap = (
        select(ShrinkerScheme::ALL),
        select(SwapinCount::ALL),
        select(LargeStore::ALL),
        select(ZeroPages::ALL),
        select(Incompressible::ALL),
        select(PoolWorkerVersion::ALL),
    );
    let remedies = (
        select(PenaltySpend::ALL),
        select(RatioScope::ALL),
        select(ShrinkerLimit::ALL),
        select(FullPool::ALL),
    );
    let lists = (
        select(Lru::ALL),
        select(MemcgWalk::ALL),
        select(Rotate::ALL),
        select(ReclaimBatching::ALL),
        select(Recency::ALL),
        any::<[bool; 2]>(),
    );
    (zswap, remedies, lists).prop_map(|(zswap, remedies, lists)| Switches {
        shrinker_scheme: zswap.0,
        swapin_count: zswap.1,
        large_store: zswap.2,
        zero_pages: zswap.3,
        incompressible: zswap.4,
        pool_worker: zswap.5,
        penalty_spend: remedies.0,
        ratio_scope: remedies.1,
        shrinker_limit: remedies.2,
        full_pool: remedies.3,
        lru: lists.0,
        memcg_walk: lists.1,
        rotate: lists.2,
        reclaim_batching: lists.3,
        recency: lists.4,
        mglru_proportional: lists.5[0],
        writeback_refault: lists.5[1],
    })
}

/// Identities of counters (SPEC 6).
pub(super) fn check_identities(kernel: &Kernel) {
    let c = kernel.vmstat(MemcgId::ROOT);
    let stored = kernel.machine.zswap.as_ref().map_or(0, |z| z.stored());
    let gone = c[Counter::Zswpin] + c[Counter::Zswpwb];
    // Loads that leave the entry in place count each time; no kernel here has them.
    assert!(
        c[Counter::Zswpout] >= gone + stored,
        "the rest was invalidated"
    );
    assert!(c[Counter::Pswpout] >= c[Counter::Zswpwb]);
    assert!(c[Counter::SwapRa] >= c[Counter::SwapRaHit]);
    assert!(c[Counter::Pgfault] >= c[Counter::Pgmajfault]);
    assert!(c[Counter::Pswpout] >= 512 * c[Counter::ThpSwpout]);
    let sums = [
        c[Counter::PgscanAnon] + c[Counter::PgscanFile],
        c[Counter::PgstealAnon] + c[Counter::PgstealFile],
    ];
    assert_eq!(sums, [c.pgscan(), c.pgsteal()], "by kind and by cause");
    if let Some(zswap) = &kernel.machine.zswap {
        let pages = |of: fn(&OrderStats) -> u64| -> u64 {
            let orders = zswap.orders().iter().enumerate();
            orders.map(|(order, stats)| of(stats) << order).sum()
        };
        let whole = [
            pages(|order| order.zswpout),
            pages(|order| order.swpout) + c[Counter::Zswpwb],
        ];
        let all = [c[Counter::Zswpout], c[Counter::Pswpout]];
        if kernel.mm().switches.large_store == LargeStore::Prefix {
            assert!(whole[0] <= all[0] && whole[1] <= all[1]);
        } else {
            assert_eq!(whole, all);
        }
    }
}

/// Pages of an area.
pub(super) const LEN: u64 = 600;

/// A small machine.
pub(super) fn machine(
    switches: Switches,
    [synchronous, zswap, thp_swap, kill]: [bool; 4],
) -> KernelConfig {
    KernelConfig {
        ram: Bytes::mib(if kill { 8 } else { 24 }),
        switches,
        swap: Some(SwapConfig {
            size: Bytes::mib(48),
            latency: Nanos::micros(50),
            synchronous,
        }),
        zswap: zswap.then_some(ZswapConfig {
            max_pool_percent: 10,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        thp_swap,
        min_ttl: Nanos::millis(if kill { 50 } else { 0 }),
        contents: vec![
            PageModel::fixed(1500, Nanos(5000), Nanos(2000)),
            PageModel::fixed(4096, Nanos(5000), Nanos(2000)),
        ],
        ..KernelConfig::default()
    }
}

pub(super) struct World {
    pub(super) kernel: Kernel,
    pub(super) memcgs: Vec<MemcgId>,
    /// Spaces and the areas of each.
    pub(super) spaces: Vec<(SpaceId, Vec<PageNr>)>,
    pub(super) now: Nanos,
}

impl World {
    pub(super) fn new(config: &KernelConfig) -> World {
        let mut kernel = Kernel::new(config);
        let a = kernel.create_memcg(MemcgId::ROOT, "a");
        let memcgs = vec![
            a,
            kernel.create_memcg(a, "aa"),
            kernel.create_memcg(MemcgId::ROOT, "b"),
        ];
        let shared = kernel.create_shmem(Pages(LEN));
        let spaces = memcgs.iter().enumerate().map(|(n, &memcg)| {
            let space = kernel.create_space(memcg);
            let content = (n as u32 % 2) << 24 | n as u32;
            let anon = Area {
                content,
                ..Area::anon(Pages(LEN))
            };
            let starts = vec![
                kernel.map(space, anon),
                kernel.map(space, Area::shmem(shared, Pages(LEN))),
            ];
            (space, starts)
        });
        let spaces = spaces.collect();
        World {
            kernel,
            memcgs,
            spaces,
            now: Nanos::ZERO,
        }
    }

    /// A touch; a task that is killed ends with its space.
    fn touch(&mut self, who: usize, page: PageNr, write: bool) -> bool {
        let space = self.spaces[who].0;
        let (reply, now) = finish(&mut self.kernel, Op::Touch { space, page, write }, self.now);
        self.now = now + Nanos(100);
        if matches!(reply, Reply::Killed { .. }) {
            self.kernel.exit_space(space);
            self.spaces.swap_remove(who);
            return false;
        }
        // Over high, the task may have reclaimed the very page on its way out.
        true
    }

    pub(super) fn run(&mut self, event: Event) {
        let count = self.spaces.len();
        let who = |n: u8| usize::from(n) % count.max(1);
        if count == 0 {
            return;
        }
        match event {
            Event::Touch {
                who: n,
                area,
                page,
                write,
            } => {
                if let Some(&start) = self.spaces[who(n)].1.get(usize::from(area)) {
                    self.touch(who(n), start + Pages(u64::from(page) % LEN), write);
                }
            }
            Event::Sweep { who: n, area } => {
                if let Some(&start) = self.spaces[who(n)].1.get(usize::from(area)) {
                    let alive =
                        (0..LEN).all(|page| self.touch(who(n), start + Pages(page), page % 3 == 0));
                    let _ = alive;
                }
            }
            Event::Fork { who: n } if count < 8 => {
                let (space, starts) = self.spaces[who(n)].clone();
                let child = self.kernel.fork(space);
                self.spaces.push((child, starts));
            }
            Event::Exit { who: n } if count > 1 => {
                let (space, _) = self.spaces.swap_remove(who(n));
                self.kernel.exit_space(space);
            }
            Event::Map { who: n, order } if self.spaces[who(n)].1.len() < 4 => {
                let area = Area {
                    folio_order: order,
                    ..Area::anon(Pages(LEN))
                };
                let start = self.kernel.map(self.spaces[who(n)].0, area);
                self.spaces[who(n)].1.push(start);
            }
            Event::Unmap { who: n, area } if usize::from(area) < self.spaces[who(n)].1.len() => {
                let start = self.spaces[who(n)].1.remove(area.into());
                self.kernel.unmap(self.spaces[who(n)].0, start);
            }
            Event::Reclaim { memcg, pages } => {
                let memcg = [MemcgId::ROOT, self.memcgs[0], self.memcgs[2]][usize::from(memcg)];
                let bytes = Bytes(u64::from(pages) << 12);
                let op = Op::Reclaim {
                    memcg,
                    bytes,
                    swappiness: None,
                };
                self.now = finish(&mut self.kernel, op, self.now).1;
            }
            Event::Limit { memcg, pages } => {
                let limits = Limits {
                    max: Some(Pages(u64::from(pages) * 2)),
                    high: Some(Pages(pages.into())),
                    low: Pages(u64::from(pages) / 4),
                    zswap_max: (pages % 3 == 0).then_some(Pages(50)),
                    zswap_writeback: pages % 5 != 0,
                    ..Limits::default()
                };
                self.kernel
                    .set_limits(self.memcgs[usize::from(memcg)], limits);
            }
            Event::Wait { micros } => {
                self.now += Nanos::micros(micros.into());
                self.kernel.fire(self.now);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_is_lost_or_left(
        switches in switches(),
        frame in any::<[bool; 4]>(),
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut world = World::new(&machine(switches, frame));
        for event in events {
            world.run(event);
            world.kernel.mm().check();
            check_identities(&world.kernel);
        }
        let spaces: Vec<_> = world.spaces.iter().map(|space| space.0).collect();
        teardown(world.kernel, &spaces);
    }
}
