//! The engine's end of the agents: one small task beside each program that acts for us where the
//! kernel accepts only a task of the address space: UFFDIO_MOVE and madvise.
//!
//! One command at a time, and the caller waits for its reply, which takes microseconds, but where it only asks. A stopped
//! program (SIGSTOP, a debugger) does not reply: then the command is *late*, the caller goes on with
//! other spaces, and whoever comes next completes what the command was for.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

use bytemuck::{Zeroable, bytes_of};
use neap_sys::{Keeper, Kept, Line, Lock, Locked, Process, SysError};
use neap_units::{Nanos, PageId, SlotId};
use neap_wire as wire;

use crate::attend::{self, Task};
use crate::space::BlockId;

/// What a command is for: all that is needed to complete it, whenever its reply comes.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Pages on their way to consecutive slots.
    Stage { pages: Vec<PageId>, first: SlotId },
    /// Staged pages on their way home; the first, if it is one that a thread touched.
    Return { pages: Vec<PageId>, touched: bool },
    /// Staging blocks being emptied.
    Recycle(Vec<BlockId>),
    /// From its answer on pages may leave.
    Arm,
    /// Nothing depends on it.
    Simple,
}

/// What came of a call.
pub(crate) enum Called {
    /// Done: complete the errand.
    Done(Errand, Box<wire::Reply>),
    /// No reply in time: the errand is kept.
    Late,
    /// Another command is under way, or late: nothing was sent.
    Busy(Errand),
    /// The agent is gone; nobody knows how far it came. The address space may live on: a forked
    /// parent's vfork child, or a program whose seccomp filter killed the agent.
    Gone(Errand),
}

/// No command is late; one is; it moves pages.
const PROMPT: u8 = 0;
const LATE: u8 = 1;
const LATE_MOVE: u8 = 2;

pub(crate) struct Agent {
    line: Box<dyn Line>,
    /// `None`: its numbers of threads mean nothing to us.
    keeper: Option<Keeper>,
    /// Without one the process never had an agent.
    task: Option<Task>,
    /// The agent's thread, as its last reply said; 0: none yet.
    thread: AtomicU32,
    /// The cpu it was last sent to, and one more; 0: none.
    sent_to: AtomicUsize,
    /// Moves so far by which pages leave.
    serial: AtomicU32,
    gone: AtomicBool,
    /// When it was told to end, in nanoseconds; 0: not yet.
    told: AtomicU64,
    /// Since when a command is late, in nanoseconds; 0: none is.
    late_since: AtomicU64,
    /// It was killed because somebody had stopped it.
    stopped: AtomicBool,
    turn: Lock<Option<Errand>, 3>,
    /// What is in `turn`: it must be known also while another thread just looks there.
    late: AtomicU8,
}

impl Agent {
    /// `line` gives up waiting after `agents.reply`.
    pub fn new(line: Box<dyn Line>, keeper: Option<Keeper>, task: Option<Task>) -> Self {
        Self {
            line,
            keeper,
            task,
            thread: AtomicU32::new(0),
            sent_to: AtomicUsize::new(0),
            serial: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            told: AtomicU64::new(0),
            late_since: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            turn: Lock::new(None),
            late: AtomicU8::new(PROMPT),
        }
    }

    /// Has the agent act on at most 64 spans. `wait`: for its turn, if another thread has it.
    pub fn call(
        &self,
        op: u32,
        spans: &[Range<u64>],
        target: u64,
        errand: Errand,
        wait: bool,
    ) -> Called {
        assert!(
            spans.len() <= wire::MAX_RANGES,
            "what is left out would never be answered"
        );
        let turn = match self.turn.try_lock() {
            Some(turn) => turn,
            None if !wait => return Called::Busy(errand),
            None => self.turn.lock(),
        };
        if turn.is_some() || self.is_gone() {
            return Called::Busy(errand);
        }
        let _kept = self.meet_here();
        let serial = match errand {
            Errand::Stage { .. } => self.serial.fetch_add(1, Relaxed) + 1,
            _ => 0,
        };
        if let Err(error) = self.send(op, spans, (target, serial)) {
            return self.not_sent(&error, errand);
        }
        self.receive(turn, errand)
    }

    /// Has the agent act, and leaves it to whoever completes late commands to hear of it. Nothing is sent while
    /// another is under way.
    pub fn ask(&self, op: u32, errand: Errand) -> Called {
        let mut turn = match self.turn.try_lock() {
            Some(turn) if turn.is_none() && !self.is_gone() => turn,
            _ => return Called::Busy(errand),
        };
        if let Err(error) = self.send(op, &[], (0, 0)) {
            return self.not_sent(&error, errand);
        }
        self.keep(&mut turn, errand);
        Called::Late
    }

    /// Nothing was sent. One error is not the end of the agent.
    fn not_sent(&self, error: &SysError, errand: Errand) -> Called {
        match error.passes() {
            true => Called::Busy(errand),
            false => self.end(errand),
        }
    }

    fn send(
        &self,
        op: u32,
        spans: &[Range<u64>],
        (target, serial): (u64, u32),
    ) -> neap_sys::Result<()> {
        let mut command = wire::Command::zeroed();
        command.magic = wire::MAGIC;
        command.op = op;
        command.target = target;
        command.serial = serial;
        command.count = spans.len() as u32;
        for (to, span) in command.spans.iter_mut().zip(spans) {
            *to = wire::Span {
                start: span.start,
                bytes: span.end - span.start,
            };
        }
        // What it says last is heard where neap is.
        let stderr = std::io::stderr();
        let stderr = (op == wire::op::ARM).then(|| stderr.as_fd());
        self.line.send(bytes_of(&command), stderr.as_slice())
    }

    /// What it was sent is late.
    fn keep(&self, turn: &mut Option<Errand>, errand: Errand) {
        let moves = matches!(errand, Errand::Stage { .. } | Errand::Return { .. });
        self.late
            .store(if moves { LATE_MOVE } else { LATE }, Relaxed);
        let now = neap_sys::monotonic_nanos();
        let _ = self.late_since.compare_exchange(0, now, Relaxed, Relaxed);
        *turn = Some(errand);
    }

    /// The agent works on the caller's cpu, and the caller stays there to hear of it: two wake-ups
    /// that cross cpus would take longer than most commands.
    fn meet_here(&self) -> Option<Kept> {
        let keeper = self.keeper?;
        let task = self.task().filter(|_| !self.is_gone())?;
        let cpu = neap_sys::this_cpu();
        if self.sent_to.swap(cpu + 1, Relaxed) != cpu + 1 {
            task.pin_to(cpu);
        }
        keeper.keep(0, cpu)
    }

    /// How many moves by which pages leave it was sent.
    pub fn serial(&self) -> u32 {
        self.serial.load(Relaxed)
    }

    /// Whether a command is late (one that is just under way is not).
    pub fn is_late(&self) -> bool {
        self.late.load(Relaxed) != PROMPT
    }

    /// Whether a move is late. One that is just under way is none: moves are made, and late ones completed,
    /// under the shared gate, and who asks holds it exclusively.
    pub fn has_late_move(&self) -> bool {
        self.late.load(Relaxed) == LATE_MOVE
    }

    /// Looks whether a late reply has come; nothing if none is late. `wait`: as long as a call would.
    pub fn collect(&self, wait: bool) -> Option<Called> {
        let mut turn = self.turn.lock();
        turn.as_ref()?;
        if !wait && !self.line.is_ready() {
            return Some(Called::Late);
        }
        let errand = turn.take()?;
        Some(self.receive(turn, errand))
    }

    /// Whether this is the agent's thread, by the number that it has for its own process.
    pub fn is_thread(&self, thread: u32) -> bool {
        self.thread() == Some(thread)
    }

    /// Its thread, as it is numbered where it lives, once it has replied.
    pub fn thread(&self) -> Option<u32> {
        Some(self.thread.load(Relaxed)).filter(|&thread| thread != 0)
    }

    fn receive(&self, mut turn: Locked<'_, Option<Errand>, 3>, errand: Errand) -> Called {
        let mut bytes = [0; size_of::<wire::Reply>()];
        let heard = self.line.receive(&mut bytes);
        let heard = heard.map(|len| wire::reply(&bytes[..len]));
        match heard {
            Ok(Ok(reply)) => {
                self.thread.store(reply.thread, Relaxed);
                self.late.store(PROMPT, Relaxed);
                self.late_since.store(0, Relaxed);
                Called::Done(errand, Box::new(reply))
            }
            Err(error) if error.passes() => {
                self.keep(&mut turn, errand);
                Called::Late
            }
            _ => self.end(errand),
        }
    }

    fn end(&self, errand: Errand) -> Called {
        self.gone.store(true, Relaxed);
        self.late.store(PROMPT, Relaxed);
        self.late_since.store(0, Relaxed);
        Called::Gone(errand)
    }

    /// Whether it has ended: then pages come back, but none leaves any more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// The agent as a task of the machine, whether it has ended or not.
    pub fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    /// Has it end, once it has done what it was sent before.
    pub fn dismiss(&self) {
        self.gone.store(true, Relaxed);
        self.told.store(neap_sys::monotonic_nanos(), Relaxed);
        attend::dismiss(&*self.line);
    }

    /// Ends it if it was told to so long ago and has not: somebody has stopped it.
    pub fn kill_if_late(&self, after: Nanos) {
        if is_past(&self.told, after) {
            self.kill();
        }
    }

    /// Ends it if somebody has stopped it, and not its process, and it has kept a command for so long: pages that it
    /// carries would never come home.
    pub fn kill_if_stopped(&self, process: &Process, after: Nanos) {
        let Some(task) = self.task() else { return };
        let late = is_past(&self.late_since, after);
        if late && task.is_stopped() && !process.is_stopped() {
            self.stopped.store(true, Relaxed);
            self.kill();
        }
    }

    /// Whether it was killed because somebody had stopped it.
    pub fn was_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    pub fn kill(&self) {
        if let Some(task) = &self.task {
            task.kill();
        }
    }

    /// Tells of its end.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Its end was heard of.
    pub fn set_gone(&self) {
        self.gone.store(true, Relaxed);
    }
}

/// Whether a time, in nanoseconds and not 0, is so long ago.
fn is_past(since: &AtomicU64, after: Nanos) -> bool {
    let since = since.load(Relaxed);
    since > 0 && neap_sys::monotonic_nanos() > since + after.0
}

#[cfg(test)]
mod tests {
    use bytemuck::bytes_of_mut;
    use neap_sys::Peer;
    use neap_tuning::TUNING;

    use super::*;

    /// An agent, and the program's end.
    fn agent() -> (Agent, Peer) {
        let (peer, program) = Peer::pair().unwrap();
        peer.set_timeout(TUNING.agents.reply.as_millis()).unwrap();
        (Agent::new(Box::new(peer), None, None), program)
    }

    #[test]
    fn what_is_asked_for_is_late_until_the_answer_is_heard() {
        let (agent, program) = agent();
        let asked = agent.ask(wire::op::ARM, Errand::Arm);
        assert!(matches!(asked, Called::Late) && agent.is_late());
        assert!(!agent.has_late_move());
        let again = agent.ask(wire::op::ARM, Errand::Arm);
        assert!(matches!(again, Called::Busy(Errand::Arm)), "one at a time");
        assert!(matches!(agent.collect(false), Some(Called::Late)));

        let mut command = wire::Command::zeroed();
        program.receive(bytes_of_mut(&mut command)).unwrap();
        assert_eq!((command.op, command.count), (wire::op::ARM, 0));
        let mut reply = wire::Reply::zeroed();
        (reply.magic, reply.thread) = (wire::MAGIC, 7);
        program.send(bytes_of(&reply), &[]).unwrap();
        let heard = agent.collect(false);
        assert!(matches!(heard, Some(Called::Done(Errand::Arm, _))));
        assert!(!agent.is_late() && agent.is_thread(7));
    }

    #[test]
    fn who_asks_an_agent_that_has_ended_hears_so() {
        let (agent, program) = agent();
        drop(program);
        let asked = agent.ask(wire::op::ARM, Errand::Arm);
        assert!(matches!(asked, Called::Gone(Errand::Arm)) && agent.is_gone());
        let again = agent.ask(wire::op::ARM, Errand::Arm);
        assert!(matches!(again, Called::Busy(Errand::Arm)));
    }
}
