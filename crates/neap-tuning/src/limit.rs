//! How the limit of a job is held.

use neap_units::{Bytes, Nanos};

use crate::Share;

crate::group! {
    /// How the limit of a job is held.
    limit: Limit {
        /// Least limit that `-m` takes.
        /// neap's own memory alone may take this much, so a smaller one is a slip.
        least: Bytes = Bytes::mib(4);
        /// A larger limit is taken for this one.
        /// 4 PiB, which is all that x86-64 can address. Sums and multiples of it fit in 64 bits.
        most: Bytes = Bytes::gib(1 << 22);
        /// What a job may be beyond its limit for a moment, whatever that is.
        /// The specification promises it.
        burst: Bytes = Bytes::mib(4);
        /// What a job may be beyond its limit for a moment, as a share of it, besides.
        /// The specification promises it.
        burst_share: Share = Share::one_in(50);
        /// What is left free below the limit of a memory cgroup, whatever that is.
        /// The cgroup charges page tables, kernel stacks and the program's text, which neap does not count, and the burst.
        cgroup_spare: Bytes = Bytes::mib(8);
        /// What is left free below the limit of a memory cgroup, as a share of it, besides.
        /// As above.
        cgroup_spare_share: Share = Share::one_in(20);
        /// What the kernel takes for a mapping.
        /// The mapping, its reverse map (anon_vma) and its part of a tree: 380 bytes were seen for each of 40,000.
        mapping: Bytes = Bytes(384);
        /// Mappings of a process that do not count.
        /// Nearly every program has fewer, and the burst covers them. Chosen.
        mappings_free: u64 = 1024;
        /// Most bytes a nanosecond that one cpu can add by native faults.
        /// Zeroing huge pages comes near it, faults of base pages stay well below.
        fastest: u64 = 3;
        /// Time between deciding to register memory and having registered it.
        /// A wake-up, the walk of the mappings and one call for each of them.
        register: Nanos = Nanos::millis(4);
        /// Share of the limit at which memory is registered at the latest.
        /// Adopting what is present takes time too, and grows with the limit. Chosen.
        register_by: Share = Share::percent(75);
        /// Share of the limit below which nothing is registered.
        /// A program that small is better left alone. Chosen.
        register_from: Share = Share::percent(25);
        /// Shortest sleep between samples.
        /// In it the worst case takes a quarter of what `register` leaves; sampling more often would cost a visible share of
        /// a cpu.
        sample: Nanos = Nanos::millis(1);
        /// Longest sleep between samples where the limit is far.
        /// What a fork or a change of the limit may stay unseen. Chosen.
        sample_at_most: Nanos = Nanos::millis(200);
        /// Longest sleep between samples once memory is registered, and less is free than the program could take in four times as long.
        /// Fresh pages are counted as they are filled, so only what escapes neap is left to sample. Chosen.
        sample_registered: Nanos = Nanos::millis(20);
        /// Time that reclaim needs to free the first pages once it is woken.
        /// The headroom is what the program may take meanwhile. Chosen.
        reclaim_within: Nanos = Nanos::millis(3);
        /// Least headroom of any limit.
        /// A batch of reclaim.
        headroom: Bytes = Bytes::kib(256);
        /// Least headroom where the limit has it to spare.
        /// A few batches of reclaim.
        headroom_large: Bytes = Bytes::mib(1);
        /// Share of the limit that it has to spare.
        /// Reclaim keeps up to one and a half times the least headroom free, which a small working set misses more than a
        /// large one.
        headroom_spare: Share = Share::one_in(64);
        /// Least headroom as a share of the limit.
        /// Chosen.
        headroom_share: Share = Share::one_in(128);
        /// Most headroom as a share of the limit.
        /// Memory kept free is memory not used. Chosen.
        headroom_at_most: Share = Share::one_in(8);
        /// Share of the headroom that reclaim frees beyond it once it has begun.
        /// Chosen.
        reclaim_beyond: Share = Share::one_in(2);
        /// Share of the headroom below which fresh pages wait for room.
        /// Chosen.
        hold_within: Share = Share::one_in(4);
        /// Time in which growth that was seen is forgotten.
        /// Programs allocate in bursts, and the next one is likely to be like the last. Chosen.
        forget: Nanos = Nanos::millis(100);
        /// The same for growth that waited for nothing.
        /// A program that maps memory anew does so all its life. Chosen.
        forget_native: Nanos = Nanos::secs(2);
        /// Samples closer than this say nothing about a rate.
        /// One window of readahead would look like gigabytes a second.
        rate_over: Nanos = Nanos::micros(200);
        /// Share of the limit that reclaim leaves to the programs in any case.
        /// Chosen.
        floor: Share = Share::one_in(16);
        /// Least memory that reclaim leaves to the programs.
        /// The code and stacks of a program need it to get on at all.
        floor_least: Bytes = Bytes::mib(2);
    }
}

impl Limit {
    /// What a job with this limit may be for a moment.
    #[must_use]
    pub const fn allowed(&self, limit: Bytes) -> Bytes {
        let burst = self.burst.0 + self.burst_share.of(limit.0);
        limit.saturating_add(Bytes(burst))
    }
}
