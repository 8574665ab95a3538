//! Event counters under the kernel's names (SPEC 6).

use std::ops::{Index, IndexMut};

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// One counter of `/proc/vmstat`, `memory.stat` or `memory.events`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Counter { $($(#[$doc])* $variant,)+ }

        impl Counter {
            /// All of them, in the order of reports.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant),+];

            /// The kernel's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name),+ }
            }
        }
    };
}

counters!(
    /// Faults of any kind.
    Pgfault = "pgfault",
    /// Faults that needed I/O or decompression.
    Pgmajfault = "pgmajfault",
    /// Pages isolated for reclaim by kswapd.
    PgscanKswapd = "pgscan_kswapd",
    /// Pages isolated for reclaim by allocating and charging tasks.
    PgscanDirect = "pgscan_direct",
    /// Pages isolated for `memory.reclaim`.
    PgscanProactive = "pgscan_proactive",
    /// Pages reclaimed by kswapd.
    PgstealKswapd = "pgsteal_kswapd",
    /// Pages reclaimed by allocating and charging tasks.
    PgstealDirect = "pgsteal_direct",
    /// Pages reclaimed for `memory.reclaim`.
    PgstealProactive = "pgsteal_proactive",
    /// Anonymous pages isolated.
    PgscanAnon = "pgscan_anon",
    /// File pages isolated.
    PgscanFile = "pgscan_file",
    /// Anonymous pages reclaimed.
    PgstealAnon = "pgsteal_anon",
    /// File pages reclaimed.
    PgstealFile = "pgsteal_file",
    /// Pages of the active list looked at (generations: sorted).
    Pgrefill = "pgrefill",
    /// Pages made active.
    Pgactivate = "pgactivate",
    /// Pages made inactive.
    Pgdeactivate = "pgdeactivate",
    /// Pages moved to the reclaim end.
    Pgrotated = "pgrotated",
    /// Anonymous pages read in with a shadow.
    WorkingsetRefaultAnon = "workingset_refault_anon",
    /// File pages read in with a shadow.
    WorkingsetRefaultFile = "workingset_refault_file",
    /// Of those, recent ones.
    WorkingsetActivateAnon = "workingset_activate_anon",
    /// Of those, recent ones.
    WorkingsetActivateFile = "workingset_activate_file",
    /// Of the recent ones, those that had been working set when they left.
    WorkingsetRestoreAnon = "workingset_restore_anon",
    /// Of the recent ones, those that had been working set when they left.
    WorkingsetRestoreFile = "workingset_restore_file",
    /// Pages taken by zswap.
    Zswpout = "zswpout",
    /// Pages given by zswap.
    Zswpin = "zswpin",
    /// Pages written from zswap to the device.
    Zswpwb = "zswpwb",
    /// Pages written to the device.
    Pswpout = "pswpout",
    /// Pages read from the device.
    Pswpin = "pswpin",
    /// Pages of zeros marked in the map.
    SwpoutZero = "swpout_zero",
    /// Pages of zeros filled from the map.
    SwpinZero = "swpin_zero",
    /// Pages read ahead.
    SwapRa = "swap_ra",
    /// First uses of pages read ahead.
    SwapRaHit = "swap_ra_hit",
    /// Huge folios written whole.
    ThpSwpout = "thp_swpout",
    /// Huge folios split before they were written.
    ThpSwpoutFallback = "thp_swpout_fallback",
    /// Objects looked at by shrinkers.
    SlabsScanned = "slabs_scanned",
    /// Generations opened by aging.
    MglruAged = "mglru_aged",
    /// Cgroups visited by reclaim.
    MemcgVisited = "memcg_visited",
    /// `memory.events`: reclaimed although below low.
    MemcgLow = "memcg_low",
    /// `memory.events`: throttled over high.
    MemcgHigh = "memcg_high",
    /// `memory.events`: charge stopped at max.
    MemcgMax = "memcg_max",
    /// `memory.events`: out of memory.
    MemcgOom = "memcg_oom",
    /// `memory.events`: tasks killed.
    MemcgOomKill = "memcg_oom_kill",
    /// `memory.swap.events`: throttled over swap.high.
    MemcgSwapHigh = "memcg_swap_high",
    /// `memory.swap.events`: a slot refused by swap.max.
    MemcgSwapMax = "memcg_swap_max",
    /// `memory.swap.events`: no slot.
    MemcgSwapFail = "memcg_swap_fail",
);

/// Number of counters.
const COUNTERS: usize = Counter::ALL.len();

/// A value of every counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counters([u64; COUNTERS]);

impl Default for Counters {
    fn default() -> Counters {
        Counters([0; COUNTERS])
    }
}

impl Index<Counter> for Counters {
    type Output = u64;
    #[inline]
    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

impl IndexMut<Counter> for Counters {
    #[inline]
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter as usize]
    }
}

impl Counters {
    /// `memory.stat`: pages reclaimed by anybody.
    #[must_use]
    pub fn pgsteal(&self) -> u64 {
        self[Counter::PgstealKswapd]
            + self[Counter::PgstealDirect]
            + self[Counter::PgstealProactive]
    }

    /// `memory.stat`: pages isolated for reclaim by anybody.
    #[must_use]
    pub fn pgscan(&self) -> u64 {
        self[Counter::PgscanKswapd] + self[Counter::PgscanDirect] + self[Counter::PgscanProactive]
    }

    /// Every counter with its value, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&counter| (counter, self[counter]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_over_all_who_reclaim() {
        let mut counters = Counters::default();
        counters[Counter::PgstealKswapd] = 1;
        counters[Counter::PgstealDirect] = 2;
        counters[Counter::PgstealProactive] = 4;
        counters[Counter::PgscanDirect] = 8;
        assert_eq!((counters.pgsteal(), counters.pgscan()), (7, 8));
        assert_eq!(counters.iter().count(), Counter::ALL.len());
        assert_eq!(
            Counter::WorkingsetRefaultAnon.name(),
            "workingset_refault_anon"
        );
    }
}
