//! What the engine asks of the kernel about one address space, as traits: Linux is one kernel, and the imagined one of the
//! tests is another (`neap-imagined`).
//!
//! Each method has the meaning of the call that it is named after, with its errors. Three things speak for an
//! address space: its userfaultfd, from birth; what can be seen of it from outside, once its process has handed that over;
//! and the line to its agent, who acts inside it.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use crate::errno::Result;
use crate::maps::{Mapping, Maps};
use crate::pagemap::{Found, Pagemap, Word};
use crate::remote::{Piece, Remote};
use crate::socket::Peer;
use crate::uffd::{Event, Mode, Progress, Stop, Uffd, Wake};

/// The userfaultfd of an address space. See [`Uffd`] for each method.
pub trait Userfault: Any + Debug + Send + Sync {
    /// Passes what there is to read to `each`, without waiting. Returns how many messages that were.
    fn read_events(&self, each: &mut dyn FnMut(Event)) -> Result<usize>;
    /// UFFDIO_COPY.
    fn copy(&self, target: u64, source: &[u8], wake: Wake) -> Progress;
    /// UFFDIO_ZEROPAGE.
    fn zero(&self, range: Range<u64>, wake: Wake) -> Progress;
    /// UFFDIO_POISON.
    fn poison(&self, range: Range<u64>, wake: Wake) -> Result<()>;
    /// A fill that is never made: what the kernel says to it.
    fn try_nothing(&self, page: Range<u64>) -> Option<Stop>;
    /// UFFDIO_WRITEPROTECT, on.
    fn protect(&self, range: Range<u64>) -> Progress;
    /// UFFDIO_WRITEPROTECT, off.
    fn unprotect(&self, range: Range<u64>, wake: Wake) -> Progress;
    /// UFFDIO_REGISTER.
    fn register(&self, range: Range<u64>, mode: Mode) -> Result<()>;
    /// UFFDIO_UNREGISTER.
    fn unregister(&self, range: Range<u64>) -> Result<()>;
    /// UFFDIO_WAKE.
    fn wake(&self, range: Range<u64>) -> Result<()>;
    /// The descriptor, to wait for messages and to be handed on.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Whether a registered mapping is at this page. `None`: the address space is changing, or gone.
    fn is_registered(&self, page: Range<u64>) -> Option<bool> {
        match self.try_nothing(page) {
            Some(Stop::Retry | Stop::Dead) => None,
            Some(Stop::Absent) => Some(false),
            _ => Some(true),
        }
    }
}

impl Userfault for Uffd {
    fn read_events(&self, each: &mut dyn FnMut(Event)) -> Result<usize> {
        Self::read_events(self, each)
    }
    fn copy(&self, target: u64, source: &[u8], wake: Wake) -> Progress {
        Self::copy(self, target, source, wake)
    }
    fn zero(&self, range: Range<u64>, wake: Wake) -> Progress {
        Self::zero(self, range, wake)
    }
    fn poison(&self, range: Range<u64>, wake: Wake) -> Result<()> {
        Self::poison(self, range, wake)
    }
    fn try_nothing(&self, page: Range<u64>) -> Option<Stop> {
        Self::try_nothing(self, page)
    }
    fn protect(&self, range: Range<u64>) -> Progress {
        Self::protect(self, range)
    }
    fn unprotect(&self, range: Range<u64>, wake: Wake) -> Progress {
        Self::unprotect(self, range, wake)
    }
    fn register(&self, range: Range<u64>, mode: Mode) -> Result<()> {
        Self::register(self, range, mode)
    }
    fn unregister(&self, range: Range<u64>) -> Result<()> {
        Self::unregister(self, range)
    }
    fn wake(&self, range: Range<u64>) -> Result<()> {
        Self::wake(self, range)
    }
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsFd::as_fd(self)
    }
}

/// What can be seen of an address space from outside: its bytes, its pages, its mappings.
pub trait View: Debug + Send + Sync {
    /// Reads every piece whole, or fails. See [`Remote::read`].
    fn read(&self, pieces: &mut [Piece<'_>]) -> Result<()>;
    /// Runs of present pages and of pages of zeros. See [`Pagemap::present`].
    fn present(&self, range: Range<u64>, each: &mut dyn FnMut(Range<u64>, Found)) -> Result<()>;
    /// What is at each page from `address` on. See [`Pagemap::words`].
    fn words(&self, address: u64, words: &mut [Word]) -> Result<()>;
    /// Whether [`Self::present`] tells pages of zeros from others.
    fn has_scan(&self) -> bool;
    /// Mappings that have memory in `place`. See [`Maps::survey`].
    fn survey(
        &self,
        place: Range<u64>,
        known: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<Vec<Mapping>>;
    /// Where mappings have memory in `place`. See [`Maps::extents`].
    fn extents(&self, place: Range<u64>) -> Result<Vec<Range<u64>>>;
    /// Counts mappings from `address` on. See [`Maps::count`].
    fn count(&self, address: u64, most: usize) -> Result<(usize, Option<u64>)>;
    /// The mapping that covers `address`, or the next one above it.
    fn from(&self, address: u64) -> Result<Option<Mapping>>;
    /// Whether one mapping can be asked for without reading them all.
    fn has_query(&self) -> bool;

    /// The mapping that covers `address`.
    fn at(&self, address: u64) -> Result<Option<Mapping>> {
        let found = self.from(address)?;
        Ok(found.filter(|mapping| mapping.range.contains(&address)))
    }

    /// Whether there is a page at `address`, in memory or in the kernel's swap.
    fn holds(&self, address: u64) -> Result<bool> {
        let mut words = [Word::default()];
        self.words(address, &mut words)?;
        Ok(words[0].holds())
    }
}

/// The files of an address space that its process opened and handed over.
#[derive(Debug)]
pub struct Files {
    /// `/proc/self/mem`
    pub remote: Remote,
    /// `/proc/self/pagemap`
    pub pagemap: Pagemap,
    /// `/proc/self/maps`
    pub maps: Maps,
}

impl View for Files {
    fn read(&self, pieces: &mut [Piece<'_>]) -> Result<()> {
        self.remote.read(pieces)
    }
    fn present(&self, range: Range<u64>, each: &mut dyn FnMut(Range<u64>, Found)) -> Result<()> {
        self.pagemap.present(range, each)
    }
    fn words(&self, address: u64, words: &mut [Word]) -> Result<()> {
        self.pagemap.words(address, words)
    }
    fn has_scan(&self) -> bool {
        self.pagemap.has_scan()
    }
    fn survey(
        &self,
        place: Range<u64>,
        known: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<Vec<Mapping>> {
        self.maps.survey(place, known)
    }
    fn extents(&self, place: Range<u64>) -> Result<Vec<Range<u64>>> {
        self.maps.extents(place)
    }
    fn count(&self, address: u64, most: usize) -> Result<(usize, Option<u64>)> {
        self.maps.count(address, most)
    }
    fn from(&self, address: u64) -> Result<Option<Mapping>> {
        self.maps.from(address)
    }
    fn has_query(&self) -> bool {
        self.maps.has_query()
    }
}

/// The line to an agent: whole messages, one at a time each way.
pub trait Line: Debug + Send + Sync {
    /// Sends a message, with descriptors.
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()>;
    /// Waits for the next message, as long as the line was told to. How long it is; 0: the other end is gone.
    fn receive(&self, bytes: &mut [u8]) -> Result<usize>;
    /// Whether a message is there.
    fn is_ready(&self) -> bool;
    /// The socket, for whoever waits for its end.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl Line for Peer {
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        Self::send(self, bytes, fds)
    }
    fn receive(&self, bytes: &mut [u8]) -> Result<usize> {
        Self::receive(self, bytes).map(|message| message.len)
    }
    fn is_ready(&self) -> bool {
        crate::thread::wait_readable(&[AsFd::as_fd(self)], Some(0)) != 0
    }
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsFd::as_fd(self)
    }
}

/// Time as the engine sees it.
pub trait Clock: Debug + Send + Sync {
    /// In nanoseconds, and never back.
    fn now(&self) -> u64;
    /// Lets others get on for so many nanoseconds.
    fn sleep(&self, nanos: u64);

    /// Has so many nanoseconds pass at once, if all of time is imagined. False: the caller waits for it, or for a bell.
    fn pass(&self, _nanos: u64) -> bool {
        false
    }
}

/// The machine's.
#[derive(Debug)]
pub struct MachineClock;

impl Clock for MachineClock {
    fn now(&self) -> u64 {
        crate::thread::monotonic_nanos()
    }
    fn sleep(&self, nanos: u64) {
        std::thread::sleep(std::time::Duration::from_nanos(nanos));
    }
}
