//! The library's `syscall` and `clone`: what they look at before they go on to libc's, and the call that makes a child in their place.
//!
//! Most calls go on by a jump, with all registers as they were and nothing on the stack. One that shares the program's memory (vfork) must
//! find it so. The child of another may touch no memory before it is served, as in [`door`](super::door).

use core::arch::{global_asm, naked_asm};
use core::mem::{offset_of, size_of};

use super::door::{CHILD_STACK, STACK};
use crate::hook::apart::{self, Apart, Start, Words};
use crate::hook::{self, CLONE, SAVED, SYSCALL};

/// Of a stack that is aligned but for the return address.
const FRAME: usize = (size_of::<Apart>() + size_of::<Words>()).next_multiple_of(16) + 8;

/// Makes a frame, and puts the arguments that are in registers into it.
macro_rules! save {
    () => {
        "sub rsp, {frame}
        mov [rsp], rdi
        mov [rsp + 8], rsi
        mov [rsp + 16], rdx
        mov [rsp + 24], rcx
        mov [rsp + 32], r8
        mov [rsp + 40], r9"
    };
}

/// All is as it was before [`save`].
macro_rules! restore {
    () => {
        "mov rdi, [rsp]
        mov rsi, [rsp + 8]
        mov rdx, [rsp + 16]
        mov rcx, [rsp + 24]
        mov r8, [rsp + 32]
        mov r9, [rsp + 40]
        add rsp, {frame}"
    };
}

/// The program's syscall.
///
/// # Safety
/// As syscall(2).
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    naked_asm!(
        "endbr64",
        "cmp edi, {clone}",
        "je 3f",
        "cmp edi, {fork}",
        "je 4f",
        "cmp edi, {clone3}",
        "je 4f",
        "2:",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz 7f",
        "notrack jmp rax",
        "3:",
        "test esi, 0x100", // CLONE_VM
        "jnz 2b",
        "4:",
        save!(),
        "mov rdi, rsp",
        "lea rsi, [rsp + {words}]",
        "call {ask}",
        "test eax, eax",
        "jz 5f",
        "lea rdi, [rsp + {words}]",
        "call {begin}",
        "add rsp, {frame}",
        "mov rdi, rax",
        "jmp {answer}",
        "5:",
        restore!(),
        "jmp 2b",
        "7:", // nobody is behind, or not yet
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 8f",
        "ret",
        "8:",
        "mov rdi, rax",
        "jmp {answer}",
        clone = const super::nr::CLONE,
        fork = const super::nr::FORK,
        clone3 = const super::nr::CLONE3,
        next = sym SYSCALL,
        frame = const FRAME,
        words = const size_of::<Words>(),
        ask = sym apart::ask_of_syscall,
        begin = sym neap_begin_apart,
        answer = sym apart::answer,
    )
}

/// The program's clone.
///
/// # Safety
/// As clone(2).
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn clone() {
    naked_asm!("endbr64", "jmp {clone}", clone = sym begin_clone)
}

/// What both names stand for. It has none of its own: a program may have another `clone`.
#[unsafe(naked)]
unsafe extern "C" fn begin_clone() {
    naked_asm!(
        "test edx, 0x100", // CLONE_VM
        "jz 4f",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz 4f",
        "notrack jmp rax",
        "4:",
        "mov rax, [rsp + 8]",
        save!(),
        "mov rdi, rsp",
        "lea rsi, [rsp + {words}]",
        "mov rdx, rax",
        "call {ask}",
        "cmp eax, 1",
        "jb 5f",
        "ja 6f",
        "lea rdi, [rsp + {words}]",
        "call {begin}",
        "add rsp, {frame}",
        "mov rdi, rax",
        "jmp {answer}",
        "6:",
        "mov rdi, rsp",
        "mov rsi, [rsp + {frame} + 8]",
        "call {by_libc}",
        "add rsp, {frame}",
        "ret",
        "5:",
        restore!(),
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz {alone}", // nobody is behind
        "notrack jmp rax",
        next = sym CLONE,
        alone = sym neap_clone_alone,
        frame = const FRAME,
        words = const size_of::<Words>(),
        ask = sym apart::ask_of_clone,
        by_libc = sym apart::clone_by_libc,
        begin = sym neap_begin_apart,
        answer = sym apart::answer,
    )
}

/// The same by glibc's other name.
///
/// # Safety
/// As clone(2).
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __clone() {
    naked_asm!("endbr64", "jmp {clone}", clone = sym begin_clone)
}

unsafe extern "C" {
    fn neap_begin_apart();
    fn neap_clone_alone();
    pub fn neap_begin_by_libc();
}

// neap_begin_apart makes a child: rdi says how. It returns the kernel's answer, in the child 0. Registers: rbx the caller's, rbp what is
// kept, r12 how the child begins, r14 how it was said.
//
// neap_clone_alone is clone where no other can be found.
//
// neap_begin_by_libc is how a child begins that libc's clone made.
global_asm!(
    ".hidden neap_begin_apart",
    ".globl neap_begin_apart",
    "neap_begin_apart:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov rbx, rsp",
    "mov r14, rdi",
    "sub rsp, {saved}",
    "and rsp, -16",
    "mov rbp, rsp",
    "mov rdi, rbp",
    "mov rsi, r14",
    "call {before}",
    "mov r12, rax",
    "mov rax, [r14 + {number}]",
    "mov rdi, [r14 + {args}]",
    "mov rsi, [r14 + {args} + 8]",
    "mov rdx, [r14 + {args} + 16]",
    "mov r10, [r14 + {args} + 24]",
    "mov r8, [r14 + {args} + 32]",
    "xor r9d, r9d",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "mov r13, rax",
    "mov rdi, rbp",
    "mov rsi, r12",
    "call {parent}",
    "mov rax, r13",
    "jmp 4f",
    "2:",
    "lea rsp, [rip + {stack} + {bytes}]",
    "mov rdi, r12",
    "call {child}",
    "mov rsp, rbp", // a signal's handler may fork, for which the library's stack is free
    "mov rdi, rbp",
    "mov rsi, r14",
    "call {end}",
    "mov rdx, [r14 + {entry}]",
    "mov rdi, [r14 + {argument}]",
    "mov rcx, [r14 + {own}]",
    "test rdx, rdx",
    "jnz 3f",
    "xor eax, eax",
    "test rcx, rcx",
    "jz 4f",
    "mov rsp, rbx",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "mov rsp, rcx",
    "ret",
    "3:",
    "mov rsp, rcx",
    "xor ebp, ebp",
    "call rdx",
    "mov edi, eax",
    "mov eax, 60", // exit
    "syscall",
    "hlt",
    "4:",
    "mov rsp, rbx",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".hidden neap_clone_alone",
    ".globl neap_clone_alone",
    "neap_clone_alone:",
    "mov rax, -22", // EINVAL
    "test rdi, rdi",
    "jz 2f",
    "and rsi, -16",
    "jz 2f",
    "sub rsi, 16",
    "mov [rsi], rdi",
    "mov [rsi + 8], rcx",
    "mov edi, edx",
    "mov rdx, r8",
    "mov r8, r9",
    "mov r10, [rsp + 8]",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "js 2f",
    "jz 3f",
    "ret",
    "2:",
    "mov rdi, rax",
    "jmp {answer}",
    "3:",
    "xor ebp, ebp",
    "pop rax",
    "pop rdi",
    "call rax",
    "mov edi, eax",
    "mov eax, 60", // exit
    "syscall",
    "hlt",
    ".hidden neap_begin_by_libc",
    ".globl neap_begin_by_libc",
    "neap_begin_by_libc:",
    "endbr64",
    "push rbx",
    "push rbp",
    "sub rsp, 8",
    "mov rbx, rdi",
    "mov rbp, rsp",
    "lea rsp, [rip + {stack} + {bytes}]",
    "mov edi, 2",
    "call {child}",
    "mov rsp, rbp",
    "lea rdi, [rbx + {kept}]",
    "call {end_of_fork}",
    "mov rdi, [rbx + {start_argument}]",
    "call [rbx + {start_entry}]",
    "add rsp, 8",
    "pop rbp",
    "pop rbx",
    "ret",
    saved = const SAVED,
    before = sym apart::before_apart,
    parent = sym hook::after_fork,
    child = sym hook::in_child,
    end = sym apart::end_of_apart,
    end_of_fork = sym hook::end_of_fork,
    answer = sym apart::answer,
    number = const offset_of!(Apart, number),
    args = const offset_of!(Apart, args),
    own = const offset_of!(Apart, stack),
    entry = const offset_of!(Apart, entry),
    argument = const offset_of!(Apart, argument),
    kept = const offset_of!(Start, kept),
    start_entry = const offset_of!(Start, entry),
    start_argument = const offset_of!(Start, argument),
    stack = sym CHILD_STACK,
    bytes = const STACK,
);
