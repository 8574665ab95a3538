//! Changes of address spaces.

use neap_units::Nanos;

crate::group! {
    /// Changes of address spaces.
    changes: Changes {
        /// Stories with more changes than this are taken as they are most of the time.
        /// An unmapping that may end a move does then. Chosen.
        story: usize = 512;
        /// Unmappings of one story that are doubted, and all ways tried to take them.
        /// Chosen.
        doubts: usize = 5;
        /// Changes of a forked child that are read so that it can be asked what it began with.
        /// It is taken to have been forked where that was read, if it goes on changing. Chosen.
        of_child: usize = 16;
        /// Discards that are looked at for the same one, to be kept once.
        /// Chosen.
        discards: usize = 16;
        /// Time after which an announced madvise has surely acted.
        /// It has nothing left to wait for but the cpu and the lock of its address space. Chosen.
        madvise: Nanos = Nanos::secs(10);
    }
}
