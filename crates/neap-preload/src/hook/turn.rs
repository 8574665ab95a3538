//! One change of mappings at a time. The kernel tells of munmap and mremap when it has let go of the address space, so
//! what two threads tell can be read in either order, and some orders cannot be told apart afterwards. Changes that
//! come by libc's symbols therefore take turns: one has been told before the next begins. The engine puts the others
//! in order, and those that took no turn because they would have had to wait too long: for a thread that ended in its
//! turn, or jumped out of it from a signal handler, or that a handler keeps.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use neap_wire::library;

use crate::{agent, sys};

/// The turn, which adjoins a file's mapping in the program and so is never managed.
#[unsafe(link_section = ".data")]
static TURNS: Turns = Turns::new();

/// Whose turn it is.
struct Turns {
    /// The number of the turn that somebody has, or 0; and [`OTHERS`].
    held: AtomicU32,
    /// The number of the last turn that was wanted.
    last: AtomicU32,
}

/// Others wait.
const OTHERS: u32 = 1 << 31;

/// A turn, until it is dropped; 0 is none.
pub struct Turn {
    turns: &'static Turns,
    number: u32,
}

/// Waits for the turn, if pages of this process may be elsewhere. No system call is made where nobody has it.
pub fn take() -> Turn {
    let number = if agent::is_armed() { TURNS.wait() } else { 0 };
    Turn {
        turns: &TURNS,
        number,
    }
}

/// The turn is that of a thread of the parent.
pub fn start_in_child() {
    TURNS.held.store(0, Relaxed);
}

impl Turns {
    const fn new() -> Self {
        Self {
            held: AtomicU32::new(0),
            last: AtomicU32::new(0),
        }
    }

    /// The number of a turn that is the caller's. One that is kept too long is taken from whoever has it.
    fn wait(&self) -> u32 {
        let number = (self.last.fetch_add(1, Relaxed) % (OTHERS - 1)) + 1;
        let (mut waited, mut naps, mut seen) = (false, 0, 0);
        loop {
            let held = self.held.load(Relaxed);
            if held & !OTHERS != seen {
                (seen, naps) = (held & !OTHERS, 0);
            }
            if seen == 0 || naps == library::TURN_NAPS {
                // Who has waited was perhaps not alone.
                let others = if waited { OTHERS } else { held & OTHERS };
                let taken = self
                    .held
                    .compare_exchange(held, number | others, Acquire, Relaxed);
                if taken.is_ok() {
                    return number;
                }
            } else if held & OTHERS == 0 {
                let _ = self
                    .held
                    .compare_exchange(held, held | OTHERS, Relaxed, Relaxed);
            } else {
                waited = true;
                naps += 1;
                sys::futex_wait(&self.held, held, library::TURN_NAP);
            }
        }
    }

    fn end(&self, number: u32) {
        let mine = |held: u32| (held & !OTHERS == number).then_some(0);
        let held = self.held.fetch_update(Release, Relaxed, mine);
        if held.is_ok_and(|held| held & OTHERS != 0) {
            sys::futex_wake_one(&self.held);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.number != 0 {
            self.turns.end(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn take(turns: &'static Turns) -> Turn {
        let number = turns.wait();
        Turn { turns, number }
    }

    #[test]
    fn one_thread_at_a_time_has_it() {
        static TURNS: Turns = Turns::new();
        static INSIDE: AtomicBool = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let turn = take(&TURNS);
                        assert!(!INSIDE.swap(true, Relaxed));
                        thread::yield_now();
                        INSIDE.store(false, Relaxed);
                        drop(turn);
                    }
                });
            }
        });
        assert_eq!(TURNS.held.load(Relaxed), 0);
    }

    #[test]
    fn who_waits_is_woken() {
        static TURNS: Turns = Turns::new();
        let first = take(&TURNS);
        let waits = thread::spawn(|| take(&TURNS).number);
        while TURNS.held.load(Relaxed) & OTHERS == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(first);
        assert_eq!(waits.join().unwrap(), 2);
        assert_eq!(TURNS.held.load(Relaxed), 0);
    }

    #[test]
    fn a_turn_that_does_not_end_is_taken_over_once() {
        static TURNS: Turns = Turns::new();
        let lost = take(&TURNS);
        let next = take(&TURNS);
        assert_eq!((lost.number, next.number), (1, 2));
        // Its end comes too late, and ends nothing.
        drop(lost);
        assert_eq!(TURNS.held.load(Relaxed) & !OTHERS, 2);
        drop(next);
        assert_eq!(take(&TURNS).number, 3);
    }

    #[test]
    fn numbers_begin_anew() {
        static TURNS: Turns = Turns::new();
        TURNS.last.store(u32::MAX - 4, Relaxed);
        for _ in 0..8 {
            let turn = take(&TURNS);
            assert!(turn.number != 0 && turn.number & OTHERS == 0);
        }
    }
}
