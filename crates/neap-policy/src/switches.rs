//! Every switch between kernel versions (SPEC 0), so that all of them run in one binary.
//!
//! Each is an enum with names in lower kebab case, which is how files and command lines
//! write them; [`Switches`] holds one of each.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A word that names no value of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{word:?} is no {switch}: expected one of {expected}")]
pub struct UnknownSwitch {
    switch: &'static str,
    word: String,
    expected: String,
}

macro_rules! switch {
    ($(#[$doc:meta])* $name:ident = $what:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value, oldest first.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// How the value is written.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownSwitch;
            fn from_str(word: &str) -> Result<Self, UnknownSwitch> {
                Self::ALL.iter().copied().find(|value| value.name() == word).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    UnknownSwitch { switch: $what, word: word.to_owned(), expected: names.join(", ") }
                })
            }
        }
    };
}

switch!(
    /// How the zswap shrinker spares entries.
    ShrinkerScheme = "shrinker scheme" {
        /// A protection counter that grows with stores and swap-ins (6.8-6.11).
        Old = "old",
        /// A referenced bit, and disk swap-ins held back (6.12 on).
        SecondChance = "second-chance",
    }
);
switch!(
    /// What counts as a swap-in for the shrinker (SPEC 2.4).
    SwapinCount = "swap-in counting rule" {
        /// The page of the fault, wherever it came from.
        V68 = "v68",
        /// Only a page of the fault that no readahead window had read before.
        V69Literal = "v69-literal",
        /// Every folio that neither zswap nor the zero map could give.
        DiskReads = "disk-reads",
        /// The same for the page of the fault; pages read ahead count when they are first
        /// used (SPEC 9.3).
        UsefulReads = "useful-reads",
    }
);
switch!(
    /// Whether zswap takes folios of more than one page.
    LargeStore = "rule for large stores" {
        /// It refuses them (up to 6.12).
        Reject = "reject",
        /// Sixth posting, with its knob off.
        V6KnobOff = "v6-knob-off",
        /// Sixth posting, with its knob on.
        V6KnobOn = "v6-knob-on",
        /// As merged (6.13 on).
        Merged = "merged",
        /// Pool limit checked before each page; the pages before the one that fails stay, and
        /// only the others go to the device (SPEC 9.8).
        Prefix = "prefix",
    }
);
switch!(
    /// What becomes of pages of zeros.
    ZeroPages = "rule for zero pages" {
        /// Nothing special.
        None = "none",
        /// zswap keeps pages of one repeated word without storage (up to 6.11).
        SameFilledInZswap = "same-filled-in-zswap",
        /// Swap keeps a bit for each slot and no data (6.12 on).
        ZeroMap = "zero-map",
    }
);
switch!(
    /// What zswap does with a page that does not compress.
    Incompressible = "rule for incompressible pages" {
        /// Refuse it (up to 6.17).
        Reject = "reject",
        /// Keep it as it is while write-back is allowed (6.18 on).
        StoreRaw = "store-raw",
    }
);
switch!(
    /// Version of zswap's pool worker (SPEC 1.11).
    PoolWorkerVersion = "pool worker" {
        /// 6.8: an empty cgroup counts as a failure.
        W68 = "w68",
        /// 6.12: only candidates can fail.
        W612 = "w612",
        /// Newest: 32 entries for each cgroup and turn.
        WLatest = "w-latest",
        /// As the newest, but a turn that only took away second chances is no failure: the
        /// entries are older for it, and the next turn writes (SPEC 9.4).
        AgeFree = "age-free",
    }
);
switch!(
    /// Which lists folios are kept on.
    Lru = "LRU" {
        /// Active and inactive lists.
        Classic = "classic",
        /// Generations as merged with the memcg LRU (6.1-6.13).
        Mglru63 = "mglru63",
        /// Generations as reworked (6.14 on).
        Mglru614 = "mglru614",
    }
);
switch!(
    /// In which order global reclaim visits cgroups (SPEC 3.10, 3.11). The memcg LRUs
    /// work with generations only; with the classic lists they fall back to
    /// `PartialCookie`, as the kernels that have them do.
    MemcgWalk = "memcg walk" {
        /// Everyone, in tree order, in each pass.
        FullLinear = "full-linear",
        /// Where the last reclaimer stopped, until the goal is met (6.11 on).
        PartialCookie = "partial-cookie",
        /// The memcg LRU with two slots (6.3-6.6).
        MemcgLru63 = "memcg-lru63",
        /// The memcg LRU with three slots (6.7 on).
        MemcgLru67 = "memcg-lru67",
        /// Heat levels, as posted in 2026.
        Heat = "heat",
    }
);
switch!(
    /// What ends a folio's way to the reclaim end of its list (SPEC 4.3).
    Rotate = "rotation rule" {
        /// The folio must be on a list.
        Mainline = "mainline",
        /// The folio must not be active.
        Rfc004 = "rfc004",
        /// The mark stays, and the batch that adds the folio looks at it.
        AddTail = "add-tail",
    }
);
switch!(
    /// How `memory.reclaim` splits a request (SPEC 3.12).
    ReclaimBatching = "reclaim batching" {
        /// All that is left (up to 6.7).
        Whole = "whole",
        /// 32 pages (about 6.8).
        Chunk32 = "chunk32",
        /// A quarter of what is left (6.9 on).
        Quarter = "quarter",
    }
);
switch!(
    /// Which accesses make a page hot (SPEC 4.1).
    Recency = "recency rule" {
        /// Only mappings advised sequential are ignored, and only by the classic lists
        /// (up to 6.2).
        SequentialOnly = "sequential-only",
        /// Sequential, random and NOREUSE mappings are ignored (6.3 on).
        Hints = "hints",
    }
);

switch!(
    /// When the zswap shrinker spends the disk swap-ins that hold it back (SPEC 9.2).
    PenaltySpend = "rule for spending disk swap-ins" {
        /// Whenever it is asked how much there is to do, also if nothing is scanned then.
        AtCount = "at-count",
        /// As it scans: one for each entry it was to look at.
        AtScan = "at-scan",
    }
);
switch!(
    /// Over what the compression ratio is taken that scales the zswap shrinker (SPEC 9.6).
    RatioScope = "scope of the ratio" {
        /// The owner's pages on all nodes.
        Cgroup = "cgroup",
        /// The pages on the list that is shrunk.
        Node = "node",
    }
);
switch!(
    /// How many zswap shrinkers may work on one list (SPEC 9.1).
    ShrinkerLimit = "limit of shrinkers" {
        /// Any number.
        None = "none",
        /// One for each batch of 128 entries on the list; others find nothing to do.
        Tokens = "tokens",
        /// Any number, but a call is offered only what the calls under way have not been given to scan.
        InFlight = "in-flight",
    }
);
switch!(
    /// What a full zswap pool does with a new page (SPEC 9.5).
    FullPool = "rule for a full pool" {
        /// Refuse it: the newest page goes to the device while older ones stay.
        Refuse = "refuse",
        /// Take it, and let the storer write back as many of the oldest.
        Trade = "trade",
    }
);

impl ReclaimBatching {
    /// Goal of the next call of reclaim, when so much is left of a request. Reclaim
    /// itself aims at no less than 32 pages.
    #[must_use]
    pub const fn goal(self, left: u64) -> u64 {
        match self {
            ReclaimBatching::Chunk32 if left > 32 => 32,
            ReclaimBatching::Quarter => left / 4,
            ReclaimBatching::Whole | ReclaimBatching::Chunk32 => left,
        }
    }
}

impl MemcgWalk {
    fn of_kernel(version: (u32, u32), generations: bool) -> MemcgWalk {
        match generations {
            true if version >= (6, 7) => MemcgWalk::MemcgLru67,
            true if version >= (6, 3) => MemcgWalk::MemcgLru63,
            _ if version >= (6, 11) => MemcgWalk::PartialCookie,
            _ => MemcgWalk::FullLinear,
        }
    }
}

/// One value of every switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// How the zswap shrinker spares entries.
    pub shrinker_scheme: ShrinkerScheme,
    /// What counts as a swap-in for it.
    pub swapin_count: SwapinCount,
    /// Whether zswap takes large folios.
    pub large_store: LargeStore,
    /// What becomes of pages of zeros.
    pub zero_pages: ZeroPages,
    /// What becomes of pages that do not compress.
    pub incompressible: Incompressible,
    /// Version of the pool worker.
    pub pool_worker: PoolWorkerVersion,
    /// When the shrinker spends disk swap-ins.
    pub penalty_spend: PenaltySpend,
    /// Over what its compression ratio is taken.
    pub ratio_scope: RatioScope,
    /// How many shrinkers may work on one list.
    pub shrinker_limit: ShrinkerLimit,
    /// What a full pool does with a new page.
    pub full_pool: FullPool,
    /// Which lists folios are kept on.
    pub lru: Lru,
    /// Order in which global reclaim visits cgroups.
    pub memcg_walk: MemcgWalk,
    /// What ends a rotation.
    pub rotate: Rotate,
    /// How `memory.reclaim` splits a request.
    pub reclaim_batching: ReclaimBatching,
    /// Which accesses make a page hot.
    pub recency: Recency,
    /// Whether generations respect `memory.low` and `memory.min` in proportion (2025 on;
    /// the classic lists always do, SPEC 5.3).
    pub mglru_proportional: bool,
    /// Whether write-back of a zswap entry judges a refault (SPEC 1.12: every kernel so
    /// far does, though no task wants the page).
    pub writeback_refault: bool,
}

impl Switches {
    /// The kernel of a version, given as (major, minor), with the LRU asked for. Versions
    /// beside a change are the SPEC's best estimates (SPEC 8, 11).
    ///
    /// Linux 6.12 with generations is `Mglru63` with `MemcgLru67`: the memcg LRU got its
    /// third slot in 6.7, the rework of tiers and refaults came only with 6.14.
    #[must_use]
    pub fn of_kernel(version: (u32, u32), generations: bool) -> Switches {
        let since = |minor| version >= (6, minor);
        Switches {
            shrinker_scheme: pick(since(12), ShrinkerScheme::Old, ShrinkerScheme::SecondChance),
            swapin_count: match version {
                v if v >= (6, 12) => SwapinCount::DiskReads,
                v if v >= (6, 9) => SwapinCount::V69Literal,
                _ => SwapinCount::V68,
            },
            large_store: pick(since(13), LargeStore::Reject, LargeStore::Merged),
            zero_pages: if since(12) {
                ZeroPages::ZeroMap
            } else {
                ZeroPages::SameFilledInZswap
            },
            incompressible: pick(since(18), Incompressible::Reject, Incompressible::StoreRaw),
            pool_worker: pick(since(12), PoolWorkerVersion::W68, PoolWorkerVersion::W612),
            penalty_spend: PenaltySpend::AtCount,
            ratio_scope: RatioScope::Cgroup,
            shrinker_limit: ShrinkerLimit::None,
            full_pool: FullPool::Refuse,
            lru: match (generations, since(14)) {
                (false, _) => Lru::Classic,
                (true, false) => Lru::Mglru63,
                (true, true) => Lru::Mglru614,
            },
            memcg_walk: MemcgWalk::of_kernel(version, generations),
            rotate: Rotate::Mainline,
            reclaim_batching: match version {
                v if v >= (6, 9) => ReclaimBatching::Quarter,
                v if v >= (6, 8) => ReclaimBatching::Chunk32,
                _ => ReclaimBatching::Whole,
            },
            recency: if since(3) {
                Recency::Hints
            } else {
                Recency::SequentialOnly
            },
            mglru_proportional: since(18),
            writeback_refault: true,
        }
    }
}

/// What a version has: `old` until it was `new`.
fn pick<T>(is_new: bool, old: T, new: T) -> T {
    if is_new { new } else { old }
}

impl Default for Switches {
    /// Linux 6.12 with the classic lists: the kernel the reference measurements are from.
    fn default() -> Switches {
        Switches::of_kernel((6, 12), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_read_as_it_is_written() {
        for &walk in MemcgWalk::ALL {
            assert_eq!(walk.to_string().parse(), Ok(walk));
        }
        for &lru in Lru::ALL {
            assert_eq!(lru.to_string().parse(), Ok(lru));
        }
        let error = "fast".parse::<Rotate>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"fast\" is no rotation rule: expected one of mainline, rfc004, add-tail"
        );
    }

    #[test]
    fn requests_are_split_as_each_kernel_does() {
        let goals = |left| ReclaimBatching::ALL.iter().map(move |rule| rule.goal(left));
        assert_eq!(goals(1000).collect::<Vec<_>>(), [1000, 32, 250]);
        assert_eq!(goals(20).collect::<Vec<_>>(), [20, 20, 5]);
    }

    #[test]
    fn linux_6_12_has_the_old_tiers_and_the_newer_memcg_lru() {
        let mglru = Switches::of_kernel((6, 12), true);
        assert_eq!(
            (mglru.lru, mglru.memcg_walk),
            (Lru::Mglru63, MemcgWalk::MemcgLru67)
        );
        let classic = Switches::default();
        assert_eq!(
            (classic.lru, classic.memcg_walk),
            (Lru::Classic, MemcgWalk::PartialCookie)
        );
        assert_eq!(classic.reclaim_batching, ReclaimBatching::Quarter);
    }
}
