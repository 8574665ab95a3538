//! What the program says of its memory (madvise), noted for the engine: see [`neap_wire::notes`].
//!
//! The notes lie in the library's own memory, which each process has, also a forked child that never comes to speak with the
//! engine. No lock is taken and nothing is waited for but what the engine takes out at once (MADV_PAGEOUT).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

use neap_wire::library;
use neap_wire::notes::{ADVICE, NOTE_WORDS, WORDS, advice, place};

use crate::{agent, boot, sys};

const PAGE: usize = 4096;

/// The notes. They adjoin a file's mapping, so they are never managed.
#[unsafe(link_section = ".data")]
static NOTES: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// When the engine would have been called last, had it been called at even distances; in cycles.
#[unsafe(link_section = ".data")]
static CALLED: AtomicU64 = AtomicU64::new(0);

/// Where the engine finds the notes.
pub fn address() -> u64 {
    NOTES.as_ptr().addr() as u64
}

/// The next call of the engine is for a look for new memory.
pub fn note_look() {
    NOTES[0].fetch_add(1, Release);
}

/// The notes are those of the parent, whose engine reads its own.
pub fn start_in_child() {
    NOTES.iter().for_each(|word| word.store(0, Relaxed));
}

/// Whether the engine acts on an advice: before pages may leave, on what it says of later.
pub fn is_heard(number: usize) -> bool {
    const LATER: [u32; 3] = [advice::NORMAL, advice::RANDOM, advice::SEQUENTIAL];
    const NOW: [u32; 3] = [advice::WILLNEED, advice::COLD, advice::PAGEOUT];
    let is = |heard: &u32| *heard as usize == number;
    NOW.iter().any(is) && agent::is_armed()
        || LATER.iter().any(is) && !boot::engine_name().is_empty()
}

/// Tells the engine of an advice that [`is_heard`]. What the kernel would refuse is not told.
pub fn tell(start: usize, len: usize, number: usize) {
    let end = start.checked_add(len);
    let end = end.and_then(|end| end.checked_next_multiple_of(PAGE));
    let Some(end) = end.filter(|&end| start.is_multiple_of(PAGE) && end > start) else {
        return;
    };
    write(start as u64 | number as u64, end as u64);
    if agent::is_armed() && may_call() {
        boot::call();
    }
}

/// Writes a note, or makes the last one longer if this one goes on where that ends.
fn write(first: u64, end: u64) {
    let last = NOTES[1].load(Relaxed);
    let [number, begins, ends] = words(last);
    let (start, same) = (first & !ADVICE, first & ADVICE);
    let goes_on =
        last != 0 && number.load(Relaxed) == last && begins.load(Relaxed) & ADVICE == same;
    if goes_on && ends.compare_exchange(start, end, Release, Relaxed).is_ok() {
        return;
    }
    let next = NOTES[1].fetch_add(1, Relaxed) + 1;
    let [number, begins, ends] = words(next);
    number.store(0, Release);
    begins.store(first, Release);
    ends.store(end, Release);
    number.store(next, Release);
}

/// The words of a note.
fn words(number: u64) -> [&'static AtomicU64; NOTE_WORDS] {
    let at = place(number);
    [&NOTES[at], &NOTES[at + 1], &NOTES[at + 2]]
}

/// Whether the engine is to be called: always, unless the program says very much.
fn may_call() -> bool {
    let now = sys::cycles();
    let credit = library::HINTS_AT_ONCE * library::HINT_CYCLES;
    let called = CALLED.load(Relaxed).max(now.saturating_sub(credit));
    let may = called <= now && now - called >= library::HINT_CYCLES;
    may && CALLED
        .compare_exchange(
            CALLED.load(Relaxed),
            called + library::HINT_CYCLES,
            Relaxed,
            Relaxed,
        )
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_go_on_where_the_last_one_ended_are_one() {
        let page = PAGE as u64;
        let ring = |number| words(number).map(|word| word.load(Relaxed));
        write(page | 3, 2 * page);
        write((2 * page) | 3, 5 * page);
        write((5 * page) | 2, 6 * page);
        write((9 * page) | 2, 10 * page);
        assert_eq!(NOTES[1].load(Relaxed), 3);
        assert_eq!(ring(1), [1, page | 3, 5 * page]);
        assert_eq!(ring(2), [2, (5 * page) | 2, 6 * page]);
        assert_eq!(ring(3), [3, (9 * page) | 2, 10 * page]);
    }

    #[test]
    fn the_engine_is_called_often_at_first_and_then_as_time_goes_on() {
        let calls = (0..10_000).filter(|_| may_call()).count() as u64;
        assert!(calls >= library::HINTS_AT_ONCE - 1, "{calls}");
        assert!(calls < 5_000, "{calls}");
    }
}
