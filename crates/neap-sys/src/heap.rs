//! The heap of neap itself, which counts against the limit of a job.

/// Has glibc give back what is freed: the thresholds at which it does stay where they start, 128 KiB, and do not grow with
/// the largest buffer that was freed, to twice that for each of its arenas. Other libcs have no such thresholds.
pub fn keep_heap_small() {
    #[cfg(target_env = "gnu")]
    for threshold in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: integers only. A refusal leaves the heap as it is.
        unsafe { libc::mallopt(threshold, 128 << 10) };
    }
}
