//! Which cpu a thread runs on.
//!
//! A wake-up that crosses cpus costs tens of microseconds where the other cpu sleeps, ten times what
//! a fault costs that is served and taken up again on one cpu. The scheduler prefers an idle cpu for
//! a woken thread; narrowing its affinity for the time of the wake-up is the only way to say that it
//! should stay.

use std::cell::Cell;

use crate::errno::{Result, SysError};

/// A set of cpus. Machines with more than 1024 are left to the scheduler.
#[derive(Clone, Copy)]
struct CpuSet(libc::cpu_set_t);

impl CpuSet {
    fn none() -> Self {
        // SAFETY: a bit set is valid when it is all zeros.
        Self(unsafe { std::mem::zeroed() })
    }

    fn one(cpu: usize) -> Option<Self> {
        let mut set = Self::none();
        if cpu >= libc::CPU_SETSIZE as usize {
            return None;
        }
        // SAFETY: within the set.
        unsafe { libc::CPU_SET(cpu, &mut set.0) };
        Some(set)
    }

    fn all() -> Self {
        let mut set = Self::none();
        for cpu in 0..libc::CPU_SETSIZE as usize {
            // SAFETY: within the set.
            unsafe { libc::CPU_SET(cpu, &mut set.0) };
        }
        set
    }

    /// The affinity of a thread; 0: the calling one.
    fn of(tid: i32) -> Option<Self> {
        let mut set = Self::none();
        // SAFETY: the kernel writes at most the size it is told.
        let got =
            unsafe { libc::sched_getaffinity(tid, size_of::<libc::cpu_set_t>(), &raw mut set.0) };
        (got == 0).then_some(set)
    }

    fn give_to(&self, tid: i32) -> Result<()> {
        // SAFETY: the kernel reads one set.
        let done = unsafe {
            libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &raw const self.0)
        };
        match done {
            0 => Ok(()),
            _ => Err(SysError::last("sched_setaffinity", tid.to_string())),
        }
    }

    fn has(&self, cpu: usize) -> bool {
        // SAFETY: within the set.
        cpu < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(cpu, &self.0) }
    }

    fn count(&self) -> usize {
        // SAFETY: an initialised set.
        let count = unsafe { libc::CPU_COUNT(&self.0) };
        usize::try_from(count).unwrap_or(0)
    }

    fn equals(&self, other: &Self) -> bool {
        // SAFETY: both are initialised sets.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }
}

/// Keeps threads where they are for a moment.
#[derive(Clone, Copy)]
pub struct Keeper {
    /// The affinity of a thread that nobody has narrowed, as the kernel shows it.
    free: Option<CpuSet>,
    /// All cpus, also those that appear later: what a thread has that nobody narrowed.
    all: CpuSet,
}

impl Keeper {
    /// Looks how far a thread may spread here. To be made on a thread that nobody has narrowed.
    pub fn new() -> Self {
        let all = CpuSet::all();
        let learn = || {
            let before = CpuSet::of(0)?;
            all.give_to(0).ok()?;
            let widest = CpuSet::of(0)?;
            if before.equals(&widest) {
                return Some(widest);
            }
            before.give_to(0).ok()?; // the user narrowed us all: nobody is free
            None
        };
        Self { free: learn(), all }
    }

    /// Whether the calling thread has two cpus, no more and no less.
    #[must_use]
    pub fn has_two_cpus() -> bool {
        CpuSet::of(0).is_some_and(|set| set.count() == 2)
    }

    /// Moves the calling thread from `cpu` to another that it may use, if it is there and there is one.
    pub fn leave(&self, cpu: usize) {
        if this_cpu() != cpu || cpu >= libc::CPU_SETSIZE as usize {
            return;
        }
        let Some(before) = CpuSet::of(0) else { return };
        let mut others = before;
        // SAFETY: within the set.
        unsafe { libc::CPU_CLR(cpu, &mut others.0) };
        let unnarrowed = self.free.is_some_and(|free| free.equals(&before));
        if others.give_to(0).is_ok() {
            let _ = if unnarrowed { self.all } else { before }.give_to(0);
        }
    }

    /// Keeps the sleeping thread `tid` on `cpu` until the calling thread has made its next call that
    /// wakes somebody, or [`end_keep`]. The caller must run ahead of `tid` there (SCHED_FIFO): then
    /// the thread notices nothing.
    pub fn keep_until_woken(&self, tid: i32, cpu: usize) {
        WAKING.with(|waking| waking.replace(self.keep(tid, cpu)));
    }

    /// Keeps thread `tid` (0: the calling one) on `cpu` until the answer is dropped, which gives it
    /// the affinity it had. `None`: not allowed, or not needed.
    pub fn keep(&self, tid: i32, cpu: usize) -> Option<Kept> {
        let before = CpuSet::of(tid)?;
        if !before.has(cpu) {
            return None; // it may not run there at all
        }
        let here = CpuSet::one(cpu)?;
        if here.equals(&before) {
            return None; // it runs nowhere else anyway
        }
        here.give_to(tid).ok()?;
        let unnarrowed = self.free.is_some_and(|free| free.equals(&before));
        let after = if unnarrowed { self.all } else { before };
        Some(Kept { tid, after })
    }
}

impl Default for Keeper {
    fn default() -> Self {
        Self::new()
    }
}

/// A thread that is kept where it is until this is dropped.
pub struct Kept {
    tid: i32,
    after: CpuSet,
}

impl Kept {
    /// The same for a thread that the calling one starts meanwhile, which is born where it is kept: to be dropped there.
    #[must_use]
    pub fn of_child(&self) -> Self {
        Self {
            tid: 0,
            after: self.after,
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.after.give_to(self.tid); // it has ended
    }
}

thread_local! {
    /// The thread that the calling thread keeps until it wakes it.
    static WAKING: Cell<Option<Kept>> = const { Cell::new(None) };
}

/// Gives the thread that was kept for its wake-up the affinity it had, if there is one.
pub fn end_keep() {
    WAKING.with(Cell::take);
}

/// Binds thread `tid` (0: the calling one) to one cpu.
pub fn pin_to(tid: i32, cpu: usize) -> Result<()> {
    let set = CpuSet::one(cpu).ok_or_else(|| SysError::last("sched_setaffinity", "many cpus"))?;
    set.give_to(tid)
}

/// Binds the calling thread to the next cpu, in turn, that neap may use.
pub fn pin_to_next() -> Result<()> {
    let own = std::process::id().cast_signed(); // the main thread is bound to none
    let all = CpuSet::of(own).ok_or_else(|| SysError::last("sched_getaffinity", ""))?;
    let here = this_cpu();
    let cpus = libc::CPU_SETSIZE as usize;
    let others = (1..cpus).map(|step| (here + step) % cpus);
    match others.into_iter().find(|&cpu| all.has(cpu)) {
        Some(cpu) => pin_to(0, cpu),
        None => Ok(()),
    }
}

/// The cpu that the calling thread is on.
pub fn this_cpu() -> usize {
    // SAFETY: no arguments, no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tid() -> i32 {
        // SAFETY: no arguments, no memory.
        unsafe { libc::gettid() }
    }

    #[test]
    fn a_thread_that_leaves_a_cpu_may_return_there() {
        let keeper = Keeper::new();
        let before = CpuSet::of(0).expect("affinity");
        let cpu = this_cpu();
        keeper.leave(cpu);
        assert!(CpuSet::of(0).expect("affinity").equals(&before));
        pin_to(0, cpu).expect("pin");
        keeper.leave(cpu);
        assert_eq!(this_cpu(), cpu, "it may go nowhere else");
    }

    #[test]
    fn a_thread_comes_to_each_cpu_in_turn() {
        let before = CpuSet::of(0).expect("affinity");
        let mut met = CpuSet::none();
        for _ in 0..before.count() {
            pin_to_next().expect("pin");
            // SAFETY: within the set.
            unsafe { libc::CPU_SET(this_cpu(), &mut met.0) };
        }
        before.give_to(0).expect("affinity");
        assert!(met.equals(&before));
    }

    #[test]
    fn a_kept_thread_gets_its_affinity_back() {
        let keeper = Keeper::new();
        let before = CpuSet::of(0).expect("affinity");
        let cpu = this_cpu();
        let Some(kept) = keeper.keep(tid(), cpu) else {
            let bound = CpuSet::one(cpu).is_some_and(|one| one.equals(&before));
            return assert!(bound, "a machine of one cpu");
        };
        let while_kept = CpuSet::of(0).expect("affinity");
        assert!(while_kept.equals(&CpuSet::one(cpu).expect("one")));
        assert!(keeper.keep(tid(), cpu).is_none(), "it is bound already");
        drop(kept);
        assert!(CpuSet::of(0).expect("affinity").equals(&before));
    }
}
