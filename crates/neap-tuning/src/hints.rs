//! What programs say of their memory (madvise).

use neap_units::{Nanos, Pages};

use crate::Share;

crate::group! {
    /// What programs say of their memory (madvise).
    hints: Hints {
        /// Time between two looks for hints of which the library did not tell, where faults are served.
        /// It tells of all but those that come too fast. Chosen.
        notes: Nanos = Nanos::millis(50);
        /// Hints of one space that wait to be carried out.
        /// A program that says more, faster than it is done, has the rest forgotten. Chosen.
        waiting: usize = 256;
        /// Pages of the table that are looked at under one hold of the core.
        /// Chosen.
        walk: Pages = Pages(4096);
        /// Blocks that are taken out for MADV_PAGEOUT before reclaim looks whether the limit wants something.
        /// Chosen.
        blocks: usize = 16;
        /// Pages from which on MADV_PAGEOUT waits until they are out.
        /// A program that gives its memory back page by page would do little else than wait. Chosen.
        waits_from: Pages = Pages(64);
        /// How often a block is tried of which pages would not move for now.
        /// Some 20 ms in all, where the program changes its memory all the time. Chosen.
        tries: u32 = 100;
        /// How long MADV_PAGEOUT waits for the next block.
        /// Then the program goes on, and the rest is taken out behind it. Chosen.
        patience: Nanos = Nanos::millis(100);
        /// Share of the limit that one MADV_WILLNEED brings back at most.
        /// More would push out what came first. Chosen.
        ahead: Share = Share::one_in(2);
        /// Pages that are brought back before they are put where they stay.
        /// Until then they may be on probation. Chosen.
        step: Pages = Pages(64);
        /// How long bringing back waits for room each time.
        /// Chosen.
        room: Nanos = Nanos::millis(1);
        /// How often in a row it waits so.
        /// Chosen: a tenth of a second in all.
        rooms: u32 = 100;
        /// Shortest time between two looks at the flags of a program's mappings.
        /// Advice by system calls of the program's own is seen there alone. Chosen.
        flags: Nanos = Nanos::secs(1);
        /// The same in times that the last look took, and for each process that there is: the kernel walks every page for it.
        /// One in a hundred of a cpu at most, for all processes together. Chosen.
        flags_rest: u64 = 100;
    }
}
