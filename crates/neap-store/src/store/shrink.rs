//! When entries are written back: the shrinker, called with reclaim's priority, and the pool
//! worker, called when the pool was full (SPEC 1.10, 1.11).

use std::ops::AddAssign;

use neap_policy::{DEFAULT_SEEKS, PoolWorker, PoolWorkerVersion, ScanResult, Visit, do_shrink};
use neap_tuning::TUNING;
use neap_units::{Bytes, Pages, SpaceId};

use super::Store;
use crate::account::Account;
use crate::compress::Codec;

/// Entries the pool worker visits in one owner's turn: 32 in the newest kernels. With 1, as up to
/// 6.13 at least, every referenced entry is a failed turn, and 16 of them end a run.
const WORKER_BUDGET: u64 = PoolWorkerVersion::WLatest.budget();

/// What a call of the shrinker or the worker came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shrunk {
    /// Entries visited, as the generic shrinker counts them.
    pub scanned: u64,
    /// Entries moved from the pool to the swap file.
    pub written_back: u64,
}

impl AddAssign for Shrunk {
    fn add_assign(&mut self, other: Self) {
        self.scanned += other.scanned;
        self.written_back += other.written_back;
    }
}

impl Store {
    /// Runs the shrinker of every owner once, at reclaim's `priority` (12 gentle, 0 desperate).
    /// Writes to the swap file; takes as long as that takes.
    pub fn shrink(&self, priority: u8, codec: &mut Codec) -> Shrunk {
        let owners = self.lock().owners.len();
        let mut sum = self.poor_first(1, codec);
        for owner in 0..owners {
            let shrunk = self.shrink_one(SpaceId(owner as u16), priority, codec);
            sum += shrunk;
        }
        self.tidy_swap(codec);
        sum
    }

    fn shrink_one(&self, owner: SpaceId, priority: u8, codec: &mut Codec) -> Shrunk {
        let (freeable, mut deferred) = {
            let mut inner = self.lock();
            let freeable = inner.count(owner);
            if freeable == 0 {
                return Shrunk::default();
            }
            (
                freeable,
                std::mem::take(&mut inner.owner(owner).lru.deferred),
            )
        };
        let mut written_back = 0;
        let shrunk = do_shrink(
            freeable,
            priority,
            &mut deferred,
            DEFAULT_SEEKS,
            |request| {
                let result = self.scan(owner, request, codec);
                if let ScanResult::Done { freed, .. } = result {
                    written_back += freed;
                }
                result
            },
        );
        let mut inner = self.lock();
        inner.stats.slabs_scanned += shrunk.scanned;
        let state = &mut inner.owner(owner).lru;
        state.deferred = state.deferred.saturating_add(deferred);
        Shrunk {
            scanned: shrunk.scanned,
            written_back,
        }
    }

    /// One scan of the shrinker (SPEC 1.11).
    fn scan(&self, owner: SpaceId, request: u64, codec: &mut Codec) -> ScanResult {
        {
            let mut inner = self.lock();
            let scheme = inner.config.shrinker.scheme();
            let allowed = inner.shrinker_enabled() && {
                let owner = inner.owner(owner);
                owner.lru.may_scan(scheme, owner.list.len(), request)
            };
            if !allowed {
                return ScanResult::Stop;
            }
        }
        match self.walk(owner, request, codec).written {
            0 => ScanResult::Stop,
            freed => ScanResult::Done {
                scanned: request,
                freed,
            },
        }
    }

    /// Writes back from one owner after another until the pool is down to its accept threshold or
    /// too many turns failed: what to run after [`super::Refused::PoolFull`].
    pub fn shrink_worker(&self, codec: &mut Codec) -> Shrunk {
        let mut sum = self.poor_first(1, codec);
        let mut worker = PoolWorker::new(PoolWorkerVersion::WLatest);
        loop {
            let (owner, round_ended) = {
                let mut inner = self.lock();
                let pages = Pages(inner.pool.pages());
                if inner.owners.is_empty() || inner.gate.below_threshold(pages) {
                    break;
                }
                let owner = inner.cursor % inner.owners.len();
                inner.cursor = owner + 1;
                (SpaceId(owner as u16), inner.cursor == inner.owners.len())
            };
            let (visit, shrunk) = self.shrink_owner(owner, codec);
            sum += shrunk;
            if !worker.visited(visit) || (round_ended && !worker.round_ended()) {
                break;
            }
        }
        self.tidy_swap(codec);
        sum
    }

    /// Writes back what does not compress, of every owner, as long as there are `least` pages of it or more.
    pub fn shrink_poor(&self, least: u64, codec: &mut Codec) -> Shrunk {
        let shrunk = self.poor_first(least, codec);
        self.tidy_swap(codec);
        shrunk
    }

    /// Writes back all of an account that can go, whatever the shrinker thinks of it, as long as `goes_on`, and nothing of others.
    /// It ends where a walk over all entries, each with its second chance, writes nothing.
    pub fn write_all(
        &self,
        account: &Account,
        codec: &mut Codec,
        goes_on: impl Fn() -> bool,
    ) -> Shrunk {
        let written = self.write_poor_of(account, codec);
        let mut sum = Shrunk {
            scanned: written,
            written_back: written,
        };
        let owners = self.lock().owners_of(account);
        for owner in owners {
            let budget = || if goes_on() { TUNING.freeze.entries } else { 0 };
            sum += self.write_owner(owner, codec, budget);
        }
        self.tidy_swap(codec);
        sum
    }

    /// Writes back entries of an owner, as many at a time as `budget` says, until that is none. It ends where a walk over all
    /// of them, each with its second chance, writes nothing.
    pub(super) fn write_owner(
        &self,
        owner: SpaceId,
        codec: &mut Codec,
        budget: impl Fn() -> u64,
    ) -> Shrunk {
        let (mut sum, mut vain) = (Shrunk::default(), 0);
        loop {
            let budget = budget();
            let listed = self.lock().owner(owner).list.len();
            if budget == 0 || listed == 0 || vain > listed * 2 {
                return sum;
            }
            let walk = self.walk(owner, budget, codec);
            sum.scanned += walk.visited;
            sum.written_back += walk.written;
            match walk {
                _ if walk.visited == 0 => return sum,
                _ if walk.written > 0 => vain = 0,
                _ => vain += walk.visited,
            }
        }
    }

    fn poor_first(&self, least: u64, codec: &mut Codec) -> Shrunk {
        let written = self.write_poor(least, codec);
        Shrunk {
            scanned: written,
            written_back: written,
        }
    }

    /// Writes back a few entries of one owner, whatever the shrinker thinks of it; first of all what does not compress.
    pub fn shrink_owner(&self, owner: SpaceId, codec: &mut Codec) -> (Visit, Shrunk) {
        {
            let mut inner = self.lock();
            let poor = inner.poor.len() > 0;
            let own = inner.owner(owner);
            let (listed, stays) = (own.list.len() > 0, own.stays);
            if !inner.may_write_back() || !poor && !listed {
                return (Visit::NotCandidate, Shrunk::default());
            }
            if stays && !poor {
                return (Visit::WritebackOff, Shrunk::default());
            }
        }
        let shrunk = self.poor_first(1, codec);
        if shrunk.written_back > 0 {
            return (Visit::Written, shrunk);
        }
        let walk = self.walk(owner, WORKER_BUDGET, codec);
        let visit = if walk.written > 0 {
            Visit::Written
        } else {
            Visit::Nothing
        };
        let shrunk = Shrunk {
            scanned: walk.visited,
            written_back: walk.written,
        };
        (visit, shrunk)
    }
}

impl super::inner::Inner {
    /// Entries of an owner worth offering to the shrinker (SPEC 1.11).
    fn count(&mut self, owner: SpaceId) -> u64 {
        if !self.shrinker_enabled() || !self.may_write_back() {
            return 0;
        }
        let scheme = self.config.shrinker.scheme();
        let owner = self.owner(owner);
        if owner.stays {
            return 0;
        }
        let (len, compressed) = (owner.list.len(), Bytes(owner.compressed));
        owner.lru.count(scheme, len, compressed, owner.stored)
    }
}
