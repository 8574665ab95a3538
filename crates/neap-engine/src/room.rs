//! Who waits for memory: spaces whose faults would take the job over its limit, first come, first served.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_sys::Lock;

use crate::space::Space;

#[derive(Default)]
pub(crate) struct Room {
    waiting: Lock<VecDeque<Arc<Space>>, 7>,
}

impl Room {
    /// The space is called when there is room. Whoever comes here looks for room once more afterwards:
    /// it may have been made before.
    pub fn wait(&self, space: &Arc<Space>) {
        if !space.queues.swap(true, Relaxed) {
            let mut waiting = self.waiting.lock();
            waiting.push_back(space.clone());
        }
    }

    /// Whether anybody waits.
    pub fn is_wanted(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// Calls as many as there may be room for. One that finds some calls the next.
    pub fn call(&self, count: usize) {
        let called: Vec<Arc<Space>> = {
            let mut waiting = self.waiting.lock();
            waiting.retain(|space| !space.is_dead());
            let mut called = Vec::new();
            // One whose own group has no room waits on, and keeps nobody behind it.
            waiting.retain(|space| {
                let calls = called.len() < count && space.group.has_room();
                calls.then(|| called.push(space.clone())).is_none()
            });
            called
        };
        for space in called {
            space.queues.store(false, Relaxed);
            space.ring();
        }
    }
}
