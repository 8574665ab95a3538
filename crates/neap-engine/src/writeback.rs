//! From the pool to the swap file: the thread that runs the zswap shrinker and the pool worker.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use neap_policy::DEF_PRIORITY;
use neap_store::Codec;
use neap_tuning::TUNING;

use crate::job::Job;

/// Gentler than any priority of the kernel's: only what does not compress.
const POOR: u8 = DEF_PRIORITY + 1;
/// Gentler still: only of accounts that have more in the pool than they may, and of jobs that are being frozen to disk.
pub(crate) const RELIEF: u64 = DEF_PRIORITY as u64 + 2;

/// Has pages that do not compress written as soon as they are enough for a long write: in the pool they take as much
/// memory as in the program.
pub(crate) fn write_poor(job: &Job) {
    if job.store.poor_pages() >= TUNING.swap.poor().0 {
        job.ask_shrinker(POOR.into());
    }
}

/// Runs until the engine stops. Writes wait for the disk here and nowhere else.
pub(crate) fn run(job: &Arc<Job>) {
    neap_sys::block_signals();
    neap_sys::raise_priority();
    let mut codec = job.store.codec();
    while !job.is_stopping() {
        job.shrink.wait(TUNING.swap.sleep.duration());
        write_what_is_wished(job, &mut codec);
    }
}

/// Writes what somebody wished to be written since the last time, if anybody did.
pub(crate) fn write_what_is_wished(job: &Job, codec: &mut Codec) {
    job.writing.store(true, Relaxed); // before the wish is taken: it is one or the other
    let priority = job.priority.swap(u64::MAX, AcqRel);
    if priority == u64::MAX {
        job.writing.store(false, Relaxed);
        return;
    }
    write_back(job, u8::try_from(priority).unwrap_or(0), codec);
    job.writing.store(false, Relaxed);
    job.meter.note_pool(job.store.pool_memory().0);
    job.reclaim.ring();
}

/// Until something was written, where the pool waits for it: entries with a second chance are only passed over
/// at first, once each.
fn write_back(job: &Job, priority: u8, codec: &mut Codec) {
    let relieved = job.store.relieve(codec).written_back > 0;
    let mut frozen = job.groups.within(job.groups.top());
    frozen.retain(|group| group.freeze.writes());
    for group in frozen {
        let goes_on = || group.freeze.writes() && !job.is_stopping();
        job.store.write_all(&group.account, codec, goes_on);
    }
    if u64::from(priority) == RELIEF {
        if relieved {
            job.reclaim.ring();
        }
        return;
    }
    if priority == POOR {
        job.store.shrink_poor(TUNING.swap.poor().0, codec);
        return;
    }
    let mut left = job.store.entries();
    loop {
        let shrunk = job.store.shrink(priority, codec);
        let worked = job.store.shrink_worker(codec);
        let scanned = shrunk.scanned + worked.scanned;
        left = left.saturating_sub(scanned);
        let written = shrunk.written_back + worked.written_back;
        let goes_on = written == 0 && scanned > 0 && left > 0 && job.store.waits_for_disk();
        if !goes_on || job.is_stopping() {
            return;
        }
    }
}
