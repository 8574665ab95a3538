//! The first look for a program's memory. Each has a thread of its own: the kernel may keep whoever registers memory for
//! as long as a thread of that program waits for a cpu, and neither the others are to wait for that nor its faults.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_sys::Kept;

use super::{Advance, Space};
use crate::job::Job;
use crate::spawn::try_spawn;

impl Space {
    /// Registers what the program has. Of several callers one does it. `ahead`: it goes
    /// ahead of all others on its cpu. Then the look begins there, once the caller sleeps: on another cpu a call that
    /// gives that to nobody may be at work, such as the `read` that the program grows by.
    pub fn look_first(self: &Arc<Self>, job: &Arc<Job>, ahead: bool) {
        if !self.standing.step(Advance::BeginLook) {
            return;
        }
        let its = (self.clone(), job.clone());
        let here = || job.keeper.keep(0, neap_sys::this_cpu());
        let here = ahead.then(here).flatten();
        let begins = here.as_ref().map(Kept::of_child);
        let looks = try_spawn("neap-look", move || {
            drop(begins);
            neap_sys::block_signals();
            neap_sys::raise_to_realtime();
            its.0.make_first_look(&its.1);
        });
        drop(here);
        if looks.is_err() {
            self.make_first_look(job); // no thread is left: all wait for it
        }
    }

    pub fn make_first_look(&self, job: &Job) {
        let start = neap_sys::monotonic_nanos();
        self.register_cookie();
        self.arm_agent(job); // first: from then on the library says what is mapped, and waits for the end of this look
        let heard = self.read_notes();
        self.discover(job);
        for note in heard.iter().flat_map(|(_, notes)| notes) {
            self.take_note_of(job, note); // of what is known by now
        }
        self.standing.step(Advance::EndLook);
        job.note_all_reclaimable(&job.spaces()); // with what was found just now
        let took = neap_sys::monotonic_nanos() - start;
        job.longest_look.fetch_max(took / 1000, Relaxed);
    }
}
