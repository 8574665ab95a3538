//! A task that writes to `memory.reclaim` again and again, as the fairness tests do.

use neap_units::{Bytes, Nanos};

use crate::clock::{Context, Program, Step};
use crate::kernel::MemcgId;

/// Writes a size to `memory.reclaim`, waits, and again, as a shell does that runs `sleep` between.
#[derive(Clone, Debug)]
pub struct Reclaimer {
    /// Of which cgroup.
    pub memcg: MemcgId,
    /// How much each time.
    pub bytes: Bytes,
    /// How many times.
    pub writes: u64,
    /// Pause after each write.
    pub pause: Nanos,
    /// Shared number that counts writes that gave up.
    pub again: usize,
    /// Writes so far.
    started: u64,
    /// Whether the pause comes next.
    pausing: bool,
}

impl Reclaimer {
    /// `writes` times `bytes`, with a pause after each.
    #[must_use]
    pub fn new(memcg: MemcgId, bytes: Bytes, writes: u64, pause: Nanos, again: usize) -> Reclaimer {
        Reclaimer {
            memcg,
            bytes,
            writes,
            pause,
            again,
            started: 0,
            pausing: false,
        }
    }
}

impl Program for Reclaimer {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        if std::mem::take(&mut self.pausing) {
            cx.shared.add(self.again, u64::from(cx.again));
            return Step::RunUntil(cx.now.saturating_add(self.pause));
        }
        if self.started == self.writes {
            return Step::Exit;
        }
        self.started += 1;
        self.pausing = true;
        Step::Reclaim {
            memcg: self.memcg,
            bytes: self.bytes,
        }
    }
}
