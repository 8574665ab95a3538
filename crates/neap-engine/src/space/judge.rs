//! What an agent had done when it ended without an answer.

use bytemuck::Zeroable;
use neap_units::{PAGE_SIZE, SlotId};
use neap_wire as wire;

use super::{Body, Space};
use crate::agent::Errand;
use crate::job::Job;

/// EAGAIN, as a reply has it.
const AGAIN: u8 = 11;

impl Space {
    /// The agent ended before it answered: where the pages are tells what it did.
    pub(super) fn judge(&self, job: &Job, body: &Body, errand: &Errand) -> wire::Reply {
        let mut reply = wire::Reply::zeroed();
        let there = |address: u64| {
            let mut found = false;
            let range = address..address + PAGE_SIZE as u64;
            let looked = body.pagemap.present(range, &mut |_| found = true);
            looked.is_ok() && found
        };
        match errand {
            Errand::Stage { pages, first } => {
                for (i, result) in reply.pages[..pages.len()].iter_mut().enumerate() {
                    let slot = SlotId(first.0 + i as u32);
                    *result = if there(body.stage.address(slot)) {
                        0
                    } else {
                        AGAIN
                    };
                }
            }
            Errand::Return(pages) => {
                for (&id, result) in pages.iter().zip(&mut reply.pages) {
                    let slot = job.core().state(id).slot();
                    let staged = slot.is_some_and(|slot| there(body.stage.address(slot)));
                    *result = if staged { AGAIN } else { 0 };
                }
            }
            Errand::Discard(pages) => {
                for (&id, result) in pages.iter().zip(&mut reply.pages) {
                    let page = job.core().locate(id).1;
                    *result = if there(page.addr()) { AGAIN } else { 0 };
                }
            }
            Errand::Recycle(_) | Errand::Arm | Errand::Simple => {}
        }
        reply
    }
}
