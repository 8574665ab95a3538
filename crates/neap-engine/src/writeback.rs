//! From the pool to the swap file: the thread that runs the zswap shrinker and the pool worker.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::job::Job;

/// Runs until the engine stops. Writes wait for the disk here and nowhere else.
pub(crate) fn run(job: &Arc<Job>) {
    neap_sys::block_signals();
    neap_sys::raise_priority();
    let mut codec = job.store.codec();
    while !job.is_stopping() {
        job.shrink.wait(Duration::from_millis(200));
        job.writing.store(true, Relaxed); // before the wish is taken: it is one or the other
        let priority = job.priority.swap(u64::MAX, Relaxed);
        if priority == u64::MAX {
            job.writing.store(false, Relaxed);
            continue;
        }
        job.store
            .shrink(u8::try_from(priority).unwrap_or(0), &mut codec);
        job.store.shrink_worker(&mut codec);
        job.writing.store(false, Relaxed);
        job.meter.note_pool(job.store.pool_bytes().0);
        job.reclaim.ring();
    }
}
