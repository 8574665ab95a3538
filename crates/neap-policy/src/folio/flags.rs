//! Flags of a folio in one word, with its order, generation and count of references.

/// Flags (kernel: `folio->flags`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal,)+) => {
        impl Flags { $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)+ }
    };
}

flags!(
    /// Accessed once.
    REFERENCED = 5,
    /// Was part of the working set.
    WORKINGSET = 6,
    /// On (or bound for) the active list or the youngest generations.
    ACTIVE = 7,
    /// Anonymous or shared memory: its storage is swap.
    SWAPBACKED = 8,
    /// On a list.
    LRU = 9,
    /// Differs from its copy on storage.
    DIRTY = 10,
    /// Being written.
    WRITEBACK = 11,
    /// Reclaim wants it when the write ends.
    RECLAIM = 12,
    /// Read ahead and not used yet.
    READAHEAD = 13,
    /// In the swap cache.
    SWAPCACHE = 14,
    /// Belongs to an object that several spaces may map.
    SHARED = 15,
    /// In the hands of somebody else: being read, or being reclaimed.
    LOCKED = 16,
    /// Not to be reclaimed.
    UNEVICTABLE = 17,
    /// An unused record.
    FREE = 18,
    /// Waiting in a batch to be added to a list.
    IN_ADD = 21,
    /// Waiting in a batch to be rotated.
    IN_ROTATE = 22,
    /// Read ahead from the device rather than from zswap.
    DISK_READ = 23,
);

const GEN: u32 = 7;
const REFS_SHIFT: u32 = 3;
const REFS: u32 = 3 << REFS_SHIFT;
const LISTED_SHIFT: u32 = 19;
const LISTED: u32 = 3 << LISTED_SHIFT;
const ORDER_SHIFT: u32 = 28;

impl Flags {
    /// Whether all flags of `other` are set.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    #[inline]
    #[must_use]
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets of flags.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Sets or clears flags.
    #[inline]
    pub fn set(&mut self, other: Flags, on: bool) {
        if on {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }

    /// Clears flags; returns whether all of them were set.
    #[inline]
    pub fn take(&mut self, other: Flags) -> bool {
        let had = self.has(other);
        self.0 &= !other.0;
        had
    }

    /// The same flags for a folio of 2^order pages.
    #[must_use]
    pub const fn with_order(self, order: u8) -> Flags {
        Flags(self.0 & !(0xf << ORDER_SHIFT) | (order as u32) << ORDER_SHIFT)
    }

    /// log2 of the pages.
    #[inline]
    #[must_use]
    pub const fn order(self) -> u8 {
        (self.0 >> ORDER_SHIFT) as u8
    }

    /// Generation (sequence mod 4) while it is on a list of generations.
    #[inline]
    #[must_use]
    pub const fn generation(self) -> Option<usize> {
        match self.0 & GEN {
            0 => None,
            n => Some(n as usize - 1),
        }
    }

    /// Sets or clears the generation.
    #[inline]
    pub fn set_generation(&mut self, generation: Option<usize>) {
        let n = generation.map_or(0, |n| n as u32 + 1);
        self.0 = self.0 & !GEN | n;
    }

    /// Generation of the list it is on, which may be older than its own.
    #[inline]
    #[must_use]
    pub const fn listed(self) -> usize {
        ((self.0 & LISTED) >> LISTED_SHIFT) as usize
    }

    /// Sets that.
    #[inline]
    pub fn set_listed(&mut self, generation: usize) {
        self.0 = self.0 & !LISTED | (generation as u32) << LISTED_SHIFT & LISTED;
    }

    /// The field that counts accesses through file descriptors, 0..=3.
    #[inline]
    #[must_use]
    pub const fn refs(self) -> u32 {
        (self.0 & REFS) >> REFS_SHIFT
    }

    /// Sets that field.
    #[inline]
    pub fn set_refs(&mut self, refs: u32) {
        self.0 = self.0 & !REFS | (refs << REFS_SHIFT) & REFS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let mut flags = Flags::DIRTY.with(Flags::LRU).with_order(9);
        flags.set_generation(Some(3));
        flags.set_refs(2);
        flags.set_listed(1);
        assert_eq!(
            (flags.generation(), flags.refs(), flags.order()),
            (Some(3), 2, 9)
        );
        flags.set_generation(None);
        assert!(flags.take(Flags::DIRTY) && !flags.has(Flags::DIRTY));
        assert!(flags.has(Flags::LRU) && flags.any(Flags::LRU.with(Flags::DIRTY)));
        assert_eq!(
            (flags.generation(), flags.refs(), flags.listed()),
            (None, 2, 1)
        );
    }
}
