//! How many pages the pool holds (SPEC 1.1: whole pages, not the sum of lengths).
//!
//! The model of zsmalloc: classes every 16 bytes, objects packed into chains of one to
//! eight pages, and classes that would be cut alike merged. Chains of a class are taken
//! to be packed as by compaction, so a class wastes less than one chain. The simple model
//! adds a share to the sum of lengths.

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
    /// Size classes and chains.
    #[default]
    SizeClasses,
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
}

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
                });
            }
            of_step[step] = (classes.len() - 1) as u8;
        }
        Pool {
            model,
            classes,
            of_step,
            bytes: 0,
            pages: 0,
        }
    }

    /// Pages held from the system.
    pub fn pages(&self) -> Pages {
        match self.model {
            PoolModel::SizeClasses => Pages(self.pages),
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

    /// Puts an object in. One of no bytes takes no room.
    pub fn add(&mut self, length: u16) {
        if length > 0 {
            let class = self.class(length);
            class.used += 1;
            let grown = if (class.used - 1).is_multiple_of(class.objects.into()) {
                class.chain
            } else {
                0
            };
            self.pages += u64::from(grown);
            self.bytes += u64::from(length);
        }
    }

    /// Takes an object out.
    pub fn sub(&mut self, length: u16) {
        if length > 0 {
            let class = self.class(length);
            class.used -= 1;
            let given_back = if class.used.is_multiple_of(class.objects.into()) {
                class.chain
            } else {
                0
            };
            self.pages -= u64::from(given_back);
            self.bytes -= u64::from(length);
        }
    }

    fn class(&mut self, length: u16) -> &mut Class {
        let size = usize::from(length) + HANDLE;
        let step = size.saturating_sub(MIN_SIZE).div_ceil(DELTA);
        // An object of a page without room for its handle is kept without one.
        let class = self.of_step[step.min(self.of_step.len() - 1)];
        &mut self.classes[usize::from(class)]
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
        pool.add(4096);
        pool.add(0);
        assert_eq!((pool.pages(), pool.bytes()), (Pages(1), 4096));
        pool.sub(0);
        pool.sub(4096);
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

    proptest! {
        #[test]
        fn pages_are_those_of_full_chains(lengths in prop::collection::vec(1u16..=4096, 0..2000)) {
            let mut pool = Pool::new(PoolModel::SizeClasses);
            lengths.iter().for_each(|&length| pool.add(length));
            let chains: u64 = pool.classes.iter()
                .map(|c| u64::from(c.used.div_ceil(c.objects.into())) * u64::from(c.chain))
                .sum();
            prop_assert_eq!(pool.pages(), Pages(chains));
            prop_assert!(pool.pages() >= neap_units::Bytes(pool.bytes()).pages_up());
            lengths.iter().for_each(|&length| pool.sub(length));
            prop_assert_eq!((pool.pages(), pool.bytes()), (Pages(0), 0));
        }
    }
}
