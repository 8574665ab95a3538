//! How hard the shrinker is asked to write compressed pages back: gently while compressing them frees memory and
//! the pool is small, and else harder each time, as in the kernel's priority loop (do_try_to_free_pages). At the
//! gentlest it writes nothing of a pool below a GiB.

use neap_store::Holding;
use neap_tuning::TUNING;

/// Reclaim starts gently.
const GENTLE: u64 = neap_policy::DEF_PRIORITY as u64;

/// One turn of reclaim, from when memory is wanted until it is not.
pub(super) struct Pressure {
    limit: u64,
    priority: u64,
    passes: u32,
    /// Pages stored since the shrinker was asked last.
    stored: u64,
}

impl Pressure {
    /// `limit`: of the job, in bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            priority: GENTLE,
            passes: 0,
            stored: 0,
        }
    }

    /// Takes note of a pass that stored so many pages, and says with which priority the shrinker is to be asked
    /// now, if it is. `pool`: what the pool holds, asked for only then.
    pub fn note(&mut self, stored: u64, pool: impl FnOnce() -> Holding) -> Option<u64> {
        self.passes += 1;
        self.stored += stored;
        if self.passes < TUNING.reclaim.passes {
            return None;
        }
        let asked = self.priority;
        self.priority = if self.stored > 0 && self.is_well(&pool()) {
            GENTLE
        } else {
            asked.saturating_sub(1)
        };
        (self.passes, self.stored) = (0, 0);
        Some(asked)
    }

    /// The pool is better kept than written.
    fn is_well(&self, pool: &Holding) -> bool {
        pool.bytes <= TUNING.reclaim.small_pool.of(self.limit)
            && pool.bytes * TUNING.reclaim.pool_worth <= pool.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked in so many rounds of passes that store `stored` pages each, at a limit of 1024, where the
    /// pool takes `bytes` and holds `held`.
    fn asked(rounds: u32, stored: u64, bytes: u64, held: u64) -> Vec<u64> {
        let mut pressure = Pressure::new(1024);
        let pool = Holding {
            bytes,
            backed: bytes,
            held,
            compressed: bytes,
        };
        let passes = 0..rounds * TUNING.reclaim.passes;
        passes
            .filter_map(|_| pressure.note(stored, || pool))
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
