//! A fork that the kernel does not announce, as its process tells of it: see [`Unborn`].

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytemuck::{Zeroable, bytes_of};
use neap_tuning::TUNING;
use neap_units::{PAGE_SIZE, PageNr};
use neap_wire as wire;
use neap_wire::Request;

use crate::attendant::{acknowledge, acknowledge_with};
use crate::job::Job;
use crate::listen::Caller;
use crate::space::{Body, Space, Unborn, pages};
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
    let died = word.is_none() && !caller.pidfd.lives();
    if !forked && !died {
        // It may have lost the connection only, and fork later than this: who has not come by now must not.
        job.unborn.forget(job, &unborn);
    }
    unborn.close(job);
    if !forked && !died {
        unborn.learn(false);
        return !thaws(job, caller, word);
    }
    let asks = forked && unborn.needs_word();
    if forked {
        let flags = if asks { wire::WELCOME_AGAIN } else { 0 };
        acknowledge_with(job, caller, flags);
    }
    drop(talk); // a child that is stopped is waited for, and so is a parent
    unborn.learn(asks && next_word(caller, &unborn.parent) == Some(Request::Forked));
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
    let alone = caller.pid == body.pid && body.process.has_one_thread();
    let needed = needs.pages();
    let end = || {
        let settled = space.quiesce(job) && !space.is_changing();
        if settled {
            space.let_write(&needed);
            unborn = Some(space.expect_child(job, alone));
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
    let both = [caller.peer.as_fd(), caller.pidfd.as_fd()];
    if neap_sys::wait_readable(&both, Some(TUNING.talk.fork_quiet.0)) == 0 {
        unborn.read_on();
        talk.take();
    }
    next_word(caller, &unborn.parent)
}

/// The next word of a process that may be killed: its child has the other end, too. `None`: there will be none.
fn next_word(caller: &Caller, space: &Space) -> Option<Request> {
    let both = [caller.peer.as_fd(), caller.pidfd.as_fd()];
    // Words that are still there were said before the process ended.
    loop {
        neap_sys::wait_readable(&both, Some(TUNING.talk.silent.0));
        let lives = caller.pidfd.lives();
        if hears(caller, Some(0)) {
            return hear(caller, TUNING.talk.silent.0);
        }
        let left = space.body.get().is_some_and(Body::is_left); // another of its threads has execed
        if !lives || left || space.is_dead() {
            return None;
        }
    }
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
