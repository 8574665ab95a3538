//! The library that `neap run` preloads into a program.
//!
//! It does three small things: at start it hands the address space to the engine (`boot`), it leaves
//! one task that moves pages on the engine's behalf (`agent`), and it stands in front of a few calls of the
//! program's, of which the kernel tells too little, or not in order (`hook`).
//!
//! It links no library, not even libc: every system call is made here by instruction, so that nothing
//! the program interposes is called, no lock or errno of its libc is touched, and glibc and musl
//! programs alike can load it. Whatever goes wrong, the program runs on unmanaged.
#![cfg_attr(not(test), no_std)]

mod agent;
mod boot;
mod environment;
#[cfg(target_arch = "x86_64")]
mod heir;
mod hints;
mod hook;
mod sys;

/// A panic here would be a bug; the program must not die of it, and the thread cannot go on.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        sys::pause();
    }
}

// Unoptimised code of `core` names it, and nothing here unwinds. Hidden: it must not stand in for that of a
// program written in Rust.
#[cfg(all(not(test), debug_assertions))]
core::arch::global_asm!(
    ".hidden rust_eh_personality",
    ".globl rust_eh_personality",
    "rust_eh_personality:",
    ".byte 0"
);

/// Runs when the dynamic loader has initialised the libraries and before the program's own code.
///
/// # Safety
/// Called by the loader only.
unsafe extern "C" fn constructor() {
    // SAFETY: the loader calls this when it has loaded all there is.
    unsafe { hook::find_what_is_behind() };
    // SAFETY: the program has not begun, so no other thread runs.
    unsafe { boot::start() };
}

// All statics of this library lie in `.data`, which is mapped from its file, and no page of a file's mapping leaves. `.bss` beyond
// its first page is anonymous memory as any other. The child of a fork that nobody announced would read zeros there.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn() = constructor;
