//! A forked child that is given what is out, where the kernel announces no forks.
//!
//! The parent has the engine take down what the child is to have, and no page leaves until the fork is over. The child makes a
//! userfaultfd of its own and hands it over before it touches any memory that may be out. It is
//! ended if it cannot. So the parent tries first what its child will need, and keeps as many descriptors free for it.

use core::cell::UnsafeCell;

use neap_wire as wire;
use neap_wire::purpose;

use crate::boot::{self, Names};
use crate::sys::{self, EFAULT, ENOSYS, Fd, Received, nr};

/// Descriptors that a child takes at once: its connection, the device, its userfaultfd, three files, and one of itself.
const NEEDED: usize = 7;

/// What a process that forks has open for that.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Passage {
    /// The connection. The child keeps it until it is served.
    line: Fd,
    /// In the place of those that the child will open.
    spares: [Fd; NEEDED],
}

impl Passage {
    pub const NONE: Self = Self {
        line: Fd(-1),
        spares: [Fd(-1); NEEDED],
    };

    fn close_spares(&self) {
        for spare in self.spares.into_iter().filter(|spare| spare.0 >= 0) {
            sys::close(spare);
        }
    }
}

/// What the next child finds.
#[derive(Clone, Copy)]
struct Legacy {
    names: Names,
    passage: Passage,
}

struct Shared(UnsafeCell<Legacy>);
// SAFETY: written by the thread whose fork the engine sees through, which is one at a time until the fork is over; read by its child.
unsafe impl Sync for Shared {}
/// It adjoins a file's mapping, so it is never out.
#[unsafe(link_section = ".data")]
static LEGACY: Shared = Shared(UnsafeCell::new(Legacy {
    names: Names::NONE,
    passage: Passage::NONE,
}));

/// What comes of telling the engine of a fork.
pub enum Announced {
    /// The child will be given what is out.
    Passed(Passage),
    /// It says no, or something that the child will need is not to be had. It hears more by this connection.
    Not(Fd),
    /// It cannot be told.
    No,
}

/// Announces a fork of the calling thread. From the engine's answer on, no page but those around `stack` is brought for
/// this thread.
pub fn announce(stack: usize) -> Announced {
    let Ok(line) = sys::connect(boot::engine_name()) else {
        return Announced::No;
    };
    let mut passage = Passage {
        line,
        ..Passage::NONE
    };
    let record = written_by_kernel().filter(|_| reserve(&mut passage).is_some());
    if let Some(names) = record.and_then(|record| ask(&mut passage, stack, record)) {
        // SAFETY: the engine sees one fork through at a time.
        unsafe { *LEGACY.0.get() = Legacy { names, passage } };
        return Announced::Passed(passage);
    }
    passage.close_spares();
    Announced::Not(line)
}

/// Opens as many files as the child will, but for two.
fn reserve(passage: &mut Passage) -> Option<()> {
    const O_RDONLY: usize = 0;
    let paths: [&[u8]; NEEDED - 2] = [
        b"/proc/self/mem\0",
        b"/proc/self/pagemap\0",
        b"/proc/self/maps\0",
        b"/proc/self/maps\0",
        b"/proc/self/maps\0",
    ];
    for (spare, path) in passage.spares.iter_mut().zip(paths) {
        *spare = sys::open(path, O_RDONLY)?;
    }
    Some(())
}

fn ask(passage: &mut Passage, stack: usize, record: usize) -> Option<Names> {
    let Passage { line, spares } = passage;
    let others = &mut spares[NEEDED - 2..];
    let own = boot::names();
    let mut welcome = wire::Welcome::default();
    let mut ready = wire::Ready::default();
    let (mut none, mut device) = (None, None);
    let hello = boot::hello(
        purpose::FORK,
        (stack as u64, record as u64),
        own.space.number,
    );
    let agreed = sys::send(*line, &hello, &[])
        && sys::receive(*line, &mut welcome, &mut none) == Received::All
        && boot::is_engine(&welcome, own.space)
        && sys::receive(*line, &mut ready, &mut device) == Received::All;
    others[0] = device.unwrap_or(Fd(-1));
    if !agreed || ready.magic != wire::MAGIC || ready.refused != 0 {
        return None;
    }
    others[1] = boot::make_userfaultfd(device).ok()?;
    Some(boot::named(&ready))
}

/// Where the kernel writes to whenever a thread goes on in the program (rseq), also in a child that is not served yet; 0: nowhere.
/// `None`: it is not known where.
fn written_by_kernel() -> Option<usize> {
    let (offset, size) = super::hook::restartable();
    if offset != 0 && size != 0 {
        // SAFETY: the dynamic loader resolved both symbols, whose types glibc fixes.
        let (offset, size) = unsafe { (*(offset as *const isize), *(size as *const u32)) };
        if size != 0 {
            return Some(sys::door::thread_pointer().wrapping_add_signed(offset));
        }
    }
    // An address that no program has: refused as that, unless there is another one already.
    let nowhere = usize::MAX - 0xfff;
    match -sys::call(nr::RSEQ, [nowhere, 32, 0, 0, 0, 0]) {
        EFAULT | ENOSYS => Some(0),
        _ => None,
    }
}

/// Tells the engine that the fork is over, and waits until it knows what was before that: the process may end at once.
pub fn tell_of_fork(passage: &Passage) {
    let own = boot::names();
    let hello = boot::hello(purpose::FORKED, (0, 0), own.space.number);
    let mut welcome = wire::Welcome::default();
    let heard = sys::send(passage.line, &hello, &[])
        && sys::receive(passage.line, &mut welcome, &mut None) == Received::All;
    if heard && welcome.flags & wire::WELCOME_AGAIN != 0 {
        sys::send(passage.line, &hello, &[]);
    }
    passage.close_spares();
    sys::close(passage.line);
}

/// In the child: hands over its address space, and has no other way.
pub fn begin() {
    // SAFETY: the parent wrote it before the fork, and no other thread is here.
    let Legacy { names, passage } = unsafe { *LEGACY.0.get() };
    passage.close_spares();
    // Another thread may just have allowed fewer.
    let allowed = sys::allow_descriptors(None);
    if !boot::inherit(names) {
        sys::write(
            sys::STDERR,
            b"neap: a forked child could not take over its memory (no descriptor left, or the engine has none?); \
              it is killed rather than let it read wrong bytes\n",
        );
        sys::kill_self();
    }
    if let Some(allowed) = allowed {
        sys::allow_descriptors(Some(allowed));
    }
    sys::close(passage.line);
}
