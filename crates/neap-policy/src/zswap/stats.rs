//! Counters of zswap that are no event counters (SPEC 1.13), and those of folios by
//! order (SPEC 6).

/// Orders a folio can have: 1 to 512 pages.
pub const FOLIO_ORDERS: usize = 10;

/// The debug counters, by the kernel's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZswapStats {
    /// Checks that found the pool at its limit.
    pub pool_limit_hit: u64,
    /// Entries written back.
    pub written_back_pages: u64,
    /// Entries whose write-back failed.
    pub reject_reclaim_fail: u64,
    /// Pages the compressor failed on.
    pub reject_compress_fail: u64,
    /// Pages that did not get smaller.
    pub reject_compress_poor: u64,
    /// Pages the pool had no room for.
    pub reject_alloc_fail: u64,
    /// Pages no entry could be allocated for.
    pub reject_kmemcache_fail: u64,
    /// Entries that did not decompress.
    pub decompress_fail: u64,
    /// Bytes the pool holds from the system.
    pub pool_total_size: u64,
    /// Entries stored now.
    pub stored_pages: u64,
    /// Of these, pages of one repeated word (up to 6.11).
    pub same_filled_pages: u64,
    /// Of these, pages kept raw (6.18 on).
    pub stored_incompressible_pages: u64,
}

/// Folios of one order that went out or came in (hugepages-*kB/stats).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OrderStats {
    /// Stored whole in zswap.
    pub zswpout: u64,
    /// Written whole to the device.
    pub swpout: u64,
    /// Split before swap-out.
    pub swpout_fallback: u64,
    /// Swapped in whole (6.13 on).
    pub swpin: u64,
    /// Swapped in page by page instead.
    pub swpin_fallback: u64,
}
