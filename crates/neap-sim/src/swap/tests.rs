//! Swap as a whole, with the policy core's cgroups.

use neap_policy::{
    Counter, LruvecId, MemcgId, Mm, Outgoing, PoolWorkerVersion, Source, Switches, Writeback,
    ZswapConfig,
};
use neap_units::{Nanos, Pages, SwapSlot};

use super::*;
use crate::compress::PageModel;

fn setup(bytes: u16) -> SwapSetup {
    SwapSetup {
        switches: Switches::of_kernel((6, 18), false),
        page_cluster: 3,
        slots: SlotConfig {
            slots: Pages(4096),
            cpus: 1,
            large: true,
            prefer_nonfull: false,
        },
        device: DeviceConfig::nvme(),
        zswap: Some(ZswapConfig::new(Pages(1000), 0)),
        model: PageModel::fixed(bytes, Nanos(3_000), Nanos(1_000)),
        charged: true,
        seed: 1,
        submit: Nanos(500),
    }
}

struct Machine {
    mm: Mm,
    swap: Swap,
    memcg: MemcgId,
    owner: LruvecId,
}

fn machine(setup: SwapSetup) -> Machine {
    let mut mm = Mm::new(setup.switches, 60, 1, 1);
    let memcg = mm.create_memcg(MemcgId::ROOT, "job", |_| 0);
    let owner = mm.lruvec_of(memcg, 0);
    let mut swap = Swap::new(setup);
    swap.add_list(owner);
    Machine {
        mm,
        swap,
        memcg,
        owner,
    }
}

impl Machine {
    fn write(&mut self, order: u8) -> (SwapSlot, Written, Nanos) {
        let first = self.swap.slots.alloc(0, order).expect("a free slot");
        let folio = Outgoing {
            first,
            pages: 1 << order,
            owner: self.owner,
            writeback: self.mm.memcgs.zswap_writeback(self.memcg),
        };
        let key = |at| PageKey {
            page: u64::from(first.0 + at),
            version: 0,
        };
        let (written, cpu) = self
            .swap
            .write(&mut self.mm, Nanos::ZERO, &folio, true, key);
        (first, written, cpu)
    }

    fn count(&self, counter: Counter) -> u64 {
        self.mm.counters(self.memcg)[counter]
    }
}

#[test]
fn a_folio_goes_to_zswap_and_comes_back_page_by_page() {
    let mut m = machine(setup(1000));
    let (first, written, cpu) = m.write(4);
    assert_eq!(
        (written, cpu),
        (Written::Zswap { owed: 0 }, Nanos(16 * 3_000))
    );
    assert_eq!(
        m.mm.memcgs.usage(m.memcg),
        Pages(4),
        "16,000 bytes are charged"
    );
    let read = m.swap.read(&mut m.mm, Nanos::ZERO, first, m.owner, false);
    assert_eq!(
        (read.source, read.cpu, read.end),
        (Source::Zswap, Nanos(1_000), None)
    );
    assert_eq!(
        (m.count(Counter::Zswpout), m.count(Counter::Zswpin)),
        (16, 1)
    );
    assert_eq!(
        (m.count(Counter::Pswpout), m.count(Counter::Pswpin)),
        (0, 0)
    );
    for slot in first.0..first.0 + 16 {
        assert!(m.swap.put(&mut m.mm, SwapSlot(slot)));
    }
    assert_eq!(m.mm.memcgs.usage(m.memcg), Pages::ZERO);
}

#[test]
fn what_zswap_refuses_goes_to_the_device_unless_write_back_is_off() {
    let poor = SwapSetup {
        switches: Switches::of_kernel((6, 12), false),
        ..setup(4096)
    };
    let mut m = machine(poor);
    let (slot, written, cpu) = m.write(0);
    assert!(
        matches!(written, Written::Device { end } if end > cpu),
        "{written:?}"
    );
    let read = m.swap.read(&mut m.mm, Nanos::ZERO, slot, m.owner, false);
    assert_eq!(read.source, Source::Device);
    assert!(read.end.is_some());
    let zswap = m.swap.zswap.as_mut().expect("zswap");
    assert_eq!(zswap.list_state(m.owner).protected_or_disk_swapins, 1);
    let limits = neap_policy::Limits {
        zswap_writeback: false,
        ..Default::default()
    };
    m.mm.set_limits(m.memcg, limits);
    assert_eq!(m.write(0).1, Written::Refused);
    m.swap.zswap.as_mut().expect("zswap").set_enabled(false);
    assert!(
        matches!(m.write(0).1, Written::Device { .. }),
        "zswap is off"
    );
}

#[test]
fn the_worker_makes_room_in_a_full_pool() {
    // Raw pages: 200 fill a fifth of 1000, and 180 is the threshold.
    let mut latest = setup(4096);
    latest.switches.pool_worker = PoolWorkerVersion::WLatest;
    let mut m = machine(latest);
    let stored = (0..300)
        .filter(|_| matches!(m.write(0).1, Written::Zswap { .. }))
        .count();
    assert_eq!(stored, 200);
    let mut worker = Worker::default();
    worker.wake(&m.mm);
    let mut written = 0;
    while worker.awake() {
        let zswap = m.swap.zswap.as_mut().expect("zswap");
        let Some(ticket) = worker.next(&m.mm, zswap) else {
            break;
        };
        let done = m.swap.write_back(&mut m.mm, Nanos::ZERO, &ticket);
        let zswap = m.swap.zswap.as_mut().expect("zswap");
        let outcome = match done {
            Some(_) => Writeback::Written,
            None => Writeback::Gone,
        };
        worker.report(zswap, outcome);
        written += u32::from(done.is_some());
    }
    assert!(!worker.awake());
    // Six turns of 32 take away second chances; the seventh the last 8, and writes 24.
    assert_eq!((written, m.count(Counter::Zswpwb)), (24, 24));
    assert_eq!(m.count(Counter::Pswpout), 100 + 24);
    assert!(matches!(m.write(0).1, Written::Zswap { .. }));
}

#[test]
fn uncharged_entries_hide_from_the_shrinker() {
    let mut m = machine(SwapSetup {
        charged: false,
        ..setup(1000)
    });
    assert!((0..100).all(|_| m.write(0).1 == Written::Zswap { owed: 0 }));
    let owner = m.swap.owner(&m.mm, m.memcg, true);
    let zswap = m.swap.zswap.as_mut().expect("zswap");
    assert_eq!(zswap.stored(), 100);
    assert_eq!(zswap.shrinker_count(m.owner, &owner), 0);
}
