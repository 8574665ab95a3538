//! The one task that neap leaves beside the program.
//!
//! It shares the address space and nothing else: it is a process of its own, in a group of its own, with its own
//! descriptors (the program's close_range cannot reach them, and it holds none of the program's files open). So it is
//! in no list of the program's threads, and no signal to the program's group reaches it. It confines itself to the few calls
//! that it makes, and of the capabilities to the one that lets it kill its process. It blocks every signal, uses no libc and
//! no thread-local storage, and touches no memory but its own stack.
//! It ends when the engine says so: once the program has ended, or has become another by exec.
//!
//! It also keeps the program honest if the engine dies: holding the userfaultfd, it keeps evicted
//! pages from reading as zeros, and it kills the program with a message.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::SeqCst};

use neap_wire as wire;

use crate::sys::{self, Fd, Received, nr};

/// Guard page below the stack, in bytes.
pub const GUARD: usize = 4096;
/// Guard, stack and arguments, in bytes.
pub const BYTES: usize = GUARD + wire::library::AGENT_STACK;

/// CLONE_VM | CLONE_UNTRACED: a tracer that follows new tasks would stop this one too, and then wait for a page that
/// only it can bring. No signal tells its parent of its end, so who waits for children does not see it.
const CLONE_FLAGS: usize = 0x100 | 0x80_0000;
/// Its name in lists of processes. Not one that a signal to all that are called like neap would reach: without it and
/// the engine, absent pages would read as zeros.
const NAME: &[u8; 16] = b"mm-agent\0\0\0\0\0\0\0\0";
/// `_IOR(0xAA, 1, struct uffdio_range)`
const UFFDIO_UNREGISTER: usize = 0x8010_aa01;
/// `_IOWR(0xAA, 0, struct uffdio_register)`
const UFFDIO_REGISTER: usize = 0xc020_aa00;
const REGISTER_MODE_WP: u64 = 2;
/// `_IOWR(0xAA, 5, struct uffdio_move)`
const UFFDIO_MOVE: usize = 0xc028_aa05;
/// The engine wakes who waits: it knows on which cpu.
const MOVE_DONT_WAKE: u64 = 1;

/// [`wire::Imprint`], which threads and the agent write, and the engine reads.
#[repr(C)]
struct Imprint {
    /// [`ARMED`], or what is in the way of that: [`NEVER`], and the number of forks under way.
    standing: AtomicU32,
    left: AtomicU32,
    number: AtomicU64,
    proof: AtomicU64,
}

const _: () = assert!(
    size_of::<Imprint>() == size_of::<wire::Imprint>()
        && offset_of!(Imprint, left) == offset_of!(wire::Imprint, left)
        && offset_of!(Imprint, number) == offset_of!(wire::Imprint, space)
);

/// It adjoins a file's mapping, so it is never managed.
#[unsafe(link_section = ".data")]
static IMPRINT: Imprint = Imprint {
    standing: AtomicU32::new(0),
    left: AtomicU32::new(0),
    number: AtomicU64::new(0),
    proof: AtomicU64::new(0),
};
/// The address space depends on the engine.
const ARMED: u32 = wire::ARMED;
/// It must not: the engine lacks a word that it would need.
const NEVER: u32 = 1 << 30;

/// Where the engine finds it.
pub fn imprint() -> u64 {
    (&raw const IMPRINT).addr() as u64
}

/// Whether pages of this process may be elsewhere.
pub fn is_armed() -> bool {
    IMPRINT.standing.load(SeqCst) & ARMED != 0
}

/// Pages that are not elsewhere already stay until [`fork_ends`], as long as the process is not armed. Whether it is.
pub fn fork_begins() -> bool {
    IMPRINT.standing.fetch_add(1, SeqCst) & ARMED != 0
}

/// What was begun before a fork in a signal handler is not known in its child.
pub fn fork_ends() {
    let less = |standing| (standing & !(ARMED | NEVER) != 0).then(|| standing - 1);
    let _ = IMPRINT.standing.fetch_update(SeqCst, SeqCst, less);
}

/// No page is elsewhere any more, and no agent is there.
pub fn disarm() {
    IMPRINT.standing.fetch_and(!ARMED, SeqCst);
}

/// Keeps every page in the process from now on; false if some may be elsewhere.
pub fn stay_native() -> bool {
    IMPRINT.standing.fetch_or(NEVER, SeqCst) & ARMED == 0
}

/// Whether [`stay_native`] was in time, here or in the process that this was forked from.
pub fn stays_native() -> bool {
    IMPRINT.standing.load(SeqCst) & (ARMED | NEVER) == NEVER
}

/// 0, or the errno of what is in the way.
fn arm() -> i64 {
    match IMPRINT.standing.compare_exchange(0, ARMED, SeqCst, SeqCst) {
        Err(standing) if standing & NEVER != 0 => sys::EPERM,
        Err(_) => sys::EAGAIN,
        Ok(_) => 0,
    }
}

/// Top of the agent's stack: what it was started with.
#[repr(C)]
struct Start {
    guard: usize,
    stage: wire::Span,
    socket: Fd,
    uffd: Fd,
    /// The process that it serves.
    process: Fd,
    /// The address space depends on the engine already: it is a forked child's.
    armed: bool,
    /// The agent's number, or a negative errno; 0 until then.
    begun: AtomicI64,
}

/// From now on this is the process of `space`. In this order: a child never seems to be a process of its parent's space that does not fork.
fn become_of(space: wire::Cookie, armed: bool) {
    IMPRINT.number.store(space.number, SeqCst);
    IMPRINT.proof.store(space.proof, SeqCst);
    IMPRINT.left.store(0, SeqCst);
    // Forks that are under way in the parent are not in its child.
    IMPRINT
        .standing
        .store(if armed { ARMED } else { 0 }, SeqCst);
}

/// Starts the agent of `space` on the memory at `base`, to move pages to `stage`. It copies the descriptor table as it is now; the
/// caller closes its own copies. The agent tells the engine that it is there; the caller, why it is not.
pub fn start(
    base: usize,
    stage: wire::Span,
    [socket, uffd]: [Fd; 2],
    space: wire::Cookie,
    armed: bool,
) -> bool {
    let top = base + BYTES - size_of::<Start>().next_multiple_of(16);
    become_of(space, armed);
    let begun = match sys::open_process(sys::getpid()) {
        Ok(process) => {
            // SAFETY: the caller just mapped [base, base + BYTES) and gives it to the agent for good.
            let start = unsafe {
                let start = top as *mut Start;
                start.write(Start {
                    guard: base,
                    stage,
                    socket,
                    uffd,
                    process,
                    armed,
                    begun: AtomicI64::new(0),
                });
                &*start
            };
            let begun = beget(start);
            sys::close(process);
            begun
        }
        Err(errno) => errno,
    };
    if begun <= 0 {
        let mut word = reply();
        word.errno = if begun < 0 {
            -begun as i32
        } else {
            sys::ESRCH as i32
        };
        sys::send(socket, &word, &[]);
    }
    begun > 0
}

/// The agent's number, or a negative errno. A task that ends at once starts it, so that it becomes a child of neap,
/// which reaps it. An orphan would come back to a process that takes orphans in, which might wait for it: such a
/// one starts it itself, and does not see it either unless it asks for children that send no signal.
fn beget(start: &Start) -> i64 {
    let top = (&raw const *start) as usize;
    let old = sys::set_signal_mask(u64::MAX); // a handler might never return; the agent inherits it
    let begun = if sys::adopts_orphans() {
        // SAFETY: the stack is the agent's own and stays mapped; `run` never returns.
        unsafe { sys::clone_task(CLONE_FLAGS, top, run, top) }
    } else {
        let stack = start.guard + GUARD + wire::library::STARTER_STACK;
        // SAFETY: the lower part of the agent's memory is this task's, which has ended before `start` returns.
        match unsafe { sys::clone_task(CLONE_FLAGS, stack, start_agent, top) } {
            starter if starter > 0 => {
                sys::reap(starter);
                await_start(start)
            }
            errno => errno,
        }
    };
    sys::set_signal_mask(old);
    begun
}

/// What the starter said before it ended: it has, unless a filter lets nobody wait for children.
fn await_start(start: &Start) -> i64 {
    for _ in 0..wire::library::START_LOOKS {
        match start.begun.load(SeqCst) {
            0 => sys::sleep(wire::library::START_PAUSE),
            begun => return begun,
        }
    }
    0 // killed before it could
}

extern "C" fn start_agent(top: usize) -> ! {
    // SAFETY: the caller of this task put the value there, and waits for it.
    let start = unsafe { &*(top as *const Start) };
    // SAFETY: the stack is the agent's own and stays mapped; `run` never returns.
    let begun = unsafe { sys::clone_task(CLONE_FLAGS, top, run, top) };
    start.begun.store(begun, SeqCst);
    sys::exit_task()
}

extern "C" fn run(top: usize) -> ! {
    // SAFETY: `start` put the value there before this task began.
    let start = unsafe { &*(top as *const Start) };
    let &Start {
        guard,
        stage,
        socket,
        uffd,
        process,
        mut armed,
        ..
    } = start;
    sys::leave_group();
    sys::close_all_but([socket, uffd, process]);
    sys::set_name(NAME);
    // Before anything that takes time: until it is heard nobody sees how the program grows.
    sys::send(socket, &reply(), &[]);
    sys::confine();
    let mut stderr = None;
    loop {
        let mut command = EMPTY;
        match sys::receive(socket, &mut command, &mut stderr) {
            Received::All => {}
            Received::Gone => orphaned(armed, process, stderr),
            // The program's seccomp filter: without an agent nothing leaves any more, and the engine
            // brings back what has left.
            Received::Refused => sys::exit_task(),
        }
        if command.op == wire::op::LEAVE {
            sys::exit_task();
        }
        if is_locked(guard) {
            unlock(guard, stage);
        }
        let mut reply = obey(&command, uffd);
        // mlockall in the midst of that: no block is emptied while it is locked, nor is the next.
        if command.op == wire::op::RECYCLE && reply.errno == sys::EINVAL as i32 {
            unlock(guard, stage);
            reply = obey(&command, uffd);
        }
        if command.op == wire::op::ARM && !armed {
            reply.errno = arm() as i32;
            armed = reply.errno == 0;
        }
        if !sys::send(socket, &reply, &[]) && !sys::is_gone(socket) {
            sys::exit_task(); // a filter again
        }
    }
}

/// Whether mlockall was called: it locks the guard page, in which there is nothing, and locked memory cannot be discarded.
fn is_locked(guard: usize) -> bool {
    sys::madvise(guard, GUARD, sys::MADV_DONTNEED) == -sys::EINVAL
}

/// Undoes what mlockall did to the stage. A page moves between mappings that are both locked or both not, and the
/// program's must stay; nor could a block be emptied.
fn unlock(guard: usize, stage: wire::Span) {
    sys::munlock(guard, GUARD);
    sys::munlock(stage.start as usize, stage.bytes as usize);
}

const PAGE: u64 = 4096;
const EMPTY: wire::Command = wire::Command {
    magic: 0,
    op: 0,
    count: 0,
    serial: 0,
    target: 0,
    spans: [wire::Span { start: 0, bytes: 0 }; wire::MAX_RANGES],
};

fn reply() -> wire::Reply {
    wire::Reply {
        magic: wire::MAGIC,
        done: 0,
        errno: 0,
        thread: sys::gettid(),
        pages: [0; wire::BLOCK_PAGES as usize],
    }
}

fn obey(command: &wire::Command, uffd: Fd) -> wire::Reply {
    let mut reply = reply();
    if command.op == wire::op::MOVE {
        move_out(command, uffd, &mut reply);
        return reply;
    }
    let count = (command.count as usize).min(wire::MAX_RANGES);
    for span in &command.spans[..count] {
        let result = act(command.op, *span, uffd);
        if result < 0 {
            reply.errno = -result as i32;
            break;
        }
        reply.done += 1;
    }
    reply
}

fn act(op: u32, span: wire::Span, uffd: Fd) -> i64 {
    let (at, len) = (span.start as usize, span.bytes as usize);
    match op {
        wire::op::RECYCLE => recycle(span, uffd),
        wire::op::UNSHARE => sys::madvise(at, len, sys::MADV_POPULATE_WRITE),
        _ => 0,
    }
}

/// Moves every page that can be moved; a page that cannot leaves its target empty.
fn move_out(command: &wire::Command, uffd: Fd, reply: &mut wire::Reply) {
    let count = (command.count as usize).min(wire::MAX_RANGES);
    let (mut target, mut at) = (command.target, 0);
    for span in &command.spans[..count] {
        let mut source = span.start;
        let end = span.start + span.bytes;
        let mut most = span.bytes;
        while source < end && at < reply.pages.len() {
            let mut bytes = most.min(end - source);
            let (mut result, mut moved) = move_pages(uffd, target, source, bytes);
            // A run that crosses from one mapping into another is refused whole, as is each part of a mapping that
            // does not let its pages go: what was too much stays so until something moves.
            while result == -sys::EINVAL && bytes > PAGE {
                bytes = bytes / PAGE / 2 * PAGE;
                (result, moved) = move_pages(uffd, target, source, bytes);
            }
            if moved > 0 && command.serial != 0 {
                IMPRINT.left.store(command.serial, SeqCst);
            }
            most = if moved > 0 { bytes * 2 } else { bytes };
            let mut pages = (moved.max(0) as u64 / PAGE).min(wire::BLOCK_PAGES - at as u64);
            if pages == 0 {
                reply.pages[at] = (-result) as u8;
                pages = 1;
                if result == -sys::EAGAIN {
                    // Events wait for the engine: the rest must wait too.
                    reply.pages[at..].fill(sys::EAGAIN as u8);
                    return;
                }
            }
            at += pages as usize;
            target += pages * PAGE;
            source += pages * PAGE;
        }
    }
}

/// The kernel's answer, and how many bytes it moved.
fn move_pages(uffd: Fd, target: u64, source: u64, bytes: u64) -> (i64, i64) {
    let mut arg = [target, source, bytes, MOVE_DONT_WAKE, 0];
    let address = (&raw mut arg) as usize;
    let result = sys::call(nr::IOCTL, [uffd.0 as usize, UFFDIO_MOVE, address, 0, 0, 0]);
    // SAFETY: the kernel wrote through the address, so the count is read anew.
    let moved = unsafe { (&raw const arg[4]).read_volatile() };
    (result, moved.cast_signed())
}

/// Empties a staging block, without its guard page. While it is not registered its discard raises no event, so nobody waits
/// for the engine.
fn recycle(span: wire::Span, uffd: Fd) -> i64 {
    let range = [span.start, span.bytes];
    let mut register = [span.start, span.bytes, REGISTER_MODE_WP, 0];
    let call = |request, arg: usize| sys::call(nr::IOCTL, [uffd.0 as usize, request, arg, 0, 0, 0]);
    let result = call(UFFDIO_UNREGISTER, (&raw const range) as usize);
    if result < 0 {
        return result;
    }
    let [slots, bytes] = [span.start + PAGE, span.bytes - PAGE].map(|n| n as usize);
    let result = sys::madvise(slots, bytes, sys::MADV_DONTNEED);
    // Also where that failed: the stage is one mapping again.
    let registered = call(UFFDIO_REGISTER, (&raw mut register) as usize);
    if result < 0 { result } else { registered }
}

/// The engine is gone. If it holds none of the program's pages, the program just goes on; who waits for a page gets it
/// from the kernel again.
fn orphaned(armed: bool, process: Fd, stderr: Option<Fd>) -> ! {
    if armed {
        if let Some(stderr) = stderr {
            sys::write_soon(
                stderr,
                b"neap: the engine ended while it held pages of this program, which are lost; \
                  the program is killed rather than let it read wrong bytes\n",
            );
        }
        sys::kill(process);
        // Until its last thread has ended, an absent page must block: this task holds the userfaultfd.
        sys::wait_for_end(process);
    }
    sys::exit_task()
}
