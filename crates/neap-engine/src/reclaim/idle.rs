//! Taking pages from idle processes, as many as [`crate::idle`] asks for, while no limit asks for any. What `memory.min` and
//! `memory.low` protect stays: it leaves for the sake of others.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::store::Taken;
use super::{BATCH, Reclaimer, rests};
use crate::space::Space;

impl Reclaimer {
    /// One step. It ends early where the limit wants memory, since that comes first.
    pub(super) fn work_for_idle(&mut self) {
        if !self.job.idle.begins() {
            return;
        }
        let spaces = self.job.spaces();
        let job = self.job.clone();
        let is_idle = |space: &&Arc<Space>| {
            job.idle.holds(space.cookie) && !rests(space) && job.lets_out(&space.group)
        };
        for space in spaces.iter().filter(is_idle) {
            self.store_untouched(space);
            while space.idle.load(Relaxed) > 0 && !self.is_called_away() {
                if job.groups.is_kept_from_all(&space.group) {
                    space.idle.store(0, Relaxed); // nothing was tried in vain
                    break;
                }
                if !self.take_idle(space) {
                    break; // what is left tells that it was in vain
                }
            }
        }
    }

    fn is_called_away(&self) -> bool {
        let job = &self.job;
        let wanted = self.bouts.iter().any(|bout| bout.group.meter.excess() > 0);
        job.is_stopping() || wanted || job.store.waits_for_disk()
    }

    /// Takes up to a block. Whether any page left.
    fn take_idle(&mut self, space: &Arc<Space>) -> bool {
        self.catch_up();
        let left = space.idle.load(Relaxed);
        self.most = usize::try_from(left).map_or(BATCH, |most| most.min(BATCH));
        let taken = self.stage_batch(space, false) + self.part(space);
        let stored = self.store_overdue(&space.group, false);
        self.recycle_all(&space.group, taken, stored);
        let taken = taken as u64;
        space.idle.store(left.saturating_sub(taken), Relaxed);
        space.group.count(|events| &events.idle, taken);
        taken > 0
    }

    /// Compresses what an earlier step has staged and nobody has touched since.
    fn store_untouched(&mut self, space: &Arc<Space>) {
        let Some(body) = space.body.get() else {
            return;
        };
        let mut taken = Taken::default();
        for _ in 0..body.stage.blocks() {
            if self.is_called_away() {
                return;
            }
            self.store_block(space, &mut taken);
        }
        self.recycle_all(&space.group, 0, taken);
    }
}
