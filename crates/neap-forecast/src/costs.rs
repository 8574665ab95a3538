//! What neap takes for its work with one compressor or another.

use neap_engine::PlayCosts;
use neap_sim::{LZ4, Packing};
use neap_units::Nanos;

/// Costs with another compressor than lz4: what a page takes beside it stays.
pub(crate) fn with(costs: &PlayCosts, packing: &Packing) -> PlayCosts {
    let other = |cost: Nanos, lz4: u64, times: f64| {
        Nanos(cost.0.saturating_sub(lz4) + (lz4 as f64 * times) as u64)
    };
    PlayCosts {
        fill: other(costs.fill, LZ4.1, packing.decompress),
        compress: other(costs.compress, LZ4.0, packing.compress),
        compare: other(costs.compare, LZ4.1, packing.decompress),
        ..*costs
    }
}
