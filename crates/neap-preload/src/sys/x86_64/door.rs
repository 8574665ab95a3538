//! Where libc's fork enters the kernel: its instructions, and those that stand in for them.
//!
//! Of a child that the kernel announces to nobody no memory may be read before it is registered. So its first steps
//! are on a stack of the library's own, and what they need is in registers and in the library.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;

use neap_wire::library;

/// Instructions that are replaced, by a jump of [`JUMP`] bytes: those of glibc's `_Fork`, and of musl's, which gives no arguments.
pub const SITES: [(&[u8], Kind); 3] = [
    (&[0xb8, 0x38, 0, 0, 0, 0x0f, 0x05], Kind::Clone), // mov eax, 56; syscall
    (&[0xb8, 0x39, 0, 0, 0, 0x0f, 0x05], Kind::Fork),  // mov eax, 57; syscall
    (&[0x6a, 0x39, 0x58, 0x0f, 0x05], Kind::Fork),     // push 57; pop rax; syscall
];

/// Which call of the kernel's it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// clone(2), with its arguments in registers.
    Clone,
    /// fork(2).
    Fork,
}

/// Whether a call makes a process as fork does, by the instructions just before it: other functions of libc, which may follow, use
/// clone(2) otherwise.
pub fn is_fork(kind: Kind, before: &[u8]) -> bool {
    // mov edi, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD
    const FLAGS: [u8; 5] = [0xbf, 0x11, 0, 0x20, 0x01];
    kind == Kind::Fork || before.windows(FLAGS.len()).any(|bytes| bytes == FLAGS)
}

/// Most bytes of a site.
pub const LONGEST: usize = 7;

/// What stands at the place of instructions that go on at `place` plus their length: a jump to the library, if that is near.
pub fn jump(place: usize, kind: Kind, len: usize) -> Option<[u8; LONGEST]> {
    const JUMP: usize = 5;
    const NOTHING: u8 = 0x90;
    let door = match kind {
        Kind::Clone => neap_fork_door_clone as *const () as usize,
        Kind::Fork => neap_fork_door_fork as *const () as usize,
    };
    let far = door.wrapping_sub(place + JUMP) as isize;
    let near = i32::try_from(far).ok()?;
    let mut bytes = [NOTHING; LONGEST];
    bytes[0] = 0xe9;
    bytes[1..JUMP].copy_from_slice(&near.to_le_bytes());
    // SAFETY: nobody jumps to the library before the instructions are replaced.
    unsafe { *BACK.0.get() = place + len };
    Some(bytes)
}

/// Where a thread's libc keeps what is its own.
pub fn thread_pointer() -> usize {
    let at: usize;
    // SAFETY: both libcs keep the address of a thread's record in its first word.
    unsafe { asm!("mov {}, fs:[0]", out(reg) at, options(nostack, readonly, preserves_flags)) };
    at
}

#[repr(transparent)]
struct Back(UnsafeCell<usize>);
// SAFETY: written once, while no other thread runs.
unsafe impl Sync for Back {}
/// Where libc goes on.
#[unsafe(link_section = ".data")]
static BACK: Back = Back(UnsafeCell::new(0));

pub const STACK: usize = library::FORK_STACK;
#[repr(C, align(16))]
pub struct ChildStack(UnsafeCell<[u8; STACK]>);
// SAFETY: only children of forks use it, each its own copy.
unsafe impl Sync for ChildStack {}
/// It adjoins a file's mapping, so no page of it ever leaves; and no parent touches it.
#[unsafe(link_section = ".data")]
pub static CHILD_STACK: ChildStack = ChildStack(UnsafeCell::new([0; STACK]));

unsafe extern "C" {
    fn neap_fork_door_clone();
    fn neap_fork_door_fork();
}

// Registers: rbx the caller's registers, rbp what `before` keeps, r12 what it answered, r13 which call it is.
// The stack of the caller is left alone for the 128 bytes below its end that a function may use unasked.
global_asm!(
    ".macro neap_save",
    "lea rsp, [rsp - 128]",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r8",
    "push r9",
    "push r10",
    "mov rbx, rsp",
    ".endm",
    ".hidden neap_fork_door_clone",
    ".globl neap_fork_door_clone",
    "neap_fork_door_clone:",
    "neap_save",
    "xor r13d, r13d",
    "jmp 1f",
    ".hidden neap_fork_door_fork",
    ".globl neap_fork_door_fork",
    "neap_fork_door_fork:",
    "neap_save",
    "mov r13d, 1",
    "1:",
    "sub rsp, {saved} + 256",
    "and rsp, -16",
    "mov rbp, rsp",
    ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movaps [rbp + {saved} + 16 * \\i], xmm\\i",
    ".endr",
    "mov rdi, rbp",
    "call {before}",
    "mov r12, rax",
    "mov edi, 17", // SIGCHLD
    "xor esi, esi",
    "xor edx, edx",
    "xor r8d, r8d",
    "xor r10d, r10d",
    "test r13, r13",
    "jnz 2f",
    "mov rdi, [rbx + 40]",
    "mov rsi, [rbx + 32]",
    "mov rdx, [rbx + 24]",
    "mov r8, [rbx + 16]",
    "mov r10, [rbx]",
    "2:",
    "cmp r12, 1",
    "jne 3f",
    "lea rsi, [rip + {stack}]",
    "add rsi, {bytes}",
    // CLONE_CHILD_SETTID: the kernel would write that before anybody could bring the page.
    "and rdi, -0x1000001",
    "3:",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jz 4f",
    "mov r13, rax",
    "mov rdi, rbp",
    "mov rsi, r12",
    "call {parent}",
    "mov rax, r13",
    "jmp 6f",
    "4:",
    "mov rdi, r12",
    "call {child}",
    "mov rsp, rbp",
    "cmp r12, 1",
    "jne 5f",
    "test r13, r13",
    "jnz 5f",
    "test dword ptr [rbx + 40], 0x1000000",
    "jz 5f",
    "mov eax, 186", // gettid
    "syscall",
    "mov rdi, [rbx]",
    "mov [rdi], eax",
    "5:",
    "mov rdi, rbp",
    "call {end}",
    "xor eax, eax",
    "6:",
    ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movaps xmm\\i, [rbp + {saved} + 16 * \\i]",
    ".endr",
    "mov rsp, rbx",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "lea rsp, [rsp + 128]",
    "notrack jmp qword ptr [rip + {back}]",
    saved = const crate::hook::SAVED,
    before = sym crate::hook::before_fork,
    parent = sym crate::hook::after_fork,
    child = sym crate::hook::in_child,
    end = sym crate::hook::end_of_fork,
    stack = sym CHILD_STACK,
    bytes = const STACK,
    back = sym BACK,
);
