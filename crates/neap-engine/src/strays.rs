//! Those who are never met: what a program starts without neap's library takes memory that nobody counts. It is
//! looked for now and then, and named once it takes much.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_sys::Lock;
use neap_tuning::TUNING;

use crate::job::Job;
use crate::spawn::try_spawn;

pub(crate) struct Strays(Arc<Lock<Looks, 1>>);

struct Looks {
    /// Those of the last look. One that is seen twice is not just being started.
    seen: HashSet<i32>,
    told: HashSet<i32>,
    next: u64,
}

impl Strays {
    pub fn new() -> Self {
        Self(Arc::new(Lock::new(Looks {
            seen: HashSet::new(),
            told: HashSet::new(),
            next: neap_sys::monotonic_nanos() + TUNING.looks.strays.0,
        })))
    }

    /// Has them looked for, if it is time, by a thread that nobody waits for: a look may take long, and so may
    /// telling of it.
    pub fn look(&self, job: &Arc<Job>) {
        let now = neap_sys::monotonic_nanos();
        if self.0.try_lock().is_some_and(|looks| now >= looks.next) {
            let (looks, job) = (self.0.clone(), job.clone());
            let _ = try_spawn("neap-strays", move || {
                looks.lock().look(&job);
            });
        }
    }
}

impl Looks {
    fn look(&mut self, job: &Job) {
        neap_sys::block_signals();
        neap_sys::lower_to_ordinary(); // out of what the listener is
        let before = neap_sys::thread_nanos();
        let much = TUNING.looks.stray_share.of(job.meter.limit().0);
        let spaces = job.spaces();
        let agents = spaces
            .iter()
            .filter_map(|space| space.body.get()?.agent.task());
        let met = spaces.iter().map(|space| space.pid.load(Relaxed));
        let met: HashSet<i32> = met.chain(agents.map(|task| task.process().pid())).collect();
        let takes_much = |pid| neap_sys::anon_resident(pid).is_some_and(|bytes| bytes > much);
        let strays: HashSet<i32> = job
            .groups
            .descendants()
            .into_iter()
            .filter(|pid| !met.contains(pid) && takes_much(*pid) && lacks_library(*pid))
            .collect();
        for &pid in strays.intersection(&self.seen) {
            if self.told.len() < TUNING.looks.strays_named && self.told.insert(pid) {
                let name = neap_sys::comm(pid).unwrap_or_default();
                let name = name.replace(char::is_control, "?");
                job.keeps_out(&format!(
                    "{name} was started without neap's library (it is static or setuid, has another LD_PRELOAD, or cannot see the folder that the library is in)"
                ));
            }
        }
        self.seen = strays;
        let took = neap_sys::thread_nanos() - before;
        self.next = neap_sys::monotonic_nanos()
            + TUNING.looks.strays.0.max(took * TUNING.looks.strays_rest);
    }
}

/// A forked child that has not told its name yet has it, and what was refused and told of. False: nobody can tell.
fn lacks_library(pid: i32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
    maps.is_ok_and(|maps| !maps.is_empty() && !maps.contains("libneap_preload"))
}
