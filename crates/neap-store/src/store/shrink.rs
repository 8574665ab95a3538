//! When entries are written back: the shrinker, called with reclaim's priority, and the pool
//! worker, called when the pool was full (SPEC 1.10, 1.11).

use std::ops::AddAssign;

use neap_policy::{NextOwner, Owners, PoolWorker, PoolWorkerVersion, Visit, Walk};
use neap_record::{Noted, NotedShrinker, Offer};
use neap_tuning::TUNING;
use neap_units::{Bytes, Pages, SpaceId};

use super::Store;
use super::inner::Inner;
use super::writeback::Whose;
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

impl Shrunk {
    /// Without a count of what was passed over.
    fn written(written: u64) -> Shrunk {
        Shrunk {
            scanned: written,
            written_back: written,
        }
    }
}

impl From<Walk<Whose<'_>>> for Shrunk {
    fn from(walk: Walk<Whose<'_>>) -> Shrunk {
        Shrunk {
            scanned: walk.visited,
            written_back: walk.written,
        }
    }
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
            sum += self.shrink_one(SpaceId(owner as u16), priority, codec);
        }
        self.tidy_swap(codec);
        sum
    }

    fn shrink_one(&self, owner: SpaceId, priority: u8, codec: &mut Codec) -> Shrunk {
        let mut inner = self.lock();
        let Some(mut call) = inner.begin_shrink(owner, priority) else {
            return Shrunk::default();
        };
        while inner.next_scan(owner, &mut call) {
            drop(inner);
            self.run(&mut call, codec);
            inner = self.lock();
        }
        let own = inner.owner(owner);
        let shrunk = call.end(&mut own.lru, own.list.len());
        inner.stats.slabs_scanned += shrunk.scanned;
        Shrunk {
            scanned: shrunk.scanned,
            written_back: shrunk.freed,
        }
    }

    /// Writes back from one owner after another until the pool is down to its accept threshold or
    /// too many turns failed: what to run after [`super::Refused::PoolFull`].
    pub fn shrink_worker(&self, codec: &mut Codec) -> Shrunk {
        let mut sum = self.poor_first(1, codec);
        let mut worker = Noted::<PoolWorker>::new(&self.recorder(), ());
        loop {
            let next = {
                let mut inner = self.lock();
                if inner.gate.below_threshold(Pages(inner.pool.pages())) {
                    break;
                }
                worker.advance(&mut *inner)
            };
            let goes_on = match next {
                NextOwner::Turn(owner) => {
                    let (visit, shrunk) = self.shrink_owner(owner, codec);
                    sum += shrunk;
                    worker.visited(visit)
                }
                NextOwner::Passed => true,
                NextOwner::Over => false,
            };
            if !goes_on {
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
        let mut sum = Shrunk::written(self.write_poor_of(account, codec));
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
            let walk = self.walk(Whose::Owner(owner), budget, codec);
            sum += walk.into();
            match walk {
                _ if walk.visited == 0 => return sum,
                _ if walk.written > 0 => vain = 0,
                _ => vain += walk.visited,
            }
        }
    }

    fn poor_first(&self, least: u64, codec: &mut Codec) -> Shrunk {
        Shrunk::written(self.write_poor(least, codec))
    }

    /// One owner's turn: writes back a few of its entries, whatever the shrinker thinks of them; first of all what does not
    /// compress, whoever's it is.
    pub fn shrink_owner(&self, owner: SpaceId, codec: &mut Codec) -> (Visit, Shrunk) {
        let shrunk = self.poor_first(1, codec);
        if shrunk.written_back > 0 {
            return (Visit::Written, shrunk);
        }
        let walk = self.walk(Whose::Owner(owner), WORKER_BUDGET, codec);
        // What does not compress could not be written, whoever's turn it is: a failure, else a run would try once for each owner.
        let failed = walk.visited == 0 && self.lock().poor.len() > 0;
        let visit = match failed {
            true => Visit::Nothing,
            false => walk.visit(),
        };
        (visit, walk.into())
    }
}

type Call = NotedShrinker<Whose<'static>>;

impl Inner {
    /// Begins a call of the shrinker for what an owner has. None: nothing of it is worth writing.
    fn begin_shrink(&mut self, owner: SpaceId, priority: u8) -> Option<Call> {
        if !self.shrinker_enabled() || !self.may_write_back() {
            return None;
        }
        let (scheme, recorder) = (self.config.shrinker.scheme(), self.recorder.clone());
        let own = self.owner(owner);
        if own.stays {
            return None;
        }
        let offer = Offer {
            len: own.list.len(),
            bytes: Bytes(own.compressed),
            stored: own.stored,
            priority,
        };
        NotedShrinker::call(&recorder, Whose::Owner(owner), &mut own.lru, scheme, offer)
    }

    fn next_scan(&mut self, owner: SpaceId, call: &mut Call) -> bool {
        let enabled = self.shrinker_enabled();
        let own = self.owner(owner);
        call.next_scan(&mut own.lru, own.list.len(), enabled)
    }
}

impl Owners for Inner {
    type Turn = SpaceId;

    fn next_owner(&mut self) -> Option<Result<SpaceId, Visit>> {
        let Some(own) = self.owners.get(self.cursor) else {
            self.cursor = 0;
            return None;
        };
        let owner = SpaceId(self.cursor as u16);
        self.cursor += 1;
        let poor = self.poor.len() > 0;
        let (listed, stays) = (own.list.len() > 0, own.stays);
        Some(match () {
            () if !self.may_write_back() || !poor && !listed => Err(Visit::NotCandidate),
            () if stays && !poor => Err(Visit::WritebackOff),
            () => Ok(owner),
        })
    }

    fn restart(&mut self) {
        self.cursor = 0;
    }
}
