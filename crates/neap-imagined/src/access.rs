//! A thread touches a page: what the page tables say, what is told, and whether it finds what it should.

use std::sync::Arc;

use crate::machine::{Core, SpaceNr, ThreadNr, Truth};
use crate::pages::{Bytes, FrameNr, Pte};
use crate::thread::{Message, Outcome, Step, Touch, What};
use crate::{Chance, PAGE};

const ZEROS: Bytes = [0; PAGE as usize];

/// What a thread finds that touches a page.
enum Met {
    Page(FrameNr),
    Zeros,
    /// The reader of the userfaultfd is told, and it waits. `true`: the page is write-protected.
    Trap(bool),
    Dies(Outcome),
}

/// How a page is touched by a thread that does nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// It writes.
    pub write: bool,
    /// If it must wait the reader of the userfaultfd is told. Not while it waits already.
    pub tells: bool,
}

impl Touch {
    fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

impl Core {
    pub(crate) fn touch(&mut self, nr: SpaceNr, thread: ThreadNr, page: u64, how: Touch) {
        let met = self.meet(nr, page, how.writes());
        let outcome = match met {
            Met::Trap(protected) => {
                let mm = self.mm(nr);
                let what = What::Fault {
                    page,
                    write: how.writes(),
                    protected,
                };
                mm.faults.push_back(Message { from: thread, what });
                let me = &mut mm.threads[thread.0];
                me.next([Step::Touch { page, how }]);
                me.waits_for(page);
                return;
            }
            Met::Dies(outcome) => {
                self.mm(nr).threads[thread.0].end(outcome);
                return;
            }
            Met::Zeros => self.finds(nr, page, None),
            Met::Page(frame) => {
                self.finds(nr, page, Some(frame));
                self.write(nr, page, frame, how);
                u64::from_ne_bytes(self.frames.bytes(frame)[..8].try_into().unwrap_or_default())
            }
        };
        self.mm(nr).threads[thread.0].outcome = Some(match how {
            Touch::Read => Outcome::Read(outcome),
            _ => Outcome::Done,
        });
    }

    /// A page is touched at once, by a thread that does nothing else and keeps no truth of what it writes: `change` is what it
    /// does to the bytes, if it writes. False: it waits, and the reader of the userfaultfd is told if `tells`.
    pub(crate) fn access(
        &mut self,
        nr: SpaceNr,
        page: u64,
        how: Access,
        change: impl FnOnce(&mut Bytes),
    ) -> bool {
        match self.meet(nr, page, how.write) {
            Met::Page(frame) if how.write => change(self.frames.bytes_mut(frame)),
            Met::Page(_) | Met::Zeros | Met::Dies(_) => {}
            Met::Trap(protected) => {
                let what = What::Fault {
                    page,
                    write: how.write,
                    protected,
                };
                let from = ThreadNr(0);
                if how.tells {
                    self.mm(nr).faults.push_back(Message { from, what });
                }
                return false;
            }
        }
        true
    }

    fn meet(&mut self, nr: SpaceNr, page: u64, write: bool) -> Met {
        let mm = &mut self.mms[nr.0];
        let Some((_, area)) = mm.areas.at(page * PAGE) else {
            return Met::Dies(Outcome::Segv);
        };
        if !area.prot.read || write && !area.prot.write {
            return Met::Dies(Outcome::Segv);
        }
        let traps_writes = area.traps_writes();
        match mm.ptes.get_mut(&page) {
            None if area.traps_absent() => Met::Trap(false),
            None if write => Met::Page(self.place(nr, page, Box::new(ZEROS))),
            None => {
                mm.ptes.insert(page, Pte::Zero { protected: false });
                Met::Zeros
            }
            Some(Pte::Guard) => Met::Dies(Outcome::Segv),
            Some(Pte::Poison) => Met::Dies(Outcome::Bus),
            Some(pte) if write && traps_writes && pte.is_protected() => Met::Trap(true),
            Some(Pte::Zero { .. }) if write => Met::Page(self.place(nr, page, Box::new(ZEROS))),
            Some(Pte::Zero { .. }) => Met::Zeros,
            Some(Pte::Frame { frame, .. }) if !write => Met::Page(*frame),
            Some(Pte::Frame {
                frame,
                exclusive,
                free,
                protected,
            }) => {
                *free = false;
                *protected = false;
                if *exclusive {
                    return Met::Page(*frame);
                }
                *exclusive = true;
                if self.frames.users(*frame) > 1 {
                    let copy = Box::new(*self.frames.bytes(*frame));
                    self.frames.put(*frame);
                    *frame = self.frames.add(copy);
                }
                Met::Page(*frame)
            }
        }
    }

    /// A page of its own comes to an address space.
    pub(crate) fn place(&mut self, nr: SpaceNr, page: u64, bytes: Box<Bytes>) -> FrameNr {
        let frame = self.frames.add(bytes);
        self.mm(nr).ptes.insert(page, Pte::own(frame));
        frame
    }

    /// Compares what is there with what must be. The first word of what is there.
    fn finds(&mut self, nr: SpaceNr, page: u64, frame: Option<FrameNr>) -> u64 {
        let found = frame.map_or(&ZEROS, |frame| self.frames.bytes(frame));
        let word = u64::from_ne_bytes(found[..8].try_into().unwrap_or_default());
        let truth = self.mms[nr.0].truth.get_mut(&page);
        let wrong = match truth {
            None => *found != ZEROS,
            Some(truth) if *truth.bytes == *found => false,
            Some(truth) => {
                let dropped = truth.free && *found == ZEROS;
                if dropped {
                    truth.bytes = Arc::new(ZEROS);
                }
                !dropped
            }
        };
        if wrong {
            let must = self.mms[nr.0].truth.get(&page).map(|truth| &truth.bytes);
            let at = (0..PAGE as usize)
                .find(|&at| must.map_or(0, |must| must[at]) != found[at])
                .unwrap_or(0);
            let is = if *found == ZEROS {
                "zeros"
            } else {
                "other bytes"
            };
            self.complain(format!(
                "space {} finds {is} in page {page:#x}, from byte {at} on",
                nr.0
            ));
        }
        word
    }

    fn write(&mut self, nr: SpaceNr, page: u64, frame: FrameNr, how: Touch) {
        let since = self.stamp();
        let bytes = self.frames.bytes_mut(frame);
        match how {
            Touch::Read | Touch::Populate => return,
            Touch::Write(word, value) => {
                let at = word % 512 * 8;
                bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            }
            Touch::Noise(seed) => {
                let mut chance = Chance::new(seed);
                for word in bytes.chunks_exact_mut(8) {
                    word.copy_from_slice(&chance.draw().to_ne_bytes());
                }
            }
        }
        let truth = Truth {
            bytes: Arc::new(*bytes),
            free: false,
            since,
        };
        self.mm(nr).truth.insert(page, truth);
    }
}
