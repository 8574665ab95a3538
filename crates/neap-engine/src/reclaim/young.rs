//! Children that were forked a moment ago.
//!
//! What a family shares takes a copy and a command for each of its processes to leave, and memory is free only when the last
//! of them has given it up: a tenth of a millisecond for each page and process. Most children end before that pays. So of a young one only what
//! it has alone is taken; what it shares stays until it has grown up. Where the job is to be killed rather than go over its limit, it leaves
//! once nothing else does.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_policy::Heat;
use neap_sys::{Pagemap, Word};
use neap_tuning::TUNING;
use neap_units::{PageId, Pages};

use super::stage::Run;
use super::{Bout, Reclaimer, Supply};
use crate::group::Group;
use crate::options::Exhausted;
use crate::space::{Body, Space};

impl Reclaimer {
    /// Takes pages of a space for a group. Returns how many left the program.
    pub(super) fn take_from(&mut self, group: &Group, space: &Arc<Space>) -> usize {
        let own_only = self.spares(group, space);
        let has_news = |body: &Body| space.kin.has_news(&body.process);
        if own_only && !space.body.get().is_some_and(has_news) {
            space.rest(&self.job);
            return 0;
        }
        self.stage_batch(space, own_only) + self.part(space)
    }

    /// Whether what the process shares is to stay for now.
    fn spares(&self, group: &Group, space: &Space) -> bool {
        let theirs = |bout: &&Bout| bout.group.number == group.number;
        let flows = |bout: &Bout| bout.supply == Supply::Flows;
        self.is_spared(space)
            && (self.may_go_over() || self.bouts.iter().find(theirs).is_some_and(flows))
    }

    /// Whether it is young, as long as there is anything else to take.
    pub(super) fn is_spared(&self, space: &Space) -> bool {
        let is_emptied = space.group.chain().any(|group| group.freeze.empties());
        // It does not grow up while it waits for its copies.
        let lived = (self.job.clock.now()).saturating_sub(space.stalled.load(Relaxed));
        !is_emptied && space.kin.shares() && space.kin.is_spared(lived)
    }

    /// Whether the job may go over its limit before it is killed.
    pub(super) fn may_go_over(&self) -> bool {
        self.job.options.on_exhausted == Exhausted::Open
    }

    /// Picks pages that no other process has: a batch, if looking at many finds so many. The caller holds the gate.
    pub(super) fn pick_own(&mut self, space: &Space, body: &Body) -> Vec<Run> {
        let (mut own, mut passed_over) = (Vec::with_capacity(self.most), 0);
        for _ in 0..TUNING.reclaim.picks_of_own {
            self.pick(space);
            if self.picked.is_empty() {
                break;
            }
            let shared = self.take_shared(body);
            self.put_back(space, &shared, Heat::Hot);
            passed_over += shared.len();
            own.append(&mut self.picked);
            if own.len() >= self.most {
                break;
            }
        }
        if space.note_stuck(&self.job, passed_over, own.len()) {
            space.kin.settle(&body.process);
        }
        self.picked = own;
        self.runs()
    }

    /// Takes those of the picked pages out again that others have, too. What cannot be seen is left in.
    fn take_shared(&mut self, body: &Body) -> Vec<PageId> {
        const MOST: usize = Pagemap::MOST_WORDS;
        let (mut own, mut shared) = (Vec::with_capacity(self.picked.len()), Vec::new());
        for run in self.runs() {
            for (part, ids) in run.ids.chunks(MOST).enumerate() {
                let mut words = [Word::ALONE; MOST];
                let first = run.first + Pages((part * MOST) as u64);
                let _ = body.view.words(first.addr(), &mut words[..ids.len()]);
                for (&id, word) in ids.iter().zip(words) {
                    if word.is_shared() {
                        &mut shared
                    } else {
                        &mut own
                    }
                    .push(id);
                }
            }
        }
        self.picked = own;
        shared
    }
}
