//! The x86-64 instructions.

pub mod apart;
pub mod door;

use core::arch::{asm, global_asm};

/// `AUDIT_ARCH_X86_64`
pub const ARCH: u32 = 0xc000_003e;

/// System call numbers.
pub mod nr {
    pub const READ: usize = 0;
    pub const CLONE: usize = 56;
    pub const FORK: usize = 57;
    pub const CLONE3: usize = 435;
    pub const EXIT: usize = 60;
    pub const EXIT_GROUP: usize = 231;
    pub const CAPSET: usize = 126;
    pub const CLOSE: usize = 3;
    pub const WRITE: usize = 1;
    pub const PREAD: usize = 17;
    pub const FSTAT: usize = 5;
    pub const LSEEK: usize = 8;
    pub const PWRITE: usize = 18;
    pub const RSEQ: usize = 334;
    pub const PRLIMIT: usize = 302;
    pub const FUTEX: usize = 202;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const MREMAP: usize = 25;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const MADVISE: usize = 28;
    pub const PROCESS_MADVISE: usize = 440;
    pub const MUNLOCK: usize = 150;
    pub const GETPID: usize = 39;
    pub const GETTID: usize = 186;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const GETSOCKOPT: usize = 55;
    pub const GETUID: usize = 102;
    pub const GETEUID: usize = 107;
    pub const SENDMSG: usize = 46;
    pub const RECVMSG: usize = 47;
    pub const KILL: usize = 62;
    pub const PRCTL: usize = 157;
    pub const OPENAT: usize = 257;
    pub const PPOLL: usize = 271;
    pub const USERFAULTFD: usize = 323;
    pub const WAIT4: usize = 61;
    pub const SETPGID: usize = 109;
    pub const CHDIR: usize = 80;
    pub const PIDFD_SEND_SIGNAL: usize = 424;
    pub const PIDFD_OPEN: usize = 434;
    pub const CLOSE_RANGE: usize = 436;
    pub const RESTART_SYSCALL: usize = 219;
    pub const SECCOMP: usize = 317;
}

/// # Safety
/// The arguments must satisfy the kernel's contract for `number`.
pub unsafe fn syscall6(number: usize, a: [usize; 6]) -> i64 {
    let result: i64;
    // SAFETY: the instruction clobbers rcx, r11 and rax only; memory effects are the caller's
    // promise.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a[0], in("rsi") a[1],
            in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// A clock that costs no system call: it counts at a steady rate, some 1 to 4 times in a nanosecond.
pub fn cycles() -> u64 {
    // SAFETY: it reads a counter and no memory. Only a program that has forbidden itself all but four system calls may not.
    unsafe { core::arch::x86_64::_rdtsc() }
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
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") 56_usize => result,
            in("rdi") flags, in("rsi") stack_top, in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r12") entry, in("r13") arg,
            lateout("rcx") _, lateout("r11") _,
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
    "mov rax, qword ptr [rip + __register_atfork@GOTPCREL]",
    "ret",
    ".hidden neap_weak_pthread_atfork",
    ".globl neap_weak_pthread_atfork",
    "neap_weak_pthread_atfork:",
    "mov rax, qword ptr [rip + pthread_atfork@GOTPCREL]",
    "ret",
    ".hidden neap_weak_dlsym",
    ".globl neap_weak_dlsym",
    "neap_weak_dlsym:",
    "mov rax, qword ptr [rip + dlsym@GOTPCREL]",
    "ret",
    ".hidden neap_weak_errno_location",
    ".globl neap_weak_errno_location",
    "neap_weak_errno_location:",
    "mov rax, qword ptr [rip + __errno_location@GOTPCREL]",
    "ret",
    ".hidden neap_weak_read",
    ".globl neap_weak_read",
    "neap_weak_read:",
    "mov rax, qword ptr [rip + __read@GOTPCREL]",
    "ret",
    ".hidden neap_weak_pread",
    ".globl neap_weak_pread",
    "neap_weak_pread:",
    "mov rax, qword ptr [rip + __pread64@GOTPCREL]",
    "ret",
    ".hidden neap_weak_fread",
    ".globl neap_weak_fread",
    "neap_weak_fread:",
    "mov rax, qword ptr [rip + _IO_fread@GOTPCREL]",
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
