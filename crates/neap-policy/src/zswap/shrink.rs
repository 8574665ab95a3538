//! On to the device: what the shrinker offers, whom it visits, and the write-back of one
//! entry (SPEC 1.10 to 1.12).
//!
//! Nothing here waits. A caller takes the next [`Ticket`] from a walk, writes that entry
//! back in its own time, and reports; so any number of shrinkers of one list interleave.

use neap_units::{Bytes, SwapSlot};

use super::{Accounts, Zswap};
use crate::folio::LruvecId;
use crate::shrinker::{
    DEFAULT_SEEKS, SHRINK_BATCH, ScanResult, ShrinkRound, Shrunk, Verdict, Visit,
};
use crate::switches::{PenaltySpend, RatioScope, ShrinkerLimit, ShrinkerScheme};

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

/// What became of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writeback {
    /// Written, or on its way.
    Written,
    /// The swap cache has a folio for the slot: somebody wants the page.
    Exists,
    /// No memory for the folio.
    NoMemory,
    /// The entry is gone or another.
    Gone,
}

/// A walk over the head of a list with a budget of visits.
///
/// Rotated entries spend budget too, so a list of referenced ones absorbs all of it. After
/// a write-back the walk goes on at the head. Since whatever was visited has gone to the
/// tail or away, the head is where it goes on in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    list: LruvecId,
    left: u64,
    /// Whether a conflict with the swap cache ends it: in the shrinker, not in the paths
    /// driven by limits.
    stops: bool,
    conflict: bool,
    /// Entries visited.
    pub visited: u64,
    /// Of these, entries that lost their second chance.
    pub rotated: u64,
    /// Of these, entries written.
    pub written: u64,
}

impl Walk {
    /// One owner's turn on one node, driven by a limit (kernel: shrink_memcg).
    #[must_use]
    pub fn of_limit(list: LruvecId, budget: u64) -> Walk {
        Walk {
            list,
            left: budget,
            stops: false,
            conflict: false,
            visited: 0,
            rotated: 0,
            written: 0,
        }
    }

    fn of_scan(list: LruvecId, budget: u64) -> Walk {
        Walk {
            stops: true,
            ..Walk::of_limit(list, budget)
        }
    }

    /// The next entry to write back; none: the walk is over.
    pub fn next(&mut self, zswap: &mut Zswap) -> Option<Ticket> {
        let scheme = zswap.rules.scheme;
        let list = &mut zswap.lists[self.list.0 as usize];
        while self.left > 0 {
            let slot = list.ends.head()?;
            self.left -= 1;
            self.visited += 1;
            let mut referenced = zswap.entries.get(slot)?.referenced;
            let alone = list.ends.len == 1;
            // First to the tail, so that a failed write-back does not block the head.
            list.ends.rotate(&mut zswap.entries, slot);
            if scheme.visit(&mut referenced) == Verdict::WriteBack {
                return Some(Ticket {
                    slot,
                    owner: self.list,
                    stamp: zswap.entries.stamp(slot),
                });
            }
            zswap.entries.set_referenced(slot, false);
            self.rotated += 1;
            if alone {
                // Behind the only entry is the end of the list.
                self.left = 0;
            }
        }
        None
    }

    /// Reports what became of the last ticket.
    pub fn report(&mut self, zswap: &mut Zswap, outcome: Writeback) {
        if outcome == Writeback::Written {
            zswap.stats.written_back_pages += 1;
            self.written += 1;
            return;
        }
        zswap.stats.reject_reclaim_fail += 1;
        if zswap.rules.callback_68 {
            zswap.lists[self.list.0 as usize].state.on_disk_swapin();
        }
        if outcome == Writeback::Exists && self.stops {
            self.conflict = true;
            if !zswap.rules.callback_68 {
                self.left = 0;
            }
        }
    }

    /// What the walk came to as one owner's turn.
    #[must_use]
    pub fn visit(&self) -> Visit {
        Visit::of_walk(self.visited, self.rotated, self.written)
    }

    fn scan_result(&self, request: u64) -> ScanResult {
        if self.conflict || self.written == 0 {
            return ScanResult::Stop;
        }
        ScanResult::Done {
            scanned: request,
            freed: self.written,
        }
    }
}

/// One call of the shrinker for one list, entry by entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShrinkCall {
    list: LruvecId,
    round: ShrinkRound,
    /// The scan under way, and the objects it was asked for.
    scan: Option<(Walk, u64)>,
    /// Entries visited and written by the scans before.
    visited: u64,
    written: u64,
    /// What the list counts of it as work in flight.
    in_flight: u64,
}

impl ShrinkCall {
    /// The list it is for.
    #[must_use]
    pub fn list(&self) -> LruvecId {
        self.list
    }

    /// Entries visited so far, for what the call costs.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.visited + self.scan.map_or(0, |(walk, _)| walk.visited)
    }

    /// Entries written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written + self.scan.map_or(0, |(walk, _)| walk.written)
    }
}

impl Zswap {
    /// Entries of a list worth offering to the shrinker now. Spends disk swap-ins.
    pub fn shrinker_count(&mut self, list: LruvecId, owner: &Owner) -> u64 {
        if !self.config.shrinker_enabled || !owner.writeback || !owner.may_io {
            return 0;
        }
        let rules = self.rules;
        let list = &mut self.lists[list.0 as usize];
        let len = list.ends.len;
        if rules.limit == ShrinkerLimit::Tokens && list.shrinkers >= (len / SHRINK_BATCH).max(1) {
            return 0;
        }
        let (bytes, stored) = match rules.ratio {
            RatioScope::Cgroup => (owner.bytes, owner.stored),
            RatioScope::Node => (Bytes(list.bytes), len),
        };
        let offered = match rules.penalty {
            PenaltySpend::AtCount => list.state.count(rules.scheme, len, bytes, stored),
            PenaltySpend::AtScan => {
                let mut unspent = list.state;
                unspent.count(rules.scheme, len, bytes, stored)
            }
        };
        match rules.limit {
            ShrinkerLimit::InFlight => offered.saturating_sub(list.in_flight),
            ShrinkerLimit::None | ShrinkerLimit::Tokens => offered,
        }
    }

    /// Begins a call of the shrinker at reclaim's `priority`; none: nothing to do.
    pub fn shrink_begin(
        &mut self,
        list: LruvecId,
        priority: u8,
        owner: &Owner,
    ) -> Option<ShrinkCall> {
        let freeable = self.shrinker_count(list, owner);
        if freeable == 0 {
            return None;
        }
        let of = &mut self.lists[list.0 as usize];
        let deferred = std::mem::take(&mut of.state.deferred);
        let round = ShrinkRound::new(freeable, priority, deferred, DEFAULT_SEEKS);
        of.shrinkers += 1;
        of.in_flight += round.left();
        self.work.shrinkers += 1;
        self.work.deferred -= deferred;
        Some(ShrinkCall {
            list,
            round,
            scan: None,
            visited: 0,
            written: 0,
            in_flight: round.left(),
        })
    }

    /// The next entry to write back; none: the call is over, to be ended with
    /// [`Zswap::shrink_end`]. `writeback`: whether the owner still may.
    pub fn shrink_next(&mut self, call: &mut ShrinkCall, writeback: bool) -> Option<Ticket> {
        loop {
            if let Some((walk, request)) = &mut call.scan {
                if let Some(ticket) = walk.next(self) {
                    return Some(ticket);
                }
                call.visited += walk.visited;
                call.written += walk.written;
                call.round.report(walk.scan_result(*request));
                call.scan = None;
                self.note_in_flight(call);
            }
            let request = call.round.request()?;
            if self.may_scan(call.list, request, writeback) {
                self.spend(call.list, request);
                call.scan = Some((Walk::of_scan(call.list, request), request));
            } else {
                call.round.report(ScanResult::Stop);
            }
        }
    }

    /// A call has less to ask for than before.
    fn note_in_flight(&mut self, call: &mut ShrinkCall) {
        let list = &mut self.lists[call.list.0 as usize];
        list.in_flight -= call.in_flight - call.round.left();
        call.in_flight = call.round.left();
    }

    /// Reports what became of the last ticket of a call.
    pub fn shrink_report(&mut self, call: &mut ShrinkCall, outcome: Writeback) {
        if let Some((walk, _)) = &mut call.scan {
            walk.report(self, outcome);
        }
    }

    /// Ends a call; what is returned counts as `slabs_scanned`.
    pub fn shrink_end(&mut self, call: ShrinkCall) -> Shrunk {
        let list = &mut self.lists[call.list.0 as usize];
        let deferred = call.round.deferred();
        list.shrinkers -= 1;
        list.in_flight -= call.in_flight;
        list.state.deferred += deferred;
        self.work.shrinkers -= 1;
        self.work.deferred += deferred;
        call.round.shrunk()
    }

    fn may_scan(&self, list: LruvecId, request: u64, writeback: bool) -> bool {
        let list = &self.lists[list.0 as usize];
        self.config.shrinker_enabled
            && writeback
            && list
                .state
                .may_scan(self.rules.scheme, list.ends.len, request)
    }

    /// Spends as many disk swap-ins as a scan looks at, where counting spends none.
    fn spend(&mut self, list: LruvecId, request: u64) {
        let new = self.rules.scheme == ShrinkerScheme::SecondChance;
        if new && self.rules.penalty == PenaltySpend::AtScan {
            self.lists[list.0 as usize].state.spend(request);
        }
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
