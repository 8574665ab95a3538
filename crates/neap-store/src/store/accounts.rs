//! For whom the entries of owners count, and whose may be written to the swap file.

use std::sync::Arc;

use neap_tuning::TUNING;
use neap_units::{Bytes, Pages, SpaceId};

use super::Store;
use super::inner::Inner;
use crate::account::Account;

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

impl Inner {
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
        few && !self.owner(owner).stays
            && self.writeback()
            && self.has_room()
            && self.write_error.is_none()
    }
}
