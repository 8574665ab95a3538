//! Dictionaries of a program's own pages.

use neap_units::{Bytes, Pages};

use crate::Share;

crate::group! {
    /// Dictionaries of a program's own pages.
    dictionaries: Dictionaries {
        /// Least limit of a job that has dictionaries.
        /// Below it the 130 KiB that a dictionary takes would be better spent on pages.
        least_limit: Bytes = Bytes::mib(16);
        /// One stored page of this many is a sample.
        /// Samples should come from all over the program, and a program that stores less than 16 MiB would not save what a
        /// dictionary takes.
        sample_every: u64 = 64;
        /// Pages of a process on which the dictionary of its program is tried: the first that it stores, and then samples.
        /// A small process has not many more. Chosen.
        trial: Pages = Pages(8);
        /// Pages in a dictionary.
        /// With four the pages of redis gained nothing, and 16 did no better (ADR 0007).
        pages: Pages = Pages(8);
        /// Choices of pages that are compared.
        /// Chosen.
        choices: usize = 4;
        /// Highest level of zstd at which choices are compared.
        /// Reclaim waits for it.
        most_level: i32 = 3;
        /// Gain on the pages that judge, below which there is no dictionary.
        /// Less is not worth its memory and the longer compression. Chosen.
        least_gain: Share = Share::percent(5);
        /// By how much pages may be larger with tables in the dictionary than with tables of their own.
        /// They are compressed and decompressed in less time (ADR 0007).
        tables_may_cost: Share = Share::one_in(16);
    }
}

impl Dictionaries {
    /// Fewest pages worth choosing from, and as many as are collected: half of them judge.
    #[must_use]
    pub const fn samples(&self) -> Pages {
        Pages(2 * self.choices as u64 * self.pages.0)
    }

    /// Whether so many bytes instead of those make up for its memory and the longer compression.
    #[must_use]
    pub fn pays(&self, without: usize, with: usize) -> bool {
        let gain = without.saturating_sub(with) as u64;
        !self.least_gain.is_more_than(gain, without as u64)
    }

    /// Pages that a program stores until there are samples enough.
    #[must_use]
    pub const fn stored_before(&self) -> Pages {
        Pages(self.samples().0 * self.sample_every)
    }
}
