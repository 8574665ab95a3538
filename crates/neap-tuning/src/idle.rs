//! Taking memory out of processes that do nothing, before any limit is met.

use neap_units::{Nanos, Pages};

use crate::Share;

crate::group! {
    /// Taking memory out of processes that do nothing, before any limit is met.
    idle: Idle {
        /// How long a process of a service must have done nothing, where nobody has said so.
        /// A person who comes back from a short break finds all in place. Chosen.
        service: Nanos = Nanos::secs(600);
        /// Share of one cpu below which a process does nothing.
        /// A program that wakes for a timer some times a second stays below it, and one at work is far above it. Chosen.
        share: Share = Share::one_in(64);
        /// Looks at processor times in the time for which a process must do nothing.
        /// It must do nothing between any two of them. Chosen.
        looks: u64 = 4;
        /// Shortest time between two looks.
        /// Chosen.
        look: Nanos = Nanos::millis(100);
        /// Longest time between two looks.
        /// A process that wakes is to be let be soon. Chosen.
        look_at_most: Nanos = Nanos::secs(5);
        /// Shortest time for which a process must do nothing.
        /// Chosen.
        least: Nanos = Nanos::millis(100);
        /// Longest such time.
        /// Thirty days: a longer one is a slip. Chosen.
        most: Nanos = Nanos::secs(30 * 24 * 3600);
        /// What is taken at first is this part of what idle processes have.
        /// Chosen.
        first: u64 = 16;
        /// The largest part that is taken at once.
        /// The first touches of what should have stayed are to be seen before the rest is gone. Chosen.
        largest: u64 = 4;
        /// The smallest part.
        /// Chosen.
        smallest: u64 = 1024;
        /// Fewest pages that are taken at once.
        /// One command to an agent. Chosen.
        pages: Pages = Pages(64);
        /// Share of the time between two looks for which threads of the job may wait for memory.
        /// That of Meta's senpai, which watches the kernel's pressure in the same way.
        pressure: Share = Share::one_in(1000);
        /// Share of the pages taken lately that may come back between two looks.
        /// More of them should have stayed. Chosen.
        refaults: Share = Share::one_in(16);
        /// Most looks that pass before it is tried again.
        /// Chosen.
        pause: u32 = 64;
    }
}
