//! How many pages the pool holds (SPEC 1.1: whole pages, not the sum of lengths).
//!
//! The model of zsmalloc: classes every 16 bytes, of which those cut alike are merged, and
//! objects in *zspages* of one to eight pages. A new object goes to one of the fullest
//! zspages that have room, and a zspage is given back when its last object goes. Entries
//! that leave in another order than they came therefore leave holes: a pool can be full of
//! them, and only reclaim of the whole machine compacts it, never that of a cgroup. The
//! packed model takes compaction to run at every free; the simple one adds a share to the
//! sum of lengths.

use neap_units::{PAGE_SIZE, Pages};

/// Distance between class sizes in bytes (kernel: ZS_SIZE_CLASS_DELTA).
const DELTA: usize = PAGE_SIZE >> 8;

/// Smallest object in bytes (kernel: ZS_MIN_ALLOC_SIZE).
const MIN_SIZE: usize = 32;

/// Bytes before each object that name it (kernel: ZS_HANDLE_SIZE).
const HANDLE: usize = 8;

/// Longest chain in pages (kernel: CONFIG_ZSMALLOC_CHAIN_SIZE, default 8).
const MAX_CHAIN: usize = 8;

/// Overhead of the simple model in percent of the bytes stored.
const SIMPLE_PERCENT: u64 = 105;

/// Which model of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PoolModel {
    /// Size classes, and zspages that keep their holes.
    #[default]
    SizeClasses,
    /// Size classes without holes.
    Packed,
    /// 1.05 times the bytes, rounded up to pages.
    Simple,
}

/// A class: objects of up to `size` bytes, handle included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Class {
    size: u16,
    chain: u8,
    objects: u16,
    used: u32,
    /// First zspage of each group of those about as full, neither empty nor full.
    groups: [u32; GROUPS],
}

/// A run of pages cut into objects of one class.
#[derive(Clone, Copy, Debug)]
struct Zspage {
    prev: u32,
    next: u32,
    used: u16,
    class: u8,
}

/// No zspage, and never the number of one.
const NONE: u32 = 0;

/// Groups of zspages by tenths in use (kernel: ZS_INUSE_RATIO_10 to _99).
const GROUPS: usize = 10;

/// Length of the chain that wastes the least at its end.
fn chain_of(size: usize) -> usize {
    if size.is_power_of_two() {
        return 1;
    }
    let waste = |chain: &usize| chain * PAGE_SIZE % size;
    (1..=MAX_CHAIN).min_by_key(waste).unwrap_or(1)
}

/// The pool, as numbers of objects.
#[derive(Debug)]
pub(super) struct Pool {
    model: PoolModel,
    classes: Vec<Class>,
    /// Class of each object size in steps of [`DELTA`] above [`MIN_SIZE`].
    of_step: Vec<u8>,
    /// By number; 0 is none.
    zspages: Vec<Zspage>,
    free: Vec<u32>,
    bytes: u64,
    pages: u64,
}

impl Pool {
    pub fn new(model: PoolModel) -> Pool {
        let steps = (PAGE_SIZE - MIN_SIZE).div_ceil(DELTA) + 1;
        let mut classes: Vec<Class> = Vec::new();
        let mut of_step = vec![0; steps];
        for step in (0..steps).rev() {
            let size = MIN_SIZE + step * DELTA;
            let chain = chain_of(size);
            let objects = chain * PAGE_SIZE / size;
            let cut = |class: &Class| (usize::from(class.chain), usize::from(class.objects));
            if classes
                .last()
                .is_none_or(|larger| cut(larger) != (chain, objects))
            {
                classes.push(Class {
                    size: size as u16,
                    chain: chain as u8,
                    objects: objects as u16,
                    used: 0,
                    groups: [NONE; GROUPS],
                });
            }
            of_step[step] = (classes.len() - 1) as u8;
        }
        Pool {
            model,
            classes,
            of_step,
            zspages: vec![Zspage {
                prev: NONE,
                next: NONE,
                used: 0,
                class: 0,
            }],
            free: Vec::new(),
            bytes: 0,
            pages: 0,
        }
    }

    /// Pages held from the system.
    pub fn pages(&self) -> Pages {
        match self.model {
            PoolModel::SizeClasses | PoolModel::Packed => Pages(self.pages),
            PoolModel::Simple => {
                let grown = u128::from(self.bytes) * u128::from(SIMPLE_PERCENT) / 100;
                neap_units::Bytes(grown as u64).pages_up()
            }
        }
    }

    /// Sum of the lengths.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts an object in and says which zspage has it, below 2^28. One of no bytes takes
    /// no room.
    pub fn add(&mut self, length: u16) -> u32 {
        if length == 0 {
            return NONE;
        }
        self.bytes += u64::from(length);
        let class = self.class_of(length);
        if self.model != PoolModel::SizeClasses {
            let class = &mut self.classes[usize::from(class)];
            if class.used.is_multiple_of(class.objects.into()) {
                self.pages += u64::from(class.chain);
            }
            class.used += 1;
            return NONE;
        }
        let groups = &self.classes[usize::from(class)].groups;
        let fullest = groups.iter().rev().find(|&&first| first != NONE).copied();
        let number = match fullest {
            Some(number) => {
                self.unlink(number);
                number
            }
            None => self.begin(class),
        };
        self.zspages[number as usize].used += 1;
        self.link(number);
        number
    }

    /// Takes out an object that [`Pool::add`] gave to a zspage.
    pub fn sub(&mut self, length: u16, number: u32) {
        if length == 0 {
            return;
        }
        self.bytes -= u64::from(length);
        let class = self.class_of(length);
        if self.model != PoolModel::SizeClasses {
            let class = &mut self.classes[usize::from(class)];
            class.used -= 1;
            if class.used.is_multiple_of(class.objects.into()) {
                self.pages -= u64::from(class.chain);
            }
            return;
        }
        self.unlink(number);
        self.zspages[number as usize].used -= 1;
        if self.zspages[number as usize].used > 0 {
            self.link(number);
        } else {
            self.free.push(number);
            self.pages -= u64::from(self.classes[usize::from(class)].chain);
        }
    }

    /// An empty zspage of a class.
    fn begin(&mut self, class: u8) -> u32 {
        self.pages += u64::from(self.classes[usize::from(class)].chain);
        let fresh = Zspage {
            prev: NONE,
            next: NONE,
            used: 0,
            class,
        };
        if let Some(number) = self.free.pop() {
            self.zspages[number as usize] = fresh;
            return number;
        }
        self.zspages.push(fresh);
        self.zspages.len() as u32 - 1
    }

    /// The group of a zspage; none: it is full or empty.
    fn group(&self, zspage: Zspage) -> Option<usize> {
        let objects = self.classes[usize::from(zspage.class)].objects;
        let partial = zspage.used > 0 && zspage.used < objects;
        partial.then(|| usize::from(zspage.used) * GROUPS / usize::from(objects))
    }

    fn link(&mut self, number: u32) {
        let zspage = self.zspages[number as usize];
        if let Some(group) = self.group(zspage) {
            let first = &mut self.classes[usize::from(zspage.class)].groups[group];
            let next = std::mem::replace(first, number);
            let zspage = &mut self.zspages[number as usize];
            (zspage.prev, zspage.next) = (NONE, next);
            if next != NONE {
                self.zspages[next as usize].prev = number;
            }
        }
    }

    fn unlink(&mut self, number: u32) {
        let zspage = self.zspages[number as usize];
        if let Some(group) = self.group(zspage) {
            match zspage.prev {
                NONE => self.classes[usize::from(zspage.class)].groups[group] = zspage.next,
                prev => self.zspages[prev as usize].next = zspage.next,
            }
            if zspage.next != NONE {
                self.zspages[zspage.next as usize].prev = zspage.prev;
            }
        }
    }

    fn class_of(&self, length: u16) -> u8 {
        let size = usize::from(length) + HANDLE;
        let step = size.saturating_sub(MIN_SIZE).div_ceil(DELTA);
        // An object of a page without room for its handle is kept without one.
        self.of_step[step.min(self.of_step.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes_are_cut_as_the_allocator_does() {
        let pool = Pool::new(PoolModel::SizeClasses);
        let of = |size: usize| {
            let step = size.saturating_sub(MIN_SIZE).div_ceil(DELTA);
            let class = pool.classes[usize::from(pool.of_step[step])];
            (class.size, class.chain, class.objects)
        };
        assert_eq!(of(32), (32, 1, 128));
        assert_eq!(of(4096), (4096, 1, 1));
        assert_eq!(of(2048), (2048, 1, 2));
        // 3 pages give 4 objects of 3072 bytes without waste.
        assert_eq!(of(3072), (3072, 3, 4));
        // Sizes cut alike share the class of the largest: above 3632 bytes, a page.
        assert_eq!((of(3632), of(3648)), ((3632, 8, 9), (4096, 1, 1)));
        assert!(pool.classes.len() < 255, "{} classes", pool.classes.len());
        for class in &pool.classes {
            let room = usize::from(class.chain) * PAGE_SIZE;
            assert!(usize::from(class.objects) * usize::from(class.size) <= room);
        }
    }

    #[test]
    fn a_raw_page_takes_a_page_and_a_same_filled_one_nothing() {
        let mut pool = Pool::new(PoolModel::SizeClasses);
        let (raw, same) = (pool.add(4096), pool.add(0));
        assert_eq!((pool.pages(), pool.bytes()), (Pages(1), 4096));
        pool.sub(0, same);
        pool.sub(4096, raw);
        assert_eq!(pool.pages(), Pages(0));
    }

    #[test]
    fn the_simple_model_adds_a_twentieth() {
        let mut pool = Pool::new(PoolModel::Simple);
        for _ in 0..4 {
            pool.add(1000);
        }
        assert_eq!(pool.pages(), Pages(2), "4200 bytes");
    }

    #[test]
    fn entries_that_leave_here_and_there_leave_holes_that_later_ones_fill() {
        for (model, after) in [(PoolModel::SizeClasses, 300), (PoolModel::Packed, 225)] {
            let mut pool = Pool::new(model);
            // Four objects in three pages.
            let places: Vec<u32> = (0..400).map(|_| pool.add(3000)).collect();
            assert_eq!(pool.pages(), Pages(300));
            for place in places.iter().step_by(4) {
                pool.sub(3000, *place);
            }
            assert_eq!(pool.pages(), Pages(after));
            (0..100).for_each(|_| assert!(pool.add(3000) < 1 << 28));
            assert_eq!(pool.pages(), Pages(300), "the holes are filled first");
        }
        let mut pool = Pool::new(PoolModel::SizeClasses);
        let places: Vec<u32> = (0..400).map(|_| pool.add(3000)).collect();
        places[..100]
            .iter()
            .for_each(|&place| pool.sub(3000, place));
        assert_eq!(pool.pages(), Pages(225), "leaving in order leaves none");
    }

    proptest! {
        #[test]
        fn pages_are_those_of_zspages_in_use(ops in prop::collection::vec((1u16..=4096, any::<u16>(), 0u8..3), 0..1500)) {
            let mut pool = Pool::new(PoolModel::SizeClasses);
            let mut held: Vec<(u16, u32)> = Vec::new();
            for (length, pick, op) in ops {
                if op < 2 || held.is_empty() {
                    held.push((length, pool.add(length)));
                } else {
                    let (length, place) = held.swap_remove(usize::from(pick) % held.len());
                    pool.sub(length, place);
                }
                let mut used = std::collections::BTreeMap::<u32, u16>::new();
                held.iter().for_each(|&(_, place)| *used.entry(place).or_default() += 1);
                let mut pages = 0;
                for (&number, &used) in &used {
                    let zspage = pool.zspages[number as usize];
                    let class = pool.classes[usize::from(zspage.class)];
                    prop_assert_eq!(zspage.used, used);
                    prop_assert!(used <= class.objects);
                    pages += u64::from(class.chain);
                }
                prop_assert_eq!(pool.pages(), Pages(pages));
            }
            held.iter().for_each(|&(length, place)| pool.sub(length, place));
            prop_assert_eq!((pool.pages(), pool.bytes()), (Pages(0), 0));
        }
    }
}
