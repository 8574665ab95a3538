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

/// Runs a shrinker once: asks `scan` for batches of up to [`SHRINK_BATCH`] objects, as
/// many as `freeable`, the priority and the work deferred earlier call for. What was
/// due and not done is added to `deferred` (objects) for the next call.
///
/// At the default priority nothing is scanned below 2^18 freeable objects, and
/// deferred work does not help, because it is shifted by the same priority.
pub fn do_shrink(
    freeable: u64,
    priority: u8,
    deferred: &mut u64,
    seeks: u64,
    mut scan: impl FnMut(u64) -> ScanResult,
) -> Shrunk {
    let mut shrunk = Shrunk::default();
    if freeable == 0 {
        return shrunk;
    }
    let earlier = std::mem::take(deferred);
    let delta = delta(freeable, priority, seeks);
    let cap = freeable.saturating_mul(2);
    let shifted = earlier.checked_shr(priority.into()).unwrap_or(0);
    let mut total = shifted.saturating_add(delta).min(cap);
    while total >= SHRINK_BATCH || total >= freeable {
        let request = total.min(SHRINK_BATCH);
        match scan(request) {
            // Nothing scanned and not stopped: the kernel would ask for ever.
            ScanResult::Stop
            | ScanResult::Done {
                scanned: 0,
                freed: 0,
            } => break,
            ScanResult::Done { scanned, freed } => {
                total = total.saturating_sub(scanned);
                shrunk.scanned += scanned;
                shrunk.freed += freed;
                if scanned == 0 {
                    break;
                }
            }
        }
    }
    *deferred = earlier
        .saturating_add(delta)
        .saturating_sub(shrunk.scanned)
        .min(cap);
    shrunk
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
    fn nothing_freeable_leaves_deferred_work_alone() {
        let mut deferred = 77;
        let shrunk = do_shrink(0, 0, &mut deferred, DEFAULT_SEEKS, |_| unreachable!());
        assert_eq!((shrunk, deferred), (Shrunk::default(), 77));
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
            freeable in 0u64..1 << 24,
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
            if freeable > 0 {
                let due = (earlier + delta(freeable, priority, seeks)) as i128;
                let left = (due - i128::from(shrunk.scanned)).clamp(0, 2 * i128::from(freeable));
                prop_assert_eq!(i128::from(deferred), left);
            } else {
                prop_assert_eq!(deferred, earlier);
            }
        }
    }
}
