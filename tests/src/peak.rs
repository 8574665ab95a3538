//! How much memory a job took, as a memory cgroup around it and neap sees it.

use crate::{Managed, MemoryGroup, Neap, Run};

/// A run, and the most that its job and neap took, in bytes: by a cgroup around them, whose counter has some MiB of files and
/// page tables as well, or by what neap says where there may be none.
#[must_use]
pub fn peak_of(neap: Neap, run: &Run) -> (Managed, u64) {
    let group = MemoryGroup::new(1 << 40).ok();
    let neap = match &group {
        Some(group) => neap.around(group.enter()),
        None => neap,
    };
    let run = neap.run(run);
    run.must_have_paged();
    let said = run.number("/memory/peak_bytes");
    let seen = group.and_then(|group| group.peak()).unwrap_or(said);
    (run, said.max(seen))
}
