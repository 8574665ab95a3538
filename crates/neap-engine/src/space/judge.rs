//! What an agent has done where its answer does not tell: it ended without one, or had a wrong one from the kernel.

use bytemuck::Zeroable;
use neap_policy::State;
use neap_units::{PageNr, SlotId};
use neap_wire as wire;

use super::{Body, Space};
use crate::agent::Errand;
use crate::job::Job;

/// EAGAIN, as a reply has it.
const AGAIN: u8 = 11;
/// EEXIST: there is a page where it was to go.
const EXISTS: u8 = 17;
/// ENOENT: there is no page where it was.
const ABSENT: u8 = 2;
/// EBUSY: it is shared.
const BUSY: u8 = 16;

impl Space {
    /// Linux 6.18 may move a page and say that its target was taken already (EEXIST): where the page changed while
    /// it was looked at (a write after a fork), the kernel tries again after it has moved it. If others of the same call
    /// had moved before, it counts those and not this one. The agent goes on with this one, and the answer to that is
    /// another: it is not there any more (ENOENT), or the mappings are changing (EAGAIN), or have changed. So each page
    /// is looked for of which one of the first two is said, or anything behind one that has moved. But no page is shared
    /// that has moved, and after a fork many are (EBUSY). The caller holds the gate.
    pub(super) fn correct(&self, job: &Job, body: &Body, errand: &Errand, reply: &mut wire::Reply) {
        let there = |page: PageNr| body.view.holds(page.addr()).ok();
        let slot_of = |slot: SlotId| PageNr::containing(body.stage.address(slot));
        let (ids, first) = match errand {
            Errand::Stage { pages, first } => (pages, Some(*first)),
            Errand::Return { pages, .. } => (pages, None),
            _ => return,
        };
        let said = reply.pages;
        let is_doubtful = |i: &usize| match said[*i] {
            0 | BUSY => false,
            EXISTS | ABSENT => true,
            _ => *i > 0 && said[*i - 1] == 0,
        };
        for i in (0..ids.len()).filter(is_doubtful) {
            let (id, result) = (ids[i], &mut reply.pages[i]);
            let (home, slot) = {
                let core = job.core();
                let state = match core.try_locate(id) {
                    Some((space, home)) if space == self.id => Some((home, core.state(id))),
                    _ => None,
                };
                match (state, first) {
                    (Some((home, State::Isolated { .. })), Some(first)) => {
                        (home, SlotId(first.0 + i as u32))
                    }
                    (Some((home, State::Returning { slot, .. })), None) => (home, slot),
                    _ => continue, // dropped by an event since
                }
            };
            let (from, to) = match first {
                Some(_) => (home, slot_of(slot)),
                None => (slot_of(slot), home),
            };
            if there(from) == Some(false) && there(to) == Some(true) {
                *result = 0;
            }
        }
    }

    /// The agent ended before it answered: where the pages are tells what it did.
    pub(super) fn judge(&self, job: &Job, body: &Body, errand: &Errand) -> wire::Reply {
        let mut reply = wire::Reply::zeroed();
        let mut unknown = None;
        let mut there = |page: PageNr| {
            let looked = body.view.holds(page.addr());
            if looked.is_err() {
                unknown = Some(page);
            }
            looked.unwrap_or(true)
        };
        let slot_of = |slot: SlotId| PageNr::containing(body.stage.address(slot));
        match errand {
            Errand::Stage { pages, first } => {
                for (i, result) in reply.pages[..pages.len()].iter_mut().enumerate() {
                    let slot = SlotId(first.0 + i as u32);
                    *result = if there(slot_of(slot)) { 0 } else { AGAIN };
                }
            }
            Errand::Return { pages, .. } => {
                for (&id, result) in pages.iter().zip(&mut reply.pages) {
                    let slot = job.core().state(id).slot();
                    let staged = slot.is_some_and(|slot| there(slot_of(slot)));
                    *result = if staged { AGAIN } else { 0 };
                }
            }
            Errand::Recycle(_) | Errand::Arm | Errand::Simple => {}
        }
        if let Some(page) = unknown
            && self.look_for_life()
        {
            job.lose(
                self,
                page,
                "its agent ended, and where the page is cannot be seen",
            );
        }
        reply
    }
}
