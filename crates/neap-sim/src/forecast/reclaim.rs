//! Reclaim of an imagined job: when it runs, what it takes, and what that costs.

use neap_policy::{Heat, State, Step, staged_blocks};
use neap_tuning::TUNING;
use neap_units::{Bytes, EntryId, Nanos, PAGE_SIZE, PageId, Pages, SlotId};

use super::job::{IN_POOL, ON_DISK, Player, UNWATCHED, WRITTEN};

impl Player {
    /// The program waits until so many pages have room.
    pub(super) fn wait_for(&mut self, pages: u64) {
        let room = Bytes(pages * PAGE_SIZE as u64);
        self.sample();
        while self.plan.arm && self.usage() + room > self.plan.hold_above {
            self.busy = self.busy.max(self.now);
            if !self.pass() {
                self.out.counts.over |= self.usage() > self.job.limit;
                break;
            }
            self.now = self.now.max(self.busy);
        }
    }

    fn sample(&mut self) {
        if self.now < self.next_sample {
            return;
        }
        self.plan = self.pacer.observe(self.now, self.usage());
        self.next_sample = self.now + self.plan.next_sample;
        self.reclaiming |= self.plan.reclaim_to.is_some();
    }

    /// What reclaim does until now, beside the program.
    pub(super) fn reclaim(&mut self) {
        self.sample();
        let goal = self.pacer.goal();
        while self.plan.arm && self.reclaiming && self.busy < self.now {
            self.reclaiming = self.usage() > goal && self.pass();
        }
        self.busy = self.busy.max(self.now);
    }

    fn spend(&mut self, time: Nanos) {
        self.busy += time;
        if self.job.cpus < 2 {
            self.now += time;
        }
    }

    /// One pass of reclaim: takes a block, and stores one if staging has its share. False: in vain.
    fn pass(&mut self) -> bool {
        let mut picked = Vec::with_capacity(TUNING.agents.block.as_usize());
        self.core
            .pick(self.space, TUNING.agents.block.as_usize(), &mut picked);
        let taken = picked.len();
        self.stage(picked);
        let staged = staged_blocks(self.job.limit, TUNING.agents.block.bytes());
        let mut stored = 0;
        if self.blocks.len() as u64 > staged || taken == 0 {
            stored = self.store();
        }
        self.bounced = if stored > 0 { 0 } else { self.bounced };
        if self.bounced
            > TUNING.forecast.in_vain * (self.core.total_resident().0 + TUNING.agents.block.0)
        {
            self.out.endless = true;
            return false;
        }
        taken + stored > 0 && (stored > 0 || !self.out.counts.over)
    }

    fn stage(&mut self, picked: Vec<PageId>) {
        let costs = self.assumed.costs;
        let mut block = Vec::with_capacity(picked.len());
        let (mut runs, mut before) = (0, None);
        for id in picked {
            let page = self.page_of(id);
            runs += u64::from(before != Some(page.wrapping_sub(1)));
            before = Some(page);
            self.slots = self.slots.wrapping_add(1);
            let slot = SlotId(self.slots);
            self.apply(id, Step::Stage(slot));
            self.staged += 1;
            if self.assumed.unwatched_hot && self.has(page, UNWATCHED) {
                self.home(id, Heat::Hot);
                self.bounced += 1;
                self.out.counts.returned += 1;
                self.now += costs.fault + costs.back;
            } else {
                block.push((id, slot));
            }
        }
        self.spend(Nanos(costs.run.0 * runs + costs.out.0 * block.len() as u64));
        if !block.is_empty() {
            self.blocks.push_back(block);
        }
    }

    /// Stores the oldest block; returns how many pages of it went.
    fn store(&mut self) -> usize {
        let mut stored = 0;
        for (id, slot) in self.blocks.pop_front().unwrap_or_default() {
            let State::Staged { slot: at, copy } = self.core.state(id) else {
                continue;
            };
            if at != slot {
                continue;
            }
            let page = self.page_of(id);
            let same = copy.is_some() && !self.has(page, WRITTEN);
            if !same && !self.make_room() {
                self.home(id, Heat::Warm);
                self.out.counts.over = true;
                continue;
            }
            let costs = self.assumed.costs;
            self.spend(if same { costs.compare } else { costs.compress });
            self.apply(id, Step::BeginStore);
            self.apply(id, Step::CommitStore(EntryId(page)));
            self.staged -= 1;
            stored += 1;
            self.out.counts.zswpout += 1;
            if !same {
                self.forget(page);
                self.keep(page);
            }
        }
        stored
    }

    /// The pool takes a page more, if need be after the oldest went to the swap file.
    fn make_room(&mut self) -> bool {
        let pages = |player: &Player| Pages(player.pool_bytes() / PAGE_SIZE as u64);
        while !self.gate.check(pages(self)) {
            let oldest = self.stored.pop_front();
            let Some(page) = oldest.filter(|_| self.job.swap) else {
                return false;
            };
            if self.has(page, IN_POOL) {
                self.forget(page);
                self.mark(page, ON_DISK, true);
                self.out.counts.pswpout += 1;
                self.spend(self.assumed.costs.disk_write);
            }
        }
        true
    }
}
