//! The first look for a program's memory. Each has a thread of its own: the kernel may keep whoever registers memory for
//! as long as a thread of that program waits for a cpu, and neither the others are to wait for that nor its faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use neap_sys::Kept;

use super::Space;
use crate::job::Job;
use crate::spawn::try_spawn;

const DUE: u8 = 0;
const BEGUN: u8 = 1;
const MADE: u8 = 2;

/// How far it is. Nobody else looks before it was made.
#[derive(Default)]
pub(crate) struct FirstLook(AtomicU8);

impl FirstLook {
    pub fn is_due(&self) -> bool {
        self.0.load(Relaxed) == DUE
    }

    /// All later ones are the sampler's.
    pub fn set_made(&self) {
        self.0.store(MADE, Release);
    }

    pub fn is_made(&self) -> bool {
        self.0.load(Acquire) == MADE
    }
}

impl Space {
    /// Registers what the program has. The caller is the only one who does so, and has seen that it is due. `ahead`: it goes
    /// ahead of all others on its cpu. Then the look begins there, once the caller sleeps: on another cpu a call that
    /// gives that to nobody may be at work, such as the `read` that the program grows by.
    pub fn look_first(self: &Arc<Self>, job: &Arc<Job>, ahead: bool) {
        self.first_look.0.store(BEGUN, Relaxed);
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

    fn make_first_look(&self, job: &Job) {
        let start = neap_sys::monotonic_nanos();
        self.register_cookie();
        self.discover(job);
        self.arm_agent(job);
        self.first_look.set_made();
        job.note_reclaimable(); // with what was found just now
        let took = neap_sys::monotonic_nanos() - start;
        job.longest_look.fetch_max(took / 1000, Relaxed);
    }
}
