//! Accounts: what a group of owners has in the store, and what it may have there. They are the part of a memory cgroup that
//! zswap and the swap area ask: `memory.zswap.*` and `memory.swap.*`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use neap_policy::zswap_max_allows;
use neap_units::{AtomicLimit, Bytes, Limit};

/// One account. What it has counts for those above it, too, and what these may not it may not either.
///
/// The store changes the sums under its lock; anybody may read them.
#[derive(Debug)]
pub struct Account {
    above: Option<Arc<Account>>,
    /// `memory.zswap.writeback` is 0.
    writes_nothing: AtomicBool,
    /// `memory.zswap.max` and `memory.swap.max`.
    zswap_max: AtomicLimit,
    swap_max: AtomicLimit,
    /// Bytes of its entries in the pool (`memory.zswap.current`), and how many they are.
    zswap: AtomicU64,
    pooled: AtomicU64,
    /// All its entries: in the pool, on disk, and those of one word (`memory.swap.current`, in pages).
    swap: AtomicU64,
    /// Bytes of its records in the swap file, and how many they are.
    disk: AtomicU64,
    written: AtomicU64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            above: None,
            writes_nothing: AtomicBool::new(false),
            zswap_max: AtomicLimit::new(Limit::Max),
            swap_max: AtomicLimit::new(Limit::Max),
            zswap: AtomicU64::new(0),
            pooled: AtomicU64::new(0),
            swap: AtomicU64::new(0),
            disk: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }
}

impl Account {
    /// One below another.
    #[must_use]
    pub fn below(above: &Arc<Account>) -> Self {
        Self {
            above: Some(above.clone()),
            ..Self::default()
        }
    }

    /// It and those above it.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |account| account.above.as_deref())
    }

    /// Whether it is this account or one below it.
    #[must_use]
    pub fn is_within(&self, other: &Account) -> bool {
        self.chain().any(|account| std::ptr::eq(account, other))
    }

    /// Whether its pages may be written to the swap file: not if this is switched off for it or above it.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.chain()
            .all(|account| !account.writes_nothing.load(Relaxed))
    }

    /// Whether that is switched on for itself.
    #[must_use]
    pub fn writeback(&self) -> bool {
        !self.writes_nothing.load(Relaxed)
    }

    /// The store does this, which knows whom it is about.
    pub(crate) fn set_writeback(&self, on: bool) {
        self.writes_nothing.store(!on, Relaxed);
    }

    /// Most bytes of its entries in the pool.
    #[must_use]
    pub fn zswap_max(&self) -> Limit {
        self.zswap_max.load()
    }

    /// Moves that limit. What is above it goes to the swap file, if it may.
    pub fn set_zswap_max(&self, limit: Limit) {
        self.zswap_max.store(limit);
    }

    /// Most bytes of pages that it may have out.
    #[must_use]
    pub fn swap_max(&self) -> Limit {
        self.swap_max.load()
    }

    /// Moves that limit. What is above it stays where it is, and no page more leaves.
    pub fn set_swap_max(&self, limit: Limit) {
        self.swap_max.store(limit);
    }

    /// Whether one page more may be out, by `memory.swap.max` of all levels (page_counter_try_charge).
    #[must_use]
    pub fn may_swap(&self) -> bool {
        self.chain()
            .all(|account| account.swap() < account.swap_max().whole_pages().0)
    }

    /// Whether half of what may be out at some level is: then pages that come back leave no copy (mem_cgroup_swap_full).
    #[must_use]
    pub fn is_half_out(&self) -> bool {
        self.chain()
            .any(|account| account.swap() * 2 >= account.swap_max().whole_pages().0)
    }

    /// Whether the pool has as much of it as it may, by `memory.zswap.max` of some level (obj_cgroup_may_zswap).
    #[must_use]
    pub fn is_full(&self) -> bool {
        let level = |account: &Self| {
            let max = account.zswap_max().bytes().map(Bytes::whole_pages);
            (Bytes(account.zswap()), max)
        };
        !zswap_max_allows(self.chain().map(level))
    }

    /// How much more the pool has of it than it may, at the level where that is most.
    #[must_use]
    pub fn excess(&self) -> Bytes {
        let over = |account: &Self| account.zswap_max().excess(Bytes(account.zswap()));
        self.chain().map(over).max().unwrap_or(Bytes::ZERO)
    }

    /// What keeps its pages with the programs, in words. `can_write`: there is a swap file that takes pages.
    #[must_use]
    pub fn trouble(&self, can_write: bool) -> Option<&'static str> {
        match () {
            () if !self.may_swap() => Some("memory.swap.max is reached"),
            () if self.is_full() && !(can_write && self.writes()) => {
                Some("memory.zswap.max is reached")
            }
            () => None,
        }
    }

    /// Bytes of its entries in the pool.
    #[must_use]
    pub fn zswap(&self) -> u64 {
        self.zswap.load(Relaxed)
    }

    /// How many entries it has in the pool, those of one word left out.
    #[must_use]
    pub fn pooled(&self) -> u64 {
        self.pooled.load(Relaxed)
    }

    /// Bytes of its records in the swap file.
    #[must_use]
    pub fn disk(&self) -> u64 {
        self.disk.load(Relaxed)
    }

    /// How many entries it has in the swap file.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// How many entries it has that are one word over and over.
    #[must_use]
    pub fn same_filled(&self) -> u64 {
        // The sums move one after the other.
        self.swap().saturating_sub(self.pooled() + self.written())
    }

    /// How many entries it has.
    #[must_use]
    pub fn swap(&self) -> u64 {
        self.swap.load(Relaxed)
    }

    /// So many entries more, for all above, too.
    pub(crate) fn add(&self, sums: Sums) {
        for account in self.chain() {
            account.zswap.fetch_add(sums.zswap, Relaxed);
            account.pooled.fetch_add(sums.pooled, Relaxed);
            account.swap.fetch_add(sums.swap, Relaxed);
            account.disk.fetch_add(sums.disk, Relaxed);
            account.written.fetch_add(sums.written, Relaxed);
        }
    }

    /// So many less.
    pub(crate) fn take(&self, sums: Sums) {
        for account in self.chain() {
            account.zswap.fetch_sub(sums.zswap, Relaxed);
            account.pooled.fetch_sub(sums.pooled, Relaxed);
            account.swap.fetch_sub(sums.swap, Relaxed);
            account.disk.fetch_sub(sums.disk, Relaxed);
            account.written.fetch_sub(sums.written, Relaxed);
        }
    }
}

/// What is counted of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    /// Bytes in the pool.
    pub zswap: u64,
    /// Entries there.
    pub pooled: u64,
    /// Entries anywhere.
    pub swap: u64,
    /// Bytes in the swap file.
    pub disk: u64,
    /// Entries there.
    pub written: u64,
}

impl Sums {
    /// One entry in the pool that takes so many bytes there.
    pub fn pooled(len: usize) -> Self {
        Self {
            zswap: len as u64,
            pooled: 1,
            ..Self::NONE
        }
    }

    /// One entry in the swap file whose record takes so many bytes there.
    pub fn on_disk(room: usize) -> Self {
        Self {
            disk: room as u64,
            written: 1,
            ..Self::NONE
        }
    }

    /// One entry, wherever it is.
    pub const ENTRY: Self = Self {
        swap: 1,
        ..Self::NONE
    };

    const NONE: Self = Self {
        zswap: 0,
        pooled: 0,
        swap: 0,
        disk: 0,
        written: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_account_has_those_above_have_and_what_they_may_not_it_may_not() {
        let top = Arc::new(Account::default());
        let job = Arc::new(Account::below(&top));
        let (inner, other) = (Account::below(&job), Account::below(&top));
        inner.add(Sums::pooled(100));
        inner.add(Sums::ENTRY);
        other.add(Sums::ENTRY);
        let sums = |account: &Account| (account.zswap(), account.pooled(), account.swap());
        assert_eq!(sums(&inner), (100, 1, 1));
        assert_eq!(sums(&job), (100, 1, 1));
        assert_eq!(sums(&top), (100, 1, 2));
        assert_eq!((job.same_filled(), top.same_filled()), (0, 1));
        inner.take(Sums::pooled(100));
        assert_eq!(sums(&top), (0, 0, 2));
        inner.add(Sums::on_disk(64));
        assert_eq!((top.disk(), job.written(), other.disk()), (64, 1, 0));
        assert_eq!((job.same_filled(), top.same_filled()), (0, 1));
        assert!(inner.is_within(&job) && inner.is_within(&inner) && !other.is_within(&job));
        job.set_writeback(false);
        assert!(!inner.writes() && inner.writeback() && !job.writes() && other.writes());
    }

    #[test]
    fn limits_are_met_at_each_level_in_whole_pages() {
        let job = Arc::new(Account::default());
        let inner = Account::below(&job);
        assert!(inner.may_swap() && !inner.is_half_out() && !inner.is_full());
        job.set_swap_max(Limit::Bytes(Bytes(3 * 4096 + 4095)));
        inner.add(Sums::ENTRY);
        assert!(inner.may_swap() && !inner.is_half_out());
        inner.add(Sums::ENTRY);
        assert!(inner.may_swap() && inner.is_half_out());
        inner.add(Sums::ENTRY);
        assert!(!inner.may_swap() && inner.trouble(true).is_some());
        job.set_swap_max(Limit::Max);
        job.set_zswap_max(Limit::Bytes(Bytes(8192)));
        inner.add(Sums::pooled(8191));
        assert!(!inner.is_full(), "not two whole pages");
        inner.add(Sums::pooled(2));
        assert!(inner.is_full() && inner.excess() == Bytes(1));
        assert_eq!(inner.trouble(true), None, "it may write");
        assert!(inner.trouble(false).is_some());
        job.set_zswap_max(Limit::ZERO);
        inner.take(Sums::pooled(8193));
        assert!(inner.is_full(), "0 lets nothing in");
        assert_eq!(inner.excess(), Bytes(0));
    }
}
