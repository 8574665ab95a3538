//! What neap takes for its work.

use neap_units::Nanos;

use super::Packing;
use super::packing::LZ4;

/// Times of `neap run` on a virtual machine of two cpus with Linux 6.18. Measured there: a fault with one
/// page, and what reclaim takes for a page in all (`docs/experiments/forecast.md` has the commands). How
/// they divide, and the rest, is chosen: see [`NeapCosts::LIKELY`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NeapCosts {
    /// A fault that has to be served, from the touch until the program goes on, without the pages.
    pub fault: Nanos,
    /// A page that is decompressed and filled.
    pub fill: Nanos,
    /// A page that is moved back from staging with others.
    pub back: Nanos,
    /// Fresh memory that comes through neap, for each page, over what it costs anyway.
    pub fresh: Nanos,
    /// Moving neighbours out, for each run of them.
    pub run: Nanos,
    /// Moving out and giving the frame back, for each page.
    pub out: Nanos,
    /// Compressing a page.
    pub compress: Nanos,
    /// Finding that a page is as its compressed copy.
    pub compare: Nanos,
    /// A read of the swap file.
    pub disk_read: Nanos,
    /// Writing a page to it, packed with others.
    pub disk_write: Nanos,
}

impl NeapCosts {
    /// With lz4, `fault` and `fill` are 28 us together, `out` and `compress` 8 us with their share of `run`. The rest
    /// are guesses of their size: a comparison decompresses, a move back is one of many, and the disk is a VM's.
    pub const LIKELY: NeapCosts = NeapCosts {
        fault: Nanos(26_000),
        fill: Nanos(2_300),
        back: Nanos(300),
        fresh: Nanos(1_000),
        run: Nanos(800),
        out: Nanos(1_500),
        compress: Nanos(6_000),
        compare: Nanos(2_000),
        disk_read: Nanos(75_000),
        disk_write: Nanos(20_000),
    };

    /// The same with another compressor: what a page takes beside it stays.
    #[must_use]
    pub fn with(&self, packing: &Packing) -> NeapCosts {
        let other = |cost: Nanos, lz4: u64, times: f64| {
            Nanos(cost.0.saturating_sub(lz4) + (lz4 as f64 * times) as u64)
        };
        NeapCosts {
            fill: other(self.fill, LZ4.1, packing.decompress),
            compress: other(self.compress, LZ4.0, packing.compress),
            compare: other(self.compare, LZ4.1, packing.decompress),
            ..*self
        }
    }

    /// So many percent of all of them.
    #[must_use]
    pub fn percent(&self, percent: u64) -> NeapCosts {
        let of = |cost: Nanos| Nanos(cost.0.saturating_mul(percent) / 100);
        NeapCosts {
            fault: of(self.fault),
            fill: of(self.fill),
            back: of(self.back),
            fresh: of(self.fresh),
            run: of(self.run),
            out: of(self.out),
            compress: of(self.compress),
            compare: of(self.compare),
            disk_read: of(self.disk_read),
            disk_write: of(self.disk_write),
        }
    }
}
