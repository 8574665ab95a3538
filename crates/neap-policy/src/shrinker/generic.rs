//! The kernel's generic shrinker: from a priority to a number of objects to look at
//! (SPEC 1.10; do_shrink_slab in mm/shrinker.c).

/// Objects asked for in one scan (kernel: SHRINK_BATCH).
pub const SHRINK_BATCH: u64 = 128;

/// Relative cost of getting an object back (kernel: DEFAULT_SEEKS).
pub const DEFAULT_SEEKS: u64 = 2;

/// Priority at which reclaim starts; pressure rises as it falls to 0 (kernel:
/// DEF_PRIORITY).
pub const DEF_PRIORITY: u8 = 12;

/// What one scan of a list came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanResult {
    /// Not now: end this call; the scan counts for nothing.
    Stop,
    /// Entries were looked at.
    Done {
        /// Entries looked at (the request, or 0).
        scanned: u64,
        /// Entries freed.
        freed: u64,
    },
}

/// What a call of the shrinker came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shrunk {
    /// Entries looked at.
    pub scanned: u64,
    /// Entries freed.
    pub freed: u64,
}

/// One call of a shrinker, scan by scan: batches of up to [`SHRINK_BATCH`] objects, as many as the freeable objects, the
/// priority and the work deferred earlier call for.
///
/// At the default priority nothing is scanned below 2^18 freeable objects, and
/// deferred work does not help, because it is shifted by the same priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShrinkRound {
    freeable: u64,
    /// Objects still to be asked for in this call.
    total: u64,
    /// Objects due: deferred earlier, and by this call's priority.
    due: u64,
    shrunk: Shrunk,
}

impl ShrinkRound {
    /// A call for `freeable` objects (not 0), with `earlier` objects deferred by earlier
    /// calls. The caller has zeroed its counter of deferred objects.
    #[must_use]
    pub fn new(freeable: u64, priority: u8, earlier: u64, seeks: u64) -> ShrinkRound {
        let delta = delta(freeable, priority, seeks);
        let shifted = earlier.checked_shr(priority.into()).unwrap_or(0);
        let cap = freeable.saturating_mul(2);
        ShrinkRound {
            freeable,
            total: shifted.saturating_add(delta).min(cap),
            due: earlier.saturating_add(delta),
            shrunk: Shrunk::default(),
        }
    }

    /// Objects still to be asked for.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.total
    }

    /// Objects to scan next, or none: the call is over.
    #[must_use]
    pub fn request(&self) -> Option<u64> {
        let goes_on = self.total >= SHRINK_BATCH || self.total >= self.freeable;
        (goes_on && self.total > 0).then(|| self.total.min(SHRINK_BATCH))
    }

    /// Reports the scan of the last request.
    pub fn report(&mut self, result: ScanResult) {
        let (scanned, freed) = match result {
            ScanResult::Stop => (0, 0),
            ScanResult::Done { scanned, freed } => (scanned, freed),
        };
        self.shrunk.scanned += scanned;
        self.shrunk.freed += freed;
        // Nothing scanned and not stopped: the kernel would ask for ever.
        self.total = match scanned {
            0 => 0,
            _ => self.total.saturating_sub(scanned),
        };
    }

    /// What the call came to.
    #[must_use]
    pub fn shrunk(&self) -> Shrunk {
        self.shrunk
    }

    /// Objects due and not scanned, to be added to the counter of deferred objects.
    #[must_use]
    pub fn deferred(&self) -> u64 {
        let cap = self.freeable.saturating_mul(2);
        self.due.saturating_sub(self.shrunk.scanned).min(cap)
    }
}

/// Objects due at this priority. Objects that cost no seek are halved each time.
fn delta(freeable: u64, priority: u8, seeks: u64) -> u64 {
    match seeks {
        0 => freeable / 2,
        _ => {
            freeable
                .checked_shr(priority.into())
                .unwrap_or(0)
                .saturating_mul(4)
                / seeks
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs a shrinker once.
    fn do_shrink(
        freeable: u64,
        priority: u8,
        deferred: &mut u64,
        seeks: u64,
        mut scan: impl FnMut(u64) -> ScanResult,
    ) -> Shrunk {
        let mut round = ShrinkRound::new(freeable, priority, std::mem::take(deferred), seeks);
        while let Some(request) = round.request() {
            round.report(scan(request));
        }
        *deferred = round.deferred();
        round.shrunk()
    }

    fn all(request: u64) -> ScanResult {
        ScanResult::Done {
            scanned: request,
            freed: request,
        }
    }

    #[test]
    fn the_worked_example_of_66000_entries() {
        for (priority, due, scanned) in [
            (12, 32, 0),
            (11, 64, 0),
            (10, 128, 128),
            (9, 256, 256),
            (8, 514, 512),
            (6, 2062, 2048),
            (4, 8250, 8192),
            (2, 33000, 32896),
            (0, 132_000, 131_968),
        ] {
            assert_eq!(
                delta(66000, priority, DEFAULT_SEEKS),
                due,
                "priority {priority}"
            );
            let mut deferred = 0;
            let shrunk = do_shrink(66000, priority, &mut deferred, DEFAULT_SEEKS, all);
            assert_eq!(shrunk.scanned, scanned, "priority {priority}");
            assert_eq!(deferred, due - scanned, "priority {priority}");
        }
    }

    #[test]
    fn the_default_priority_scans_nothing_below_262144_entries() {
        let scanned = |freeable| {
            let mut deferred = 2 * freeable;
            do_shrink(freeable, DEF_PRIORITY, &mut deferred, DEFAULT_SEEKS, |n| {
                assert!(freeable >= 262_144 / 2);
                all(n)
            })
            .scanned
        };
        let fresh = |freeable| do_shrink(freeable, 12, &mut 0, DEFAULT_SEEKS, all).scanned;
        assert_eq!((fresh(262_143), fresh(262_144)), (0, 128));
        assert_eq!(scanned(131_071), 0, "deferred work at most doubles a round");
    }

    #[test]
    fn a_stop_defers_the_whole_round_up_to_twice_the_freeable() {
        let mut deferred = 10;
        let shrunk = do_shrink(1000, 2, &mut deferred, DEFAULT_SEEKS, |_| ScanResult::Stop);
        assert_eq!((shrunk, deferred), (Shrunk::default(), 510));
        let mut deferred = u64::MAX;
        do_shrink(1000, 0, &mut deferred, DEFAULT_SEEKS, |_| ScanResult::Stop);
        assert_eq!(deferred, 2000);
    }

    #[test]
    fn fewer_objects_than_a_batch_are_scanned_when_all_are_due() {
        let mut requests = Vec::new();
        let shrunk = do_shrink(50, 0, &mut 0, DEFAULT_SEEKS, |n| {
            requests.push(n);
            ScanResult::Done {
                scanned: n,
                freed: 1,
            }
        });
        assert_eq!(requests, [100]);
        assert_eq!(
            shrunk,
            Shrunk {
                scanned: 100,
                freed: 1
            }
        );
    }

    #[test]
    fn a_scan_that_looks_at_nothing_ends_the_round() {
        let mut calls = 0;
        do_shrink(1000, 0, &mut 0, DEFAULT_SEEKS, |_| {
            calls += 1;
            ScanResult::Done {
                scanned: 0,
                freed: 0,
            }
        });
        assert_eq!(calls, 1);
    }

    proptest! {
        /// Conservation: what was due is either scanned or deferred, or cut at the cap.
        #[test]
        fn due_is_scanned_or_deferred(
            freeable in 1u64..1 << 24,
            priority in 0u8..=12,
            earlier in 0u64..1 << 26,
            seeks in 0u64..9,
            stop_after in 0u64..64,
        ) {
            let (mut deferred, mut calls, mut asked) = (earlier, 0, 0);
            let shrunk = do_shrink(freeable, priority, &mut deferred, seeks, |n| {
                assert!(n > 0 && n <= SHRINK_BATCH);
                calls += 1;
                if calls > stop_after {
                    return ScanResult::Stop;
                }
                asked += n;
                all(n)
            });
            prop_assert_eq!(shrunk.scanned, asked);
            prop_assert!(shrunk.scanned <= 2 * freeable);
            let due = (earlier + delta(freeable, priority, seeks)) as i128;
            let left = (due - i128::from(shrunk.scanned)).clamp(0, 2 * i128::from(freeable));
            prop_assert_eq!(i128::from(deferred), left);
        }
    }
}
