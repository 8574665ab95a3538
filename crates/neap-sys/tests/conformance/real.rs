//! The machine's kernel: the program is this process, and each act has a thread.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use neap_imagined::{Act, Outcome, PAGE, Prot};
use neap_sys::{
    Event, Features, Files, Maps, Pagemap, Remote, Stop, Uffd, Userfault, View, wait_readable,
};
use std::os::fd::AsRawFd;

use crate::world::World;

/// Nobody waits longer for what must come.
const LONG: Duration = Duration::from_secs(20);

pub(crate) struct Real {
    uffd: Uffd,
    files: Files,
    acts: HashMap<usize, Receiver<Outcome>>,
    /// A fork that has begun, with the thread that made it, hands its child over when it is done.
    forks: Option<(usize, Receiver<Child>)>,
    child: Option<Child>,
    queue: VecDeque<Event>,
}

/// A forked child reads the page whose address comes through one pipe, and answers through another.
struct Child {
    pid: i32,
    ask: File,
    hear: File,
}

/// Why a scenario cannot be run on the machine's kernel.
pub(crate) fn lacks() -> Option<String> {
    Real::new().err().map(|error| error.to_string())
}

impl Real {
    pub(crate) fn new() -> neap_sys::Result<Self> {
        let device = Uffd::open_device(Path::new("/dev/userfaultfd")).ok();
        let uffd = Uffd::create(device.as_ref().map(std::os::fd::AsFd::as_fd))?;
        let features = Features::LAYOUT.with(Features::WP).with(Features::MOVE);
        uffd.handshake(features.with(Features::FORK))?;
        let open = |name| File::open(format!("/proc/self/{name}")).expect("a file of this process");
        Ok(Self {
            uffd,
            files: Files {
                remote: Remote::new(open("mem")),
                pagemap: Pagemap::adopt(open("pagemap")),
                maps: Maps::adopt(open("maps")),
            },
            acts: HashMap::new(),
            forks: None,
            child: None,
            queue: VecDeque::new(),
        })
    }
}

fn await_readable(uffd: &dyn Userfault) {
    let ready = wait_readable(&[uffd.as_fd()], Some(LONG.as_nanos() as u64));
    assert_ne!(ready, 0, "nothing was told");
}

/// Waits until a thread of this process sleeps in the kernel, which nothing but its reader ends: it has told of its fork.
fn await_told(thread: i32) {
    let mut asleep = 0;
    for _ in 0..LONG.as_millis() {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        let sleeps = stat.is_ok_and(|stat| stat.contains(") D "));
        asleep = if sleeps { asleep + 1 } else { 0 };
        if asleep == 3 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it did not tell of its fork");
}

fn len(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}

fn flags(prot: Prot) -> i32 {
    let read = if prot.read { libc::PROT_READ } else { 0 };
    read | if prot.write { libc::PROT_WRITE } else { 0 }
}

/// What a call that returns an integer or an address came to.
fn outcome(failed: bool) -> Outcome {
    match failed {
        true => Outcome::Failed(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        false => Outcome::Done,
    }
}

fn advise(range: &Range<u64>, advice: i32) -> Outcome {
    // SAFETY: a range of the scenario's own, which nothing else of this process uses.
    outcome(unsafe { libc::madvise(range.start as *mut _, len(range), advice) } != 0)
}

fn remap(from: &Range<u64>, len_new: u64, flags: i32, to: u64) -> Outcome {
    // SAFETY: ranges of the scenario's own, which nothing else of this process uses.
    let at = unsafe {
        let from_at = from.start as *mut libc::c_void;
        libc::mremap(
            from_at,
            len(from),
            len_new as usize,
            flags,
            to as *mut libc::c_void,
        )
    };
    outcome(at == libc::MAP_FAILED)
}

fn act(act: Act) -> Outcome {
    const DONTUNMAP: i32 = 4;
    const GUARD_INSTALL: i32 = 102;
    let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    match act {
        // SAFETY: a page of the scenario's own, which is mapped, and which no reference in Rust is of.
        Act::Read(at) => Outcome::Read(unsafe { (at as *const u64).read_volatile() }),
        Act::Write(at, word, value) => {
            // SAFETY: as above, within the page.
            unsafe { (at as *mut u64).add(word % 512).write_volatile(value) };
            Outcome::Done
        }
        Act::Map(range, prot) => {
            let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: a range of the scenario's own, which nothing else of this process uses.
            let at =
                unsafe { libc::mmap(range.start as *mut _, len(&range), flags(prot), how, -1, 0) };
            // No huge page: what is moved and seen here is one page at a time.
            let huge = advise(&range, libc::MADV_NOHUGEPAGE);
            assert!(!matches!(huge, Outcome::Failed(errno) if errno != libc::EINVAL));
            outcome(at == libc::MAP_FAILED)
        }
        Act::Unmap(range) => {
            // SAFETY: a range of the scenario's own, which nothing else of this process uses.
            outcome(unsafe { libc::munmap(range.start as *mut _, len(&range)) } != 0)
        }
        Act::Resize { from, len } => remap(&from, len, 0, 0),
        Act::Move {
            from,
            to,
            len,
            stays,
        } => remap(&from, len, fixed | if stays { DONTUNMAP } else { 0 }, to),
        Act::Protect(range, prot) => {
            // SAFETY: a range of the scenario's own, which nothing else of this process uses.
            outcome(unsafe { libc::mprotect(range.start as *mut _, len(&range), flags(prot)) } != 0)
        }
        Act::Discard(range) => advise(&range, libc::MADV_DONTNEED),
        Act::Free(range) => advise(&range, libc::MADV_FREE),
        Act::Guard(range, on) => advise(&range, GUARD_INSTALL + i32::from(!on)),
        Act::Keep(range) => advise(&range, libc::MADV_DONTFORK),
        Act::Populate(range) => advise(&range, libc::MADV_POPULATE_WRITE),
        Act::Lock(range, true) => {
            // SAFETY: no memory is changed.
            outcome(unsafe { libc::mlock(range.start as *const _, len(&range)) } != 0)
        }
        Act::Lock(range, false) => {
            // SAFETY: no memory is changed.
            outcome(unsafe { libc::munlock(range.start as *const _, len(&range)) } != 0)
        }
        Act::Noise(..) | Act::Fork => unreachable!("not by a thread"),
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0);
    // SAFETY: the kernel just gave us these descriptors and nobody else owns them.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}

/// Forks a child that reads pages when it is told to, until the pipe is closed.
fn fork() -> Child {
    let (asked, ask) = pipe();
    let (hear, heard) = pipe();
    let (from, to) = (asked.as_raw_fd(), heard.as_raw_fd());
    // Not libc's fork, which keeps malloc to itself until its event has been read.
    // SAFETY: the child makes system calls alone, and reads pages of the scenario's.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as i32;
    if pid == 0 {
        let mut page = 0u64;
        // SAFETY: the buffers are 8 bytes; the page is mapped.
        unsafe {
            while libc::read(from, (&raw mut page).cast(), 8) == 8 {
                let word = (page as *const u64).read_volatile();
                libc::write(to, (&raw const word).cast(), 8);
            }
            libc::_exit(0);
        }
    }
    assert!(pid > 0, "fork");
    Child {
        pid,
        ask: ask.into(),
        hear: hear.into(),
    }
}

impl World for Real {
    fn begin(&mut self, thread: usize, what: Act) {
        let (say, hear) = channel();
        self.acts.insert(thread, hear);
        if what == Act::Fork {
            let (hand, child) = channel();
            let (call, called) = channel();
            std::thread::spawn(move || {
                let _ = call.send(neap_sys::own_tid());
                let _ = hand.send(fork());
                let _ = say.send(Outcome::Done);
            });
            await_told(called.recv_timeout(LONG).expect("a thread"));
            self.forks = Some((thread, child));
            return;
        }
        std::thread::spawn(move || say.send(act(what)));
    }

    fn outcome(&mut self, thread: usize) -> Outcome {
        let hear = self.acts.remove(&thread).expect("it began something");
        let outcome = hear.recv_timeout(LONG).expect("it waits for ever");
        if let Some((_, child)) = self.forks.take_if(|(by, _)| *by == thread) {
            self.child = Some(child.recv_timeout(LONG).expect("a forked child"));
        }
        outcome
    }

    fn await_message(&mut self) {
        await_readable(&self.uffd);
    }

    fn uffd(&self) -> &dyn Userfault {
        &self.uffd
    }

    fn view(&self) -> &dyn View {
        &self.files
    }

    fn move_pages(&mut self, from: u64, pages: u64, to: u64) -> Result<u64, Stop> {
        let moved = self.uffd.move_pages(to, from..from + pages * PAGE, false);
        match moved.stop {
            Some(stop) if moved.done == 0 => Err(stop),
            _ => Ok(moved.done / PAGE),
        }
    }

    fn child_reads(&mut self, page: u64) {
        use std::io::Write;
        let child = self.child.as_mut().expect("a child");
        child
            .ask
            .write_all(&page.to_ne_bytes())
            .expect("it is asked");
    }

    fn child_read(&mut self) -> u64 {
        use std::io::Read;
        use std::os::fd::AsFd;
        let child = self.child.as_mut().expect("a child");
        let ready = wait_readable(&[child.hear.as_fd()], Some(LONG.as_nanos() as u64));
        assert_ne!(ready, 0, "the child waits for ever");
        let mut word = [0; 8];
        child.hear.read_exact(&mut word).expect("it answers");
        u64::from_ne_bytes(word)
    }

    fn end_child(&mut self) {
        let child = self.child.take().expect("a child");
        // SAFETY: our own child, which is waited for just below and nowhere else.
        unsafe {
            libc::kill(child.pid, libc::SIGKILL);
            libc::waitpid(child.pid, std::ptr::null_mut(), 0);
        }
    }

    fn await_child(&mut self, uffd: &dyn Userfault) {
        await_readable(uffd);
    }

    fn queue(&mut self) -> &mut VecDeque<Event> {
        &mut self.queue
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.end_child();
        }
    }
}

/// Unmaps what a scenario has left.
pub(crate) fn clear(range: Range<u64>) {
    // SAFETY: a range of the scenarios' own, which nothing else of this process uses.
    unsafe { libc::munmap(range.start as *mut _, len(&range)) };
}
