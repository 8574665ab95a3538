//! How hard the shrinker is asked to write compressed pages back: as the kernel does, gently while reclaim frees
//! memory, and harder each time that it did not (kernel: the priority loop of do_try_to_free_pages).

use neap_units::PAGE_SIZE;

/// The kernel's DEF_PRIORITY: reclaim starts gently.
const DEF_PRIORITY: u64 = 12;
/// Passes after which the shrinker is asked.
const PASSES: u32 = 16;

/// One turn of reclaim, from when memory is wanted until it is not.
pub(super) struct Pressure {
    priority: u64,
    passes: u32,
    /// Pages stored since the shrinker was asked last.
    stored: u64,
    /// What the pool took then, in bytes.
    pool: u64,
}

impl Pressure {
    pub fn new(pool: u64) -> Self {
        Self {
            priority: DEF_PRIORITY,
            passes: 0,
            stored: 0,
            pool,
        }
    }

    /// Takes note of a pass that stored so many pages, and says with which priority the shrinker is to be asked
    /// now, if it is. `pool`: what the pool takes, in bytes; looked at only then.
    pub fn note(&mut self, stored: u64, pool: impl FnOnce() -> u64) -> Option<u64> {
        self.passes += 1;
        self.stored += stored;
        if self.passes < PASSES {
            return None;
        }
        let pool = pool();
        let freed = self.stored * PAGE_SIZE as u64;
        // Where pages hardly compress what they leave is taken by the pool.
        let frees = freed > 0 && pool.saturating_sub(self.pool) <= freed / 2;
        let asked = self.priority;
        *self = Self {
            priority: if frees {
                DEF_PRIORITY
            } else {
                asked.saturating_sub(1)
            },
            passes: 0,
            stored: 0,
            pool,
        };
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked in so many rounds of passes that store `stored` pages each, of which the pool takes `taken`
    /// bytes.
    fn asked(rounds: usize, stored: u64, taken: u64) -> Vec<u64> {
        let mut pressure = Pressure::new(0);
        let passes = 1..=rounds as u64 * u64::from(PASSES);
        passes
            .filter_map(|pass| pressure.note(stored, || pass * taken))
            .collect()
    }

    #[test]
    fn reclaim_that_gets_on_stays_gentle() {
        assert_eq!(asked(4, 64, 64 * 512), [12; 4]);
    }

    #[test]
    fn reclaim_that_frees_nothing_asks_harder_and_harder() {
        assert_eq!(asked(4, 0, 0), [12, 11, 10, 9]);
        assert_eq!(asked(20, 0, 0).last(), Some(&0));
    }

    #[test]
    fn what_the_pool_takes_is_not_freed() {
        assert_eq!(asked(3, 64, 64 * 4000), [12, 11, 10]);
    }
}
