//! A fork that the kernel does not announce, as its process tells of it: see [`Unborn`].

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytemuck::{Zeroable, bytes_of};
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageNr};
use neap_wire as wire;
use neap_wire::Request;

use crate::attendant::acknowledge;
use crate::job::Job;
use crate::listen::Caller;
use crate::space::{Unborn, pages};
use crate::talk::Talk;
use crate::thaw::{self, bring_back, its_space};

/// What the thread that forks needs in memory.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    pub stack: u64,
    pub record: u64,
}

impl Needs {
    fn pages(self) -> Vec<Range<PageNr>> {
        const PAGE: u64 = PAGE_SIZE as u64;
        let Self { stack, record } = self;
        let below = stack.saturating_sub(TUNING.talk.fork_stack.0);
        let mut needed = vec![pages(&(below..stack + PAGE))];
        if record != 0 {
            needed.push(pages(&(record..record + PAGE)));
        }
        needed
    }
}

/// Sees a fork through: answers once all is taken down, waits until it is over, and forgets the child if that does not come.
/// Whether the thread is as it was: it may have had to give up its priority.
pub(crate) fn attend(job: &Arc<Job>, caller: &Caller, talk: Talk, needs: Needs) -> bool {
    let Some(unborn) = prepare(job, caller, needs) else {
        refuse(job, caller);
        return !thaws(job, caller, hear(caller, TUNING.talk.silent.0));
    };
    let mut talk = Some(talk);
    let word = tell(job, caller, &unborn).and_then(|()| await_fork(caller, &unborn, &mut talk));
    let forked = word == Some(Request::Forked);
    if !forked {
        // It may have lost the connection only, and fork later than this: who has not come by now must not.
        job.unborn.forget(job, &unborn);
    }
    unborn.close(job);
    if !forked {
        return !thaws(job, caller, word);
    }
    acknowledge(job, caller);
    drop(talk); // a child that is stopped is waited for
    // It keeps the connection until it is served, or ends.
    while hear(caller, u64::MAX).is_some() {}
    job.unborn.forget(job, &unborn);
    true
}

/// Takes down what the child is to have, once no other fork of the process is under way. `None`: it must do without.
fn prepare(job: &Arc<Job>, caller: &Caller, needs: Needs) -> Option<Arc<Unborn>> {
    let space = its_space(job, caller)?;
    let body = space.body.get()?;
    if !space.is_managed() || body.agent.is_gone() {
        return None;
    }
    while !space.window.begin(job, &*space.uffd) {
        if space.is_dead() || hears(caller, Some(TUNING.talk.fork_look.0)) {
            return None;
        }
    }
    let mut unborn = None;
    let needed = needs.pages();
    let end = || {
        let settled = space.quiesce(job) && !space.is_changing();
        if settled {
            unborn = Some(space.expect_child(job));
        }
        settled
    };
    bring_back(job, &space, &needed, || {}, end);
    match &unborn {
        Some(unborn) => job.unborn.add(unborn),
        None => space.window.end(job),
    }
    unborn
}

/// Waits until the process tells that it has forked, or must do without, or is gone. One that is stopped is waited for, and holds
/// up nobody.
fn await_fork(caller: &Caller, unborn: &Unborn, talk: &mut Option<Talk>) -> Option<Request> {
    if !hears(caller, Some(TUNING.talk.fork_quiet.0)) {
        unborn.read_on();
        talk.take();
    }
    hear(caller, u64::MAX)
}

/// Brings everything back if that is the word: the process lacks something that its child would need. Whether it was.
fn thaws(job: &Arc<Job>, caller: &Caller, word: Option<Request>) -> bool {
    let asked = word == Some(Request::Thaw);
    if asked {
        neap_sys::lower_to_ordinary();
        thaw::answer(job, caller, Request::Thaw);
    }
    asked
}

/// Waits for the next word, for so many nanoseconds. `None`: there is none, or the other end is gone.
fn hear(caller: &Caller, nanos: u64) -> Option<Request> {
    let mut word = [0; size_of::<wire::Hello>()];
    let since = neap_sys::monotonic_nanos();
    loop {
        let left = nanos.checked_sub(neap_sys::monotonic_nanos() - since)?;
        if !hears(caller, Some(left.min(TUNING.talk.silent.0))) {
            continue;
        }
        match caller.peer.try_receive(&mut word) {
            Err(error) if error.passes() => {}
            told => {
                let (_, request) = wire::request(&word[..told.ok()?.len]).ok()?;
                return Some(request);
            }
        }
    }
}

/// Whether the other end has said something, or is gone.
fn hears(caller: &Caller, nanos: Option<u64>) -> bool {
    neap_sys::wait_readable(&[caller.peer.as_fd()], nanos) != 0
}

fn tell(job: &Job, caller: &Caller, unborn: &Unborn) -> Option<()> {
    acknowledge(job, caller);
    let mut ready = wire::Ready::zeroed();
    ready.magic = wire::MAGIC;
    ready.number = unborn.number;
    ready.proof = job.proof(unborn.number);
    ready.family = unborn.parent.kin.family();
    let device = job.device().map(|device| device.as_fd());
    caller.peer.send(bytes_of(&ready), device.as_slice()).ok()
}

/// Its pages must come back for it.
pub(crate) fn refuse(job: &Job, caller: &Caller) {
    acknowledge(job, caller);
    let mut ready = wire::Ready::zeroed();
    (ready.magic, ready.refused) = (wire::MAGIC, 1);
    let _ = caller.peer.send(bytes_of(&ready), &[]);
}
