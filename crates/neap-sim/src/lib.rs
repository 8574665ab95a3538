//! A deterministic simulator of Linux reclaim: an imagined machine around the policy core.
//!
//! | module | holds |
//! |---|---|
//! | `kernel` | address spaces, page tables, faults, and who reclaims when |
#![forbid(unsafe_code)]

mod kernel;

pub use kernel::{
    Advice, Area, AreaKind, Costs, CpuId, FileId, Kernel, KernelConfig, Limits, MemcgId, NodeId,
    Op, Reply, ShmemId, SpaceId, SwapConfig, TaskId, ZswapConfig,
};
