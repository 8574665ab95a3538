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
use crate::thaw::{bring_back, its_space};

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
/// `device`: what the child makes a userfaultfd with.
pub(crate) fn attend(job: &Arc<Job>, caller: &Caller, talk: Talk, needs: Needs) {
    let Some(unborn) = prepare(job, caller, needs) else {
        refuse(job, caller);
        return;
    };
    let told = tell(job, caller, &unborn).is_some() && await_fork(caller, &unborn);
    if !told {
        // It may have lost the connection only, and fork later than this: who has not come by now must not.
        job.unborn.forget(job, &unborn);
    }
    unborn.close(job);
    if told {
        acknowledge(job, caller);
    }
    drop(talk); // a child that is stopped is waited for
    // It keeps the connection until it is served, or ends.
    while hears(caller, None) {
        let mut more = [0; size_of::<wire::Hello>()];
        if !caller
            .peer
            .try_receive(&mut more)
            .is_ok_and(|more| more.len > 0)
        {
            break;
        }
    }
    job.unborn.forget(job, &unborn);
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

/// Waits until the process tells that it has forked, or is gone. Whether it has told.
fn await_fork(caller: &Caller, unborn: &Unborn) -> bool {
    if !hears(caller, Some(TUNING.talk.fork_quiet.0)) {
        unborn.read_on();
        hears(caller, None);
    }
    let mut word = [0; size_of::<wire::Hello>()];
    let told = caller.peer.try_receive(&mut word);
    told.is_ok_and(|told| matches!(wire::request(&word[..told.len]), Ok((_, Request::Forked))))
}

/// Whether the other end has said something, or is gone.
fn hears(caller: &Caller, timeout: Option<u64>) -> bool {
    neap_sys::wait_readable(&[caller.peer.as_fd()], timeout) != 0
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
