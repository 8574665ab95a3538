//! What the forecast of `neap sim` takes neap to cost.

use neap_units::Bytes;

use crate::Share;

crate::group! {
    /// What the forecast of `neap sim` takes neap to cost.
    forecast: Forecast {
        /// Memory of neap itself beside the pool.
        /// Measured, with that for each page: 1.9 MiB with 128 MiB of pages.
        own: Bytes = Bytes::kib(1536);
        /// The same for each page.
        /// As above.
        own_per_page: Bytes = Bytes(16);
        /// What the pool takes over the compressed bytes, as a share of them.
        /// Measured.
        pool_overhead: Share = Share::percent(6);
        /// Pages sent home for each resident one, without one that stays out, after which a run has no end.
        /// Chosen.
        in_vain: u64 = 4;
        /// Least of the costs, in percent of the likely ones.
        /// Machines, and how busy they are, differ. Chosen.
        costs_least: u64 = 70;
        /// Most of the costs, in percent of the likely ones.
        /// As above.
        costs_most: u64 = 170;
        /// Share of a record's time that the program itself takes at least.
        /// What is taken off for waits is only modelled. Chosen.
        least_own: Share = Share::percent(2);
        /// Share of what neap took in a recorded run that it takes in one that is not recorded.
        /// Three programs waited 0.59, 0.74 and 0.78 times as long without the recorder.
        recorded: Share = Share::percent(75);
        /// The same at least.
        /// As above.
        recorded_least: Share = Share::percent(55);
        /// Least memory that a program is given on an imagined Linux.
        /// No program runs in less.
        least: Bytes = Bytes::kib(64);
    }
}
