//! What the store counts, in one table: names, units and meanings (SPEC 1.13 and 6).

/// How a number behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Where the kernel shows a number, and so do the readers of neap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// `/proc/vmstat`.
    Vmstat,
    /// `/sys/kernel/debug/zswap` and its like.
    Zswap,
}

/// Name and meaning of one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The kernel's name where it has one.
    pub name: &'static str,
    /// Which table it belongs to.
    pub group: Group,
    /// Whether it only grows.
    pub kind: MetricKind,
    /// What it counts.
    pub unit: &'static str,
    /// When it moves.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($name:ident: $group:ident $kind:ident, $unit:literal, $help:literal;)*) => {
        /// Every number of the store at one moment.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct StoreStats {
            $(#[doc = concat!($help, " (", $unit, ").")] pub $name: u64,)*
        }

        impl StoreStats {
            /// Name, kind, unit and meaning of each number.
            pub const METRICS: &'static [Metric] = &[$(Metric {
                name: stringify!($name),
                group: Group::$group,
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

metrics! {
    zswpout: Vmstat Counter, "pages", "Page accepted by the store";
    zswpin: Vmstat Counter, "pages", "Page served from the pool";
    zswpwb: Vmstat Counter, "pages", "Entry written from the pool to the swap file";
    pswpout: Vmstat Counter, "pages", "Page written to the swap file";
    pswpin: Vmstat Counter, "pages", "Page read from the swap file";
    disk_swapins: Zswap Counter, "pages", "Disk swap-in told to the shrinker, readahead included";
    stored_pages: Zswap Gauge, "pages", "Entries in the pool, same-filled ones included";
    same_filled_pages: Zswap Gauge, "pages", "Entries that are one word over and over";
    stored_incompressible_pages: Zswap Gauge, "pages", "Entries in the pool kept as they are";
    swapped_pages: Zswap Gauge, "pages", "Entries in the swap file";
    compressed_bytes: Zswap Gauge, "bytes", "Sum of the lengths of entries in the pool";
    pool_bytes: Zswap Gauge, "bytes", "Memory of the pool, in whole pages";
    metadata_bytes: Zswap Gauge, "bytes", "Memory of the store's tables";
    swap_used_bytes: Zswap Gauge, "bytes", "Live records in the swap file";
    swap_file_bytes: Zswap Gauge, "bytes", "Extents of the swap file with live records";
    dictionary_bytes: Zswap Gauge, "bytes", "Memory of trained dictionaries";
    dictionaries: Zswap Gauge, "dictionaries", "Trained dictionaries in use";
    dictionary_stores: Zswap Counter, "pages", "Page compressed with a dictionary";
    pool_limit_hit: Zswap Counter, "checks", "Check that found the pool at its limit";
    written_back_pages: Zswap Counter, "pages", "Entry written back by the shrinker or the pool worker";
    reject_reclaim_fail: Zswap Counter, "pages", "Entry whose write-back failed; it stays in the pool";
    reject_pool_full: Zswap Counter, "pages", "Page refused since the pool reached its limit";
    reject_compress_poor: Zswap Counter, "pages", "Page refused because it does not compress";
    reject_compress_fail: Zswap Counter, "pages", "Page refused because the compressor failed";
    reject_alloc_fail: Zswap Counter, "pages", "Page refused because the arena is full";
    reject_kmemcache_fail: Zswap Counter, "pages", "Page refused because there are too many entries";
    decompress_fail: Zswap Counter, "pages", "Entry that did not decompress";
    swap_write_fail: Zswap Counter, "writes", "Batch the swap file did not take";
    swap_read_fail: Zswap Counter, "reads", "Read the swap file refused";
    swap_corrupt: Zswap Counter, "pages", "Record of the swap file with a wrong checksum";
    swap_full: Zswap Counter, "batches", "Batch for which the swap file had no room";
    swap_moved_pages: Zswap Counter, "pages", "Entry moved within the swap file to free an extent";
    slabs_scanned: Vmstat Counter, "entries", "Entry visited by the shrinker";
    pool_moved_objects: Zswap Counter, "objects", "Object moved by compaction of the pool";
    pool_compacted_pages: Zswap Counter, "pages", "Page given back by compaction of the pool";
}

/// What the pool holds at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The pool itself.
    pub bytes: u64,
    /// The same with the free pages that are backed by memory all the same.
    pub backed: u64,
    /// Bytes of the pages in it. Same-filled pages take no room and do not count.
    pub held: u64,
    /// What they were compressed to.
    pub compressed: u64,
}

/// What has happened to the pages of an owner, by the names of memory.stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerStats {
    /// Pages that came to the store.
    pub zswpout: u64,
    /// Pages loaded from memory.
    pub zswpin: u64,
    /// Pages written to the swap file.
    pub zswpwb: u64,
    /// Pages loaded from the swap file.
    pub pswpin: u64,
}

impl OwnerStats {
    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        self.zswpout += other.zswpout;
        self.zswpin += other.zswpin;
        self.zswpwb += other.zswpwb;
        self.pswpin += other.pswpin;
    }
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
        let mut names: Vec<_> = all.iter().map(|(metric, _)| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len(), "no name twice");
    }
}
