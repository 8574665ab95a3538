//! On to the device: what the shrinker offers, and the write-back of one entry (SPEC 1.10 to
//! 1.12). Walks and calls are those of [`crate::shrinker`], over the lists here.
//!
//! Nothing here waits. A caller takes the next [`Ticket`] from a walk, writes that entry
//! back in its own time, and reports; so any number of shrinkers of one list interleave.

use neap_units::{Bytes, SwapSlot};

use super::{Accounts, Zswap};
use crate::folio::LruvecId;
use crate::shrinker::{ShrinkCall, Shrunk, Verdict, Walk, Writeback, WritebackLists};
use crate::switches::RatioScope;

/// What the shrinker must know of the owner of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Its compressed bytes, on all nodes and below.
    pub bytes: Bytes,
    /// Its entries, likewise.
    pub stored: u64,
    /// Whether it may write back, with its ancestors.
    pub writeback: bool,
    /// Whether the caller may start I/O (since 6.9 the shrinker asks).
    pub may_io: bool,
}

/// An entry whose turn it is: to be written back, if it is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// Its slot.
    pub slot: SwapSlot,
    /// Its owner and node.
    pub owner: LruvecId,
    stamp: u8,
}

/// An entry whose turn it is stays on its list meanwhile, as the newest.
impl WritebackLists for Zswap {
    type List = LruvecId;
    type Entry = SwapSlot;
    type Ticket = Ticket;

    fn len(&self, list: LruvecId) -> u64 {
        self.list_len(list)
    }

    fn head(&self, list: LruvecId) -> Option<SwapSlot> {
        self.lists[list.0 as usize].ends.head()
    }

    fn verdict(&self, _: LruvecId, head: SwapSlot) -> Verdict {
        let referenced = self.entries.get(head).is_some_and(|head| head.referenced);
        self.rules.shrinker.scheme.verdict(referenced)
    }

    fn spare(&mut self, list: LruvecId, head: SwapSlot) {
        self.entries.set_referenced(head, false);
        let ends = &mut self.lists[list.0 as usize].ends;
        ends.rotate(&mut self.entries, head);
    }

    fn take(&mut self, list: LruvecId, head: SwapSlot) -> Option<Ticket> {
        let ends = &mut self.lists[list.0 as usize].ends;
        ends.rotate(&mut self.entries, head);
        Some(Ticket {
            slot: head,
            owner: list,
            stamp: self.entries.stamp(head),
        })
    }
}

impl Zswap {
    /// Entries of a list worth offering to the shrinker now. Spends disk swap-ins.
    pub fn shrinker_count(&mut self, list: LruvecId, owner: &Owner) -> u64 {
        if !self.config.shrinker_enabled || !owner.writeback || !owner.may_io {
            return 0;
        }
        let list = &mut self.lists[list.0 as usize];
        let len = list.ends.len;
        let (bytes, stored) = match self.rules.ratio {
            RatioScope::Cgroup => (owner.bytes, owner.stored),
            RatioScope::Node => (Bytes(list.bytes), len),
        };
        let rules = self.rules.shrinker;
        rules.count(&mut list.state, len, bytes, stored)
    }

    /// Begins a call of the shrinker at reclaim's `priority`; none: nothing to do.
    pub fn shrink_begin(
        &mut self,
        list: LruvecId,
        priority: u8,
        owner: &Owner,
    ) -> Option<ShrinkCall<LruvecId>> {
        let freeable = self.shrinker_count(list, owner);
        let state = &mut self.lists[list.0 as usize].state;
        let deferred = state.deferred;
        let call = ShrinkCall::begin(list, state, self.rules.shrinker, freeable, priority)?;
        self.work.shrinkers += 1;
        self.work.deferred -= deferred;
        Some(call)
    }

    /// The next entry to write back; none: the call is over, to be ended with
    /// [`Zswap::shrink_end`]. `writeback`: whether the owner still may.
    pub fn shrink_next(
        &mut self,
        call: &mut ShrinkCall<LruvecId>,
        writeback: bool,
    ) -> Option<Ticket> {
        let allowed = self.config.shrinker_enabled && writeback;
        loop {
            if let Some(ticket) = call.walk().and_then(|walk| walk.next(self)) {
                return Some(ticket);
            }
            let list = &mut self.lists[call.list().0 as usize];
            call.next_scan(&mut list.state, list.ends.len, allowed)?;
        }
    }

    /// Reports what became of the last ticket of a call.
    pub fn shrink_report(&mut self, call: &mut ShrinkCall<LruvecId>, outcome: Writeback) {
        if let Some(walk) = call.walk() {
            self.report(walk, outcome);
        }
    }

    /// Reports what became of the last ticket of a walk.
    pub fn report(&mut self, walk: &mut Walk<LruvecId>, outcome: Writeback) {
        walk.report(outcome, 1);
        if outcome == Writeback::Written {
            self.stats.written_back_pages += 1;
            return;
        }
        self.stats.reject_reclaim_fail += 1;
        if self.rules.shrinker.callback_68 {
            self.on_disk_swapin(walk.list());
        }
    }

    /// Ends a call; what is returned counts as `slabs_scanned`.
    pub fn shrink_end(&mut self, call: ShrinkCall<LruvecId>) -> Shrunk {
        let state = &mut self.lists[call.list().0 as usize].state;
        let before = state.deferred;
        let shrunk = call.end(state);
        self.work.shrinkers -= 1;
        self.work.deferred += state.deferred - before;
        shrunk
    }

    /// The page of a ticket has a folio in the swap cache now. Takes the entry out if it is
    /// the one of the ticket; the caller decompresses, counts `zswpwb`, marks the folio up
    /// to date and for reclaim, and writes it. Returns the bytes it had, or none:
    /// [`Writeback::Gone`], the folio is to be dropped.
    pub fn write_back(&mut self, ticket: &Ticket, accounts: &mut impl Accounts) -> Option<u16> {
        if self.entries.stamp(ticket.slot) != ticket.stamp {
            return None;
        }
        Some(self.free(ticket.slot, accounts)?.length)
    }
}
