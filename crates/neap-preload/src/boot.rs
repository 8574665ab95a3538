//! Handing the address space to the engine.

use core::cell::UnsafeCell;
use core::mem::size_of;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_wire as wire;
use neap_wire::lack;

use crate::sys::{self, Fd, Received};
use crate::{agent, environment, hints, hook};

/// `USERFAULTFD_IOC_NEW`
const IOC_NEW: usize = 0xaa00;
/// Status of a program that was to run managed or not at all.
const UNMANAGED: usize = 125;
/// `O_CLOEXEC | O_NONBLOCK`
const UFFD_FLAGS: usize = 0o2_004_000;

/// What the library remembers. Written by the constructor and by the child of a fork, each while it
/// is the only thread; read by hooks later.
struct State {
    name: [u8; wire::LONGEST_PATH],
    name_len: usize,
    /// What `attach` mapped; all 0 while not attached.
    memory: Memory,
    thaw_around_fork: bool,
    may_pass_on: bool,
    names: Names,
}

/// What the engine calls this address space, which tells each of them that it is the other.
#[derive(Clone, Copy)]
pub struct Names {
    pub space: wire::Cookie,
    family: u64,
}

impl Names {
    pub const NONE: Self = Self {
        space: wire::Cookie {
            number: 0,
            proof: 0,
        },
        family: 0,
    };
}

struct Shared(UnsafeCell<State>);
// SAFETY: see `State`: no write happens while a second thread of the program can run.
unsafe impl Sync for Shared {}

#[unsafe(link_section = ".data")]
static STATE: Shared = Shared(UnsafeCell::new(State {
    name: [0; wire::LONGEST_PATH],
    name_len: 0,
    memory: Memory::NONE,
    thaw_around_fork: false,
    may_pass_on: false,
    names: Names::NONE,
}));

fn state() -> &'static State {
    // SAFETY: shared reads; writers run alone (see `State`).
    unsafe { &*STATE.0.get() }
}

/// The path of the engine's socket; empty when there is none.
pub fn engine_name() -> &'static [u8] {
    &state().name[..state().name_len]
}

pub fn thaw_around_fork() -> bool {
    state().thaw_around_fork
}

/// Whether a forked child can be given what is out.
pub fn may_pass_on() -> bool {
    state().thaw_around_fork && state().may_pass_on
}

/// What the engine calls this address space.
#[cfg(target_arch = "x86_64")]
pub fn names() -> Names {
    state().names
}

/// Attaches this process if the environment names an engine.
///
/// # Safety
/// No other thread runs yet.
pub unsafe fn start() {
    // SAFETY: the only thread, see `State`.
    let state = unsafe { &mut *STATE.0.get() };
    state.name_len = environment::find(wire::SOCKET_ENV.as_bytes(), &mut state.name);
    if state.name_len == 0 {
        return;
    }
    let required = state.name[..state.name_len].ends_with(wire::REQUIRED_END.as_bytes());
    let emulated = is_emulated();
    if !emulated && attach(wire::purpose::ATTACH, Names::NONE) == Some(true) {
        // SAFETY: the caller's promise.
        unsafe { hook::register_fork_handlers() };
    } else if required {
        sys::complain(b"neap: a program ends because it could not be managed, as --require asks\n");
        sys::exit(UNMANAGED);
    } else if emulated {
        state.name_len = 0;
        sys::complain(
            b"neap: a program that valgrind runs stays unmanaged: valgrind emulates no agent\n",
        );
    }
}

/// Whether valgrind runs this program, which ends it at the start of a thread without libc's help. The variable is
/// in the environment of valgrind itself, which is the process's, and not in the program's.
fn is_emulated() -> bool {
    let mut path = [0; 512];
    environment::find(b"VALGRIND_LAUNCHER", &mut path) > 0
}

/// In the child of a fork: attach anew, or claim the space that the kernel announced.
pub fn start_in_child() {
    hints::start_in_child();
    let old = state().memory.cookie;
    // Without an agent nothing leaves a child either.
    if old == 0 || agent::stays_native() {
        return;
    }
    // SAFETY: the cookie page was mapped by `attach` and is inherited, wiped: it reads zero, or the
    // engine fills it with the name of the child's space.
    let space = unsafe { (old as *const wire::Cookie).read_volatile() };
    // Its parent's pages were not brought back, as the kernel announces the fork.
    let depends = agent::is_armed() && !state().thaw_around_fork;
    let (purpose, names) = match space.number {
        0 => {
            agent::disarm(); // all of its pages were brought back for the fork
            (wire::purpose::ATTACH, state().names)
        }
        _ => (wire::purpose::ADOPT, Names { space, family: 0 }),
    };
    if attach(purpose, names) != Some(true) && depends && engine_has_ended(space.number != 0) {
        sys::complain(
            b"neap: the engine ended while it held pages of this program, which are lost; \
              a child of it is killed rather than let it read wrong bytes\n",
        );
        sys::kill_self();
    }
}

/// Whether that is why nobody answers: its descriptors go one after the other, and the userfaultfd of a child that has
/// no agent with them. `answered`: it has named the child, and may be out of sight since (chroot).
fn engine_has_ended(answered: bool) -> bool {
    for _ in 0..wire::library::END_LOOKS {
        match sys::connect(engine_name()) {
            Err(errno) if errno == -sys::ECONNREFUSED || !answered && is_gone(errno) => {
                return true;
            }
            Err(_) => return false,
            Ok(socket) => sys::close(socket),
        }
        sys::sleep(wire::library::START_PAUSE);
    }
    false
}

/// In the child of a fork that takes over what is out, as these names: whether it is served.
#[cfg(target_arch = "x86_64")]
pub fn inherit(names: Names) -> bool {
    hints::start_in_child();
    attach(wire::purpose::INHERIT, names).is_some()
}

/// Set once the program has asked for memory that forked children find empty; they inherit it.
#[unsafe(link_section = ".data")]
static WIPES: AtomicBool = AtomicBool::new(false);
/// The same of memory that they do not have.
#[unsafe(link_section = ".data")]
static KEEPS: AtomicBool = AtomicBool::new(false);

/// The program is about to ask for such memory.
pub fn note_kept() {
    KEEPS.store(true, Relaxed);
}

/// One message to the engine and its answer, for the hooks. False if the engine is not there, or could not be
/// told within two seconds or so: the program has no descriptor left, or may make no socket.
pub fn tell(purpose: u32, arg: u64, arg2: u64) -> bool {
    if purpose == wire::purpose::WIPE {
        WIPES.store(true, Relaxed);
    }
    let hello = hello(purpose, (arg, arg2), state().names.space.number);
    for _ in 0..wire::library::TELL_TRIES {
        match sys::connect(engine_name()) {
            Ok(socket) if say(socket, &hello) => return true,
            Err(errno) if is_gone(errno) => return false,
            _ => sys::sleep(wire::library::TELL_PAUSE),
        }
    }
    false
}

/// Has the engine look for new memory, once pages may leave.
pub fn ring() {
    hints::note_look();
    call();
}

/// Has the engine read the notes: a touch of the cookie page, which is absent, is a message that takes no descriptor and no call
/// that a seccomp filter would end the program for.
pub fn call() {
    let State { memory, names, .. } = state();
    let cookie = memory.cookie;
    // The program may have unmapped the page, and have something else there.
    if cookie == 0 || sys::madvise(cookie, 4096, sys::MADV_NORMAL) != 0 {
        return;
    }
    // SAFETY: the page is mapped; what it holds is looked at and not relied on.
    let number = || unsafe { (cookie as *const u64).read_volatile() };
    if [0, names.space.number].contains(&number()) {
        sys::madvise(cookie, 4096, sys::MADV_DONTNEED);
        number();
    }
}

/// As [`tell`], but once, for what the program can do without.
pub fn mention(purpose: u32, arg: u64) {
    let number = state().names.space.number;
    if number != 0
        && let Ok(socket) = sys::connect(engine_name())
    {
        say(socket, &hello(purpose, (arg, 0), number));
    }
}

/// An engine that has ended, or cannot be seen from here (chroot, another mount namespace).
fn is_gone(errno: i64) -> bool {
    errno == -sys::ECONNREFUSED || errno == -sys::ENOENT
}

/// As [`tell`], by a connection that is there, which is used up.
pub fn tell_by(socket: Fd, purpose: u32) -> bool {
    say(socket, &hello(purpose, (0, 0), state().names.space.number))
}

fn say(socket: Fd, hello: &wire::Hello) -> bool {
    let mut welcome = wire::Welcome::default();
    let told = sys::send(socket, hello, &[])
        && sys::receive(socket, &mut welcome, &mut None) == Received::All
        && is_engine(&welcome, state().names.space);
    sys::close(socket);
    told
}

/// Whether this is from the engine that named the space, if that has a name: nobody else can tell the proof.
pub fn is_engine(welcome: &wire::Welcome, space: wire::Cookie) -> bool {
    welcome.magic == wire::MAGIC && (space.number == 0 || welcome.proof == space.proof)
}

pub fn hello(purpose: u32, (arg, arg2): (u64, u64), number: u64) -> wire::Hello {
    wire::Hello {
        magic: wire::MAGIC,
        version: wire::VERSION,
        purpose,
        flags: [(&WIPES, wire::HELLO_WIPES), (&KEEPS, wire::HELLO_KEEPS)]
            .iter()
            .filter(|(asked, _)| asked.load(Relaxed))
            .fold(0, |flags, (_, flag)| flags | flag),
        arg,
        arg2,
        number,
    }
}

/// Hands over the address space. Whether it has an agent; `None`: the engine does not take it.
fn attach(purpose: u32, names: Names) -> Option<bool> {
    let socket = match sys::connect(engine_name()) {
        Ok(socket) => socket,
        Err(errno) => {
            // An engine that is not there asks for nothing.
            if !is_gone(errno) {
                sys::complain(
                    b"neap: a process stays unmanaged: it could make no socket, or not connect it (no descriptor left, \
                      or forbidden); it runs without a limit, and what it takes is not counted\n",
                );
            }
            return None;
        }
    };
    if !sys::is_trusted(socket) {
        sys::complain(
            b"neap: a process stays unmanaged: the socket that NEAP_SOCKET names is another user's\n",
        );
        sys::close(socket);
        return None;
    }
    let mut device = None;
    let mut welcome = wire::Welcome::default();
    let hello = hello(purpose, (names.family, 0), names.space.number);
    let greeted = sys::send(socket, &hello, &[])
        && sys::receive(socket, &mut welcome, &mut device) == Received::All
        && is_engine(&welcome, names.space)
        && welcome.refused == 0;
    let memory = greeted
        .then(|| Memory::map(welcome.stage_bytes as usize, state().memory))
        .flatten();
    if greeted && memory.is_none() {
        give_up(socket, lack::ROOM, 0);
    }
    let taken = memory.and_then(|memory| hand_over(socket, purpose, device, &memory));
    if let Some(device) = device {
        sys::close(device);
    }
    // Before the memory goes: the kernel tells the engine of that as long as it serves the space.
    sys::close(socket);
    if let Some((names, _)) = taken {
        // SAFETY: the constructor or the child of a fork: the only thread, see `State`.
        unsafe { (*STATE.0.get()).names = names };
    }
    let (Some(memory), Some((_, true))) = (memory, taken) else {
        if let Some(memory) = memory {
            memory.unmap();
        }
        return taken.map(|_| false);
    };
    // SAFETY: the constructor or the child of a fork: the only thread, see `State`.
    let state = unsafe { &mut *STATE.0.get() };
    state.memory = memory;
    state.thaw_around_fork = welcome.flags & wire::WELCOME_THAW_AROUND_FORK != 0;
    state.may_pass_on = welcome.flags & wire::WELCOME_FORK != 0;
    Some(true)
}

/// Memory this library maps: the agent's, the cookie page and the staging area.
#[derive(Clone, Copy)]
struct Memory {
    agent: usize,
    cookie: usize,
    stage: usize,
    stage_bytes: usize,
}

impl Memory {
    const NONE: Self = Self {
        agent: 0,
        cookie: 0,
        stage: 0,
        stage_bytes: 0,
    };

    /// In the child of a fork the places of the parent's are free, since they are not inherited;
    /// taking them leaves the program's own holes alone.
    fn map(stage_bytes: usize, before: Self) -> Option<Self> {
        let agent = sys::map(before.agent, agent::BYTES)?;
        sys::protect_none(agent, agent::GUARD);
        // The cookie page is inherited, wiped, and registered if the parent's was.
        let cookie = match before.cookie {
            0 => sys::map(0, 4096)?,
            inherited => inherited,
        };
        let stage = sys::map(before.stage, stage_bytes)?;
        sys::madvise(cookie, 4096, sys::MADV_WIPEONFORK);
        for (at, len) in [(agent, agent::BYTES), (stage, stage_bytes)] {
            sys::madvise(at, len, sys::MADV_DONTFORK);
            sys::madvise(at, len, sys::MADV_NOHUGEPAGE);
            sys::madvise(at, len, sys::MADV_DONTDUMP);
        }
        Some(Self {
            agent,
            cookie,
            stage,
            stage_bytes,
        })
    }

    fn stage(&self) -> wire::Span {
        wire::Span {
            start: self.stage as u64,
            bytes: self.stage_bytes as u64,
        }
    }

    fn unmap(&self) {
        // Made by `map`; the caller gives up both. The cookie page may be inherited.
        sys::munmap(self.agent, agent::BYTES);
        sys::munmap(self.stage, self.stage_bytes);
    }
}

/// Says what is lacking: of a process that says nothing the engine takes it that it has ended.
fn give_up(socket: Fd, lacks: u32, errno: i32) {
    let refusal = wire::Attach {
        magic: wire::MAGIC,
        lacks,
        errno,
        ..wire::Attach::default()
    };
    sys::send(socket, &refusal, &[]);
}

/// A userfaultfd, or a negative errno.
pub fn make_userfaultfd(device: Option<Fd>) -> Result<Fd, i64> {
    let made = match device {
        Some(device) => sys::ioctl(device, IOC_NEW, UFFD_FLAGS),
        None => sys::call(sys::nr::USERFAULTFD, [UFFD_FLAGS, 0, 0, 0, 0, 0]),
    };
    if made < 0 {
        Err(made)
    } else {
        Ok(Fd(made as i32))
    }
}

/// What a process hands over, and how many they are: its userfaultfd, if it makes one, and three files of its own.
fn open_descriptors(socket: Fd, purpose: u32, device: Option<Fd>) -> Option<([Fd; 4], usize)> {
    const O_RDONLY: usize = 0;
    let mut fds = [Fd(-1); 4];
    let mut count = 0;
    if purpose != wire::purpose::ADOPT {
        match make_userfaultfd(device) {
            Ok(made) => fds[count] = made,
            Err(errno) => {
                give_up(socket, lack::USERFAULTFD, -errno as i32);
                return None;
            }
        }
        count += 1;
    }
    for path in [
        &b"/proc/self/mem\0"[..],
        b"/proc/self/pagemap\0",
        b"/proc/self/maps\0",
    ] {
        if let Some(fd) = sys::open(path, O_RDONLY) {
            fds[count] = fd;
            count += 1;
        }
    }
    Some((fds, count))
}

/// What the space is called, if the engine takes it, and whether it has an agent: a child without one is served, too.
fn hand_over(
    socket: Fd,
    purpose: u32,
    device: Option<Fd>,
    memory: &Memory,
) -> Option<(Names, bool)> {
    let (fds, count) = open_descriptors(socket, purpose, device)?;
    let attach = wire::Attach {
        magic: wire::MAGIC,
        stage: memory.stage as u64,
        agent: memory.agent as u64,
        agent_bytes: agent::BYTES as u64,
        cookie: memory.cookie as u64,
        notes: hints::address(),
        imprint: agent::imprint(),
        ..wire::Attach::default()
    };
    let mut ready = wire::Ready::default();
    let mut uffd = (purpose != wire::purpose::ADOPT).then_some(fds[0]);
    let mut extra = None;
    let sent = sys::send(socket, &attach, &fds[..count]);
    if !sent {
        give_up(socket, lack::PASSAGE, 0);
    }
    let agreed = sent
        && sys::receive(socket, &mut ready, &mut extra) == Received::All
        && ready.magic == wire::MAGIC
        && ready.refused == 0;
    // A forked child gets its userfaultfd, which the kernel gave to the engine, with the answer.
    uffd = uffd.or(extra);
    let armed = purpose != wire::purpose::ATTACH;
    let names = named(&ready);
    let (base, stage) = (memory.agent, memory.stage());
    let start = |uffd| agent::start(base, stage, [socket, uffd], names.space, armed);
    let started = agreed && uffd.is_some_and(start);
    for fd in &fds[..count] {
        sys::close(*fd);
    }
    if let Some(fd) = extra {
        sys::close(fd);
    }
    agreed.then_some((names, started))
}

/// What the engine calls a space by its answer.
pub fn named(ready: &wire::Ready) -> Names {
    let space = wire::Cookie {
        number: ready.number,
        proof: ready.proof,
    };
    Names {
        space,
        family: ready.family,
    }
}

const _: () = assert!(size_of::<usize>() == 8, "neap needs a 64-bit target");
