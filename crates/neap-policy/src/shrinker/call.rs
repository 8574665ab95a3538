//! One call of zswap's shrinker for one list, scan by scan (SPEC 1.10, 1.11).

use neap_units::Bytes;

use super::generic::{DEFAULT_SEEKS, SHRINK_BATCH, ScanResult, ShrinkRound, Shrunk};
use super::lru::LruState;
use super::walk::{Conflict, Walk};
use crate::switches::{PenaltySpend, ShrinkerLimit, ShrinkerScheme, SwapinCount, Switches};

/// The switches of the shrinker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShrinkerRules {
    /// How entries that are worth keeping are told from others.
    pub scheme: ShrinkerScheme,
    /// Where recorded disk swap-ins are spent.
    pub penalty: PenaltySpend,
    /// What keeps several shrinkers of one list apart.
    pub limit: ShrinkerLimit,
    /// As in 6.8: a failed write-back protects, and a conflict does not end a scan.
    pub callback_68: bool,
}

impl ShrinkerRules {
    /// Those of these switches.
    #[must_use]
    pub fn new(switches: &Switches) -> ShrinkerRules {
        let old = switches.shrinker_scheme == ShrinkerScheme::Old;
        ShrinkerRules {
            penalty: switches.penalty_spend,
            limit: switches.shrinker_limit,
            callback_68: old && switches.swapin_count == SwapinCount::V68,
            ..ShrinkerRules::of_scheme(switches.shrinker_scheme)
        }
    }

    /// Those of the kernels that have this scheme, from 6.9 on.
    #[must_use]
    pub const fn of_scheme(scheme: ShrinkerScheme) -> ShrinkerRules {
        ShrinkerRules {
            scheme,
            penalty: PenaltySpend::AtCount,
            limit: ShrinkerLimit::None,
            callback_68: false,
        }
    }

    /// Entries of a list of `len` worth offering to the shrinker now. They take `bytes`, and are `stored`, as far as the
    /// owner is asked. Spends disk swap-ins where counting does.
    pub fn count(&self, state: &mut LruState, len: u64, bytes: Bytes, stored: u64) -> u64 {
        let tokens = (len / SHRINK_BATCH).max(1);
        if self.limit == ShrinkerLimit::Tokens && state.shrinkers >= tokens {
            return 0;
        }
        let mut counted = *state;
        let offered = counted.count(self.scheme, len, bytes, stored);
        if self.penalty == PenaltySpend::AtCount {
            *state = counted;
        }
        match self.limit {
            ShrinkerLimit::InFlight => offered.saturating_sub(state.in_flight),
            ShrinkerLimit::None | ShrinkerLimit::Tokens => offered,
        }
    }
}

/// One call of the shrinker for one list.
///
/// The caller asks for the walk of each scan, takes its tickets, and reports them all before it asks for the next. Where
/// there is none it ends the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShrinkCall<L> {
    list: L,
    rules: ShrinkerRules,
    round: ShrinkRound,
    /// The walk of the scan under way, and the objects it was asked for.
    scan: Option<(Walk<L>, u64)>,
    /// Entries visited by the scans before.
    visited: u64,
}

impl<L: Copy> ShrinkCall<L> {
    /// Begins a call at reclaim's `priority` (12 gentle, 0 desperate) for a list that offers `freeable` entries. None:
    /// there is nothing to do.
    #[must_use]
    pub fn begin(
        list: L,
        state: &mut LruState,
        rules: ShrinkerRules,
        freeable: u64,
        priority: u8,
    ) -> Option<ShrinkCall<L>> {
        if freeable == 0 {
            return None;
        }
        let deferred = std::mem::take(&mut state.deferred);
        let round = ShrinkRound::new(freeable, priority, deferred, DEFAULT_SEEKS);
        state.shrinkers += 1;
        state.in_flight += round.left();
        Some(ShrinkCall {
            list,
            rules,
            round,
            scan: None,
            visited: 0,
        })
    }

    /// The list it is for.
    #[must_use]
    pub fn list(&self) -> L {
        self.list
    }

    /// The walk of the scan under way.
    pub fn walk(&mut self) -> Option<&mut Walk<L>> {
        self.scan.as_mut().map(|(walk, _)| walk)
    }

    /// Entries visited so far, for what the call costs.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.visited + self.scan.map_or(0, |(walk, _)| walk.visited)
    }

    /// Ends the scan under way and begins the next, on a list of `len` entries. None: the call is over. `allowed`: the
    /// shrinker is on, and the owner may write back.
    pub fn next_scan(
        &mut self,
        state: &mut LruState,
        len: u64,
        allowed: bool,
    ) -> Option<&mut Walk<L>> {
        if let Some((walk, request)) = self.scan.take() {
            self.visited += walk.visited;
            self.report(walk.scan_result(request), state);
        }
        let request = self.round.request()?;
        if !allowed || !state.may_scan(self.rules.scheme, len, request) {
            self.report(ScanResult::Stop, state);
            return None;
        }
        let new = self.rules.scheme == ShrinkerScheme::SecondChance;
        if new && self.rules.penalty == PenaltySpend::AtScan {
            state.spend(request);
        }
        let conflict = match self.rules.callback_68 {
            true => Conflict::Stops,
            false => Conflict::Ends,
        };
        let walk = Walk::new(self.list, request, conflict);
        Some(&mut self.scan.insert((walk, request)).0)
    }

    fn report(&mut self, result: ScanResult, state: &mut LruState) {
        let before = self.round.left();
        self.round.report(result);
        state.in_flight -= before - self.round.left();
    }

    /// Ends the call; what is returned as scanned counts as `slabs_scanned`.
    pub fn end(self, state: &mut LruState) -> Shrunk {
        state.shrinkers -= 1;
        state.in_flight -= self.round.left();
        state.deferred = state.deferred.saturating_add(self.round.deferred());
        self.round.shrunk()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shrinker::Writeback;

    const RULES: ShrinkerRules = ShrinkerRules::of_scheme(ShrinkerScheme::SecondChance);

    #[test]
    fn nothing_freeable_leaves_deferred_work_alone() {
        let mut state = LruState {
            deferred: 77,
            ..LruState::default()
        };
        assert_eq!(ShrinkCall::begin((), &mut state, RULES, 0, 0), None);
        assert_eq!(state.deferred, 77);
    }

    #[test]
    fn a_call_asks_for_scans_until_one_writes_nothing_and_defers_the_rest() {
        let mut state = LruState::default();
        let mut call = ShrinkCall::begin((), &mut state, RULES, 1000, 0).expect("work");
        for _ in 0..3 {
            let walk = call.next_scan(&mut state, 1000, true).expect("a scan");
            walk.report(Writeback::Written, 100);
        }
        assert!(call.next_scan(&mut state, 1000, true).is_some());
        assert!(
            call.next_scan(&mut state, 1000, true).is_none(),
            "it wrote nothing"
        );
        let shrunk = call.end(&mut state);
        assert_eq!((shrunk.scanned, shrunk.freed), (3 * 128, 300));
        assert_eq!(state.deferred, 2000 - 3 * 128);
    }

    #[test]
    fn a_call_ends_also_when_its_list_was_forgotten_meanwhile() {
        let mut state = LruState::default();
        let mut call = ShrinkCall::begin((), &mut state, RULES, 1000, 0).expect("work");
        assert!(call.next_scan(&mut state, 1000, true).is_some());
        state.forget();
        assert!(call.next_scan(&mut state, 0, false).is_none());
        call.end(&mut state);
        state.forget();
        assert_eq!(state, LruState::default());
    }
}
