//! Accounts: what a group of owners has in the store, and what it may have there. They are the part of a memory cgroup that
//! zswap and the swap area ask: `memory.zswap.*` and `memory.swap.*`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// One account. What it has counts for those above it, too, and what these may not it may not either.
///
/// The store changes the sums under its lock; anybody may read them.
#[derive(Debug, Default)]
pub struct Account {
    above: Option<Arc<Account>>,
    /// `memory.zswap.writeback` is 0.
    writes_nothing: AtomicBool,
    /// Bytes of its entries in the pool (`memory.zswap.current`), and how many they are.
    zswap: AtomicU64,
    pooled: AtomicU64,
    /// All its entries: in the pool, on disk, and those of one word (`memory.swap.current`, in pages).
    swap: AtomicU64,
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
        }
    }

    /// So many less.
    pub(crate) fn take(&self, sums: Sums) {
        for account in self.chain() {
            account.zswap.fetch_sub(sums.zswap, Relaxed);
            account.pooled.fetch_sub(sums.pooled, Relaxed);
            account.swap.fetch_sub(sums.swap, Relaxed);
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
}

impl Sums {
    /// One entry in the pool that takes so many bytes there.
    pub fn pooled(len: usize) -> Self {
        Self {
            zswap: len as u64,
            pooled: 1,
            swap: 0,
        }
    }

    /// One entry, wherever it is.
    pub const ENTRY: Self = Self {
        zswap: 0,
        pooled: 0,
        swap: 1,
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
        inner.take(Sums::pooled(100));
        assert_eq!(sums(&top), (0, 0, 2));
        assert!(inner.is_within(&job) && inner.is_within(&inner) && !other.is_within(&job));
        job.set_writeback(false);
        assert!(!inner.writes() && inner.writeback() && !job.writes() && other.writes());
    }
}
