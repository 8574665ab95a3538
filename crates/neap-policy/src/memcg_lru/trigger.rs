//! What moves a group on the memcg LRU: the seven triggers of SPEC 3.10, each once.

use super::walk::Visited;
use super::{MemcgOp, MemcgSeg};
use crate::memcg::Protection;

/// Something that happened to a group, and may move it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemcgTrigger {
    /// Its usage is above its soft limit, of version 1 (trigger 1). Moves it once: not while its segment is head.
    AboveSoftLimit,
    /// It was visited while below `memory.low` (trigger 2). Moves it the first time; the second time it is reclaimed from.
    BelowLow,
    /// It was visited and had too little to scan, or since 6.7 it was offline (triggers 3 and 4: the first and the second
    /// visit).
    TooSmall,
    /// It was visited while below `memory.min` (trigger 5).
    BelowMin,
    /// Eviction from it has completed an aging: it gave its share (trigger 6).
    Aged,
    /// It went offline: nobody lives in it any more (trigger 7).
    Offline,
}

impl MemcgTrigger {
    /// What to do with a group whose segment is `seg`; `None`: it stays where it is.
    #[must_use]
    pub fn op(self, seg: MemcgSeg) -> Option<MemcgOp> {
        match self {
            MemcgTrigger::AboveSoftLimit => (seg != MemcgSeg::Head).then_some(MemcgOp::Head),
            MemcgTrigger::BelowLow => (seg != MemcgSeg::Tail).then_some(MemcgOp::Tail),
            MemcgTrigger::TooSmall if seg == MemcgSeg::Tail => Some(MemcgOp::Young),
            MemcgTrigger::TooSmall => Some(MemcgOp::Tail),
            MemcgTrigger::BelowMin | MemcgTrigger::Aged => Some(MemcgOp::Young),
            MemcgTrigger::Offline => Some(MemcgOp::Old),
        }
    }
}

/// Which kernel's order of the tests of a visit (SPEC 3.10; kernel: `shrink_one`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VisitRules {
    /// Linux 6.3: the size is asked first, and what is too small is not visited.
    V63,
    /// Since Linux 6.7: the size is asked after a visit that aged nothing.
    #[default]
    V67,
}

impl VisitRules {
    /// Whether the size is asked before any work.
    pub(super) fn size_first(self) -> bool {
        self == VisitRules::V63
    }

    /// What a visit of an online or offline group came to. `too_small` is asked only if the answer depends on it.
    pub(super) fn after(
        self,
        visited: Visited,
        online: bool,
        too_small: impl FnOnce() -> bool,
    ) -> Option<MemcgTrigger> {
        match (self, visited.aged) {
            (_, true) if online => Some(MemcgTrigger::Aged),
            (VisitRules::V63, _) => None,
            (VisitRules::V67, true) => Some(MemcgTrigger::TooSmall),
            (VisitRules::V67, false) => too_small().then_some(MemcgTrigger::TooSmall),
        }
    }
}

impl Protection {
    /// What it means for the place of a group that a visit is about to begin.
    pub(super) fn trigger(self) -> Option<MemcgTrigger> {
        match self {
            Protection::Open => None,
            Protection::BelowLow => Some(MemcgTrigger::BelowLow),
            Protection::BelowMin => Some(MemcgTrigger::BelowMin),
        }
    }
}
