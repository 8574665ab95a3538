//! Slots of a swap area, in clusters of 512 (SPEC 5.5; kernel: mm/swapfile.c).
//!
//! Each CPU (or the whole area, on a rotating device) fills one cluster after another for
//! each order, so pages that leave together lie together. A folio of 2^k pages takes an
//! aligned run of 2^k slots within one cluster, or none.

use std::collections::VecDeque;

use neap_units::{Pages, SwapSlot};

/// Slots in a cluster (kernel: SWAPFILE_CLUSTER).
const CLUSTER: u32 = 512;

/// Orders of folios, 0 to 9.
const ORDERS: usize = 10;

/// How an area hands out slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotConfig {
    /// Its size.
    pub slots: Pages,
    /// CPUs that have a cluster of their own; 1 on a rotating device.
    pub cpus: u32,
    /// Whether folios of more than one page get slots: a block device with clusters and
    /// CONFIG_THP_SWAP, not a plain swap file (6.11).
    pub large: bool,
    /// Whether clusters with free slots are filled up before fresh ones are begun (6.18).
    pub prefer_nonfull: bool,
}

/// Where a cluster is to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Free,
    Nonfull,
    /// No aligned run of its order was left.
    Frag,
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Cluster {
    used: u16,
    order: u8,
    place: Place,
    /// Which of its appearances on lists is the true one.
    stamp: u32,
}

/// Clusters in the order they will be tried; entries whose stamp is old are skipped.
type Queue = VecDeque<(u32, u32)>;

/// The slots of one area. Slot 0 is the header.
#[derive(Debug)]
pub struct SwapSlots {
    config: SlotConfig,
    /// Users of each slot; 255 is for good.
    users: Vec<u8>,
    clusters: Vec<Cluster>,
    free: Queue,
    nonfull: [Queue; ORDERS],
    frag: Queue,
    /// Next slot of each CPU and order, 0 if it has no cluster.
    next: Vec<[u32; ORDERS]>,
    used: u64,
}

impl SwapSlots {
    /// An empty area.
    #[must_use]
    pub fn new(config: SlotConfig) -> SwapSlots {
        let slots = u32::try_from(config.slots.0).expect("a swap area below 16 TiB");
        let clusters = slots.div_ceil(CLUSTER);
        let empty = Cluster {
            used: 0,
            order: 0,
            place: Place::Free,
            stamp: 0,
        };
        let mut area = SwapSlots {
            config,
            users: vec![0; slots as usize],
            clusters: vec![empty; clusters as usize],
            free: (0..clusters).map(|cluster| (cluster, 0)).collect(),
            nonfull: Default::default(),
            frag: Queue::new(),
            next: vec![[0; ORDERS]; config.cpus.max(1) as usize],
            used: 0,
        };
        if let Some(header) = area.users.first_mut() {
            *header = u8::MAX;
            area.clusters[0].used = 1;
        }
        area
    }

    /// Slots in use.
    #[must_use]
    pub fn used(&self) -> Pages {
        Pages(self.used)
    }

    /// Slots there are, with the header.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.users.len() as u32
    }

    /// Whether the area has no slot at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Whether more than half is used: pages read in then give their slots back
    /// (kernel: vm_swap_full).
    #[must_use]
    pub fn half_full(&self) -> bool {
        self.used * 2 >= self.users.len() as u64
    }

    /// Users of a slot: 0 is free.
    #[must_use]
    pub fn users(&self, slot: SwapSlot) -> u8 {
        self.users[slot.index()]
    }

    /// An aligned run of 2^`order` slots with one user each; none: the area is full, too
    /// fragmented, or takes no large folios.
    pub fn alloc(&mut self, cpu: u32, order: u8) -> Option<SwapSlot> {
        if order > 0 && !self.config.large {
            return None;
        }
        let cpu = cpu as usize % self.next.len();
        let next = self.next[cpu][usize::from(order)];
        let current = (next != 0).then_some(next / CLUSTER);
        let slot = current
            .filter(|&cluster| self.usable(cluster, order))
            .and_then(|cluster| self.scan(cluster, next % CLUSTER, order))
            .or_else(|| self.search_lists(order))?;
        self.take(slot, order);
        let behind = slot + (1 << order);
        self.next[cpu][usize::from(order)] = match behind % CLUSTER {
            0 => 0,
            _ => behind,
        };
        Some(SwapSlot(slot))
    }

    /// Whether a cluster may serve an order: it does already, or it is empty.
    fn usable(&self, cluster: u32, order: u8) -> bool {
        let cluster = &self.clusters[cluster as usize];
        cluster.used == 0 || cluster.order == order || order == 0
    }

    /// The first free aligned run of a cluster from `from` on.
    fn scan(&self, cluster: u32, from: u32, order: u8) -> Option<u32> {
        let (base, size) = (cluster * CLUSTER, 1u32 << order);
        let end = CLUSTER.min(self.len() - base);
        let first = from.next_multiple_of(size);
        (first..end)
            .step_by(size as usize)
            .take_while(|at| at + size <= end)
            .map(|at| base + at)
            .find(|&slot| {
                let run = slot as usize..(slot + size) as usize;
                self.users[run].iter().all(|&users| users == 0)
            })
    }

    fn search_lists(&mut self, order: u8) -> Option<u32> {
        let own = usize::from(order);
        let first = if self.config.prefer_nonfull {
            self.search_nonfull(own, order)
                .or_else(|| self.search_free(order))
        } else {
            self.search_free(order)
                .or_else(|| self.search_nonfull(own, order))
        };
        if first.is_some() || order > 0 {
            return first;
        }
        // Single pages take what is left, wherever it is.
        while let Some(cluster) = pop(&mut self.frag, &self.clusters, Place::Frag) {
            if let Some(slot) = self.scan(cluster, 0, 0) {
                self.push(cluster, Place::Frag);
                return Some(slot);
            }
        }
        (1..ORDERS).find_map(|other| self.search_nonfull(other, 0))
    }

    fn search_free(&mut self, order: u8) -> Option<u32> {
        while let Some(cluster) = pop(&mut self.free, &self.clusters, Place::Free) {
            self.clusters[cluster as usize].order = order;
            if let Some(slot) = self.scan(cluster, 0, order) {
                return Some(slot);
            }
            self.push(cluster, Place::Frag);
        }
        None
    }

    /// From clusters of order `list`, for a folio of `order`.
    fn search_nonfull(&mut self, list: usize, order: u8) -> Option<u32> {
        while let Some(cluster) = pop(&mut self.nonfull[list], &self.clusters, Place::Nonfull) {
            let found = self.scan(cluster, 0, order);
            let place = match found {
                Some(_) => Place::Nonfull,
                None => Place::Frag,
            };
            self.push(cluster, place);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Puts a cluster at the end of a list.
    fn push(&mut self, cluster: u32, place: Place) {
        let state = &mut self.clusters[cluster as usize];
        state.place = place;
        state.stamp = state.stamp.wrapping_add(1);
        let entry = (cluster, state.stamp);
        let queue = match place {
            Place::Free => &mut self.free,
            Place::Nonfull => &mut self.nonfull[usize::from(state.order)],
            Place::Frag => &mut self.frag,
            Place::Full => return,
        };
        queue.push_back(entry);
        // Before those that are skipped outnumber the clusters that there are.
        if queue.len() > 2 * self.clusters.len() {
            let clusters = &self.clusters;
            queue.retain(|&entry| is_true(entry, clusters, place));
        }
    }

    fn take(&mut self, slot: u32, order: u8) {
        let size = 1u32 << order;
        for slot in slot..slot + size {
            self.users[slot as usize] = 1;
        }
        self.used += u64::from(size);
        let cluster = slot / CLUSTER;
        let state = &mut self.clusters[cluster as usize];
        if state.used == 0 {
            state.order = order;
        }
        state.used += size as u16;
        if u32::from(state.used) == CLUSTER {
            self.push(cluster, Place::Full);
        } else if state.place == Place::Free {
            self.push(cluster, Place::Nonfull);
        }
    }

    /// Another user of a slot (kernel: swap_duplicate).
    pub fn dup(&mut self, slot: SwapSlot) {
        let users = &mut self.users[slot.index()];
        debug_assert!(*users > 0, "{slot} is free");
        *users = users.saturating_add(1);
    }

    /// A user of a slot goes. Returns whether it was the last one and the slot is free.
    pub fn put(&mut self, slot: SwapSlot) -> bool {
        let users = &mut self.users[slot.index()];
        if *users == u8::MAX {
            return false;
        }
        debug_assert!(*users > 0, "{slot} is free");
        *users -= 1;
        if *users > 0 {
            return false;
        }
        self.used -= 1;
        let cluster = slot.0 / CLUSTER;
        let state = &mut self.clusters[cluster as usize];
        state.used -= 1;
        if state.used == 0 {
            self.push(cluster, Place::Free);
        } else if state.place == Place::Full {
            self.push(cluster, Place::Nonfull);
        }
        true
    }
}

/// The first cluster of a list that is still there.
fn pop(queue: &mut Queue, clusters: &[Cluster], place: Place) -> Option<u32> {
    while let Some(entry) = queue.pop_front() {
        if is_true(entry, clusters, place) {
            return Some(entry.0);
        }
    }
    None
}

/// Whether a cluster is there still, as of that entry.
fn is_true((cluster, stamp): (u32, u32), clusters: &[Cluster], place: Place) -> bool {
    let state = &clusters[cluster as usize];
    state.stamp == stamp && state.place == place
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn area(slots: u64, cpus: u32) -> SwapSlots {
        SwapSlots::new(SlotConfig {
            slots: Pages(slots),
            cpus,
            large: true,
            prefer_nonfull: false,
        })
    }

    #[test]
    fn each_cpu_fills_a_cluster_of_its_own() {
        let mut area = area(4096, 2);
        let take = |area: &mut SwapSlots, cpu| area.alloc(cpu, 0).map(|slot| slot.0);
        assert_eq!(take(&mut area, 0), Some(1), "after the header");
        assert_eq!(take(&mut area, 1), Some(512));
        assert_eq!(take(&mut area, 0), Some(2));
        assert_eq!(take(&mut area, 1), Some(513));
        for _ in 2..511 {
            take(&mut area, 0);
        }
        assert_eq!(take(&mut area, 0), Some(1024), "the next cluster");
    }

    #[test]
    fn a_large_folio_gets_an_aligned_run_or_nothing() {
        let mut area = area(1024, 1);
        assert_eq!(
            area.alloc(0, 9),
            Some(SwapSlot(512)),
            "the header is in the way"
        );
        assert_eq!(area.alloc(0, 9), None);
        assert_eq!(
            area.alloc(0, 4),
            None,
            "that cluster was given up for large folios"
        );
        assert_eq!(area.alloc(0, 0), Some(SwapSlot(1)));
        let mut file = SwapSlots::new(SlotConfig {
            large: false,
            ..area.config
        });
        assert_eq!(file.alloc(0, 4), None);
    }

    #[test]
    fn the_area_gives_out_all_its_slots_and_takes_them_back() {
        let mut area = area(1500, 3);
        let mut slots = Vec::new();
        while let Some(slot) = area.alloc(slots.len() as u32, 0) {
            slots.push(slot);
        }
        slots.sort();
        assert_eq!(slots, (1..1500).map(SwapSlot).collect::<Vec<_>>());
        assert!(area.half_full());
        for &slot in &slots {
            area.dup(slot);
            assert!(!area.put(slot) && area.put(slot));
        }
        assert_eq!(area.used(), Pages(0));
        assert!(area.alloc(0, 0).is_some());
    }

    #[test]
    fn newer_kernels_fill_up_what_was_begun() {
        let begun = |prefer_nonfull| {
            let mut area = SwapSlots::new(SlotConfig {
                prefer_nonfull,
                ..area(4096, 2).config
            });
            assert!((0..600).all(|_| area.alloc(0, 0).is_some()));
            assert!((100..200).all(|slot| area.put(SwapSlot(slot))));
            area.alloc(1, 0).map(|slot| slot.0)
        };
        assert_eq!(begun(false), Some(1024));
        assert!(begun(true).is_some_and(|slot| slot < 1024));
    }

    #[test]
    fn entries_that_are_skipped_do_not_pile_up() {
        let mut area = area(4096, 1);
        let first: Vec<_> = (0..600).filter_map(|_| area.alloc(0, 0)).collect();
        assert_eq!(first.len(), 600);
        for _ in 0..1000 {
            // A full cluster gets room, and then is empty; others are filled meanwhile.
            let all: Vec<_> = (0..600).filter_map(|_| area.alloc(0, 0)).collect();
            assert!(all.into_iter().all(|slot| area.put(slot)));
        }
        let queues = area.nonfull.iter().chain([&area.free, &area.frag]);
        let longest = queues.map(Queue::len).max();
        assert!(longest <= Some(2 * area.clusters.len()), "{longest:?}");
    }

    proptest! {
        #[test]
        fn no_slot_is_given_out_twice(
            nonfull in any::<bool>(),
            ops in prop::collection::vec((0u8..3, 0u32..3, 0u8..5, any::<u16>()), 1..400),
        ) {
            let mut area = SwapSlots::new(SlotConfig { prefer_nonfull: nonfull, ..area(2000, 3).config });
            let mut held: Vec<(u32, u32)> = Vec::new();
            for (op, cpu, order, pick) in ops {
                if op < 2 {
                    if let Some(slot) = area.alloc(cpu, order) {
                        let (first, size) = (slot.0, 1 << order);
                        prop_assert_eq!(first % size, 0);
                        prop_assert!(first + size <= 2000);
                        prop_assert!(held.iter().all(|&(f, s)| f + s <= first || first + size <= f));
                        held.push((first, size));
                    }
                } else if !held.is_empty() {
                    let (first, size) = held.swap_remove(usize::from(pick) % held.len());
                    prop_assert!((first..first + size).all(|slot| area.put(SwapSlot(slot))));
                }
                let used: u32 = held.iter().map(|&(_, size)| size).sum();
                prop_assert_eq!(area.used(), Pages(used.into()));
            }
            for (first, size) in held {
                prop_assert!((first..first + size).all(|slot| area.put(SwapSlot(slot))));
            }
            let mut all = 0;
            while area.alloc(0, 0).is_some() {
                all += 1;
            }
            prop_assert_eq!(all, 1999);
        }
    }
}
