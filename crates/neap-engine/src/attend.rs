//! The agent from its first word to its end. It shares the memory of its process and outlives it, so the memory is
//! there until the agent is gone: the engine has it end as soon as the process has ended, or has become another by exec.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytemuck::{Zeroable, bytes_of};
use neap_sys::{CpuTime, End, Peer, Pidfd, Process, Sender, Statm};
use neap_wire as wire;

use crate::job::Job;
use crate::listen::Caller;
use crate::proof::Token;
use crate::space::{Body, Space};
use crate::spawn::no_thread;

/// An agent that was told to end and is still there after this is killed, in milliseconds: somebody has stopped it.
const NOTICE_MILLIS: u32 = 200;
/// One that is stopped and has kept a command for so long is killed, in milliseconds.
const STOPPED_MILLIS: u32 = 500;
/// Who ends together with its agent (the last signal to all of a user's processes) is not told of, in milliseconds.
const TOGETHER_MILLIS: u32 = 1000;
const SIGKILL: i32 = 9;

/// The agent as a task of the machine.
pub(crate) struct Task {
    process: Process,
    /// How much there is of the memory that it shares, also when its process has none of it any more.
    statm: Statm,
}

impl Task {
    /// Whoever sent the agent's first word, if what it runs is the space of the token, as far as we may look.
    fn of(sender: Sender, token: &Token) -> Option<Self> {
        let pidfd = match sender.pidfd {
            Some(pidfd) => pidfd,
            None => Pidfd::open(sender.pid).ok()?,
        };
        let process = Process::open(sender.pid, &pidfd).ok()?;
        let statm = process.statm().ok()?;
        (token.is_in(&process) != Some(false)).then_some(Self { process, statm })
    }

    /// It has no other memory than that of its space as long as it is there.
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn tid(&self) -> u32 {
        self.process.pid().cast_unsigned()
    }

    pub fn kill(&self) {
        let _ = self.process.signal(SIGKILL);
    }

    pub fn pin_to(&self, cpu: usize) {
        if self.process.has_thread(self.tid()) {
            let _ = neap_sys::pin_to(self.process.pid(), cpu);
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.process.is_stopped()
    }

    pub fn cpu_time(&self) -> Option<CpuTime> {
        self.process.cpu_time(self.tid())
    }

    /// Anonymous memory of the address space, in bytes.
    pub fn anon_resident(&self) -> Option<u64> {
        self.statm.anon_resident()
    }

    /// Whether that process has other memory by now: it has execed. It may have ended.
    fn was_left_by(&self, process: &Process, token: &Token) -> bool {
        if let Some(same) = token.is_in(process) {
            return !same;
        }
        // A setuid program, say, into which we may not look.
        let its = process.statm().ok().and_then(|statm| statm.outline());
        let shared = self.statm.outline();
        its.zip(shared).is_some_and(|(its, shared)| its != shared)
    }
}

/// Hears whether the process has an agent.
pub(crate) fn hear_of_agent(job: &Job, caller: &Caller, token: &Token) -> Option<Task> {
    let mut bytes = [0; size_of::<wire::Reply>()];
    let received = caller.peer.try_receive_from(&mut bytes).ok();
    let _ = caller.peer.note_senders(false);
    let (len, sender) = received.map_or((0, None), |message| (message.len, message.sender));
    let reply = wire::reply(&bytes[..len]).ok();
    if let Some(reply) = reply.filter(|reply| reply.errno != 0) {
        job.keeps_out(&no_thread(&io::Error::from_raw_os_error(reply.errno)));
        return None;
    }
    let sender = sender.filter(|sender| reply.is_some() && sender.pid > 0);
    let sender = sender.filter(|sender| sender.pid != caller.pid);
    let task = sender.and_then(|sender| Task::of(sender, token));
    if task.is_none() && caller.lives() {
        job.warn("a process keeps its pages, and may go over the limit: its agent could not start; raise its `ulimit -n`".into());
    }
    task
}

/// Has the agent at the other end go without a word.
pub(crate) fn dismiss(peer: &Peer) {
    let mut command = wire::Command::zeroed();
    (command.magic, command.op) = (wire::MAGIC, wire::op::LEAVE);
    let _ = peer.send(bytes_of(&command), &[]);
}

/// Waits until the agent of one space is gone: it has it end once the process has ended.
pub(crate) fn attend(job: &Arc<Job>, space: &Arc<Space>) {
    if let Some(body) = space.body.get() {
        match neap_sys::wait_for_end(body.agent.peer(), Some(&body.pidfd), None) {
            End::Process => see_off(body),
            _ => outlive(job, space, body),
        }
    }
    space.ring(); // its fault thread asks the kernel
    if !space.armed.load(Relaxed) {
        job.drop_space(space); // no fault thread does it
    }
}

/// Its process has ended: now the agent does, and the memory with it.
fn see_off(body: &Body) {
    body.leave();
    let heard = neap_sys::wait_for_end(body.agent.peer(), None, Some(NOTICE_MILLIS));
    if heard == End::Neither {
        body.agent.kill();
        neap_sys::wait_for_end(body.agent.peer(), None, None);
    }
}

/// The agent has ended. Nothing leaves any more, and the process goes on unless it has become another.
fn outlive(job: &Job, space: &Space, body: &Body) {
    body.agent.set_gone();
    space.ring();
    if body.is_left() || body.agent.task().is_none() || !body.outlives(TOGETHER_MILLIS) {
        return;
    }
    let fate = if body.agent.was_stopped() {
        "stopped"
    } else {
        "killed"
    };
    job.warn(format!(
        "process {} keeps its memory from now on, and may go over the limit: its agent (mm-agent) was {fate}",
        body.pid
    ));
    if !space.armed.load(Relaxed) {
        body.outlives(u32::MAX); // until then it counts
    }
}

impl Body {
    /// Whether two looks in a row found that the process has other memory by now: one may fail for another reason.
    fn seems_left(&self) -> bool {
        let task = self.agent.task().filter(|_| !self.agent.is_gone());
        let left = task.is_some_and(|task| task.was_left_by(&self.process, &self.token));
        self.doubted.swap(left, Relaxed) && left
    }
}

impl Job {
    /// The process of this space has come by a new one, so that those it had before are over: it has execed.
    pub fn end_former(&self, space: &Space) {
        let pid = space.pid.load(Relaxed);
        let spaces = self.spaces(); // in the order in which they came
        let former = spaces.iter().take_while(|other| other.id != space.id);
        let bodies = former.filter_map(|other| other.body.get());
        for body in bodies.filter(|body| body.pid == pid) {
            body.leave();
        }
    }

    /// Looks for processes that have other memory by now and have not told of it: what they run has no library of
    /// ours. What they had before ends with the agent. And for agents that somebody has stopped.
    pub fn look_after_agents(&self, spaces: &[Arc<Space>]) {
        for body in spaces.iter().filter_map(|space| space.body.get()) {
            if body.is_left() {
                body.agent.kill_if_late(NOTICE_MILLIS);
            } else if body.seems_left() {
                body.leave();
            } else {
                body.agent.kill_if_stopped(&body.process, STOPPED_MILLIS);
            }
        }
    }
}
