//! Which pages leave, where neap learns of accesses by faults only.

use crate::Share;

crate::group! {
    /// Which pages leave, where neap learns of accesses by faults only.
    picking: Picking {
        /// Share of the resident pages above which those on probation leave before all others.
        /// Chosen.
        probation: Share = Share::one_in(16);
        /// A page came back soon if no more were evicted meanwhile than this share of the pages in generations.
        /// Chosen.
        soon: Share = Share::one_in(4);
        /// Of the pages that are due for probation one in so many is let off.
        /// So memory that is not used any more gives way even where nothing comes back soon. Chosen.
        let_off_every: u64 = 32;
        /// Pages that a pick passes over at most, in times those it is for.
        /// It is made under a lock for which faults wait. Chosen.
        passed_over: usize = 4;
        /// Evictions after which older ones count half.
        /// Chosen.
        lately: u32 = 256;
        /// Pages kept out of generations before a trial lets them in, in times the pages there.
        /// A trial costs a load for each page of the generations. Chosen.
        between_trials: u64 = 2;
    }
}
