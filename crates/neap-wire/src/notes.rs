//! What a program says of its memory (madvise): notes in memory of the library's, which the engine reads.
//!
//! A note takes no descriptor and no system call, so a hint costs a program little, and where its system calls are filtered
//! nothing. The library writes into a ring and calls the engine as for new memory, by a touch of the cookie page; when the touch
//! is over, the engine has read the notes. Where it is not called, it looks by itself now and then.
//!
//! Threads write at any time, and some may be stopped in the middle of it. So each note bears its number, 0 while it is
//! written, and the engine reads all of it twice: a note that is the same one both times is whole.

/// Notes in the ring.
pub const NOTES: usize = 64;
/// Words of a note: its number; where the range begins, with the advice in the lowest 12 bits; where it ends.
pub const NOTE_WORDS: usize = 3;
/// Words before the first note: looks for new memory that were asked for, and notes written so far.
pub const HEAD_WORDS: usize = 2;
/// Words of all.
pub const WORDS: usize = HEAD_WORDS + NOTES * NOTE_WORDS;
/// Bits of an advice.
pub const ADVICE: u64 = 0xfff;

/// Advices as madvise(2) numbers them.
pub mod advice {
    /// MADV_NORMAL
    pub const NORMAL: u32 = 0;
    /// MADV_RANDOM
    pub const RANDOM: u32 = 1;
    /// MADV_SEQUENTIAL
    pub const SEQUENTIAL: u32 = 2;
    /// MADV_WILLNEED
    pub const WILLNEED: u32 = 3;
    /// MADV_COLD
    pub const COLD: u32 = 20;
    /// MADV_PAGEOUT
    pub const PAGEOUT: u32 = 21;
}

/// The first word of note number `number`, which counts from 1.
#[must_use]
pub const fn place(number: u64) -> usize {
    HEAD_WORDS + ((number.wrapping_sub(1)) % NOTES as u64) as usize * NOTE_WORDS
}
