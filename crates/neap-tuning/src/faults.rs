//! Serving faults: what is filled, and where the thread that serves runs.

use neap_units::{Bytes, Nanos, Pages};

use crate::Share;

crate::group! {
    /// Serving faults: what is filled, and where the thread that serves runs.
    faults: Faults {
        /// Fresh pages filled for one fault at most.
        /// Chosen.
        fresh: Pages = Pages(32);
        /// The same near the limit: what may be filled without room for it.
        /// Chosen.
        fresh_near: Pages = Pages(16);
        /// Pages of what a fork shared that may be copied for one fault at most, where there is room.
        /// A fault costs some 10 us, and a copy of so many pages 100. Chosen.
        copied: Pages = Pages(128);
        /// The same near the limit.
        /// Chosen.
        copied_near: Pages = Pages(8);
        /// Of so much room at most a part may be copied for one fault.
        /// Others copy, too. Chosen.
        copied_share: Share = Share::one_in(4);
        /// Pages that a process may copy unheld before what it shares is write-protected.
        /// Most children copy a few, and execute another program. Chosen.
        copied_unheld: Pages = Pages(64);
        /// How much is write-protected at once.
        /// Nothing leaves, and no fault is served, meanwhile. Whole huge pages. Chosen.
        held_part: Bytes = Bytes::mib(8);
        /// Copies are not held up again for what the process copies before so many times the time that it took.
        /// A process that forks all the time copies the same pages all the time. Chosen.
        holds_rest: u64 = 16;
        /// Places of one space whose growth is followed.
        /// An allocator hands out from one for each size and thread, and data grows beside it. Chosen.
        fresh_places: usize = 8;
        /// Time that others may keep a thread from its cpu for each fault, if it is to be kept there.
        /// Chosen.
        long_wait: Nanos = Nanos::micros(50);
        /// Threads in a row that are not kept where no cpu is idle.
        /// Chosen.
        trusted: u32 = 7;
        /// Faults between two judgements of whether keeping a thread, or going behind it, pays.
        /// Chosen.
        judged_every: u32 = 256;
        /// Faults of a trial, after a time of being left alone.
        /// Chosen.
        trial: u32 = 16;
        /// Judgements for which keeping is left alone after the first trial that failed.
        /// Who is kept where a cpu is wanted may wait for milliseconds each time, and nobody looks after it meanwhile. Chosen.
        keep_left: u32 = 4;
        /// The same for going behind.
        /// What a trial loses at most, some hundred faults make good: the watch ends it where this thread stands still. Chosen.
        behind_left: u32 = 1;
        /// How many times as many after each further trial that failed.
        /// Chosen.
        left_growth: u32 = 4;
        /// Most judgements for which either is left alone.
        /// Chosen.
        left_at_most: u32 = 1024;
        /// Faults, each soon after the one before, after which the thread that serves goes behind.
        /// Chosen.
        burst: u32 = 16;
        /// Longest pause between two such faults.
        /// Chosen.
        soon: Nanos = Nanos::millis(2);
        /// Faults in a row that had to wake this thread, after which the program's thread is looked for.
        /// It is on another cpu. Chosen.
        strayed: u32 = 2;
        /// Faults for which it is not looked for again.
        /// Chosen.
        settled: u32 = 16;
        /// Share of what comes that others than the thread that is served may ask for without being minded.
        /// Chosen.
        strangers: Share = Share::one_in(8);
        /// Time between two looks at those behind.
        /// Chosen.
        watch: Nanos = Nanos::millis(1);
        /// Looks in a row at which a thread is late before it is put ahead.
        /// One alone may be the machine's own pause.
        late: u32 = 2;
        /// Threads that are behind at most.
        /// Chosen.
        behind: usize = 64;
        /// Longest sleep while nobody would tell of the end of the address space.
        /// It has no agent. Chosen.
        alone: Nanos = Nanos::millis(10);
        /// First sleep while changes wait for others that are still to come; the next is twice as long, and so on.
        /// Chosen.
        unsure: Nanos = Nanos::micros(30);
        /// Longest such sleep.
        /// Chosen.
        unsure_at_most: Nanos = Nanos::millis(1);
        /// A change is usually complete within this time.
        /// Chosen.
        long_unsure: Nanos = Nanos::micros(500);
        /// How long its end is then looked for after each event.
        /// More than a call takes that changes an address space, and no more than its thread can do without a cpu that we share.
        look: Nanos = Nanos::micros(50);
        /// How long a fill is tried again and again where something has waited for long.
        /// A thread whose event was read is woken within this time, and goes on until its next change begins.
        gap: Nanos = Nanos::micros(15);
        /// Shortest nap before such a fill.
        /// The thread that has the cpu meanwhile starts 2 us later. Chosen.
        nap: Nanos = Nanos::micros(2);
        /// Naps differ by as much at most.
        /// A call that changes an address space ends about then, at a moment that depends on the machine. Chosen.
        nap_spread: Nanos = Nanos::micros(4);
        /// Naps on one cpu before the next is tried.
        /// Threads that change mappings share another, it may be. Chosen.
        naps_here: u32 = 4;
        /// Reads in a row that tell of no change, after which naps are of no use.
        /// Some thread stands still in its call. Chosen.
        naps_quiet: u32 = 16;
        /// A change of the address space that takes longer is looked into.
        /// Chosen.
        long_change: Nanos = Nanos::millis(5);
        /// Rest from such looks, in times that the last one took.
        /// Thousands of threads may wait. Chosen.
        looks_rest: u64 = 8;
        /// Longest look at a gate that is closed.
        /// Chosen.
        spin: Nanos = Nanos::micros(100);
        /// Pauses of the cpu between two tries in it.
        /// Chosen.
        spin_pauses: u32 = 20;
        /// Reads in a row that may find nothing, though there was to be something, before each is followed by a pause.
        /// The process can make the kernel say so, and read what there is itself. Chosen.
        fruitless: u32 = 64;
        /// Pause after such a read.
        /// Chosen.
        fruitless_pause: Nanos = Nanos::millis(1);
        /// Pause before events that could not be read are tried again.
        /// Chosen.
        unread_pause: Nanos = Nanos::millis(5);
        /// Pause before faults that had to wait are tried again.
        /// Chosen.
        again: Nanos = Nanos::micros(100);
        /// Longest sleep of faults that wait for room.
        /// They are called when there is some. Chosen.
        held: Nanos = Nanos::millis(10);
        /// Who waits for room and was not called is not tried again before.
        /// Chosen.
        held_again: Nanos = Nanos::millis(1);
    }
}
