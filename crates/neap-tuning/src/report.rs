//! What neap says, and what it records.

use neap_units::{Bytes, Nanos};

use crate::Share;

crate::group! {
    /// What neap says, and what it records.
    report: Report {
        /// Warnings that are kept, and said.
        /// How many there are depends on what programs do. Chosen.
        warnings: usize = 256;
        /// Letters of one.
        /// Chosen.
        letters: usize = 1024;
        /// Processes that have a record of their own.
        /// Chosen.
        processes: usize = 4096;
        /// Reasons that are named at most for what reclaim cannot take, the largest first.
        /// Chosen.
        reasons: usize = 3;
        /// Share of all below which a reason is not named.
        /// Chosen.
        small_reason: Share = Share::one_in(16);
        /// Longest wait for the words on who was killed.
        /// Chosen.
        obituary: Nanos = Nanos::secs(2);
        /// Samples of a run over time.
        /// A page has hardly more points across. They take 92 KiB of neap's memory. Chosen.
        samples: usize = 512;
        /// Time between two of them at first; it doubles whenever there are as many.
        /// The sampler looks as often as that only while a job is near its limit. Chosen.
        sample: Nanos = Nanos::millis(100);
        /// Samples of the run of a job in a service.
        /// There may be a thousand jobs, of which each takes 23 KiB at most. Chosen.
        samples_of_job: usize = 128;
        /// Jobs of a service that are sampled at one look.
        /// The sampler is not kept for long, however many there are. Chosen.
        jobs_at_once: usize = 4;
        /// Jobs that the run of a service tells of: the largest.
        /// A page shows no more, and an answer stays small. Chosen.
        jobs_told: usize = 16;
        /// Bytes of a record that wait to be written at most.
        /// They count against the limit, as all memory of neap. Chosen.
        record_waiting: Bytes = Bytes::mib(4);
        /// A record of a run that ends suddenly lacks no more than this.
        /// Chosen.
        record_flush: Nanos = Nanos::secs(1);
        /// Time between two looks whether the rest of a record is written.
        /// Chosen.
        record_look: Nanos = Nanos::millis(1);
        /// Bytes of a record that are handed on at once.
        /// Chosen.
        record_block: Bytes = Bytes::kib(64);
        /// Calls after which the counters are recorded.
        /// Chosen.
        record_counts: u32 = 4096;
        /// Resolution of times in a record.
        /// Chosen.
        record_tick: Nanos = Nanos::micros(100);
    }
}
