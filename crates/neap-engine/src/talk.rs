//! The threads that speak with callers: a few at a time, and one that has been used waits a moment for the next caller.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytemuck::{Zeroable, bytes_of};
use neap_tuning::TUNING;
use neap_wire as wire;
use neap_wire::Request;

use crate::attendant;
use crate::forking::{self, Needs};
use crate::job::Job;
use crate::listen::{Caller, Next};
use crate::spawn::{no_thread, try_spawn};
use crate::thaw;

/// The conversations under way, and the threads that wait for one.
#[derive(Default)]
pub(crate) struct Talks {
    under_way: Mutex<UnderWay>,
    hall: Mutex<Hall>,
    called: Condvar,
}

/// How many conversations each process has, by its number.
#[derive(Default)]
struct UnderWay(HashMap<i32, usize>);

impl UnderWay {
    fn all(&self) -> usize {
        self.0.values().sum()
    }

    fn of(&self, pid: i32) -> usize {
        self.0.get(&pid).copied().unwrap_or(0)
    }

    fn begin(&mut self, pid: i32) {
        *self.0.entry(pid).or_default() += 1;
    }

    /// Whether somebody may have waited for the end of this one.
    fn end(&mut self, pid: i32) -> bool {
        let full = self.all() >= TUNING.talk.at_once || self.of(pid) >= TUNING.talk.at_once_of_one;
        let left = self.of(pid).saturating_sub(1);
        match left {
            0 => _ = self.0.remove(&pid),
            left => _ = self.0.insert(pid, left),
        }
        full
    }
}

#[derive(Default)]
struct Hall {
    /// Callers for whom a thread was free.
    waiting: VecDeque<(Caller, Talk)>,
    free: usize,
}

/// Counts among those that are spoken with.
pub(crate) struct Talk(Arc<Job>, i32);

impl Talk {
    fn begin(job: &Arc<Job>, pid: i32) -> Self {
        job.talks.under_way().begin(pid);
        Self(job.clone(), pid)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let awaited = self.0.talks.under_way().end(self.1);
        if awaited {
            self.0.bell.wake(); // callers wait for a thread
        }
    }
}

impl Talks {
    /// Whether no more are spoken with.
    pub fn are_many(&self) -> bool {
        self.under_way().all() >= TUNING.talk.at_once
    }

    /// Whether no more of this process are spoken with: one that stalls has not all threads.
    pub fn are_many_of(&self, pid: i32) -> bool {
        self.under_way().of(pid) >= TUNING.talk.at_once_of_one
    }

    /// The processes that are spoken with, by number.
    pub fn speakers(&self) -> HashSet<i32> {
        self.under_way().0.keys().copied().collect()
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().expect("talks lock")
    }

    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().expect("hall lock")
    }

    /// Has a thread do what the caller wants; gives the caller back if none can be had.
    pub fn begin(job: &Arc<Job>, caller: Caller) -> Option<Caller> {
        let talk = Talk::begin(job, caller.pid);
        let mut hall = job.talks.hall();
        if hall.free > hall.waiting.len() {
            hall.waiting.push_back((caller, talk));
            job.talks.called.notify_one();
            return None;
        }
        drop(hall);
        let shared = Arc::new(Mutex::new(Some((caller, talk))));
        let (its, job) = (shared.clone(), job.clone());
        let started = try_spawn("neap-talk", move || {
            let first = its.lock().expect("caller lock").take();
            serve(&job, first);
        });
        let refused = shared
            .lock()
            .expect("caller lock")
            .take_if(|_| started.is_err());
        refused.map(|(caller, _)| caller)
    }

    /// The next caller for a thread that is free; none: it is not needed.
    fn next(&self) -> Option<(Caller, Talk)> {
        let mut hall = self.hall();
        if hall.free >= TUNING.talk.idle_threads {
            return None;
        }
        hall.free += 1;
        let nobody = |hall: &mut Hall| hall.waiting.is_empty();
        let waited = self
            .called
            .wait_timeout_while(hall, TUNING.talk.idle.duration(), nobody);
        let (mut hall, _) = waited.expect("hall lock");
        hall.free -= 1;
        hall.waiting.pop_front()
    }
}

fn serve(job: &Arc<Job>, first: Option<(Caller, Talk)>) {
    neap_sys::block_signals();
    let mut called = first;
    while let Some((caller, talk)) = called {
        if !speak(job, caller, talk) {
            break;
        }
        called = job.talks.next();
    }
}

/// Does what a caller wants. Whether the thread is as it was: it may have had to give up its priority.
fn speak(job: &Arc<Job>, mut caller: Caller, talk: Talk) -> bool {
    match std::mem::replace(&mut caller.next, Next::Hello) {
        Next::Hello => {}
        Next::Answer(Request::Fork { stack, record }) => {
            return forking::attend(job, &caller, talk, Needs { stack, record });
        }
        Next::Answer(request) => {
            neap_sys::lower_to_ordinary(); // many pages may have to come back
            thaw::answer(job, &caller, request);
            return false;
        }
        Next::Offer(plea) => {
            let met = attendant::take_over(job, &caller, plea);
            drop(talk); // what follows is bounded by the number of processes
            if let Some(met) = met {
                attendant::settle(job, caller, met);
            }
        }
    }
    true
}

/// Answers a caller for which no thread can be had. A process that is not served yet cannot be; one that is must get an answer.
pub(crate) fn refuse_or_answer(job: &Arc<Job>, mut caller: Caller) {
    match std::mem::replace(&mut caller.next, Next::Hello) {
        Next::Answer(Request::Fork { .. }) => forking::refuse(job, &caller),
        Next::Answer(request) => thaw::answer(job, &caller, request),
        Next::Offer(_) => {
            let error = std::io::Error::from_raw_os_error(11); // EAGAIN, which a thread that cannot start is told
            job.warn(format!(
                "a process cannot be managed: {}",
                no_thread(&error)
            ));
            let mut refusal = wire::Ready::zeroed();
            (refusal.magic, refusal.refused) = (wire::MAGIC, 1);
            let _ = caller.peer.send(bytes_of(&refusal), &[]);
        }
        Next::Hello => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_an_end_is_told_of_it() {
        let mut talks = UnderWay::default();
        let (one, all) = (TUNING.talk.at_once_of_one, TUNING.talk.at_once);
        (0..one).for_each(|_| talks.begin(7));
        assert_eq!((talks.of(7), talks.of(8), talks.all()), (one, 0, one));
        assert!(talks.end(7), "another of its own may wait");
        assert!(!talks.end(7), "nobody can have waited");
        (talks.all()..all).for_each(|at| talks.begin(100 + at as i32));
        assert!(talks.end(100 + one as i32), "anybody may wait");
        assert!(!talks.end(7));
    }

    #[test]
    fn a_process_without_conversations_takes_no_memory() {
        let mut talks = UnderWay::default();
        talks.begin(7);
        talks.end(7);
        assert!(talks.0.is_empty());
    }
}
