//! The rules of generations: which there are, when another is opened, which is evicted
//! from, where a page goes, and what a page that comes back says (SPEC 3.2-3.9).
//!
//! They are written here once, as functions of sequence numbers, sizes and marks, with the
//! lists of [`Generations`]. What is listed lies elsewhere: the pages of `neap run` in
//! records of 13 bytes (`job/lru.rs`), the folios of the simulator in records of 24
//! (`lru/`).
//!
//! The rules of the kernel that want an accessed bit have no page table to look at in
//! user space. So `neap run` differs in six things:
//!
//! * A fault, or a touch while staged, is all that is ever seen of a page. It promotes
//!   at once, by the rule of 6.7 ([`Insertion::V67`]), as there is no second sighting to
//!   wait for.
//! * Aging walks nothing, so it costs nothing, and is done as soon as it is due
//!   ([`Trigger::Edge`]), where the kernel first takes what is there.
//! * A refault is recent by distance, the rule of the classic lists ([`competing`]), not
//!   by generation ([`Window::recent`]): without accessed bits a generation can hold any
//!   share of memory, and "evicted at most four generations ago" says little.
//! * A recent refault that was asked for earns the mark of the working set at once, and
//!   one that is not recent is put on probation ([`Refault::judge`], `job/lru.rs`).
//! * A page that was touched while staged, or is recent so, is passed over once when its turn to leave has come
//!   (`job/reclaim.rs`): the second chance of the clock, with that for the accessed bit.
//! * Memory without recency is on probation always, also when it is new (`job/hints.rs`): nothing else would have it leave
//!   before what is touched, since that is not seen either.
//!
//! And there is one [`Kind`](crate::folio::Kind), anonymous memory, and no tiers
//! (`feedback`), since nothing is read through descriptors.

mod feedback;
mod lists;
mod place;
mod refault;
mod window;

pub(crate) use feedback::{Feedback, MAX_NR_TIERS, kind_to_scan, tier_of};
pub(crate) use lists::Generations;
pub(crate) use place::{Arrival, Insertion};
pub(crate) use refault::{NonresidentAge, Refault, competing};
pub(crate) use window::{
    Aging, MAX_NR_GENS, MIN_LRU_BATCH, MIN_NR_GENS, Spread, Trigger, Window, index,
};
