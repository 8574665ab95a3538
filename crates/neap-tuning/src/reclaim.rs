//! Picking pages, staging and storing them, and when that is in vain.

use neap_units::{Nanos, Pages};

use crate::Share;

crate::group! {
    /// Picking pages, staging and storing them, and when that is in vain.
    reclaim: Reclaim {
        /// Share of the limit that staged pages may take before the oldest are compressed.
        /// It is the program's memory all the same, but each touch of it is a fault. Chosen.
        staged: Share = Share::one_in(128);
        /// Most threads that compress beside reclaim.
        /// More would find the locks of table and store taken.
        workers: usize = 3;
        /// Pages that are read at once to be compressed.
        /// What the inner caches hold beside the compressor's tables: 64 KiB.
        read: Pages = Pages(16);
        /// Longest sleep of reclaim.
        /// Chosen.
        sleep: Nanos = Nanos::millis(100);
        /// Longest sleep of reclaim while a command is late.
        /// Chosen.
        sleep_while_late: Nanos = Nanos::millis(1);
        /// Time between two checks of all structures, where NEAP_CHECK asks for them.
        /// Chosen.
        checks: Nanos = Nanos::millis(200);
        /// Pause when no page of any space would move.
        /// Chosen.
        pause: Nanos = Nanos::micros(300);
        /// Longest pause while the pool is full and the disk at work.
        /// Chosen.
        pause_for_disk: Nanos = Nanos::millis(2);
        /// Batches that are picked at most to find pages that a young child has alone.
        /// Its gate is held meanwhile: some milliseconds. Chosen.
        picks_of_own: usize = 32;
        /// Relatives up to which a page that they share leaves all of them in one pass.
        /// Their copies are staged until it has ended. Chosen.
        together: usize = 8;
        /// Age up to which what a forked child shares stays, for each process of its family.
        /// Most children end or execute before that. Chosen.
        spared: Nanos = Nanos::millis(30);
        /// Faults of a young child after which it is looked again what it has alone.
        /// A look takes a millisecond and more. Chosen.
        news: u64 = 32;
        /// Shortest rest once nothing is left, and how often it is looked whether that is still so.
        /// Chosen.
        rest: Nanos = Nanos::millis(50);
        /// Longest rest once nothing is left.
        /// Chosen.
        rest_at_most: Nanos = Nanos::secs(1);
        /// Times that a round in vain took, for which reclaim rests after it.
        /// Reclaim would take a cpu for itself otherwise.
        rest_times: u64 = 4;
        /// Time between two looks at who has joined, while reclaim works.
        /// A look compares all groups. Chosen.
        meet: Nanos = Nanos::millis(10);
        /// Share of the limit by which usage must change for a rest to end.
        /// There is much more or less memory to try it with then. Chosen.
        rest_ends: Share = Share::one_in(8);
        /// Passes after which the shrinker is asked.
        /// Chosen.
        passes: u32 = 16;
        /// A pool that takes no more than this share of the limit is small.
        /// Chosen.
        small_pool: Share = Share::one_in(4);
        /// Program bytes that a byte of the pool must hold to be better kept than written.
        /// Chosen.
        pool_worth: u64 = 2;
        /// Time for which a look at who is at work holds.
        /// A look asks for each process.
        company: Nanos = Nanos::millis(20);
        /// Who took less than this share of the time since the last look was idle.
        /// Chosen.
        idle: Share = Share::one_in(64);
        /// Share of the pages refused in a round that must be stored for reclaim to be worth its work.
        /// Chosen.
        worth: Share = Share::one_in(64);
        /// Passes in vain, beyond those that try everything once, after which nothing is left to reclaim.
        /// Chosen.
        patience: u64 = 100;
        /// Passes in vain, each with its pause, after which faults may go through.
        /// Chosen.
        few_passes: u64 = 16;
        /// Time after which faults may go through where nothing moves at all.
        /// Everything was tried. Chosen.
        still: Nanos = Nanos::millis(20);
        /// Time after which faults may go through where pages move and come back, or nobody lets go just now.
        /// Several times what a late agent holds reclaim up.
        in_vain: Nanos = Nanos::millis(100);
        /// Time without a page stored or written back after which nothing is left to reclaim.
        /// Chosen.
        fruitless: Nanos = Nanos::secs(2);
        /// Time without a page after which nothing is left while the disk is at work or somebody does not let go.
        /// Chosen.
        slow: Nanos = Nanos::secs(10);
        /// A job that was far over its limit for this long while nothing came is told of it.
        /// Chosen.
        over: Nanos = Nanos::millis(50);
        /// Time after which another job of a service is killed, where the one that was killed has memory still.
        /// Gigabytes are freed within it; what waits for a dead disk cannot be killed. Chosen.
        dies: Nanos = Nanos::secs(5);
        /// Times at most that the wait for faults to go through is halved.
        /// Each time in vain makes the next wait half as long. Chosen.
        halvings: u32 = 6;
    }
}
