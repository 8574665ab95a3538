//! The engine's end of the agents: one small thread in each program that acts for us where the
//! kernel accepts only a thread of the address space: UFFDIO_MOVE and madvise.
//!
//! One command at a time, and the caller waits for its reply, which takes microseconds, but where it only asks. A stopped
//! program (SIGSTOP, a debugger) does not reply: then the command is *late*, the caller goes on with
//! other spaces, and whoever comes next completes what the command was for.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use bytemuck::{Zeroable, bytes_of};
use neap_sys::{Keeper, Kept, Peer, Process, SysError};
use neap_units::{PageId, SlotId};
use neap_wire as wire;

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
    /// Pages of the older way out being thrown away.
    Discard(Vec<PageId>),
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

/// A reply that takes longer is late, in milliseconds: a hundred times what it needs.
pub(crate) const PATIENCE_MILLIS: u32 = 20;

pub(crate) struct Agent {
    peer: Peer,
    /// `None`: its numbers of threads mean nothing to us.
    keeper: Option<(Keeper, Arc<Process>)>,
    /// The agent's thread, as its last reply said; 0: none yet.
    thread: AtomicU32,
    /// The cpu it was last sent to, and one more; 0: none.
    sent_to: AtomicUsize,
    gone: AtomicBool,
    /// It is about to throw pages away: from the decision to the answer.
    throwing: AtomicBool,
    turn: Mutex<Option<Errand>>,
    /// What is in `turn`: it must be known also while another thread just looks there.
    late: AtomicU8,
}

impl Agent {
    /// `peer` gives up waiting after [`PATIENCE_MILLIS`].
    pub fn new(peer: Peer, keeper: Option<(Keeper, Arc<Process>)>) -> Self {
        Self {
            peer,
            keeper,
            thread: AtomicU32::new(0),
            sent_to: AtomicUsize::new(0),
            gone: AtomicBool::new(false),
            throwing: AtomicBool::new(false),
            turn: Mutex::new(None),
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
            Ok(turn) => turn,
            Err(TryLockError::WouldBlock) if !wait => return Called::Busy(errand),
            Err(_) => self.turn.lock().expect("agent lock"),
        };
        // One that is gone does nothing; only what was being thrown away must be looked at.
        let gone = self.is_gone() && !matches!(errand, Errand::Discard(_));
        if turn.is_some() || gone {
            return Called::Busy(errand);
        }
        let _kept = self.meet_here();
        if let Err(error) = self.send(op, spans, target) {
            return self.not_sent(&error, errand);
        }
        self.receive(turn, errand)
    }

    /// Has the agent act, and leaves it to whoever completes late commands to hear of it. Nothing is sent while
    /// another is under way.
    pub fn ask(&self, op: u32, errand: Errand) -> Called {
        let mut turn = match self.turn.try_lock() {
            Ok(turn) if turn.is_none() && !self.is_gone() => turn,
            _ => return Called::Busy(errand),
        };
        if let Err(error) = self.send(op, &[], 0) {
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

    fn send(&self, op: u32, spans: &[Range<u64>], target: u64) -> neap_sys::Result<()> {
        let mut command = wire::Command::zeroed();
        command.magic = wire::MAGIC;
        command.op = op;
        command.target = target;
        command.count = spans.len() as u32;
        for (to, span) in command.spans.iter_mut().zip(spans) {
            *to = wire::Span {
                start: span.start,
                bytes: span.end - span.start,
            };
        }
        self.peer.send(bytes_of(&command), &[])
    }

    /// What it was sent is late.
    fn keep(&self, turn: &mut Option<Errand>, errand: Errand) {
        let moves = matches!(errand, Errand::Stage { .. } | Errand::Return { .. });
        self.late
            .store(if moves { LATE_MOVE } else { LATE }, Relaxed);
        *turn = Some(errand);
    }

    /// The agent works on the caller's cpu, and the caller stays there to hear of it: two wake-ups
    /// that cross cpus would take longer than most commands.
    fn meet_here(&self) -> Option<Kept> {
        let (keeper, process) = self.keeper.as_ref()?;
        let thread = self.thread.load(Relaxed);
        if thread == 0 || self.is_gone() {
            return None;
        }
        let cpu = neap_sys::this_cpu();
        // What it says of its thread is believed of a thread of its own.
        if self.sent_to.swap(cpu + 1, Relaxed) != cpu + 1 && process.has_thread(thread) {
            let _ = neap_sys::pin_to(thread.cast_signed(), cpu);
        }
        keeper.keep(0, cpu)
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
        let mut turn = self.turn.lock().expect("agent lock");
        turn.as_ref()?;
        if !wait && neap_sys::wait_readable(&[self.peer.as_fd()], Some(0)) == 0 {
            return Some(Called::Late);
        }
        let errand = turn.take()?;
        Some(self.receive(turn, errand))
    }

    /// Notes that pages will be thrown away; until the answer it matters in what order events are read.
    /// The caller holds the gate, shared.
    pub fn set_throwing(&self, throwing: bool) {
        self.throwing.store(throwing, Relaxed);
    }

    /// Whether it has ever answered: then its thread is known.
    pub fn has_answered(&self) -> bool {
        self.thread().is_some()
    }

    /// Whether this is the agent's thread, by the number that it has for its own process.
    pub fn is_thread(&self, thread: u32) -> bool {
        self.thread() == Some(thread)
    }

    /// Its thread, as it is numbered where it lives, once it has replied.
    pub fn thread(&self) -> Option<u32> {
        Some(self.thread.load(Relaxed)).filter(|&thread| thread != 0)
    }

    pub fn is_throwing(&self) -> bool {
        self.throwing.load(Relaxed)
    }

    /// Whether it sleeps until the event of its own discard is read. `None`: nobody can tell.
    pub fn waits_for_reader(&self) -> Option<bool> {
        let (_, process) = self.keeper.as_ref()?;
        Some(process.waits_for_reader(self.thread.load(Relaxed)))
    }

    fn receive(&self, mut turn: MutexGuard<'_, Option<Errand>>, errand: Errand) -> Called {
        let mut bytes = [0; size_of::<wire::Reply>()];
        let heard = self.peer.receive(&mut bytes);
        let heard = heard.map(|message| wire::reply(&bytes[..message.len]));
        match heard {
            Ok(Ok(reply)) => {
                self.thread.store(reply.thread, Relaxed);
                self.late.store(PROMPT, Relaxed);
                if let Errand::Discard(_) = errand {
                    self.set_throwing(false);
                }
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
        self.set_throwing(false);
        Called::Gone(errand)
    }

    /// Whether it has ended: then pages come back, but none leaves any more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Has it end, and waits until it has.
    pub fn dismiss(&self) {
        let turn = self.turn.lock().expect("agent lock");
        self.gone.store(true, Relaxed);
        let sent = self.send(wire::op::LEAVE, &[], 0).is_ok();
        drop(turn); // others need not wait for a program that is stopped
        if sent {
            neap_sys::wait_hangup(self.peer.as_fd());
        }
    }

    /// Its end was heard of.
    pub fn set_gone(&self) {
        self.gone.store(true, Relaxed);
    }
}

impl AsFd for Agent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.peer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::bytes_of_mut;

    use super::*;

    /// An agent, and the program's end.
    fn agent() -> (Agent, Peer) {
        let (peer, program) = Peer::pair().unwrap();
        peer.set_timeout(PATIENCE_MILLIS).unwrap();
        (Agent::new(peer, None), program)
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
        assert!(!agent.is_late() && agent.has_answered());
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
