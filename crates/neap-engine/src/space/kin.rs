//! Parents and children: which spaces share pages since a fork.
//!
//! Shared pages count once against the limit, though the kernel counts them for each process
//! (RssAnon); and they do not move until they are shared no longer.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use super::Space;

/// A look at proportional memory walks every page, so the next one waits this many times as long.
const REST: u64 = 20;

#[derive(Default)]
pub(crate) struct Kin {
    parent: OnceLock<Weak<Space>>,
    children: AtomicU32,
    /// Bytes of the process that are counted elsewhere, as measured last.
    elsewhere: AtomicU64,
    next: AtomicU64,
}

impl Kin {
    pub fn set_parent(&self, parent: &Arc<Space>) {
        parent.kin.children.fetch_add(1, Relaxed);
        let _ = self.parent.set(Arc::downgrade(parent));
    }

    /// The space is gone; what it shared is its parent's alone.
    pub fn leave(&self) {
        if let Some(parent) = self.parent.get().and_then(Weak::upgrade) {
            parent.kin.children.fetch_sub(1, Relaxed);
        }
    }

    pub fn has_children(&self) -> bool {
        self.children.load(Relaxed) > 0
    }

    /// Whether pages may be shared with another space.
    pub fn shares(&self) -> bool {
        let parent = self.parent.get().and_then(Weak::upgrade);
        self.has_children() || parent.is_some_and(|parent| !parent.is_dead())
    }

    /// Anonymous memory of process `pid` in bytes, shared pages divided by their sharers. How much is
    /// shared is measured anew only now and then.
    pub fn proportional(&self, pid: i32) -> u64 {
        let start = neap_sys::monotonic_nanos();
        if start >= self.next.load(Relaxed) {
            let resident = neap_sys::anon_resident(pid).unwrap_or(0);
            if let Some(bytes) = neap_sys::anon_proportional(pid) {
                self.elsewhere
                    .store(resident.saturating_sub(bytes), Relaxed);
            }
            let end = neap_sys::monotonic_nanos();
            self.next.store(end + (end - start) * REST, Relaxed);
        }
        let resident = neap_sys::anon_resident(pid).unwrap_or(0);
        resident.saturating_sub(self.elsewhere.load(Relaxed))
    }
}
