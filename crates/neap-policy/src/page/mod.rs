//! What is known of each page: its state, the one function that changes it, and
//! the table that holds the records of a whole job in 13 bytes a page.

mod index;
mod leaf;
mod state;
mod table;

#[cfg(test)]
mod state_tests;

pub(crate) use index::Index;
pub(crate) use leaf::{LEAF_PAGES, PROBATION};
pub use state::{Effect, Heat, Illegal, State, Step, step};
pub(crate) use table::{Table, page_id, split};
