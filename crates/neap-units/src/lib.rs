//! Units of neap: page numbers, sizes and times, and how sizes are written.
//!
//! A number that crosses a crate boundary carries its unit in its type, so that
//! pages are never added to bytes and a slot is never looked up as a page. The
//! types hold nothing but the number and cost nothing at run time.
#![forbid(unsafe_code)]

mod ids;
mod limit;
mod page;
mod quantity;
pub mod size;

pub use ids::{EntryId, PageId, SlotId, SpaceId, SwapSlot};
pub use limit::{AtomicLimit, Limit};
pub use page::{PAGE_SHIFT, PAGE_SIZE, PageNr, PageRange, pages_of};
pub use quantity::{Bytes, Nanos, Pages};
pub use size::{Size, SizeError, SizeFault, parse_size};
