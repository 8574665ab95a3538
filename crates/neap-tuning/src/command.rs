//! The command: `neap run` and `neap doctor`.

use neap_units::{Bytes, Nanos};

crate::group! {
    /// The command: `neap run` and `neap doctor`.
    command: Command {
        /// Two SIGINT within this time mean that the first did not help, with `--escalate`.
        /// Chosen.
        impatience: Nanos = Nanos::secs(2);
        /// How often the command is tried to be started where there are too many processes.
        /// Half a second in all: threads of neap's own end while it starts.
        starts: usize = 50;
        /// Pause between two such tries.
        /// Chosen.
        between_starts: Nanos = Nanos::millis(10);
        /// Pages that came back, in times those of the limit, from which on the summary speaks of it.
        /// Chosen.
        often: u64 = 2;
        /// Pages that came back in each second, from which on it does.
        /// Fewer leave the program most of its time.
        fast: u64 = 10_000;
        /// Below this `ulimit -v` is in neap's way.
        /// Chosen.
        enough_addresses: Bytes = Bytes::gib(2);
        /// Below this `ulimit -n` is in neap's way.
        /// It is enough for some thirty processes.
        enough_files: u64 = 256;
    }
}
