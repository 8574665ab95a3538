//! For whom the entries of owners count, and whose may be written to the swap file.

use std::sync::Arc;

use neap_tuning::TUNING;
use neap_units::{Bytes, Pages, SpaceId};

use super::error::Refused;
use super::inner::Inner;
use super::{Shrunk, Store};
use crate::account::Account;
use crate::compress::Codec;

impl Store {
    /// A new owner counts for this account. What an earlier one of its number has left does, too.
    pub fn open_owner(&self, owner: SpaceId, account: &Arc<Account>) {
        let mut inner = self.lock();
        let own = inner.owner(owner);
        let sums = own.sums();
        if let Some(before) = own.account.replace(account.clone()) {
            before.take(sums);
        }
        account.add(sums);
        inner.judge(owner.index());
    }

    /// Whether an owner has entries: they may be others' by now, and are compressed, written and counted as its own all the same.
    #[must_use]
    pub fn owns(&self, owner: SpaceId) -> bool {
        let inner = self.lock();
        let own = inner.owners.get(owner.index());
        own.is_some_and(|own| own.entries > 0)
    }

    /// Whether pages of an account, and of those below it, may be written to the swap file (`memory.zswap.writeback`). What is
    /// on disk stays there until it is loaded. A write that has begun is finished.
    pub fn set_account_writeback(&self, account: &Account, on: bool) {
        let mut inner = self.lock();
        account.set_writeback(on);
        (0..inner.owners.len()).for_each(|owner| inner.judge(owner));
    }

    /// Whether the swap file takes pages, as far as is known.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.lock().can_write()
    }

    /// Memory of the pool that could be had by writing pages to the swap file.
    #[must_use]
    pub fn writable_bytes(&self) -> Bytes {
        let inner = self.lock();
        if !inner.may_write_back() || inner.write_error.is_some() {
            return Bytes(0);
        }
        let pool = Bytes::from(Pages(inner.pool.pages()));
        pool.saturating_sub(Bytes(inner.stays.zswap))
    }
}

impl Store {
    /// Whether the store would take pages of an account: not where `memory.swap.max` is reached, nor where `memory.zswap.max` is,
    /// unless they may go on to the swap file.
    #[must_use]
    pub fn lets_in(&self, account: &Account) -> bool {
        account.may_swap() && (!account.is_full() || self.lock().passes_on(account))
    }

    /// Writes pages of accounts of which the pool has more than it may.
    pub fn relieve(&self, codec: &mut Codec) -> Shrunk {
        let owners = self.lock().exceeding();
        let mut sum = Shrunk::default();
        for owner in owners {
            let budget = || self.lock().room_to_write(owner);
            sum += self.write_owner(owner, codec, budget);
        }
        if sum.written_back > 0 {
            self.tidy_swap(codec);
        }
        sum
    }
}

impl Inner {
    /// The check of `memory.swap.max` (SPEC 5.1).
    pub(super) fn allow_entry(&mut self, owner: SpaceId) -> Result<(), Refused> {
        let account = self.owner(owner).account.as_ref();
        match account.is_none_or(|account| account.may_swap()) {
            true => Ok(()),
            false => Err(Refused::SwapMax),
        }
    }

    /// The check of `memory.zswap.max` (SPEC 1.4). Where the kernel writes an entry of the account
    /// back at once, this lets some more in, which are written soon: whoever stores does not wait for a disk.
    pub(super) fn allows_in_pool(&mut self, owner: SpaceId) -> bool {
        let account = self.owner(owner).account.clone();
        account.is_none_or(|account| !account.is_full() || self.passes_on(&account))
    }

    /// Whether a page of an account that may have none in the pool goes on to the swap file from there.
    fn passes_on(&self, account: &Account) -> bool {
        let few = account.excess() < TUNING.pool.passage;
        few && account.writes() && self.can_write()
    }

    fn can_write(&self) -> bool {
        self.writeback() && self.has_room() && self.write_error.is_none()
    }

    /// Owners of which the pool has more than their accounts may have there, and whose entries may be written.
    fn exceeding(&self) -> Vec<SpaceId> {
        let all = self.owners.iter().enumerate();
        let exceeds = all.filter(|(_, own)| own.excess() > Bytes(0));
        exceeds.map(|(at, _)| SpaceId(at as u16)).collect()
    }

    /// The owners that count for an account.
    pub(super) fn owners_of(&self, account: &Account) -> Vec<SpaceId> {
        let owners = (0..self.owners.len()).map(|owner| SpaceId(owner as u16));
        owners
            .filter(|owner| self.counts_for(*owner, account))
            .collect()
    }

    /// Whether an owner counts for an account.
    pub(super) fn counts_for(&self, owner: SpaceId, account: &Account) -> bool {
        let own = self.owners[owner.index()].account.as_ref();
        own.is_some_and(|own| own.is_within(account))
    }

    /// How many entries of an owner are to be written for its account, about.
    fn room_to_write(&mut self, owner: SpaceId) -> u64 {
        let own = self.owner(owner);
        let excess = own.excess();
        if excess == Bytes(0) {
            return 0;
        }
        let entries = excess.0.saturating_mul(own.stored) / own.compressed.max(1);
        entries.clamp(TUNING.pool.entries_held as u64, TUNING.freeze.entries)
    }

    /// Looks whether an owner's entries may be written.
    fn judge(&mut self, owner: usize) {
        let own = &mut self.owners[owner];
        let stays = own.account.as_ref().is_some_and(|own| !own.writes());
        if stays == own.stays {
            return;
        }
        own.stays = stays;
        let sums = own.sums();
        match stays {
            true => {
                self.stays.zswap += sums.zswap;
                self.stays.pooled += sums.pooled;
            }
            false => {
                self.stays.zswap -= sums.zswap;
                self.stays.pooled -= sums.pooled;
            }
        }
    }

    /// Whether something in the pool may be written to the swap file, as far as it depends on whose it is.
    pub(super) fn has_writable(&self) -> bool {
        let stays = self.stays.pooled;
        stays == 0 || self.pooled() > stays
    }

    /// Whether a page may come to a full pool, since it goes on to the swap file: pages that have to stay are not to keep those
    /// of others from there.
    pub(super) fn may_pass(&mut self, owner: SpaceId) -> bool {
        let writable = self.stats.compressed_bytes - self.stays.zswap;
        let few = self.stays.pooled > 0 && writable < TUNING.pool.passage.0;
        few && !self.owner(owner).stays && self.can_write()
    }
}
