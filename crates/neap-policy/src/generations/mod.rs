//! The multi-generational LRU of one space.
//!
//! After the kernel's MGLRU (SPEC 3.3-3.9, `Mglru614` rules), with two differences
//! that follow from having no accessed bits. Aging costs nothing, because there is no
//! page table to walk: it only opens a new youngest generation. And a page is promoted
//! by what neap sees: a fault that brings it back, or a touch while it is staged.
//! There is one type (anon) and no tiers, since nothing is read through descriptors.
//!
//! Refaults are judged as in the classic LRU (SPEC 3.2) by distance, not by
//! generation: without accessed bits a generation can hold any share of memory, and
//! "evicted at most four generations ago" says little. A page is recent when fewer
//! pages left the space since it was evicted than the two youngest generations hold.

mod list;
mod lru;

pub(crate) use list::List;
pub(crate) use lru::{Lru, Refault};
