//! Swap areas: who gets which slot, and how long the device takes.

mod device;
mod slots;

pub use device::{Device, DeviceConfig, Direction};
pub use slots::{SlotConfig, SwapSlots};
