//! A deterministic simulator of Linux reclaim: an imagined machine around the policy core.
//!
//! | module | holds |
//! |---|---|
//! | `kernel` | address spaces, page tables, faults, and who reclaims when |
//! | `swap` | slots and the device behind them |
//! | `compress` | what pages compress to and what that costs |
#![forbid(unsafe_code)]

mod compress;
mod kernel;
mod swap;

pub use compress::{
    CompressorModel, ContentModel, Fitter, Measured, Models, PageImage, PageModel, UnknownModel,
};
pub use kernel::{
    Advice, Area, AreaKind, Costs, CpuId, FileId, Kernel, KernelConfig, Limits, MemcgId, NodeId,
    Op, Reply, ShmemId, SpaceId, SwapConfig, TaskId, ZswapConfig,
};
pub use swap::{
    Device, DeviceConfig, Direction, PageKey, ReadIn, SlotConfig, Swap, SwapSetup, SwapSlots, Turn,
    Worker, Written, WrittenBack,
};

pub use neap_units::Nanos;
