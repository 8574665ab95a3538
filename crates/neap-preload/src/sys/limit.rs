//! How many descriptors a process may have.

use super::{call, nr};

/// Has so many descriptors allowed, or as many as may be. How many were, if that changes anything.
pub fn allow_descriptors(most: Option<u64>) -> Option<u64> {
    const NOFILE: usize = 7;
    // struct rlimit: as it is, and at most.
    let mut limit = [0u64; 2];
    let at = (&raw mut limit) as usize;
    let got = call(nr::PRLIMIT, [0, NOFILE, 0, at, 0, 0]);
    // SAFETY: the kernel wrote through the address, so it is read anew.
    let [now, hard] = unsafe { (&raw const limit).read_volatile() };
    let new = [most.unwrap_or(hard), hard];
    let at = (&raw const new) as usize;
    let changed = got == 0 && new[0] != now;
    (changed && call(nr::PRLIMIT, [0, NOFILE, at, 0, 0, 0]) == 0).then_some(now)
}
