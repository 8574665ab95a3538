//! The agent from its first word to its end. It shares the memory of its process and outlives it, so the memory is
//! there until the agent is gone: the engine has it end as soon as the process has ended, or has become another by exec.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytemuck::{Zeroable, bytes_of};
use neap_sys::{
    CpuTime, End, Epoll, Extent, Line, Lock, Locked, Pidfd, Process, Sender, Statm, Waker,
};
use neap_tuning::TUNING;
use neap_units::Nanos;
use neap_wire as wire;

use crate::job::Job;
use crate::listen::Caller;
use crate::proof::Token;
use crate::space::{Body, Space};
use crate::spawn::no_thread;

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

    /// How much memory the address space has.
    pub fn extent(&self) -> Option<Extent> {
        self.statm.extent()
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
pub(crate) fn dismiss(line: &dyn Line) {
    let mut command = wire::Command::zeroed();
    (command.magic, command.op) = (wire::MAGIC, wire::op::LEAVE);
    let _ = line.send(bytes_of(&command), &[]);
}

/// Those that are attended, each from when it was met until its agent is gone. One thread waits for all of them.
pub(crate) struct Attendance {
    ends: Epoll,
    /// Wakes that thread.
    pub bell: Waker,
    attended: Lock<HashMap<u64, Attended>, 7>,
}

struct Attended {
    space: Arc<Space>,
    stand: Stand,
    /// The kernel will not tell of it: it has no room for that.
    untold: bool,
}

/// A process and its agent, as the attending thread saw them last. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Both,
    /// The process has ended, and its agent was told to. One that is there at that time, if any, is killed.
    Leaving(Option<u64>),
    /// The agent has ended. If the process is there at that time it goes on without.
    Alone(u64),
    /// It is, and until its end it counts.
    Unmanaged,
    /// Nothing more is waited for.
    Over,
}

/// [`Attendance::bell`] among the ends; no space has that number.
const BELL: u64 = 0;

impl Attendance {
    pub fn new() -> neap_sys::Result<Self> {
        let (ends, bell) = (Epoll::new()?, Waker::new()?);
        ends.add_waker(&bell, BELL)?;
        Ok(Self {
            ends,
            bell,
            attended: Lock::default(),
        })
    }

    /// Attends a space, which has a body, from now on.
    pub fn begin(&self, space: &Arc<Space>) {
        let Some(body) = space.body.get() else { return };
        let number = space.cookie;
        let attended = Attended {
            space: space.clone(),
            stand: Stand::Both,
            untold: false,
        };
        self.lock().insert(number, attended);
        let process = self.ends.add_process(&body.pidfd, number);
        let agent = self.ends.add_socket(body.agent.socket(), number);
        if process.and(agent).is_err() {
            if let Some(it) = self.lock().get_mut(&number) {
                it.untold = true;
            }
            self.bell.wake();
        }
    }

    /// Attends until the engine stops.
    pub fn run(&self, job: &Arc<Job>) {
        neap_sys::block_signals();
        neap_sys::raise_to_realtime();
        while !job.is_stopping() {
            let ended = self.ends.wait(self.patience());
            let ended = ended.unwrap_or_else(|_| self.lock().keys().copied().collect());
            if ended.contains(&BELL) {
                self.bell.clear();
            }
            for number in ended.into_iter().chain(self.overdue()) {
                self.look(job, number);
            }
        }
    }

    fn lock(&self) -> Locked<'_, HashMap<u64, Attended>, 7> {
        self.attended.lock()
    }

    /// How long nothing is to be done unless somebody ends, in milliseconds.
    fn patience(&self) -> Option<u32> {
        let now = neap_sys::monotonic_nanos();
        let attended = self.lock();
        let until = attended.values().filter_map(|it| it.until(now)).min();
        let millis = |until: u64| until.saturating_sub(now).div_ceil(1_000_000);
        until.map(|until| u32::try_from(millis(until)).unwrap_or(u32::MAX))
    }

    /// Those to look at though nobody has told of them.
    fn overdue(&self) -> Vec<u64> {
        let now = neap_sys::monotonic_nanos();
        let late = |it: &Attended| it.untold || it.until(now).is_some_and(|until| until <= now);
        let attended = self.lock();
        let late = attended.iter().filter(|(_, it)| late(it));
        late.map(|(&number, _)| number).collect()
    }

    /// Looks what has become of a space. Only the attending thread does.
    fn look(&self, job: &Arc<Job>, number: u64) {
        let seen = |it: &Attended| (it.space.clone(), it.stand);
        let Some((space, mut stand)) = self.lock().get(&number).map(seen) else {
            return;
        };
        let Some(body) = space.body.get() else { return };
        loop {
            let next = stand.next(job, &space, body);
            if next == stand {
                break;
            }
            stand = next;
        }
        if stand == Stand::Over {
            self.lock().remove(&number);
            self.ends.remove(&body.pidfd);
            self.ends.remove(&body.agent.socket());
            space.ring(); // its fault thread asks the kernel
            if !space.standing.is_served() {
                job.drop_space(&space); // no fault thread does it
            }
        } else if let Some(it) = self.lock().get_mut(&number) {
            it.stand = stand;
        }
    }
}

impl Attended {
    /// When it is to be looked at, in nanoseconds, unless it is told of before.
    fn until(&self, now: u64) -> Option<u64> {
        match self.stand {
            _ if self.untold => Some(now + TUNING.talk.pause.0),
            Stand::Leaving(until) => until,
            Stand::Alone(until) => Some(until),
            _ => None,
        }
    }
}

impl Stand {
    /// How it is now, and what that asks for.
    fn next(self, job: &Arc<Job>, space: &Space, body: &Body) -> Self {
        let now = neap_sys::monotonic_nanos();
        let after = |time: Nanos| now + time.0;
        let ended = neap_sys::which_ended(body.agent.socket(), &body.pidfd);
        match self {
            Self::Both if ended == End::Process => {
                body.leave();
                Self::Leaving(Some(after(TUNING.agents.leave)))
            }
            Self::Both if ended == End::Socket => {
                // Nothing leaves any more, and the process goes on unless it has become another.
                body.agent.set_gone();
                space.ring();
                match body.is_left() || body.agent.task().is_none() {
                    true => Self::Over,
                    false => Self::Alone(after(TUNING.agents.together)),
                }
            }
            Self::Leaving(_) if ended == End::Socket => Self::Over,
            Self::Leaving(Some(until)) if until <= now => {
                body.agent.kill();
                Self::Leaving(None)
            }
            Self::Alone(_) | Self::Unmanaged if !body.pidfd.lives() => Self::Over,
            Self::Alone(until) if until <= now => {
                tell_of_loss(job, body);
                match space.standing.is_served() {
                    true => Self::Over,
                    false => Self::Unmanaged,
                }
            }
            other => other,
        }
    }
}

/// Its agent has ended before its process.
fn tell_of_loss(job: &Arc<Job>, body: &Body) {
    let fate = if body.agent.was_stopped() {
        "stopped"
    } else {
        "killed"
    };
    let pid = body.pid;
    job.warn(format!(
        "process {pid} keeps its memory from now on, and may go over the limit: its agent (mm-agent) was {fate}"
    ));
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
    /// The process of this space has come by a new one, so that those it had before are over: it has execed. What it had
    /// goes before it grows anew, unless that takes long: both count.
    pub fn end_former(&self, space: &Space) {
        let pid = space.pid.load(Relaxed);
        let spaces = self.spaces(); // in the order in which they came
        let former = spaces.iter().take_while(|other| other.id != space.id);
        let bodies = former.filter_map(|other| other.body.get());
        for body in bodies.filter(|body| body.pid == pid) {
            let had = body
                .agent
                .task()
                .and_then(Task::extent)
                .map_or(0, |extent| extent.anon);
            body.leave();
            if had < TUNING.agents.former.0 {
                continue;
            }
            neap_sys::wait_readable(&[body.agent.socket()], Some(TUNING.agents.reply.0));
        }
    }

    /// Looks for processes that have other memory by now and have not told of it: what they run has no library of
    /// ours. What they had before ends with the agent. And for agents that somebody has stopped.
    pub fn look_after_agents(&self, spaces: &[Arc<Space>]) {
        for body in spaces.iter().filter_map(|space| space.body.get()) {
            if body.is_left() {
                body.agent.kill_if_late(TUNING.agents.leave);
            } else if body.seems_left() {
                body.leave();
            } else {
                body.agent
                    .kill_if_stopped(&body.process, TUNING.agents.stopped);
            }
        }
    }
}
