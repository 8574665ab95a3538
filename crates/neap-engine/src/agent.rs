//! The engine's end of the agents: one small thread in each program that acts for us where the
//! kernel accepts only a thread of the address space: UFFDIO_MOVE and madvise.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use bytemuck::{Zeroable, bytes_of, bytes_of_mut};
use neap_sys::Peer;
use neap_wire as wire;

pub(crate) struct Agent {
    peer: Peer,
    /// One command at a time; held until its reply.
    turn: Mutex<()>,
}

impl Agent {
    pub fn new(peer: Peer) -> Self {
        Self {
            peer,
            turn: Mutex::new(()),
        }
    }

    /// Has the agent act on at most 64 spans and waits for its reply; `None`: it is gone.
    pub fn call(&self, op: u32, spans: &[Range<u64>], target: u64) -> Option<wire::Reply> {
        let mut command = wire::Command::zeroed();
        command.magic = wire::MAGIC;
        command.op = op;
        command.target = target;
        command.count = spans.len().min(wire::MAX_RANGES) as u32;
        for (to, span) in command.spans.iter_mut().zip(spans) {
            *to = wire::Span {
                start: span.start,
                bytes: span.end - span.start,
            };
        }
        let _turn = self.turn.lock().expect("agent lock");
        self.peer.send(bytes_of(&command), &[]).ok()?;
        let mut reply = wire::Reply::zeroed();
        let message = self.peer.receive(bytes_of_mut(&mut reply)).ok()?;
        let whole = message.len == size_of::<wire::Reply>() && reply.magic == wire::MAGIC;
        whole.then_some(reply)
    }
}

impl AsFd for Agent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.peer.as_fd()
    }
}
