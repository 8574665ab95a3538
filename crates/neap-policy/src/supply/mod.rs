//! Whether reclaim supplies the memory that is wanted, and how hard it asks the shrinker to help.

mod outlook;
mod pressure;

pub use outlook::{Look, Outlook, Pass, Supply};
pub use pressure::{PoolHolds, WritePressure};
