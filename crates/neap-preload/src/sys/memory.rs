//! The memory functions that compiled Rust calls. The library has its own: the program's may do anything, even
//! touch memory that only the agent can bring back. They are hidden, so they do not stand in for the program's, and
//! in assembler, so the compiler cannot turn their loops into calls of themselves.

use core::arch::global_asm;

/// Begins a function of this name; one of another name in unit tests, which have those of libc.
macro_rules! function {
    ($name:literal) => {
        concat!(
            ".hidden ",
            prefix!(),
            $name,
            "\n.globl ",
            prefix!(),
            $name,
            "\n",
            prefix!(),
            $name,
            ":"
        )
    };
}

#[cfg(not(test))]
macro_rules! prefix {
    () => {
        ""
    };
}

#[cfg(test)]
macro_rules! prefix {
    () => {
        "neap_"
    };
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    function!("memset"),
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    function!("memmove"),
    "mov rax, rdi",
    "sub rax, rsi",
    "cmp rax, rdx", // below the source is far above it
    "jb 2f",
    function!("memcpy"),
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "2:", // the target begins inside the source: backwards
    "mov rax, rdi",
    "3:",
    "sub rdx, 1",
    "jb 4f",
    "mov cl, byte ptr [rsi + rdx]",
    "mov byte ptr [rdi + rdx], cl",
    "jmp 3b",
    "4:",
    "ret",
    function!("bcmp"),
    function!("memcmp"),
    "xor ecx, ecx",
    "2:",
    "cmp rcx, rdx",
    "je 3f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc rcx",
    "sub eax, r8d",
    "jz 2b",
    "ret",
    "3:",
    "xor eax, eax",
    "ret",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    function!("memset"),
    "mov x3, x0",
    "2:",
    "cbz x2, 3f",
    "strb w1, [x3], #1",
    "sub x2, x2, #1",
    "b 2b",
    "3:",
    "ret",
    function!("memmove"),
    "sub x3, x0, x1",
    "cmp x3, x2", // below the source is far above it
    "b.lo 4f",
    function!("memcpy"),
    "mov x3, x0",
    "2:",
    "cbz x2, 3f",
    "ldrb w4, [x1], #1",
    "strb w4, [x3], #1",
    "sub x2, x2, #1",
    "b 2b",
    "3:",
    "ret",
    "4:", // the target begins inside the source: backwards
    "cbz x2, 3b",
    "sub x2, x2, #1",
    "ldrb w4, [x1, x2]",
    "strb w4, [x0, x2]",
    "b 4b",
    function!("bcmp"),
    function!("memcmp"),
    "2:",
    "cbz x2, 3f",
    "ldrb w3, [x0], #1",
    "ldrb w4, [x1], #1",
    "sub x2, x2, #1",
    "subs w3, w3, w4",
    "b.eq 2b",
    "mov w0, w3",
    "ret",
    "3:",
    "mov w0, wzr",
    "ret",
);

#[cfg(test)]
mod tests {
    unsafe extern "C" {
        fn neap_memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8;
        fn neap_memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
        fn neap_memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
        fn neap_memcmp(left: *const u8, right: *const u8, bytes: usize) -> i32;
        fn neap_bcmp(left: *const u8, right: *const u8, bytes: usize) -> i32;
    }

    const ROOM: usize = 64;
    const LENGTHS: [usize; 5] = [0, 1, 7, 16, 33];

    fn numbers() -> [u8; ROOM] {
        std::array::from_fn(|at| at as u8)
    }

    #[test]
    fn memory_is_filled_and_no_more() {
        for bytes in LENGTHS {
            let (mut here, mut expected) = (numbers(), numbers());
            expected[3..3 + bytes].fill(0xfe);
            let at = here[3..].as_mut_ptr();
            // SAFETY: it writes to so many bytes of the array.
            assert_eq!(unsafe { neap_memset(at, 0x1fe, bytes) }, at);
            assert_eq!(here, expected);
        }
    }

    #[test]
    fn memory_is_copied_also_onto_itself() {
        for bytes in LENGTHS {
            for (from, to) in [(0, 1), (1, 0), (5, 5), (0, 30), (30, 0), (3, 20), (20, 3)] {
                let (mut here, mut expected) = (numbers(), numbers());
                expected.copy_within(from..from + bytes, to);
                let base = here.as_mut_ptr();
                // SAFETY: all of it is in the array.
                let moved = unsafe { neap_memmove(base.add(to), base.add(from), bytes) };
                assert_eq!(moved, here[to..].as_mut_ptr());
                assert_eq!(here, expected, "{bytes} bytes from {from} to {to}");
            }
            let (mut there, source) = ([0; ROOM], numbers());
            // SAFETY: two arrays.
            unsafe { neap_memcpy(there.as_mut_ptr(), source.as_ptr(), bytes) };
            assert_eq!((&there[..bytes], there[bytes]), (&source[..bytes], 0));
        }
    }

    #[test]
    fn memory_is_compared_as_unsigned_bytes() {
        let (left, mut right) = (numbers(), numbers());
        right[20] = 0x90;
        for (bytes, sign) in [(0, 0), (20, 0), (21, -1), (40, -1)] {
            let (left, right) = (left.as_ptr(), right.as_ptr());
            // SAFETY: two arrays.
            let (found, turned, same) = unsafe {
                (
                    neap_memcmp(left, right, bytes),
                    neap_memcmp(right, left, bytes),
                    neap_bcmp(left, right, bytes),
                )
            };
            assert_eq!((found.signum(), turned.signum()), (sign, -sign));
            assert_eq!(same != 0, sign != 0);
        }
    }
}
