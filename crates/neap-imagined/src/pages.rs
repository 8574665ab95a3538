//! Frames of memory, and what the page tables say of each page.

use crate::PAGE;

pub(crate) type Bytes = [u8; PAGE as usize];

/// Number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameNr(usize);

#[derive(Debug)]
struct Frame {
    bytes: Box<Bytes>,
    /// Page tables that have it.
    users: u32,
}

/// All memory of the machine.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    all: Vec<Option<Frame>>,
    free: Vec<usize>,
}

impl Frames {
    pub fn add(&mut self, bytes: Box<Bytes>) -> FrameNr {
        let frame = Some(Frame { bytes, users: 1 });
        match self.free.pop() {
            Some(at) => {
                self.all[at] = frame;
                FrameNr(at)
            }
            None => {
                self.all.push(frame);
                FrameNr(self.all.len() - 1)
            }
        }
    }

    fn frame(&self, nr: FrameNr) -> &Frame {
        self.all[nr.0].as_ref().expect("a frame in use")
    }

    pub fn bytes(&self, nr: FrameNr) -> &Bytes {
        &self.frame(nr).bytes
    }

    pub fn bytes_mut(&mut self, nr: FrameNr) -> &mut Bytes {
        &mut self.all[nr.0].as_mut().expect("a frame in use").bytes
    }

    pub fn users(&self, nr: FrameNr) -> u32 {
        self.frame(nr).users
    }

    pub fn share(&mut self, nr: FrameNr) {
        self.all[nr.0].as_mut().expect("a frame in use").users += 1;
    }

    /// One page table less has it.
    pub fn put(&mut self, nr: FrameNr) {
        let frame = self.all[nr.0].as_mut().expect("a frame in use");
        frame.users -= 1;
        if frame.users == 0 {
            self.all[nr.0] = None;
            self.free.push(nr.0);
        }
    }

    /// Frames in use.
    pub fn used(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

/// What a page table says of a page that is not absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pte {
    Frame {
        frame: FrameNr,
        /// Write-protected by a userfaultfd.
        protected: bool,
        /// No other process can have it: it was written since the last fork.
        exclusive: bool,
        /// Declared free, and not written since.
        free: bool,
    },
    /// The one page of zeros.
    Zero { protected: bool },
    /// A guard region.
    Guard,
    /// Whoever touches it gets SIGBUS.
    Poison,
}

impl Pte {
    /// A page of one process alone.
    pub fn own(frame: FrameNr) -> Self {
        Self::Frame {
            frame,
            protected: false,
            exclusive: true,
            free: false,
        }
    }

    pub fn frame(self) -> Option<FrameNr> {
        match self {
            Self::Frame { frame, .. } => Some(frame),
            _ => None,
        }
    }

    pub fn is_protected(self) -> bool {
        matches!(
            self,
            Self::Frame {
                protected: true,
                ..
            } | Self::Zero { protected: true }
        )
    }

    pub fn protect(&mut self, on: bool) {
        if let Self::Frame { protected, .. } | Self::Zero { protected } = self {
            *protected = on;
        }
    }
}
