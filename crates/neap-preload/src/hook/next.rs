//! What stands behind the library's own definitions: libc's, or those of a library that stands before it (a sanitizer,
//! an MPI that must know what is unmapped). A hook ends with a call of them, as the program's call would have without
//! neap. Where they cannot be found, it ends with the system call.

use core::ffi::{c_int, c_ulong, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
#[cfg(target_arch = "x86_64")]
use core::{ffi::CStr, sync::atomic::AtomicBool};

use super::{as_libc, as_libc_long};
use crate::sys::{self, nr};

/// `RTLD_NEXT`
const BEHIND: usize = usize::MAX;

type Dlsym = unsafe extern "C" fn(usize, *const u8) -> usize;
type Mmap = unsafe extern "C" fn(usize, usize, c_int, c_int, c_int, i64) -> *mut c_void;
type Munmap = unsafe extern "C" fn(usize, usize) -> c_int;
type Ioctl = unsafe extern "C" fn(c_int, c_ulong, ...) -> c_int;
type Sbrk = unsafe extern "C" fn(isize) -> *mut c_void;
type Read = unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize;
type Pread = unsafe extern "C" fn(c_int, *mut c_void, usize, i64) -> isize;
type Fread = unsafe extern "C" fn(*mut c_void, usize, usize, *mut c_void) -> usize;
type Fileno = unsafe extern "C" fn(*mut c_void) -> c_int;
#[cfg(target_arch = "x86_64")]
type Dladdr = unsafe extern "C" fn(usize, &mut [usize; 4]) -> c_int;
#[cfg(target_arch = "x86_64")]
type Clone = unsafe extern "C" fn(usize, usize, c_int, usize, ...) -> c_int;
type Fork = unsafe extern "C" fn() -> c_int;

/// Their addresses; 0 where they are not known.
#[unsafe(link_section = ".data")]
static MMAP: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static MUNMAP: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static IOCTL: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static SBRK: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static READ: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static PREAD: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static PREAD64: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static FREAD: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static FILENO: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static FORK: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data")]
static FORK_WITH_HANDLERS: AtomicUsize = AtomicUsize::new(0);
/// Where `syscall` goes on.
#[cfg(target_arch = "x86_64")]
#[unsafe(link_section = ".data")]
pub static SYSCALL: AtomicUsize = AtomicUsize::new(0);
/// Where `clone` goes on.
#[cfg(target_arch = "x86_64")]
#[unsafe(link_section = ".data")]
pub static CLONE: AtomicUsize = AtomicUsize::new(0);
/// Neither of these two is libc's.
#[cfg(target_arch = "x86_64")]
#[unsafe(link_section = ".data")]
static ANOTHERS: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
/// Where libc has told the kernel to write to, from a thread's record on, and how much.
#[unsafe(link_section = ".data")]
static RESTARTABLE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Looks for them. Before, and where libc has no dlsym, hooks make the system calls themselves.
///
/// # Safety
/// The dynamic loader has loaded all that the program is linked to.
pub unsafe fn find() {
    let address = sys::weak_dlsym();
    if address == 0 {
        return;
    }
    // SAFETY: the dynamic loader resolved this symbol, whose type POSIX fixes.
    let dlsym: Dlsym = unsafe { transmute(address) };
    let names: [(&AtomicUsize, &[u8]); 13] = [
        (&MMAP, b"mmap\0"),
        (&MUNMAP, b"munmap\0"),
        (&IOCTL, b"ioctl\0"),
        (&SBRK, b"sbrk\0"),
        (&READ, b"read\0"),
        (&PREAD, b"pread\0"),
        (&PREAD64, b"pread64\0"),
        (&FREAD, b"fread\0"),
        (&FILENO, b"fileno\0"),
        (&FORK, b"_Fork\0"),
        (&FORK_WITH_HANDLERS, b"fork\0"),
        (&RESTARTABLE[0], b"__rseq_offset\0"),
        (&RESTARTABLE[1], b"__rseq_size\0"),
    ];
    for (place, name) in names {
        // SAFETY: a name that ends with NUL. The loader knows by the return address behind whom to look: it is in here.
        let found = unsafe { dlsym(BEHIND, name.as_ptr()) };
        place.store(found, Relaxed);
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        find_clones();
    }
}

/// Looks for what makes children. A constructor of another library may call them before this one has begun. Both are there where dlsym is:
/// a name that is not makes libc allocate memory, which an allocator that begins could not bear.
///
/// # Safety
/// As of [`find`].
#[cfg(target_arch = "x86_64")]
pub unsafe fn find_clones() {
    let address = sys::weak_dlsym();
    if address == 0 {
        return;
    }
    // SAFETY: the dynamic loader resolved this symbol, whose type POSIX fixes.
    let dlsym: Dlsym = unsafe { transmute(address) };
    // SAFETY: names that end with NUL.
    let behind = |name: &CStr| unsafe { dlsym(BEHIND, name.as_ptr().cast()) };
    let dladdr = behind(c"dladdr");
    let libc = library_of(dladdr, sys::weak_errno());
    let both = [(&SYSCALL, c"syscall"), (&CLONE, c"clone")];
    for ((place, name), anothers) in both.into_iter().zip(&ANOTHERS) {
        let function = behind(name);
        let is_known = libc.is_some() && library_of(dladdr, function) == libc;
        anothers.store(function != 0 && !is_known, Relaxed);
        place.store(function, Relaxed);
    }
}

/// Where the library begins that an address is in, by this function of libc's.
#[cfg(target_arch = "x86_64")]
fn library_of(dladdr: usize, address: usize) -> Option<usize> {
    if dladdr == 0 || address == 0 {
        return None;
    }
    // SAFETY: the dynamic loader found this function, whose type both libcs give so.
    let dladdr: Dladdr = unsafe { transmute(dladdr) };
    let mut found = [0usize; 4]; // Dl_info: the file, where it begins, a symbol, its address
    // SAFETY: it writes there, and only looks for the address.
    let known = unsafe { dladdr(address, &mut found) };
    (known != 0).then_some(found[1])
}

/// Whether `syscall` goes on in libc, or nobody has another. A library may call something else so.
#[cfg(target_arch = "x86_64")]
pub fn is_libcs_syscall() -> bool {
    !ANOTHERS[0].load(Relaxed)
}

/// The same of `clone`.
#[cfg(target_arch = "x86_64")]
pub fn is_libcs_clone() -> bool {
    !ANOTHERS[1].load(Relaxed)
}

/// # Safety
/// As clone(2), of which `words` are the arguments.
#[cfg(target_arch = "x86_64")]
pub unsafe fn clone(words: [usize; 7]) -> c_int {
    let [entry, stack, flags, argument, parent_tid, tls, child_tid] = words;
    match CLONE.load(Relaxed) {
        0 => as_libc(-sys::ENOSYS),
        next => {
            // SAFETY: a definition of clone, whose type every libc gives so.
            let next: Clone = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe {
                next(
                    entry,
                    stack,
                    flags as c_int,
                    argument,
                    parent_tid,
                    tls,
                    child_tid,
                )
            }
        }
    }
}

/// Functions that may be libc's fork.
#[cfg(target_arch = "x86_64")]
pub fn forks() -> [usize; 2] {
    [FORK.load(Relaxed), FORK_WITH_HANDLERS.load(Relaxed)]
}

/// Addresses of glibc's `__rseq_offset` and `__rseq_size`; 0 where missing.
#[cfg(target_arch = "x86_64")]
pub fn restartable() -> (usize, usize) {
    let [offset, size] = RESTARTABLE.each_ref().map(|place| place.load(Relaxed));
    (offset, size)
}

/// # Safety
/// As mmap(2).
pub unsafe fn mmap(
    at: usize,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    match MMAP.load(Relaxed) {
        0 => {
            let (protection, flags, fd) = (protection as usize, flags as usize, fd as usize);
            let args = [at, len, protection, flags, fd, offset as usize];
            as_libc_long(sys::call(nr::MMAP, args)) as *mut c_void
        }
        next => {
            // SAFETY: a definition of mmap, whose type POSIX fixes.
            let next: Mmap = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next(at, len, protection, flags, fd, offset) }
        }
    }
}

/// # Safety
/// As munmap(2).
pub unsafe fn munmap(at: usize, len: usize) -> c_int {
    match MUNMAP.load(Relaxed) {
        0 => as_libc(sys::munmap(at, len)),
        next => {
            // SAFETY: a definition of munmap, whose type POSIX fixes.
            let next: Munmap = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next(at, len) }
        }
    }
}

/// # Safety
/// As ioctl(2): `arg` must fit `request`.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int {
    match IOCTL.load(Relaxed) {
        0 => as_libc(sys::ioctl(sys::Fd(fd), request as usize, arg)),
        next => {
            // SAFETY: a definition of ioctl, whose type every libc gives so; musl's request is an int, of which the
            // rest is not looked at.
            let next: Ioctl = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next(fd, request, arg) }
        }
    }
}

/// libc keeps the end of the heap, and gives away twice what is taken past it: where it cannot be asked the heap does not
/// grow. An allocator may ask before this library has begun.
///
/// # Safety
/// As sbrk(3).
pub unsafe fn sbrk(increment: isize) -> *mut c_void {
    if SBRK.load(Relaxed) == 0 {
        // SAFETY: whoever calls this was loaded with all that it is linked to.
        unsafe { find() };
    }
    match SBRK.load(Relaxed) {
        0 => as_libc_long(-sys::ENOMEM) as *mut c_void,
        next => {
            // SAFETY: a definition of sbrk, whose type every libc gives so.
            let next: Sbrk = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next(increment) }
        }
    }
}

/// The function that dlsym found, or glibc's own by its other name. Before glibc 2.34 dlsym is in a library of its own, which many
/// programs do not load. A system call would not do: read(2) is a point of cancellation, and libc alone knows its streams.
fn or_by_another_name(place: &AtomicUsize, which: usize) -> usize {
    match place.load(Relaxed) {
        0 => sys::weak_reads()[which],
        found => found,
    }
}

/// # Safety
/// As read(2).
pub unsafe fn read(fd: c_int, into: *mut c_void, len: usize) -> isize {
    match or_by_another_name(&READ, 0) {
        0 => {
            let args = [fd as usize, into as usize, len, 0, 0, 0];
            as_libc_long(sys::call(nr::READ, args)) as isize
        }
        next => {
            // SAFETY: a definition of read, whose type POSIX fixes.
            let next: Read = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next(fd, into, len) }
        }
    }
}

/// # Safety
/// As pread(2).
pub unsafe fn pread(fd: c_int, into: *mut c_void, len: usize, place: i64) -> isize {
    // SAFETY: the caller's promise.
    unsafe { pread_by(or_by_another_name(&PREAD, 1), fd, into, len, place) }
}

/// The same by its other name, which some libcs do not have.
///
/// # Safety
/// As pread(2).
pub unsafe fn pread64(fd: c_int, into: *mut c_void, len: usize, place: i64) -> isize {
    match or_by_another_name(&PREAD64, 1) {
        // SAFETY: the caller's promise.
        0 => unsafe { pread(fd, into, len, place) },
        // SAFETY: the caller's promise.
        next => unsafe { pread_by(next, fd, into, len, place) },
    }
}

/// # Safety
/// As pread(2); `next` is one, or 0.
unsafe fn pread_by(next: usize, fd: c_int, into: *mut c_void, len: usize, place: i64) -> isize {
    match next {
        0 => {
            let args = [fd as usize, into as usize, len, place as usize, 0, 0];
            as_libc_long(sys::call(nr::PREAD, args)) as isize
        }
        next => {
            // SAFETY: a definition of pread, whose type POSIX fixes; an offset has 64 bits here.
            let next: Pread = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next(fd, into, len, place) }
        }
    }
}

/// libc alone knows what a stream is. A constructor may read before this library has begun.
///
/// # Safety
/// As fread(3).
pub unsafe fn fread(into: *mut c_void, size: usize, count: usize, stream: *mut c_void) -> usize {
    if FREAD.load(Relaxed) == 0 {
        // SAFETY: whoever calls this was loaded with all that it is linked to.
        unsafe { find() };
    }
    match or_by_another_name(&FREAD, 2) {
        0 => 0, // no libc is known that has neither
        next => {
            // SAFETY: a definition of fread, whose type C fixes.
            let next: Fread = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next(into, size, count, stream) }
        }
    }
}

/// The descriptor of a stream, or -1.
///
/// # Safety
/// As fileno(3).
pub unsafe fn fileno(stream: *mut c_void) -> c_int {
    match FILENO.load(Relaxed) {
        0 => -1,
        next => {
            // SAFETY: a definition of fileno, whose type POSIX fixes.
            let next: Fileno = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next(stream) }
        }
    }
}

/// A libc that does not have it is not asked for it.
///
/// # Safety
/// As `_Fork` of POSIX.
pub unsafe fn fork() -> c_int {
    match FORK.load(Relaxed) {
        0 => as_libc(-sys::ENOSYS),
        next => {
            // SAFETY: a definition of `_Fork`, whose type POSIX fixes.
            let next: Fork = unsafe { transmute(next) };
            // SAFETY: the caller's promise.
            unsafe { next() }
        }
    }
}
