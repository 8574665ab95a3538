//! Descriptors kept for when no other is left: who calls the engine waits until it is answered, and a process that
//! forks until somebody has the userfaultfd of its child.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_sys::{Lock, Locked, SysError, Waker};
use neap_tuning::TUNING;

/// What is kept. A child that is served ends only when its call has been answered, so the caller's comes first: with
/// every descriptor in the hands of children that wait for an answer nobody would get on.
#[derive(Default)]
struct Kept {
    caller: Vec<Waker>,
    child: Option<Waker>,
}

impl Kept {
    fn keep_for_caller(&mut self) {
        let new = std::iter::repeat_with(Waker::new).map_while(Result::ok);
        let missing = TUNING.talk.descriptors - self.caller.len();
        self.caller.extend(new.take(missing));
    }
}

pub(crate) struct Spares {
    kept: Lock<Kept, 3>,
    /// There was none left once.
    short: AtomicBool,
}

impl Spares {
    pub fn new() -> Result<Self, SysError> {
        let mut caller = Vec::with_capacity(TUNING.talk.descriptors);
        caller.push(Waker::new()?);
        let child = Waker::new().ok();
        Ok(Self {
            kept: Lock::new(Kept { caller, child }),
            short: AtomicBool::new(false),
        })
    }

    fn kept(&self) -> Locked<'_, Kept, 3> {
        self.kept.lock()
    }

    /// Keeps again what was given, if there is any.
    pub fn keep(&self) {
        let mut kept = self.kept();
        kept.keep_for_caller();
        if kept.caller.len() == TUNING.talk.descriptors {
            kept.child = kept.child.take().or_else(|| Waker::new().ok());
        }
    }

    /// Takes a descriptor for a caller in the place of one that was kept. `None`: there is none.
    pub fn for_caller<T>(&self, take: impl FnOnce() -> T) -> Option<T> {
        self.short.store(true, Relaxed);
        let mut kept = self.kept();
        let spare = kept.caller.pop().or_else(|| kept.child.take())?;
        drop(spare);
        Some(take())
    }

    /// Does what may take a descriptor for a child: where there are few, only after what is free is kept for callers.
    pub fn for_child<T>(&self, take: impl FnOnce() -> T) -> T {
        let short = self.short.load(Relaxed);
        let kept = short.then(|| {
            let mut kept = self.kept();
            kept.keep_for_caller();
            kept
        });
        let taken = take();
        drop(kept);
        taken
    }

    /// Frees the one that is kept for a child. False: it is taken already.
    pub fn give_child(&self) -> bool {
        self.kept().child.take().is_some()
    }
}
