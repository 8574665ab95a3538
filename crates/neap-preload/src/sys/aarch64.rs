//! The AArch64 instructions.

use core::arch::{asm, global_asm};

/// `AUDIT_ARCH_AARCH64`
pub const ARCH: u32 = 0xc000_00b7;

/// System call numbers (the generic table).
pub mod nr {
    pub const IOCTL: usize = 29;
    pub const OPENAT: usize = 56;
    pub const READ: usize = 63;
    pub const EXIT: usize = 93;
    pub const EXIT_GROUP: usize = 94;
    pub const CAPSET: usize = 91;
    pub const CLOSE: usize = 57;
    pub const WRITE: usize = 64;
    pub const PREAD: usize = 67;
    pub const FSTAT: usize = 80;
    pub const LSEEK: usize = 62;
    pub const PPOLL: usize = 73;
    pub const KILL: usize = 129;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const PRCTL: usize = 167;
    pub const GETPID: usize = 172;
    pub const GETTID: usize = 178;
    pub const SOCKET: usize = 198;
    pub const CONNECT: usize = 203;
    pub const GETSOCKOPT: usize = 209;
    pub const GETUID: usize = 174;
    pub const GETEUID: usize = 175;
    pub const SENDMSG: usize = 211;
    pub const RECVMSG: usize = 212;
    pub const MUNMAP: usize = 215;
    pub const MREMAP: usize = 216;
    pub const FUTEX: usize = 98;
    pub const MMAP: usize = 222;
    pub const MPROTECT: usize = 226;
    pub const MADVISE: usize = 233;
    pub const PROCESS_MADVISE: usize = 440;
    pub const MUNLOCK: usize = 229;
    pub const USERFAULTFD: usize = 282;
    pub const WAIT4: usize = 260;
    pub const SETPGID: usize = 154;
    pub const CHDIR: usize = 49;
    pub const PIDFD_SEND_SIGNAL: usize = 424;
    pub const PIDFD_OPEN: usize = 434;
    pub const CLOSE_RANGE: usize = 436;
    pub const RESTART_SYSCALL: usize = 128;
    pub const SECCOMP: usize = 277;
}

/// # Safety
/// The arguments must satisfy the kernel's contract for `number`.
pub unsafe fn syscall6(number: usize, a: [usize; 6]) -> i64 {
    let result: i64;
    // SAFETY: the instruction clobbers x0 only; memory effects are the caller's promise.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] => result, in("x1") a[1],
            in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

/// A clock that costs no system call: it counts at a steady rate, brought to some 1 time in a nanosecond.
pub fn cycles() -> u64 {
    let (count, each_second): (u64, u64);
    // SAFETY: it reads two counters, which the kernel shows to programs, and no memory.
    unsafe {
        asm!("mrs {count}, cntvct_el0", "mrs {rate}, cntfrq_el0", count = out(reg) count,
            rate = out(reg) each_second, options(nomem, nostack));
    }
    count.wrapping_mul((1_000_000_000 / each_second.max(1)).max(1))
}

/// Starts a task on `stack_top` (16-byte aligned) that runs `entry(arg)` and never returns.
/// Returns its number, or a negative errno.
///
/// # Safety
/// The stack must be unused and outlive the task; `entry` must never return.
pub unsafe fn clone_task(
    flags: usize,
    stack_top: usize,
    entry: extern "C" fn(usize) -> !,
    arg: usize,
) -> i64 {
    let result: i64;
    // SAFETY: the parent continues after the call with every register but the clobbered intact;
    // the child starts on its own stack and leaves this code at once.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x11",
            "blr x10",
            "udf #0",
            "2:",
            in("x8") 220_usize,
            inlateout("x0") flags => result,
            in("x1") stack_top, in("x2") 0, in("x3") 0, in("x4") 0,
            in("x10") entry, in("x11") arg,
        );
    }
    result
}

// Symbols that the program's libc may or may not have: weak, so that loading never fails.
global_asm!(
    ".weak __register_atfork",
    ".weak pthread_atfork",
    ".weak __errno_location",
    ".weak dlsym",
    ".weak __read",
    ".weak __pread64",
    ".weak _IO_fread",
    ".hidden neap_weak_register_atfork",
    ".globl neap_weak_register_atfork",
    "neap_weak_register_atfork:",
    "adrp x0, :got:__register_atfork",
    "ldr x0, [x0, :got_lo12:__register_atfork]",
    "ret",
    ".hidden neap_weak_pthread_atfork",
    ".globl neap_weak_pthread_atfork",
    "neap_weak_pthread_atfork:",
    "adrp x0, :got:pthread_atfork",
    "ldr x0, [x0, :got_lo12:pthread_atfork]",
    "ret",
    ".hidden neap_weak_dlsym",
    ".globl neap_weak_dlsym",
    "neap_weak_dlsym:",
    "adrp x0, :got:dlsym",
    "ldr x0, [x0, :got_lo12:dlsym]",
    "ret",
    ".hidden neap_weak_errno_location",
    ".globl neap_weak_errno_location",
    "neap_weak_errno_location:",
    "adrp x0, :got:__errno_location",
    "ldr x0, [x0, :got_lo12:__errno_location]",
    "ret",
    ".hidden neap_weak_read",
    ".globl neap_weak_read",
    "neap_weak_read:",
    "adrp x0, :got:__read",
    "ldr x0, [x0, :got_lo12:__read]",
    "ret",
    ".hidden neap_weak_pread",
    ".globl neap_weak_pread",
    "neap_weak_pread:",
    "adrp x0, :got:__pread64",
    "ldr x0, [x0, :got_lo12:__pread64]",
    "ret",
    ".hidden neap_weak_fread",
    ".globl neap_weak_fread",
    "neap_weak_fread:",
    "adrp x0, :got:_IO_fread",
    "ldr x0, [x0, :got_lo12:_IO_fread]",
    "ret",
);

unsafe extern "C" {
    fn neap_weak_register_atfork() -> usize;
    fn neap_weak_pthread_atfork() -> usize;
    fn neap_weak_errno_location() -> usize;
    fn neap_weak_dlsym() -> usize;
    fn neap_weak_read() -> usize;
    fn neap_weak_pread() -> usize;
    fn neap_weak_fread() -> usize;
}

/// Addresses of glibc's `__register_atfork` and of `pthread_atfork`; 0 where missing.
pub fn weak_atfork() -> (usize, usize) {
    // SAFETY: both only load one word from the global offset table.
    unsafe { (neap_weak_register_atfork(), neap_weak_pthread_atfork()) }
}

/// Address of `__errno_location`; 0 where missing.
pub fn weak_errno() -> usize {
    // SAFETY: only loads one word from the global offset table.
    unsafe { neap_weak_errno_location() }
}

/// Address of `dlsym`; 0 where missing.
pub fn weak_dlsym() -> usize {
    // SAFETY: only loads one word from the global offset table.
    unsafe { neap_weak_dlsym() }
}

/// Addresses of glibc's read, pread and fread by their other names, which nobody stands in front of; 0 where missing.
pub fn weak_reads() -> [usize; 3] {
    // SAFETY: each only loads one word from the global offset table.
    unsafe { [neap_weak_read(), neap_weak_pread(), neap_weak_fread()] }
}
