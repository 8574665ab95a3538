//! Event counters, by the kernel's names where the kernel has the event.

use crate::generations::Refault;
use crate::page::{Heat, Step};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What has happened to the pages of a job so far. All but
        /// `aged_generations` and `passed_over` are names of /proc/vmstat and count pages.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Vmstat {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Vmstat {
            /// The name of every counter, and what it counts.
            pub const MEANINGS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),+).trim_ascii()),)+];

            /// Adds the counters of another.
            pub fn add(&mut self, other: &Vmstat) {
                $(self.$name += other.$name;)+
            }

            /// Every counter with its name, in a fixed order.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Pages reclaim isolated.
    pgscan,
    /// Pages that left memory for the store.
    pgsteal,
    /// Pages that aging took out of the two youngest generations.
    pgrefill,
    /// Pages that went to the youngest generation because they were touched on the
    /// way out or came back soon.
    pgactivate,
    /// Isolated pages that were put back because the kernel refused to move them.
    pgrotated,
    /// Pages loaded that had been evicted.
    workingset_refault_anon,
    /// Loaded pages that went to the youngest generation: they had not been away for
    /// long.
    workingset_activate_anon,
    /// Loaded pages that came back soon and had been activated before they left.
    workingset_restore_anon,
    /// Generations opened by aging.
    aged_generations,
    /// Pages whose turn to leave had come, and that stayed for once since they were referenced.
    passed_over,
    /// Pages that were made to leave sooner by what the program said of them (MADV_COLD, MADV_SEQUENTIAL, MADV_RANDOM).
    pgdeactivate,
}

impl Vmstat {
    /// Counts a step that was carried out. `promoted`: the page did not go to probation.
    #[inline]
    pub(super) fn count(&mut self, taken: Step, promoted: bool) {
        match taken {
            Step::CommitStore(_) => self.pgsteal += 1,
            Step::Putback(Heat::Hot) | Step::EndReturn(Heat::Hot) => {
                self.pgactivate += u64::from(promoted);
            }
            Step::Putback(Heat::Warm) => self.pgrotated += 1,
            _ => (),
        }
    }

    #[inline]
    pub(super) fn count_refault(&mut self, refault: Refault) {
        self.workingset_refault_anon += 1;
        self.workingset_activate_anon += u64::from(refault.activated);
        self.pgactivate += u64::from(refault.activated);
        self.workingset_restore_anon += u64::from(refault.restored);
    }
}
