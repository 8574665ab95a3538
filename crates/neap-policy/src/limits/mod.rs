//! When memory must be given back, how much, and who has to wait.

mod pool;

pub use pool::{PoolGate, ZswapMax, zswap_max_allows};
