//! Swap: who gets which slot, what zswap keeps in front of it, and how long the device
//! takes.
//!
//! [`Swap`] is where the kernel's glue meets all of it: a folio goes out with
//! [`Swap::write`], comes back with [`Swap::read`], and an entry that zswap passes on goes
//! with [`Swap::write_back`]. Nothing here waits or allocates folios.

mod device;
mod layer;
mod slots;
#[cfg(test)]
mod tests;
mod worker;

pub use device::{Device, DeviceConfig, Direction};
pub use layer::{PageKey, ReadIn, Swap, SwapSetup, Written, WrittenBack};
pub use slots::{SlotConfig, SwapSlots};
pub use worker::{Turn, Worker};
