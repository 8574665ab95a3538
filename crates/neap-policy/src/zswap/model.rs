//! Conservation: whatever happens in between, a page read back is the page last written
//! (SPEC 10). Pages carry a version number; zswap, the zero map and the device are models
//! that remember the version they were given.

use std::collections::HashMap;

use neap_units::{Bytes, Pages, SwapSlot};
use proptest::prelude::*;

use super::*;
use crate::shrinker::{ShrinkCall, Writeback};

const PAGES: u32 = 64;
const FOLIO: u32 = 8;

#[derive(Default)]
struct Ledger {
    bytes: u64,
    pages: u64,
}

impl Accounts for Ledger {
    fn charge(&mut self, _: LruvecId, bytes: Bytes) {
        self.bytes += bytes.0;
        self.pages += 1;
    }

    fn uncharge(&mut self, _: LruvecId, bytes: Bytes) {
        self.bytes -= bytes.0;
        self.pages -= 1;
    }
}

/// Page p has slot p + 1 for good, as a page in the swap cache does.
struct World {
    zswap: Zswap,
    zero: ZeroMap,
    ledger: Ledger,
    resident: Vec<bool>,
    version: Vec<u32>,
    in_zswap: HashMap<u32, u32>,
    on_device: HashMap<u32, u32>,
    shrinkers: Vec<(ShrinkCall<LruvecId>, Option<Ticket>)>,
}

impl World {
    fn new(switches: &Switches) -> World {
        let mut zswap = Zswap::new(ZswapConfig::new(Pages(100), PAGES + 1), switches);
        zswap.add_list(LruvecId(0));
        World {
            zswap,
            zero: ZeroMap::new(PAGES + 1),
            ledger: Ledger::default(),
            resident: vec![true; PAGES as usize],
            version: vec![0; PAGES as usize],
            in_zswap: HashMap::new(),
            on_device: HashMap::new(),
            shrinkers: Vec::new(),
        }
    }

    fn swap_out(&mut self, page: u32, large: bool, fail_at: u32, length: u16) {
        let pages = if large { FOLIO } else { 1 };
        let first = page / pages * pages;
        if !(first..first + pages).all(|p| self.resident[p as usize]) {
            return;
        }
        let zero = length == 0;
        self.zero.set(SwapSlot(first + 1), pages, zero);
        let out = Outgoing {
            first: SwapSlot(first + 1),
            pages,
            owner: LruvecId(0),
            writeback: true,
        };
        let stored = if zero {
            pages
        } else {
            let compress = |p| match p == fail_at {
                true => Compressed::NoPool,
                false => Compressed::Bytes(length),
            };
            let stored = self.zswap.store(&out, true, &mut self.ledger, compress);
            stored.map_or_else(|refused| refused.kept, |_| pages)
        };
        if zero {
            self.zswap.invalidate(out.first, pages, &mut self.ledger);
        }
        for p in first..first + pages {
            self.resident[p as usize] = false;
            let version = self.version[p as usize];
            match (zero, p - first < stored) {
                (true, _) => None,
                (_, true) => self.in_zswap.insert(p, version),
                (..) => self.on_device.insert(p, version),
            };
        }
    }

    fn swap_in(&mut self, page: u32, loading: Loading) {
        if self.resident[page as usize] {
            return;
        }
        let slot = SwapSlot(page + 1);
        let loaded = self.zswap.load(slot, 1, loading, &mut self.ledger);
        let found = if self.zero.is_zero(slot) {
            self.version[page as usize]
        } else if loaded.expect("one page").is_some() {
            self.in_zswap[&page]
        } else {
            self.zswap.on_disk_swapin(LruvecId(0));
            self.on_device[&page]
        };
        assert_eq!(found, self.version[page as usize], "page {page}");
        self.resident[page as usize] = true;
    }

    /// One step of a shrinker: begin, take a ticket, or write the ticket's entry.
    fn shrink(&mut self, which: usize) {
        if self.shrinkers.len() <= which {
            let owner = Owner {
                bytes: self.zswap.bytes(),
                stored: self.zswap.stored(),
                writeback: true,
                may_io: true,
            };
            let call = self.zswap.shrink_begin(LruvecId(0), 0, &owner);
            self.shrinkers.extend(call.map(|call| (call, None)));
            return;
        }
        let (call, ticket) = &mut self.shrinkers[which];
        if let Some(ticket) = ticket.take() {
            let page = ticket.slot.0 - 1;
            // A resident page is in the swap cache: somebody has it.
            let outcome = if self.resident[page as usize] {
                Writeback::Exists
            } else if self.zswap.write_back(&ticket, &mut self.ledger).is_some() {
                self.on_device.insert(page, self.in_zswap[&page]);
                Writeback::Written
            } else {
                Writeback::Gone
            };
            self.zswap.shrink_report(call, outcome);
            return;
        }
        *ticket = self.zswap.shrink_next(call, true);
        if ticket.is_none() {
            let (call, _) = self.shrinkers.remove(which);
            self.zswap.shrink_end(call);
        }
    }

    fn check(&self) {
        self.zswap.check();
        assert_eq!(self.ledger.bytes, self.zswap.bytes().0);
        assert_eq!(self.ledger.pages, self.zswap.stored());
    }
}

fn kernels() -> impl Strategy<Value = Switches> {
    let large = prop::sample::select(vec![
        LargeStore::V6KnobOn,
        LargeStore::Merged,
        LargeStore::Prefix,
    ]);
    let version = prop::sample::select(vec![(6u32, 8u32), (6, 9), (6, 12), (6, 18)]);
    (version, large).prop_map(|(version, large_store)| Switches {
        large_store,
        ..Switches::of_kernel(version, false)
    })
}

proptest! {
    #[test]
    fn what_is_read_back_is_what_was_written_last(
        switches in kernels(),
        ops in prop::collection::vec((0u8..8, 0..PAGES, 0u32..16, 0u16..=4096), 1..400),
    ) {
        let mut world = World::new(&switches);
        for (op, page, pick, length) in ops {
            match op {
                0 | 1 => world.swap_out(page, false, pick, length),
                2 => world.swap_out(page, true, pick, length),
                3 => world.swap_in(page, Loading::Exclusive),
                4 => {
                    world.swap_in(page, if pick < 8 { Loading::Keep } else { Loading::ToTail });
                    // The copy in zswap goes stale unless the page stays clean.
                    world.version[page as usize] += pick % 2;
                }
                5 if world.resident[page as usize] => world.version[page as usize] += 1,
                _ => world.shrink(pick as usize % 4),
            }
            world.check();
        }
        for page in 0..PAGES {
            world.swap_in(page, Loading::Exclusive);
        }
        world.zswap.invalidate(SwapSlot(1), PAGES, &mut world.ledger);
        prop_assert_eq!((world.ledger.bytes, world.ledger.pages), (0, 0));
        prop_assert_eq!(world.zswap.pool_pages(), Pages(0));
    }

    /// Stores are refused exactly while the flag is set, which rises at the limit and
    /// falls at the threshold.
    #[test]
    fn refusals_happen_exactly_while_the_flag_is_set(
        slots in prop::collection::vec((1..=PAGES, any::<bool>()), 1..300),
    ) {
        let mut world = World::new(&Switches::of_kernel((6, 18), false));
        let mut full = false;
        for (slot, store) in slots {
            if store {
                let pool = world.zswap.pool_pages();
                full = pool >= Pages(20) || full && pool > Pages(18);
                let out = Outgoing { first: SwapSlot(slot), pages: 1, owner: LruvecId(0), writeback: true };
                let raw = |_| Compressed::Bytes(4096);
                let refused = world.zswap.store(&out, true, &mut world.ledger, raw).is_err();
                prop_assert_eq!(refused, full);
                prop_assert_eq!(world.zswap.gate().reached_full(), full);
            } else {
                world.zswap.invalidate(SwapSlot(slot), 1, &mut world.ledger);
            }
        }
    }
}
