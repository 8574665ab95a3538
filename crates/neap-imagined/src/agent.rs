//! An agent: it does what it is told as `neap-preload/src/agent.rs` does, now or later, and may end.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use bytemuck::{Zeroable, bytes_of, bytes_of_mut};
use neap_sys::{Line, Result, SysError};
use neap_wire as wire;

use crate::PAGE;
use crate::errno::{EAGAIN, EINVAL};
use crate::machine::{Call, Core, Machine, SpaceNr};
use crate::pages::Pte;
use crate::uffd::ImaginedUffd;

/// What it is at.
#[derive(Debug)]
struct Errand {
    command: wire::Command,
    reply: wire::Reply,
    /// The span it is at, and how much of that is done.
    span: usize,
    bytes: u64,
    /// Pages of a move so far.
    pages: usize,
}

#[derive(Debug, Default)]
struct State {
    errand: Option<Errand>,
    replies: VecDeque<wire::Reply>,
    gone: bool,
}

/// The engine's line to an agent, and the agent itself.
#[derive(Clone, Debug)]
pub struct ImaginedAgent {
    machine: Machine,
    uffd: ImaginedUffd,
    state: Arc<Mutex<State>>,
}

impl ImaginedAgent {
    pub(crate) fn new(machine: Machine, space: SpaceNr) -> Self {
        Self {
            uffd: machine.uffd(space),
            machine,
            state: Arc::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|gone| gone.into_inner())
    }

    /// It is killed, whatever it is at.
    pub fn kill(&self) {
        *self.state() = State {
            gone: true,
            ..State::default()
        };
    }

    /// Does a part of what it was told. False: there is nothing to do, or it waits for a page.
    pub fn step(&self) -> bool {
        let mut state = self.state();
        let Some(errand) = &mut state.errand else {
            return false;
        };
        let spans = (errand.command.count as usize).min(wire::MAX_RANGES);
        if errand.span < spans && errand.reply.errno == 0 {
            return match errand.command.op {
                wire::op::MOVE => self.move_some(errand),
                wire::op::RECYCLE => self.recycle(errand),
                wire::op::UNSHARE => self.unshare(errand),
                _ => {
                    errand.span += 1;
                    true
                }
            };
        }
        let reply = errand.reply;
        state.errand = None;
        state.replies.push_back(reply);
        true
    }

    /// One call of UFFDIO_MOVE: less where a run is refused whole.
    fn move_some(&self, errand: &mut Errand) -> bool {
        let span = errand.command.spans[errand.span];
        let source = span.start + errand.bytes;
        let target = errand.command.target + errand.pages as u64 * PAGE;
        let mut bytes = span.bytes - errand.bytes;
        let mut moved = self.uffd.move_pages(target, source..source + bytes);
        while moved == Err(EINVAL) && bytes > PAGE {
            bytes = bytes / PAGE / 2 * PAGE;
            moved = self.uffd.move_pages(target, source..source + bytes);
        }
        let pages = match moved {
            Ok(moved) if moved > 0 => (moved / PAGE) as usize,
            Ok(_) => 1,
            Err(errno) => {
                errand.reply.pages[errand.pages] = errno as u8;
                if errno == EAGAIN {
                    errand.reply.pages[errand.pages..].fill(EAGAIN as u8);
                    errand.span = wire::MAX_RANGES;
                    return true;
                }
                1
            }
        };
        errand.pages += pages;
        errand.bytes += pages as u64 * PAGE;
        if errand.bytes >= span.bytes {
            errand.span += 1;
            errand.bytes = 0;
        }
        if errand.pages >= errand.reply.pages.len() {
            errand.span = wire::MAX_RANGES;
        }
        true
    }

    fn recycle(&self, errand: &mut Errand) -> bool {
        let span = errand.command.spans[errand.span];
        let range = span.start + PAGE..span.start + span.bytes;
        let mut core = self.machine.core();
        let space = self.uffd.space();
        let locked = core.mm(space).areas.within(&range);
        if locked.iter().any(|(_, area)| area.locked) {
            errand.reply.errno = EINVAL;
        } else {
            core.zap(space, &range);
            errand.reply.done += 1;
            errand.span += 1;
        }
        true
    }

    /// Makes shared pages the process's own. At an absent page it waits for the engine.
    fn unshare(&self, errand: &mut Errand) -> bool {
        let span = errand.command.spans[errand.span];
        let mut core = self.machine.core();
        while errand.bytes < span.bytes {
            let page = (span.start + errand.bytes) / PAGE;
            match core.part(self.uffd.space(), page) {
                Some(true) => errand.bytes += PAGE,
                Some(false) => return false,
                None => {
                    errand.reply.errno = EINVAL;
                    return true;
                }
            }
        }
        errand.bytes = 0;
        errand.span += 1;
        errand.reply.done += 1;
        true
    }
}

impl Core {
    /// Makes a page its process's own. `Some(false)`: it waits for the page; `None`: it may not be written.
    fn part(&mut self, nr: SpaceNr, page: u64) -> Option<bool> {
        let mm = &mut self.mms[nr.0];
        let (_, area) = mm
            .areas
            .at(page * PAGE)
            .filter(|(_, area)| area.prot.write)?;
        let (absent, protects) = (area.traps_absent(), area.traps_writes());
        match mm.ptes.get_mut(&page) {
            None if absent => Some(false),
            Some(pte) if protects && pte.is_protected() => Some(false),
            Some(Pte::Frame {
                frame, exclusive, ..
            }) => {
                if !*exclusive && self.frames.users(*frame) > 1 {
                    let copy = Box::new(*self.frames.bytes(*frame));
                    self.frames.put(*frame);
                    *frame = self.frames.add(copy);
                }
                *exclusive = true;
                Some(true)
            }
            Some(Pte::Guard | Pte::Poison) => None,
            None | Some(Pte::Zero { .. }) => {
                self.place(nr, page, Box::new([0; PAGE as usize]));
                Some(true)
            }
        }
    }
}

impl Line for ImaginedAgent {
    fn send(&self, bytes: &[u8], _fds: &[BorrowedFd<'_>]) -> Result<()> {
        self.machine.enter(Call::Agent);
        let mut command = wire::Command::zeroed();
        bytes_of_mut(&mut command).copy_from_slice(bytes);
        let mut state = self.state();
        if state.gone {
            return Err(SysError::of("sendmsg", 32)); // EPIPE
        }
        let mut reply = wire::Reply::zeroed();
        reply.magic = wire::MAGIC;
        state.errand = Some(Errand {
            command,
            reply,
            span: 0,
            bytes: 0,
            pages: 0,
        });
        Ok(())
    }

    fn receive(&self, bytes: &mut [u8]) -> Result<usize> {
        loop {
            self.machine.enter(Call::Agent);
            let mut state = self.state();
            if let Some(reply) = state.replies.pop_front() {
                bytes.copy_from_slice(bytes_of(&reply));
                return Ok(bytes.len());
            }
            if state.gone {
                return Ok(0);
            }
            drop(state);
            let late = {
                let mut core = self.machine.core();
                let odds = core.odds;
                core.chance.happens(odds.late)
            };
            if late || !self.step() {
                return Err(SysError::of("recvmsg", EAGAIN));
            }
        }
    }

    fn is_ready(&self) -> bool {
        let state = self.state();
        state.gone || !state.replies.is_empty()
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.machine.null().as_fd()
    }
}
