//! Starting threads of the engine.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

use neap_sys::Thread;
use neap_tuning::TUNING;

/// Starts a thread of the engine; where the limit of threads is reached, once another has ended.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let work = Arc::new(Mutex::new(Some(work)));
    let mut tries = 0;
    loop {
        let again = work.clone();
        let started = try_spawn(name, move || {
            let work = again.lock().expect("work lock").take();
            if let Some(work) = work {
                work();
            }
        });
        tries += 1;
        if started.is_ok() || tries == TUNING.talk.starts {
            return started.map(drop);
        }
        thread::sleep(TUNING.talk.pause.duration());
    }
}

/// Starts a thread of the engine, or says why there is none.
pub(crate) fn try_spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    Thread::start(name, TUNING.talk.stack.as_usize(), work)
}

/// What is said where there is none.
pub(crate) fn no_thread(error: &io::Error) -> String {
    format!("no thread for neap: {error}; raise `ulimit -u`, or pids.max of the cgroup")
}
