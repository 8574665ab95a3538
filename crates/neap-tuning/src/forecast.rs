//! What the forecast of `neap sim` takes neap to cost.

use neap_units::{Bytes, Nanos};

use crate::Share;

crate::group! {
    /// What the forecast of `neap sim` takes neap to cost.
    forecast: Forecast {
        /// A fault that has to be served, without the pages.
        /// Measured: with a page of lz4 28 us.
        fault: Nanos = Nanos::micros(26);
        /// A page that is decompressed by lz4 and filled.
        /// As above.
        fill: Nanos = Nanos(2_300);
        /// A page that is moved back from staging with others.
        /// Guessed.
        back: Nanos = Nanos(300);
        /// A fresh page that comes through neap, over what it costs anyway, beside its share of a fault.
        /// Measured: 1 us in a walk, of which a fault for 32 pages is 0.8.
        fresh: Nanos = Nanos(200);
        /// Moving neighbours out, for each run of them.
        /// Part of 8 us a page, which were measured with the next two.
        run: Nanos = Nanos(800);
        /// Moving a page out and giving the frame back.
        /// As above.
        out: Nanos = Nanos(1_500);
        /// Compressing a page with lz4.
        /// As above.
        compress: Nanos = Nanos::micros(6);
        /// Finding that a page is as its compressed copy.
        /// Guessed: it decompresses.
        compare: Nanos = Nanos::micros(2);
        /// A read of the swap file.
        /// Guessed: the disk of a virtual machine.
        disk_read: Nanos = Nanos::micros(75);
        /// Writing a page to it, packed with others.
        /// As above.
        disk_write: Nanos = Nanos::micros(20);
        /// What a pass of reclaim takes at least, also if nothing came of it.
        /// Chosen: it keeps imagined time going.
        least_pass: Nanos = Nanos::micros(2);
        /// Turns in which the engine may serve one touch before its program is given up.
        /// Chosen: seconds of imagined time.
        tries: u32 = 20_000;
        /// Memory of neap itself beside the pool and its tables.
        /// Measured long ago. Runs of four programs took 1.7 to 2.6 MiB since; with 2 MiB the one forecast that was tried came out worse, for a
        /// reason that is not known yet.
        own: Bytes = Bytes::kib(1536);
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
