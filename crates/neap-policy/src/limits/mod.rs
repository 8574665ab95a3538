//! When memory must be given back, how much, and who has to wait.

mod pacer;
mod pool;
mod stage;

pub use pacer::{Pacer, Plan};
pub use pool::{Admission, PoolGate, zswap_max_allows};
pub use stage::staged_blocks;
