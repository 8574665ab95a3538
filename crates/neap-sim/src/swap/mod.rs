//! Swap areas: who gets which slot, how long the device takes, and what zswap's pool
//! worker passes on.

mod device;
mod slots;
mod worker;

pub use device::{Device, DeviceConfig, Direction, InMemory};
pub use slots::{SlotConfig, SwapSlots};
pub use worker::{Turn, Worker};
