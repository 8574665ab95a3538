//! How hard the shrinker is asked to write compressed pages back: gently while compressing them frees memory and
//! the pool is small, and else harder each time, as in the kernel's priority loop (do_try_to_free_pages). At the
//! gentlest it writes nothing of a pool below a GiB.

use neap_tuning::TUNING;
use neap_units::{Bytes, Pages};

use crate::shrinker::DEF_PRIORITY;

/// What the pool takes, and what it holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolHolds {
    /// Its memory.
    pub takes: Bytes,
    /// Bytes of the pages in it, before they were compressed.
    pub holds: Bytes,
}

/// One turn of reclaim, from when memory is wanted until it is not.
#[derive(Debug)]
pub struct WritePressure {
    limit: Bytes,
    priority: u8,
    passes: u32,
    /// Pages stored since the shrinker was asked last.
    stored: Pages,
}

impl WritePressure {
    /// `limit`: of the job.
    #[must_use]
    pub fn new(limit: Bytes) -> Self {
        Self {
            limit,
            priority: DEF_PRIORITY,
            passes: 0,
            stored: Pages::ZERO,
        }
    }

    /// Takes note of a pass that stored so many pages, and says with which priority the shrinker is to be asked
    /// now, if it is. `pool`: what the pool holds, asked for only then.
    pub fn note(&mut self, stored: Pages, pool: impl FnOnce() -> PoolHolds) -> Option<u8> {
        self.passes += 1;
        self.stored += stored;
        if self.passes < TUNING.reclaim.passes {
            return None;
        }
        let asked = self.priority;
        self.priority = if self.stored > Pages::ZERO && self.is_well(&pool()) {
            DEF_PRIORITY
        } else {
            asked.saturating_sub(1)
        };
        (self.passes, self.stored) = (0, Pages::ZERO);
        Some(asked)
    }

    /// The pool is better kept than written.
    fn is_well(&self, pool: &PoolHolds) -> bool {
        pool.takes.0 <= TUNING.reclaim.small_pool.of(self.limit.0)
            && pool.takes * TUNING.reclaim.pool_worth <= pool.holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked in so many rounds of passes that store `stored` pages each, at a limit of 1024, where the
    /// pool takes `bytes` and holds `held`.
    fn asked(rounds: u32, stored: u64, bytes: u64, held: u64) -> Vec<u8> {
        let mut pressure = WritePressure::new(Bytes(1024));
        let pool = PoolHolds {
            takes: Bytes(bytes),
            holds: Bytes(held),
        };
        let passes = 0..rounds * TUNING.reclaim.passes;
        passes
            .filter_map(|_| pressure.note(Pages(stored), || pool))
            .collect()
    }

    #[test]
    fn reclaim_that_gets_on_stays_gentle() {
        assert_eq!(asked(4, 64, 256, 512), [12; 4]);
        assert_eq!(asked(4, 64, 0, 0), [12; 4]);
    }

    #[test]
    fn reclaim_that_stores_nothing_asks_harder_and_harder() {
        assert_eq!(asked(4, 0, 0, 0), [12, 11, 10, 9]);
        assert_eq!(asked(20, 0, 0, 0).last(), Some(&0));
    }

    #[test]
    fn a_large_pool_is_written_back() {
        assert_eq!(asked(3, 64, 257, 4096), [12, 11, 10]);
    }

    #[test]
    fn so_is_one_of_pages_that_hardly_compress() {
        assert_eq!(asked(3, 64, 100, 199), [12, 11, 10]);
    }
}
