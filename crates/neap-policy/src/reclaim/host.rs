//! What reclaim needs from the machine around it: page tables, storage, chance.

use crate::folio::{FolioId, LruvecId};
use crate::lru::Mm;
use crate::memcg::MemcgId;

/// What the page tables say of a folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Referenced {
    /// Page-table entries with the accessed bit, which is cleared.
    pub ptes: u32,
    /// Some of them belong to an executable mapping.
    pub exec: bool,
}

/// What came of the attempt to free a folio that nobody used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pageout {
    /// It is gone; its id is no folio any more. `wrote`: it had to be written.
    Freed {
        /// It had to be written.
        wrote: bool,
    },
    /// It is being written and will be looked at again.
    Writing,
    /// It cannot be written or freed now: back to the active side.
    Activate,
    /// It stays as it is.
    Keep,
    /// It was split, and its parts are to be tried: [`Host::take_parts`].
    Split,
}

/// The machine around the policy.
pub trait Host {
    /// A number below `n`, drawn at random.
    fn random(&mut self, n: u32) -> u32;

    /// Tests and clears the accessed bits of a folio in the mappings whose accesses count,
    /// of spaces below `target`. With generations the neighbourhood is looked at as well
    /// (SPEC 3.6), and what is found is promoted.
    fn referenced(&mut self, mm: &mut Mm, id: FolioId, target: MemcgId) -> Referenced;

    /// Visits the page tables of all spaces of a cgroup, clears accessed bits and promotes
    /// what it finds; anonymous pages only if `can_swap`.
    fn walk_page_tables(&mut self, mm: &mut Mm, lruvec: LruvecId, can_swap: bool);

    /// Unmaps a folio that is on no list, writes it if it must be written and frees it if
    /// it can be freed. `target`: whose reclaim this is, for the shadow.
    fn pageout(&mut self, mm: &mut Mm, id: FolioId, target: LruvecId) -> Pageout;

    /// Reclaim met a dirty file page: flushers are to write it.
    fn flush(&mut self, mm: &mut Mm, id: FolioId);

    /// The parts of a folio that [`Pageout::Split`] was said of, the folio itself first.
    fn take_parts(&mut self, into: &mut Vec<FolioId>);

    /// Runs the shrinkers of a cgroup on a node at a priority.
    fn shrink_slab(&mut self, mm: &mut Mm, lruvec: LruvecId, priority: u8);

    /// Kills a task, since no memory is left but what must be kept (kernel: out_of_memory).
    fn out_of_memory(&mut self, mm: &mut Mm);

    /// Whether a node has enough free pages for kswapd to rest.
    fn balanced(&self, node: u32) -> bool;

    /// Free pages of a node, and the sum of its high watermarks.
    fn free_and_high(&self, node: u32) -> (u64, u64);

    /// Puts what waits on this CPU onto lists (kernel: lru_add_drain).
    fn drain_batches(&mut self, mm: &mut Mm);
}
