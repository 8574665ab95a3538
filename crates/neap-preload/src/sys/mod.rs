//! System calls by instruction.
//!
//! Preconditions are the kernel's own: a wrapper that takes a pointer is `unsafe` or takes a
//! reference. Results are the kernel's: negative values are errno.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod file;
mod filter;
#[cfg(target_arch = "x86_64")]
mod limit;
mod memory;
mod own;
#[cfg(target_arch = "x86_64")]
mod probe;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::{
    ARCH, clone_task, cycles, nr, syscall6, weak_atfork, weak_dlsym, weak_errno, weak_reads,
};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{
    ARCH, clone_task, cycles, nr, syscall6, weak_atfork, weak_dlsym, weak_errno, weak_reads,
};

pub use file::bytes_behind;
#[cfg(target_arch = "x86_64")]
pub use file::{read_at, write_at};
#[cfg(target_arch = "x86_64")]
pub use limit::allow_descriptors;
pub use own::is_self;
#[cfg(target_arch = "x86_64")]
pub use probe::{bring, is_readable, is_writable};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{apart, door};

use core::mem::size_of;
use core::sync::atomic::AtomicU32;

pub const EPERM: i64 = 1;
pub const ESRCH: i64 = 3;
pub const EINTR: i64 = 4;
const ECONNRESET: i64 = 104;
pub const PROT_READ_WRITE: usize = 3;
pub const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
pub const MAP_NORESERVE: usize = 0x4000;
pub const EAGAIN: i64 = 11;
pub const ENOMEM: i64 = 12;
pub const EFAULT: i64 = 14;
pub const EINVAL: i64 = 22;
pub const ENOTTY: i64 = 25;
pub const ENAMETOOLONG: i64 = 36;
pub const ENOSYS: i64 = 38;
pub const ENOENT: i64 = 2;
pub const ECONNREFUSED: i64 = 111;
pub const STDERR: Fd = Fd(2);
pub const MADV_NORMAL: usize = 0;
pub const MADV_DONTNEED: usize = 4;
pub const MADV_DONTFORK: usize = 10;
pub const MADV_NOHUGEPAGE: usize = 15;
pub const MADV_DONTDUMP: usize = 16;
pub const MADV_WIPEONFORK: usize = 18;
pub const MADV_POPULATE_WRITE: usize = 23;
const AF_UNIX: usize = 1;
const SOCK_SEQPACKET_CLOEXEC: usize = 5 | 0o2_000_000;
const MSG_NOSIGNAL: usize = 0x4000;
const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const O_CLOEXEC: usize = 0o2_000_000;
const AT_FDCWD: usize = -100_isize as usize;

/// A file descriptor of the calling task's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fd(pub i32);

/// A system call without memory operands.
pub fn call(number: usize, args: [usize; 6]) -> i64 {
    // SAFETY: callers pass integers only, or addresses that the kernel checks and that belong to
    // mappings this library made; see each wrapper.
    unsafe { syscall6(number, args) }
}

pub fn close(fd: Fd) {
    call(nr::CLOSE, [fd.0 as usize, 0, 0, 0, 0, 0]);
}

pub fn pause() {
    // ppoll of nothing: sleeps until a signal, on every architecture.
    call(nr::PPOLL, [0; 6]);
}

/// Sleeps for less than a second, in nanoseconds.
pub fn sleep(nanos: u32) {
    let time = [0u64, u64::from(nanos)];
    let at = (&raw const time) as usize;
    call(nr::PPOLL, [0, 0, at, 0, 0, 0]);
}

/// Whether orphans among its descendants become children of this process: it is the first of its pid namespace, or a
/// subreaper.
pub fn adopts_orphans() -> bool {
    const PR_GET_CHILD_SUBREAPER: usize = 37;
    let mut set = 0i32;
    let at = (&raw mut set) as usize;
    call(nr::PRCTL, [PR_GET_CHILD_SUBREAPER, at, 0, 0, 0, 0]);
    // SAFETY: the kernel wrote through the address, so it is read anew.
    getpid() == 1 || unsafe { (&raw const set).read_volatile() } != 0
}

/// Waits for the end of a child that sends no signal.
pub fn reap(child: i64) {
    const WALL: usize = 0x4000_0000;
    call(nr::WAIT4, [child as usize, 0, WALL, 0, 0, 0]);
}

/// Leaves the process group, so that no signal to it reaches this task, and the working directory. A session of its own
/// would do no more, and costs a group of the scheduler where the kernel makes one for each.
pub fn leave_group() {
    call(nr::SETPGID, [0; 6]);
    call(nr::CHDIR, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]);
}

/// Sleeps while a word has this value, for less than a second, or until a signal.
pub fn futex_wait(word: &AtomicU32, value: u32, nanos: u32) {
    const FUTEX_WAIT_PRIVATE: usize = 128;
    let time = [0u64, u64::from(nanos)];
    let (word, time) = (word.as_ptr() as usize, (&raw const time) as usize);
    let args = [word, FUTEX_WAIT_PRIVATE, value as usize, time, 0, 0];
    call(nr::FUTEX, args);
}

/// Wakes one of those who sleep so.
pub fn futex_wake_one(word: &AtomicU32) {
    const FUTEX_WAKE_PRIVATE: usize = 129;
    let args = [word.as_ptr() as usize, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0];
    call(nr::FUTEX, args);
}

pub fn getpid() -> u32 {
    call(nr::GETPID, [0; 6]) as u32
}

pub fn gettid() -> u32 {
    call(nr::GETTID, [0; 6]) as u32
}

/// Ends the calling task; others of its process go on. A filter that forbids even this leaves it asleep.
pub fn exit_task() -> ! {
    call(nr::EXIT, [0; 6]);
    loop {
        pause();
    }
}

/// Ends the process.
pub fn exit(status: usize) {
    call(nr::EXIT_GROUP, [status, 0, 0, 0, 0, 0]);
}

/// Gives up what the calling task may do beyond what it is for: every capability but the one to send a signal, the means to
/// get any, and, where the kernel has filters, every call but those of [`filter`]. Without a filter that capability goes, too.
pub fn confine() {
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    const CAP_KILL: u32 = 1 << 5;
    call(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]);
    // Who has not that one has none of them afterwards. The filter forbids this call, too: it comes last.
    if !set_capabilities(CAP_KILL) {
        set_capabilities(0);
    }
    if !filter::install() {
        set_capabilities(0);
    }
}

/// Has the calling task these capabilities, of the first 32, and no other. Whether it may.
fn set_capabilities(mask: u32) -> bool {
    /// `_LINUX_CAPABILITY_VERSION_3`
    const VERSION: u32 = 0x2008_0522;
    let header = [VERSION, 0];
    // Twice effective, permitted and inheritable.
    let sets = [mask, mask, 0, 0, 0, 0];
    let (header, sets) = ((&raw const header) as usize, (&raw const sets) as usize);
    call(nr::CAPSET, [header, sets, 0, 0, 0, 0]) == 0
}

/// A descriptor of process `pid`, or a negative errno.
pub fn open_process(pid: u32) -> Result<Fd, i64> {
    match call(nr::PIDFD_OPEN, [pid as usize, 0, 0, 0, 0, 0]) {
        fd if fd >= 0 => Ok(Fd(fd as i32)),
        errno => Err(errno),
    }
}

pub fn kill(process: Fd) {
    call(nr::PIDFD_SEND_SIGNAL, [process.0 as usize, 9, 0, 0, 0, 0]);
}

/// Waits until the last thread of a process has ended.
pub fn wait_for_end(process: Fd) {
    const POLLIN: u64 = 1;
    const LONG: u64 = 900;
    while poll(process, POLLIN, LONG) & POLLIN == 0 {}
}

pub fn kill_self() {
    call(nr::KILL, [getpid() as usize, 9, 0, 0, 0, 0]);
}

/// Opens a NUL-terminated path.
pub fn open(path: &[u8], flags: usize) -> Option<Fd> {
    debug_assert!(path.last() == Some(&0));
    let fd = call(
        nr::OPENAT,
        [AT_FDCWD, path.as_ptr() as usize, flags | O_CLOEXEC, 0, 0, 0],
    );
    (fd >= 0).then_some(Fd(fd as i32))
}

/// Reads what is there; 0 at the end, or on failure.
pub fn read(fd: Fd, into: &mut [u8]) -> usize {
    let at = into.as_mut_ptr() as usize;
    let got = call(nr::READ, [fd.0 as usize, at, into.len(), 0, 0, 0]);
    got.max(0) as usize
}

pub fn write(fd: Fd, bytes: &[u8]) {
    call(
        nr::WRITE,
        [fd.0 as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
    );
}

/// Says what is wrong.
pub fn complain(bytes: &[u8]) {
    write(STDERR, bytes);
}

/// A new private mapping, at `hint` if that is free, or nothing.
pub fn map(hint: usize, len: usize) -> Option<usize> {
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE;
    let at = call(nr::MMAP, [hint, len, PROT_READ_WRITE, flags, usize::MAX, 0]);
    (at > 0).then_some(at as usize)
}

/// Addresses that nobody gets, anywhere.
pub fn reserve(len: usize) -> i64 {
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE;
    call(nr::MMAP, [0, len, 0, flags, usize::MAX, 0])
}

/// For the program's own mappings, as it asked, and for those of this library that it no longer uses.
pub fn munmap(at: usize, len: usize) -> i64 {
    call(nr::MUNMAP, [at, len, 0, 0, 0, 0])
}

/// For the program's own mappings, as it asked.
pub fn mremap(from: usize, old: usize, new: usize, flags: usize, to: usize) -> i64 {
    call(nr::MREMAP, [from, old, new, flags, to, 0])
}

pub fn madvise(at: usize, len: usize, advice: usize) -> i64 {
    call(nr::MADVISE, [at, len, advice, 0, 0, 0])
}

pub fn munlock(at: usize, len: usize) {
    call(nr::MUNLOCK, [at, len, 0, 0, 0, 0]);
}

pub fn protect_none(at: usize, len: usize) {
    call(nr::MPROTECT, [at, len, 0, 0, 0, 0]);
}

/// An ioctl whose argument is an integer.
pub fn ioctl(fd: Fd, request: usize, arg: usize) -> i64 {
    call(nr::IOCTL, [fd.0 as usize, request, arg, 0, 0, 0])
}

/// Replaces the calling thread's signal mask; returns the old one.
pub fn set_signal_mask(mask: u64) -> u64 {
    const SIG_SETMASK: usize = 2;
    let mut old = 0u64;
    let (new, old_at) = ((&raw const mask) as usize, (&raw mut old) as usize);
    call(nr::RT_SIGPROCMASK, [SIG_SETMASK, new, old_at, 8, 0, 0]);
    old
}

pub fn set_name(name: &[u8; 16]) {
    const PR_SET_NAME: usize = 15;
    call(nr::PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]);
}

/// Closes every descriptor of the calling task's table but `keep`.
pub fn close_all_but(mut keep: [Fd; 3]) {
    // Three swaps put three in order.
    for (low, high) in [(0, 1), (1, 2), (0, 1)] {
        if keep[low] > keep[high] {
            keep.swap(low, high);
        }
    }
    let mut from = 0;
    for Fd(kept) in keep {
        close_range(from, kept - 1);
        from = kept + 1;
    }
    close_range(from, i32::MAX);
}

/// Closes the descriptors from the one to the other.
fn close_range(from: i32, to: i32) {
    const MOST: i32 = 65_535;
    if from <= to && call(nr::CLOSE_RANGE, [from as usize, to as usize, 0, 0, 0, 0]) < 0 {
        for fd in from..=to.min(MOST) {
            close(Fd(fd)); // before Linux 5.9
        }
    }
}

/// Connects to the socket of this path; else the errno, negative.
pub fn connect(path: &[u8]) -> Result<Fd, i64> {
    let mut address = [0u8; 110];
    address[0] = AF_UNIX as u8; // sun_family is native-endian u16 and both targets are little-endian
    let room = &mut address[2..109]; // the path ends with a zero
    if path.len() > room.len() {
        return Err(-ENAMETOOLONG);
    }
    room[..path.len()].copy_from_slice(path);
    let fd = call(nr::SOCKET, [AF_UNIX, SOCK_SEQPACKET_CLOEXEC, 0, 0, 0, 0]);
    if fd < 0 {
        return Err(fd);
    }
    let fd = Fd(fd as i32);
    let at = address.as_ptr() as usize;
    let connected = call(nr::CONNECT, [fd.0 as usize, at, address.len(), 0, 0, 0]);
    if connected < 0 {
        close(fd);
        return Err(connected);
    }
    Ok(fd)
}

/// Whether who listens at the other end is the superuser, or the user of this process.
pub fn is_trusted(socket: Fd) -> bool {
    const SO_PEERCRED: usize = 17;
    /// `struct ucred`: the process, its user and its group.
    const UNKNOWN: [u32; 3] = [u32::MAX; 3];
    let (mut who, mut len) = (UNKNOWN, size_of::<[u32; 3]>() as u32);
    let (at, len) = ((&raw mut who) as usize, (&raw mut len) as usize);
    let option = [
        socket.0 as usize,
        SOL_SOCKET as usize,
        SO_PEERCRED,
        at,
        len,
        0,
    ];
    let got = call(nr::GETSOCKOPT, option);
    // SAFETY: the kernel wrote through the address, so it is read anew.
    let user = unsafe { (&raw const who).read_volatile() }[1];
    let is = |number| call(number, [0; 6]) == i64::from(user);
    got == 0 && (user == 0 || is(nr::GETUID) || is(nr::GETEUID))
}

#[repr(C)]
struct MsgHdr {
    name: usize,
    name_len: u32,
    iov: usize,
    iov_len: usize,
    control: usize,
    control_len: usize,
    flags: i32,
}

#[repr(C)]
#[derive(Default)]
struct Control {
    len: usize,
    level: i32,
    kind: i32,
    fds: [i32; 8],
}

const CONTROL_HEAD: usize = 16;

/// Sends a plain struct, with descriptors.
pub fn send<T: Copy>(socket: Fd, message: &T, fds: &[Fd]) -> bool {
    let iov = [(&raw const *message) as usize, size_of::<T>()];
    let mut control = Control {
        len: CONTROL_HEAD + 4 * fds.len(),
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        fds: [0; 8],
    };
    for (to, from) in control.fds.iter_mut().zip(fds) {
        *to = from.0;
    }
    let header = MsgHdr {
        name: 0,
        name_len: 0,
        iov: (&raw const iov) as usize,
        iov_len: 1,
        control: if fds.is_empty() {
            0
        } else {
            (&raw const control) as usize
        },
        control_len: if fds.is_empty() { 0 } else { control.len },
        flags: 0,
    };
    loop {
        let header = (&raw const header) as usize;
        match call(
            nr::SENDMSG,
            [socket.0 as usize, header, MSG_NOSIGNAL, 0, 0, 0],
        ) {
            sent if sent == size_of::<T>() as i64 => return true,
            sent if sent == -EINTR => {}
            _ => return false,
        }
    }
}

/// Whether the other end of a socket is closed.
pub fn is_gone(socket: Fd) -> bool {
    const POLLHUP: u64 = 0x10;
    poll(socket, 0, 0) & POLLHUP != 0
}

/// What is the matter with a descriptor, of `events` and of what is always told, after `millis` at most.
fn poll(fd: Fd, events: u64, millis: u64) -> u64 {
    // struct pollfd: the descriptor, wanted events, and what is.
    let mut polled = u64::from(fd.0.cast_unsigned()) | events << 32;
    let limit = [0u64, millis * 1_000_000];
    let (at, limit) = ((&raw mut polled) as usize, (&raw const limit) as usize);
    call(nr::PPOLL, [at, 1, limit, 0, 0, 0]);
    // SAFETY: the kernel wrote through the address, so it is read anew.
    unsafe { (&raw const polled).read_volatile() >> 48 }
}

/// Writes unless nobody takes it: the caller has more to do.
pub fn write_soon(fd: Fd, bytes: &[u8]) {
    const POLLOUT: u64 = 4;
    if poll(fd, POLLOUT, 100) & POLLOUT != 0 {
        write(fd, bytes);
    }
}

/// What came of waiting for a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The message.
    All,
    /// The other end is gone.
    Gone,
    /// The kernel does not let us wait.
    Refused,
}

/// Waits for a plain struct and at most one descriptor.
pub fn receive<T: Copy>(socket: Fd, message: &mut T, fd: &mut Option<Fd>) -> Received {
    let iov = [(&raw mut *message) as usize, size_of::<T>()];
    let mut control = Control::default();
    let mut header = MsgHdr {
        name: 0,
        name_len: 0,
        iov: (&raw const iov) as usize,
        iov_len: 1,
        control: (&raw mut control) as usize,
        control_len: size_of::<Control>(),
        flags: 0,
    };
    loop {
        let at = (&raw mut header) as usize;
        match call(
            nr::RECVMSG,
            [socket.0 as usize, at, MSG_CMSG_CLOEXEC, 0, 0, 0],
        ) {
            got if got == size_of::<T>() as i64 => break,
            got if got == -EINTR => {}
            got if got >= 0 || got == -ECONNRESET => return Received::Gone,
            _ => return Received::Refused,
        }
    }
    // SAFETY: the kernel wrote through these addresses, so they are read anew.
    let (len, control) = unsafe {
        (
            (&raw const header.control_len).read_volatile(),
            (&raw const control).read_volatile(),
        )
    };
    if len >= CONTROL_HEAD + 4 && control.kind == SCM_RIGHTS {
        *fd = Some(Fd(control.fds[0]));
    }
    Received::All
}
