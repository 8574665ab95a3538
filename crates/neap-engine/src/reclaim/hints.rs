//! Carrying out what programs say of their memory, as far as it is about pages that are there.

use std::ops::Range;
use std::sync::Arc;

use neap_policy::{Hint, State};
use neap_tuning::TUNING;
use neap_units::PageNr;

use super::store::Taken;
use super::{BATCH, Reclaimer};
use crate::load::bring_ahead;
use crate::space::{Space, Wish};

impl Reclaimer {
    /// Does what programs have asked for since, some blocks of it at most. Whether something is left.
    pub(super) fn work_for_hints(&mut self) -> bool {
        if !self.job.flags.wishes.take() {
            return false;
        }
        let mut left = TUNING.hints.blocks;
        for space in self.job.spaces().iter() {
            while let Some(wish) = space.hints.next() {
                match wish {
                    Wish::Tell(hint, range) => self.tell_core(space, hint, &range),
                    Wish::Bring(range) => bring_ahead(&self.job, space, range),
                    Wish::TakeOut(range) => {
                        let rest = self.take_out(space, range, &mut left);
                        if let Some(rest) = rest {
                            space.hints.put_back(Wish::TakeOut(rest));
                            self.job.flags.wishes.raise();
                            return true;
                        }
                        space.hints.end_taking();
                        space.ring(); // a thread of it waits
                    }
                }
            }
        }
        false
    }

    /// Some pages at a time: faults wait for the core meanwhile.
    fn tell_core(&self, space: &Space, hint: Hint, range: &Range<PageNr>) {
        let mut from = range.start;
        while from < range.end {
            let to = PageNr(range.end.0.min(from.0 + TUNING.hints.walk.0));
            let _gate = space.gate.read();
            if space.is_dead() {
                return;
            }
            let parts = match hint {
                Hint::Use(_) => vec![from..to], // what is not registered yet is to have it, too
                _ => self.alone(space, &(from..to)),
            };
            for part in parts {
                self.job.core().hint(space.id, part, hint);
            }
            from = to;
        }
    }

    /// The resident pages of a range that the process has alone: those that it shares since a fork are as warm as the other
    /// finds them. The caller holds the gate.
    fn alone(&self, space: &Space, range: &Range<PageNr>) -> Vec<Range<PageNr>> {
        if !space.kin.shares() {
            return vec![range.clone()];
        }
        let mut resident = Vec::new();
        let mut note = |page, _, state| {
            if matches!(state, State::Resident { .. }) {
                resident.push(page);
            }
        };
        self.job
            .core()
            .for_range(space.id, range.clone(), &mut note);
        resident.retain(|&page| space.leading(page, 1, |word| word.is_alone()) == 1);
        resident
            .into_iter()
            .map(|page| page..PageNr(page.0 + 1))
            .collect()
    }

    /// Takes the resident pages of a range out, and stores them. What is left of it if `blocks` are used up.
    fn take_out(
        &mut self,
        space: &Arc<Space>,
        range: Range<PageNr>,
        blocks: &mut usize,
    ) -> Option<Range<PageNr>> {
        let mut from = range.start;
        let mut walk = TUNING.hints.step.0;
        let mut tries = TUNING.hints.tries;
        while from < range.end {
            if self.job.is_stopping() || self.job.store.waits_for_disk() || !space.lets_go() {
                break; // the kernel takes no more than it can, either
            }
            if *blocks == 0 {
                return Some(from..range.end);
            }
            let to = PageNr(range.end.0.min(from.0.saturating_add(walk)));
            let (next, taken) = self.stage_range(space, &(from..to));
            // Most of a range may be empty.
            walk = match taken == 0 && next == to {
                true => (walk * 2).min(TUNING.hints.walk.0 * TUNING.hints.walk.0),
                false => TUNING.hints.step.0,
            };
            from = match next > from {
                true => {
                    tries = TUNING.hints.tries;
                    next
                }
                false => self.await_change(space, from, to, &mut tries),
            };
            if taken > 0 {
                *blocks -= 1;
                space.hints.note_taken(self.job.clock.now());
                self.store_staged(space, taken);
            }
        }
        self.store_staged(space, 0);
        None
    }

    /// Pages would not move. Where to go on: there, as long as that may pass, and else behind them.
    fn await_change(&self, space: &Space, from: PageNr, to: PageNr, tries: &mut u32) -> PageNr {
        // While the program tells of something, as of its next hint, the kernel moves nothing.
        let costs = match space.is_changing() {
            true => 1,
            false => TUNING.hints.tries / 2,
        };
        *tries = tries.saturating_sub(costs);
        if *tries == 0 {
            *tries = TUNING.hints.tries;
            return to;
        }
        self.job.clock.sleep(TUNING.talk.look.0);
        from
    }

    /// Compresses what is staged, also what was staged before.
    fn store_staged(&mut self, space: &Arc<Space>, taken: usize) {
        let Some(body) = space.body.get() else {
            return;
        };
        let mut stored = Taken::default();
        for _ in 0..body.stage.blocks() {
            self.store_block(space, &mut stored);
        }
        self.recycle_all(&space.group, taken, stored);
    }

    /// Stages a block of the resident pages of a range. Where to go on, and how many left.
    fn stage_range(&mut self, space: &Arc<Space>, range: &Range<PageNr>) -> (PageNr, usize) {
        let Some(body) = space.body.get() else {
            return (range.end, 0);
        };
        let _gate = space.gate.read();
        if !space.lets_go() || !space.catch_up(&self.job, false) {
            return (range.start, 0);
        }
        let mut end = range.end;
        let mut pages = Vec::new();
        for part in self.alone(space, range) {
            self.job.core().for_range(space.id, part, |page, _, state| {
                if matches!(state, State::Resident { .. }) && !space.threads.holds(page) {
                    pages.push(page);
                }
            });
        }
        if pages.len() > BATCH {
            end = pages[BATCH];
            pages.truncate(BATCH);
        }
        let stuck = space.stuck.lock().len();
        let taken = self.stage_pages(space, body, &pages);
        let stuck = space.stuck.lock().len().saturating_sub(stuck);
        let all = taken + stuck >= pages.len();
        (if all { end } else { range.start }, taken)
    }
}
