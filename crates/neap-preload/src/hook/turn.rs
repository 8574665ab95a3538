//! One change of mappings at a time. The kernel tells of munmap and mremap when it has let go of the address space, so
//! what two threads tell can be read in either order, and some orders cannot be told apart afterwards. Changes that
//! come by libc's symbols therefore take turns: one has been told before the next begins. The engine puts the others
//! in order (what a libc calls inside itself, and raw system calls).
//!
//! Nobody waits for ever: who holds the turn and is gone, or takes too long, loses it.

use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::{agent, sys};

/// The thread whose turn it is, or 0; and [`OTHERS`]. It adjoins a file's mapping, so it is never managed.
static TURN: AtomicU32 = AtomicU32::new(0);
/// Others wait for it.
const OTHERS: u32 = 1 << 31;
/// Somebody kept the turn too long, and may keep it for ever: a signal handler has jumped out of the call.
static LAPSED: AtomicBool = AtomicBool::new(false);

const NAP: u32 = 50_000_000;
/// Two seconds in all.
const NAPS: u32 = 40;

/// A turn, of this thread; or none (0): what is to be done may be done in either case.
pub struct Turn(u32);

/// Waits for the turn, if pages of this process may be elsewhere.
pub fn take() -> Turn {
    let wanted = agent::is_armed() && !LAPSED.load(Relaxed);
    Turn(if wanted { wait(sys::gettid()) } else { 0 })
}

/// The thread that is given, once it has the turn; or 0.
fn wait(me: u32) -> u32 {
    let (mut waited, mut naps) = (false, 0);
    loop {
        let held = TURN.load(Relaxed);
        let holder = held & !OTHERS;
        // Its own: it is in a signal handler, and the change that was interrupted is over or has not begun.
        if holder == 0 || holder == me || naps > 0 && !sys::has_thread(holder) {
            // Who has waited was perhaps not alone.
            let others = if waited { OTHERS } else { held & OTHERS };
            let taken = TURN.compare_exchange(held, me | others, Acquire, Relaxed);
            if taken.is_ok() {
                return me;
            }
        } else if held & OTHERS == 0 {
            let _ = TURN.compare_exchange(held, held | OTHERS, Relaxed, Relaxed);
        } else if naps == NAPS {
            LAPSED.store(true, Relaxed);
            return 0;
        } else {
            waited = true;
            naps += u32::from(sys::futex_wait(&TURN, held, NAP));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0 == 0 {
            return;
        }
        let mine = |held: u32| (held & !OTHERS == self.0).then_some(0);
        let held = TURN.fetch_update(Release, Relaxed, mine);
        if held.is_ok_and(|held| held & OTHERS != 0) {
            sys::futex_wake_one(&TURN);
        }
    }
}

/// The thread whose turn it was is its parent's.
pub fn start_in_child() {
    TURN.store(0, Relaxed);
}
