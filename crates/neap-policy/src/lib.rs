//! The policy core of neap: events in, decisions out; no clock, thread, system call or randomness.
//!
//! | module | decides |
//! |---|---|
//! | `page` | what may happen to a page in its state |
//! | `generations` | in which order pages leave memory, and what it says when they come back |
//! | `job` | the two together, for all spaces of a job |
//! | `swapin` | which pages to load or fill with another, which loads count, and which leave a copy |
//! | `batches` | when a folio reaches its list, and at which end |
//! | `shrinker` | which compressed pages go to the swap file |
//! | `zswap` | what is stored compressed, and what goes on to the device |
//! | `limits` | when to reclaim, how much, and who waits |
//! | `supply` | whether waiting for reclaim is worth while, and how hard the shrinker is asked |
//! | `list` | lists through records, of pages or folios |
//! | `folio` | records of folios |
//! | `memcg` | the tree of cgroups: charges, limits, protection |
//! | `lru` | the lists of each cgroup and node, and what refaults say |
//! | `memcg_lru` | which group reclaim of everything visits next, for whatever has groups |
//! | `recency` | which accesses make a page hot |
//! | `reclaim` | who gives up which folios, in small steps |
//! | `counters` | what is counted, under the kernel's names |
//! | `pressure` | averages of the time lost to waiting |
//! | `switches` | which kernel's rules |
//!
//! Rules are those of the kernel, as docs/kernel has them; comments cite its headings as
//! "SPEC n.m".
#![forbid(unsafe_code)]

mod batches;
mod counters;
mod folio;
mod generations;
mod job;
mod limits;
pub mod list;
mod lru;
mod memcg;
mod memcg_lru;
mod page;
mod pressure;
mod recency;
mod reclaim;
mod shrinker;
mod supply;
mod swapin;
mod switches;
mod zswap;

pub use batches::{Batch, Batches, FolioView, LARGE_BATCH, SMALL_BATCH, WritebackEnd};
pub use counters::{Counter, Counters};
pub use folio::{Flags, FolioId, Folios, Kind, LruvecId};
pub use job::{Core, Hint, Listed, Vmstat};
pub use limits::{Admission, Pacer, Plan, PoolGate, staged_blocks, zswap_max_allows};
pub use lru::{Mm, Promotion, Shadow};
pub use memcg::{
    CHARGE_BATCH, Charged, Cookie, GroupTree, Limits, MemcgId, Memcgs, MinLow, OverLimit,
    Protection, ProtectionLevel, SHORTEST_DELAY, ScanTarget, TreeWalk, effective_protection,
    high_delay, over_high_delay, swap_high_delay,
};
pub use memcg_lru::{
    BinWalk, Groups, MEMCG_NR_BINS, MemcgLru, MemcgOp, MemcgPlace, MemcgSeg, MemcgTrigger,
    VisitRules, Visited, initial_priority, shrink_many, too_small,
};
pub use page::{Effect, Heat, Illegal, State, Step, step};
pub use pressure::{PSI_PERIOD, Pressure};
pub use recency::Advice;
pub use reclaim::{Cause, Host, Nodes, Pageout, Progress, Reclaim, Referenced, Request};
pub use shrinker::{
    DEF_PRIORITY, LruState, MAX_RECLAIM_RETRIES, NextOwner, Owners, PoolWorker, SHRINK_BATCH,
    ShrinkCall, ShrinkerRules, Shrunk, Verdict, Visit, Walk, WalkStep, Writeback, WritebackLists,
};
pub use supply::{Look, Outlook, Pass, PoolHolds, Supply, WritePressure};
pub use swapin::{
    ClusterReadahead, Copies, FreshRuns, Readahead, Source, Stride, Swapin, SwapinPath,
    WalkReadahead, window,
};
pub use switches::{
    FullPool, Incompressible, LargeStore, Lru, MemcgWalk, PenaltySpend, PoolWorkerVersion,
    RatioScope, Recency, ReclaimBatching, Rotate, ShrinkerLimit, ShrinkerScheme, SwapinCount,
    Switches, UnknownSwitch, ZeroPages,
};
pub use zswap::{
    Accounts, Compressed, FOLIO_ORDERS, LoadError, Loaded, Loading, OrderStats, Outgoing, Owner,
    PoolModel, Refusal, Refused, ShrinkerWork, Stored, Ticket, ZeroMap, Zswap, ZswapConfig,
    ZswapStats,
};
