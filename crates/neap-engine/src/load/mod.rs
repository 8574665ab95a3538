//! Bringing pages back: from staging without copying, from the pool or the swap file by a fill.

mod ahead;
mod back;
mod desk;
mod fetch;
mod filler;

#[cfg(test)]
pub(crate) use ahead::work as do_errands;
pub(crate) use ahead::{Errands, bring_ahead, look_at_flags};
pub(crate) use back::return_staged;
pub(crate) use desk::Desks;
pub(crate) use fetch::Loader;
pub(crate) use filler::Filler;
