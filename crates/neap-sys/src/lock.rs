//! Locks that know their place in the order in which locks are taken (ARCHITECTURE.md, Locks).
//!
//! A thread that holds a lock takes only locks of a higher number. A build with debug assertions panics where one does
//! not, whether or not the two threads that would wait for each other meet; other builds keep no account.

use std::ops::{Deref, DerefMut};
use std::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
};

const POISONED: &str = "no thread panics under a lock";

/// A mutual exclusion lock whose place in the order is `PLACE`.
#[derive(Default, Debug)]
pub struct Lock<T, const PLACE: u8>(Mutex<T>);

/// A reader-writer lock whose place in the order is `PLACE`. A thread that holds it shared does not take it again: a writer
/// that waits in between would keep both waiting for ever.
#[derive(Default, Debug)]
pub struct Gate<T, const PLACE: u8>(RwLock<T>);

/// A lock that is held, until this is dropped.
#[must_use = "the lock is given back at once"]
#[derive(Debug)]
pub struct Held<G, const PLACE: u8> {
    guard: G,
    _place: Place<PLACE>,
}

/// A [`Lock`] that is held.
pub type Locked<'a, T, const PLACE: u8> = Held<MutexGuard<'a, T>, PLACE>;
/// A [`Gate`] that is held alone.
pub type Alone<'a, T, const PLACE: u8> = Held<RwLockWriteGuard<'a, T>, PLACE>;

impl<T, const PLACE: u8> Lock<T, PLACE> {
    /// A lock of this value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// If a thread panicked while it held it, or, with debug assertions, if this thread holds one that comes later.
    #[track_caller]
    pub fn lock(&self) -> Locked<'_, T, PLACE> {
        let place = Place::take_in_order();
        let guard = turns::take(|| free(self.0.try_lock()));
        let guard = guard.unwrap_or_else(|| self.0.lock().expect(POISONED));
        Held::of(guard, place)
    }

    /// Takes the lock if nobody has it. This never waits, so that it may be taken out of order.
    ///
    /// # Panics
    /// If a thread panicked while it held it.
    #[track_caller]
    pub fn try_lock(&self) -> Option<Locked<'_, T, PLACE>> {
        free(self.0.try_lock()).map(|guard| Held::of(guard, Place::take()))
    }
}

impl<T, const PLACE: u8> Gate<T, PLACE> {
    /// A lock of this value.
    pub const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    /// Waits to share the lock.
    ///
    /// # Panics
    /// As [`Lock::lock`].
    #[track_caller]
    pub fn read(&self) -> Held<RwLockReadGuard<'_, T>, PLACE> {
        let place = Place::take_in_order();
        let guard = turns::take(|| free(self.0.try_read()));
        let guard = guard.unwrap_or_else(|| self.0.read().expect(POISONED));
        Held::of(guard, place)
    }

    /// Waits for the lock alone.
    ///
    /// # Panics
    /// As [`Lock::lock`].
    #[track_caller]
    pub fn write(&self) -> Alone<'_, T, PLACE> {
        let place = Place::take_in_order();
        let guard = turns::take(|| free(self.0.try_write()));
        let guard = guard.unwrap_or_else(|| self.0.write().expect(POISONED));
        Held::of(guard, place)
    }

    /// Takes the lock alone if nobody has it. This never waits, so that it may be taken out of order.
    pub fn try_write(&self) -> Option<Alone<'_, T, PLACE>> {
        let guard = self.0.try_write().ok()?;
        Some(Held::of(guard, Place::take()))
    }
}

impl<G, const PLACE: u8> Held<G, PLACE> {
    fn of(guard: G, place: Place<PLACE>) -> Self {
        let _place = place;
        Self { guard, _place }
    }
}

impl<G: Deref, const PLACE: u8> Deref for Held<G, PLACE> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut, const PLACE: u8> DerefMut for Held<G, PLACE> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// The guard, unless somebody has the lock.
#[track_caller]
fn free<G>(tried: TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("{POISONED}"),
    }
}

/// Threads that take turns, of which one runs at a time: a test has each tell when it may give up its turn.
#[cfg(debug_assertions)]
pub mod turns {
    use std::cell::Cell;

    thread_local! {
        static HOOK: Cell<Option<fn(bool)>> = const { Cell::new(None) };
    }

    /// From now on this thread calls `hook` before it takes a lock, with `false`, and instead of sleeping while another
    /// thread holds the lock, with `true`.
    pub fn set_hook(hook: Option<fn(bool)>) {
        HOOK.set(hook);
    }

    pub(super) fn take<G>(mut tried: impl FnMut() -> Option<G>) -> Option<G> {
        let hook = HOOK.get()?;
        hook(false);
        loop {
            match tried() {
                Some(guard) => return Some(guard),
                None => hook(true),
            }
        }
    }
}

#[cfg(not(debug_assertions))]
mod turns {
    /// No thread takes turns.
    pub(super) fn take<G>(_tried: impl FnMut() -> Option<G>) -> Option<G> {
        None
    }
}

/// Whether this thread is known to hold no lock, which only a build with debug assertions knows.
#[must_use]
pub fn holds_none() -> bool {
    #[cfg(debug_assertions)]
    return account::holds_none();
    #[cfg(not(debug_assertions))]
    false
}

/// That this thread holds a lock of this place, in builds with debug assertions.
#[derive(Debug)]
struct Place<const PLACE: u8>;

#[cfg(not(debug_assertions))]
impl<const PLACE: u8> Place<PLACE> {
    fn take_in_order() -> Self {
        Self
    }

    fn take() -> Self {
        Self
    }
}

#[cfg(debug_assertions)]
mod account {
    use std::cell::RefCell;

    use super::Place;

    thread_local! {
        static HELD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn holds_none() -> bool {
        HELD.with_borrow(Vec::is_empty)
    }

    impl<const PLACE: u8> Place<PLACE> {
        #[track_caller]
        pub(super) fn take_in_order() -> Self {
            HELD.with_borrow(|held| {
                assert!(
                    held.iter().all(|&other| other < PLACE),
                    "a lock of place {PLACE} is taken under those of {held:?}"
                );
            });
            Self::take()
        }

        pub(super) fn take() -> Self {
            HELD.with_borrow_mut(|held| held.push(PLACE));
            Self
        }
    }

    impl<const PLACE: u8> Drop for Place<PLACE> {
        fn drop(&mut self) {
            // A thread that ends may have lost its account already.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|&other| other == PLACE) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn panics(work: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(work)).is_err()
    }

    #[test]
    fn a_lock_is_taken_only_under_earlier_ones() {
        let (first, second) = (Lock::<_, 1>::new(1), Lock::<_, 2>::new(2));
        {
            let (one, two) = (first.lock(), second.lock());
            assert_eq!(*one + *two, 3);
        }
        let held = second.lock();
        assert!(panics(|| drop(first.lock())), "out of order");
        assert!(
            panics(|| drop(Lock::<_, 2>::new(()).lock())),
            "two of one place"
        );
        assert!(first.try_lock().is_some(), "it does not wait");
        drop(held);
        drop(first.lock());
    }

    #[test]
    fn a_gate_is_not_taken_twice() {
        let gate = Gate::<_, 3>::new(());
        let shared = gate.read();
        assert!(gate.try_write().is_none());
        assert!(panics(|| drop(gate.read())));
        drop(shared);
        assert!(gate.try_write().is_some());
        drop(gate.write());
    }

    #[test]
    fn locks_are_given_back_in_any_order() {
        let (first, second) = (Lock::<_, 1>::new(()), Lock::<_, 2>::new(()));
        let (one, two) = (first.lock(), second.lock());
        drop(one);
        drop(two);
        drop(first.lock());
    }
}
