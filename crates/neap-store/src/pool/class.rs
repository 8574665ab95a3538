//! Size classes: which objects share a zspage, and how long a zspage of each class is.
//!
//! As in zsmalloc, a class is a number of pages cut into a number of equal slots; sizes that would
//! get the same cut share a class. Class sizes are a few percent apart. All are multiples of 16
//! bytes, which lets a handle address 64 GiB in 32 bits.

use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

/// Unit of slot sizes and of handles, in bytes.
pub(crate) const QUANTUM: usize = 16;

/// Smallest slot in bytes: a free one keeps its links in itself, and 128 fill a page.
const MIN_SLOT: usize = 32;

/// Bytes before each object that name its entry, so that compaction can tell the owner.
pub(crate) const HEADER: usize = 4;

/// Distance between class sizes about `size` bytes: coarser where it matters less, since every
/// class costs about half a zspage.
const fn step(size: usize) -> usize {
    match size {
        0..=512 => QUANTUM,
        513..=1536 => 2 * QUANTUM,
        _ => 4 * QUANTUM,
    }
}

/// How zspages of one class are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class {
    /// Pages in a zspage, 1 to 6.
    pub pages: u16,
    /// Slots in a zspage, at most 128.
    pub slots: u16,
    /// Bytes in a slot, a multiple of [`QUANTUM`].
    pub slot_size: u16,
}

impl Class {
    fn cut(size: usize) -> Self {
        let waste = |pages: usize| (pages * PAGE_SIZE) % size;
        let good = |pages: &usize| {
            waste(*pages) as u64 <= TUNING.pool.waste.of((pages * PAGE_SIZE) as u64)
        };
        let least = |a: &usize, b: &usize| (waste(*a) * b).cmp(&(waste(*b) * a));
        let pages = (1..=TUNING.pool.zspage.as_usize())
            .find(good)
            .or_else(|| (1..=TUNING.pool.zspage.as_usize()).min_by(least))
            .unwrap_or(1);
        let slots = pages * PAGE_SIZE / size;
        let slot_size = (pages * PAGE_SIZE / slots) / QUANTUM * QUANTUM;
        Self {
            pages: pages as u16,
            slots: slots as u16,
            slot_size: slot_size as u16,
        }
    }

    /// Whether an object of this class takes no less memory than one of `other`.
    fn no_cheaper_than(&self, other: &Class) -> bool {
        u32::from(self.pages) * u32::from(other.slots)
            >= u32::from(other.pages) * u32::from(self.slots)
    }
}

/// The table of classes. Objects that would need a page of their own anyway have no class: they
/// are *huge* and fill a page without a header.
#[derive(Debug)]
pub(crate) struct Classes {
    list: Vec<Class>,
    /// Class of each size in quanta; `None` is huge.
    of_quanta: Vec<Option<u8>>,
}

impl Classes {
    pub fn new() -> Self {
        let quanta = PAGE_SIZE / QUANTUM;
        let page = Class {
            pages: 1,
            slots: 1,
            slot_size: PAGE_SIZE as u16,
        };
        let mut list: Vec<Class> = Vec::new();
        for size in (MIN_SLOT..PAGE_SIZE).step_by(QUANTUM).rev() {
            let class = Class::cut(size);
            let larger = list.last().unwrap_or(&page);
            if size.is_multiple_of(step(size)) && !class.no_cheaper_than(larger) {
                list.push(class);
            }
        }
        // Slots may be longer than asked for, so the tightest fit is looked up.
        let tightest = |size: usize| list.iter().rposition(|c| usize::from(c.slot_size) >= size);
        let of_quanta = (0..=quanta)
            .map(|q| tightest(q * QUANTUM).map(|i| i as u8))
            .collect();
        Self { list, of_quanta }
    }

    /// The class for an object of `len` bytes; `None` when it is huge.
    #[inline]
    pub fn of_len(&self, len: usize) -> Option<u8> {
        self.of_quanta
            .get((len + HEADER).div_ceil(QUANTUM))
            .copied()
            .flatten()
    }

    #[inline]
    pub fn get(&self, class: u8) -> Class {
        self.list[usize::from(class)]
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_fits_its_slot_and_every_zspage_its_pages() {
        let classes = Classes::new();
        assert!(classes.count() <= 128, "class numbers take seven bits");
        for len in 1..=PAGE_SIZE {
            let Some(class) = classes.of_len(len) else {
                assert!(len > 3480, "{len} bytes deserve better than a page");
                continue;
            };
            let c = classes.get(class);
            assert!(len + HEADER <= usize::from(c.slot_size));
            assert!(
                usize::from(c.slots) * usize::from(c.slot_size) <= usize::from(c.pages) * PAGE_SIZE
            );
            assert!(
                c.slots <= 128
                    && usize::from(c.pages) <= TUNING.pool.zspage.as_usize()
                    && c.slots > 1
            );
            assert!(usize::from(c.slot_size).is_multiple_of(QUANTUM));
        }
    }

    #[test]
    fn an_object_takes_little_more_than_its_length() {
        let classes = Classes::new();
        for len in 256..=3400 {
            let c = classes.get(classes.of_len(len).expect("not huge"));
            let cost = usize::from(c.pages) * PAGE_SIZE / usize::from(c.slots);
            assert!(cost * 100 <= len * 117, "{len} bytes cost {cost}");
        }
    }
}
