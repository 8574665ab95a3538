//! What the store counts, in one table: names, units and meanings (SPEC 1.13 and 6).

/// How a number behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Name and meaning of one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The kernel's name where it has one.
    pub name: &'static str,
    /// Whether it only grows.
    pub kind: MetricKind,
    /// What it counts.
    pub unit: &'static str,
    /// When it moves.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($name:ident: $kind:ident, $unit:literal, $help:literal;)*) => {
        /// Every number of the store at one moment.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct StoreStats {
            $(#[doc = concat!($help, " (", $unit, ").")] pub $name: u64,)*
            /// Folios of each order (0 to 9) stored whole; the kernel's `hugepages-*kB/stats/zswpout`.
            pub zswpout_order: [u64; ORDERS],
        }

        impl StoreStats {
            /// Name, kind, unit and meaning of each number, without the ones for each order.
            pub const METRICS: &'static [Metric] = &[$(Metric {
                name: stringify!($name),
                kind: MetricKind::$kind,
                unit: $unit,
                help: $help,
            },)*];

            /// Every number with its metric, in the order of [`StoreStats::METRICS`].
            pub fn iter(&self) -> impl Iterator<Item = (&'static Metric, u64)> + use<> {
                let values = [$(self.$name,)*];
                Self::METRICS.iter().zip(values)
            }
        }
    };
}

/// Folio orders counted apart: 4 KiB (0) to 2 MiB (9).
pub const ORDERS: usize = 10;

metrics! {
    zswpout: Counter, "pages", "Page accepted by the store";
    zswpin: Counter, "pages", "Page served from the pool";
    zswpwb: Counter, "pages", "Entry written from the pool to the swap file";
    pswpout: Counter, "pages", "Page written to the swap file";
    pswpin: Counter, "pages", "Page read from the swap file";
    disk_swapins: Counter, "pages", "Disk swap-in told to the shrinker, readahead included";
    stored_pages: Gauge, "pages", "Entries in the pool, same-filled ones included";
    same_filled_pages: Gauge, "pages", "Entries that are one word over and over";
    stored_incompressible_pages: Gauge, "pages", "Entries in the pool kept as they are";
    stored_large_pages: Gauge, "pages", "Entries in the pool that were stored as part of a large folio";
    swapped_pages: Gauge, "pages", "Entries in the swap file";
    compressed_bytes: Gauge, "bytes", "Sum of the lengths of entries in the pool";
    pool_bytes: Gauge, "bytes", "Memory of the pool, in whole pages";
    metadata_bytes: Gauge, "bytes", "Memory of the store's tables";
    swap_used_bytes: Gauge, "bytes", "Live records in the swap file";
    swap_file_bytes: Gauge, "bytes", "Extents of the swap file with live records";
    dictionary_bytes: Gauge, "bytes", "Memory of trained dictionaries";
    dictionaries: Gauge, "dictionaries", "Trained dictionaries in use";
    dictionary_stores: Counter, "pages", "Page compressed with a dictionary";
    pool_limit_hit: Counter, "checks", "Check that found the pool at its limit";
    written_back_pages: Counter, "pages", "Entry written back by the shrinker or the pool worker";
    reject_reclaim_fail: Counter, "pages", "Entry whose write-back failed; it stays in the pool";
    reject_pool_full: Counter, "pages", "Page refused since the pool reached its limit";
    reject_owner_limit: Counter, "pages", "Page refused by the owner's zswap.max";
    reject_compress_poor: Counter, "pages", "Page refused because it does not compress";
    reject_compress_fail: Counter, "pages", "Page refused because the compressor failed";
    reject_alloc_fail: Counter, "pages", "Page refused because the arena is full";
    reject_kmemcache_fail: Counter, "pages", "Page refused because there are too many entries";
    decompress_fail: Counter, "pages", "Entry that did not decompress";
    swap_write_fail: Counter, "writes", "Batch the swap file did not take";
    swap_read_fail: Counter, "reads", "Read the swap file refused";
    swap_corrupt: Counter, "pages", "Record of the swap file with a wrong checksum";
    swap_full: Counter, "batches", "Batch for which the swap file had no room";
    swap_moved_pages: Counter, "pages", "Entry moved within the swap file to free an extent";
    slabs_scanned: Counter, "entries", "Entry visited by the shrinker";
    pool_moved_objects: Counter, "objects", "Object moved by compaction of the pool";
    pool_compacted_pages: Counter, "pages", "Page given back by compaction of the pool";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_values_go_together() {
        let stats = StoreStats {
            zswpout: 1,
            pool_compacted_pages: 2,
            ..StoreStats::default()
        };
        let all: Vec<_> = stats.iter().collect();
        assert_eq!(all.len(), StoreStats::METRICS.len());
        assert_eq!((all[0].0.name, all[0].1), ("zswpout", 1));
        let last = all[all.len() - 1];
        assert_eq!((last.0.name, last.1), ("pool_compacted_pages", 2));
    }
}
