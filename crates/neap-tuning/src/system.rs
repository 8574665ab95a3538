//! Calls into the kernel: batches, and how often what fails is tried.

use neap_units::Nanos;

crate::group! {
    /// Calls into the kernel: batches, and how often what fails is tried.
    system: System {
        /// Messages of a userfaultfd that one read takes.
        /// Chosen.
        messages: usize = 16;
        /// Words of a pagemap that are read at once.
        /// Chosen.
        words: usize = 64;
        /// Ends of processes that are taken at once.
        /// Chosen.
        ends: usize = 64;
        /// Callers that the kernel keeps until they are accepted.
        /// Chosen.
        backlog: i32 = 128;
        /// How often a call is tried whose errors pass.
        /// Chosen.
        calls: u32 = 5;
        /// Names that are tried for a swap file that cannot be without one.
        /// Chosen.
        names: u32 = 16;
        /// Longest chain of parents that is followed from a caller.
        /// Chosen.
        parents: usize = 1024;
        /// Looks at a chain that changes.
        /// Whoever stands above us in it has just ended. Chosen.
        chains: usize = 16;
        /// How often it is looked for descendants to be killed.
        /// Half a second at most, for one that the kernel cannot end now.
        kills: usize = 100;
        /// Pause between two such looks.
        /// Chosen.
        between_kills: Nanos = Nanos::millis(5);
        /// How often it is looked for children once neap itself has failed.
        /// 2 s in all. Chosen.
        aborts: u32 = 400;
        /// Pause between two such looks.
        /// Chosen.
        between_aborts: Nanos = Nanos::millis(5);
        /// Nice value of the thread that writes to the swap file.
        /// A good priority: it only starts what the disk does. Chosen.
        nice: i32 = -15;
        /// How far ahead the timer of a nap is armed.
        /// It takes 6 us to arm one on a virtual machine, and the longest nap is to begin after that. Chosen.
        nap_lead: Nanos = Nanos::micros(30);
    }
}
