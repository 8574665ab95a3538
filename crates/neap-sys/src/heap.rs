//! The heap of neap itself, which counts against the limit of a job.

/// Has glibc give back what is freed: the thresholds at which it does stay where they start, 128 KiB, and do not grow with
/// the largest buffer that was freed, to twice that for each of its arenas. Other libcs have no such thresholds.
///
/// An arena reserves 64 MiB of addresses. Where those are limited (`ulimit -v`) and run out, each allocation would try in
/// vain to reserve some, and be a mapping of its own. There is one arena then.
pub fn keep_heap_small() {
    #[cfg(target_env = "gnu")]
    {
        for threshold in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
            // SAFETY: integers only. A refusal leaves the heap as it is.
            unsafe { libc::mallopt(threshold, 128 << 10) };
        }
        if addresses_are_limited() {
            // SAFETY: as above.
            unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        }
    }
}

#[cfg(target_env = "gnu")]
fn addresses_are_limited() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the kernel writes one rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    limit.rlim_cur != libc::RLIM_INFINITY
}
