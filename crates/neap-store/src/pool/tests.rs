use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::arena::VecArena;

/// A pool and, beside it, what it must hold.
struct Pair {
    pool: Pool,
    model: HashMap<u32, (Handle, Vec<u8>)>,
    next: u32,
}

impl Pair {
    fn new(pages: usize) -> Self {
        Self {
            pool: Pool::new(Box::new(VecArena::new(pages * PAGE_SIZE))),
            model: HashMap::new(),
            next: 0,
        }
    }

    fn store(&mut self, len: usize) -> bool {
        let id = self.next;
        self.next += 1;
        let data: Vec<u8> = (0..len)
            .map(|i| (i as u32 * 7 + id * 13) as u8 | 1)
            .collect();
        let Some(handle) = self.pool.store(EntryId(id), &data) else {
            return false;
        };
        self.model.insert(id, (handle, data));
        true
    }

    fn free(&mut self, id: u32) {
        let (handle, data) = self.model.remove(&id).expect("held");
        let model = &mut self.model;
        self.pool.free(handle, data.len(), |moved, to| {
            model.get_mut(&moved.0).expect("a moved object is held").0 = to;
        });
    }

    fn check(&self) {
        self.pool.check(|id| {
            self.model
                .get(&id.0)
                .map(|(handle, data)| (*handle, data.len()))
        });
        for (handle, data) in self.model.values() {
            assert_eq!(self.pool.data(*handle, data.len()), data);
        }
    }

    fn bytes(&self) -> usize {
        self.model.values().map(|(_, data)| data.len()).sum()
    }

    /// Memory taken beyond the bytes held, as a share of these.
    fn fragmentation(&self) -> f64 {
        self.pool.pages() as f64 * PAGE_SIZE as f64 / self.bytes() as f64 - 1.0
    }

    /// The `n`th id held, counted round.
    fn nth(&self, n: usize) -> Option<u32> {
        let mut ids: Vec<u32> = self.model.keys().copied().collect();
        ids.sort_unstable();
        (!ids.is_empty()).then(|| ids[n % ids.len()])
    }
}

/// A small generator for sizes and choices; seeded, so that a failure repeats.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

proptest! {
    #[test]
    fn the_pool_holds_what_the_model_holds(
        ops in prop::collection::vec((any::<bool>(), 1usize..=4096, any::<u16>()), 1..300),
        pages in 4usize..200,
    ) {
        let mut pair = Pair::new(pages);
        for (store, len, pick) in ops {
            if store {
                pair.store(len);
            } else if let Some(id) = pair.nth(usize::from(pick)) {
                pair.free(id);
            }
            pair.check();
        }
        while let Some(id) = pair.nth(0) {
            pair.free(id);
        }
        prop_assert_eq!(pair.pool.pages(), 0);
    }
}

#[test]
fn a_full_arena_refuses_and_accepts_again_after_a_free() {
    let pages = if cfg!(miri) { 2 } else { 8 };
    let mut pair = Pair::new(pages);
    while pair.store(4096) {}
    assert_eq!(pair.pool.pages(), pages as u64);
    assert!(!pair.store(100));
    let id = pair.nth(3).expect("held");
    pair.free(id);
    assert!(pair.store(100));
    pair.check();
}

/// Size mixes as compressors leave them: (name, smallest, largest, share of raw pages in percent).
const MIXES: [(&str, u64, u64, u64); 5] = [
    ("heap under lz4", 300, 2600, 1),
    ("heap under zstd", 150, 1800, 1),
    ("text and tables", 900, 1700, 0),
    ("mostly zero pages", 24, 400, 0),
    ("poorly compressible", 2000, 4096, 10),
];

#[test]
fn fragmentation_stays_within_a_tenth_while_entries_come_and_go() {
    for (name, low, high, raw) in MIXES {
        let mut rng = Lcg(42);
        let mut pair = Pair::new(40_000);
        let size = |rng: &mut Lcg| {
            if rng.below(100) < raw {
                4096
            } else {
                // The sum of two draws: sizes cluster in the middle, as real ones do.
                let span = (high - low) / 2;
                (low + rng.below(span + 1) + rng.below(span + 1)) as usize
            }
        };
        let mut ids = Vec::new();
        for _ in 0..20_000 {
            assert!(pair.store(size(&mut rng)));
            ids.push(pair.next - 1);
        }
        let fresh = pair.fragmentation();
        // Replace everything twice over, at random, then free nine of ten.
        for _ in 0..40_000 {
            let victim = rng.below(ids.len() as u64) as usize;
            pair.free(ids[victim]);
            assert!(pair.store(size(&mut rng)));
            ids[victim] = pair.next - 1;
        }
        let churned = pair.fragmentation();
        for _ in 0..18_000 {
            let victim = rng.below(ids.len() as u64) as usize;
            pair.free(ids.swap_remove(victim));
        }
        let shrunk = pair.fragmentation();
        let counts = pair.pool.counts();
        pair.check();
        eprintln!(
            "{name}: fresh {fresh:.3}, churned {churned:.3}, 2000 of 20000 left {shrunk:.3}; {} moves for 58000 frees",
            counts.moved
        );
        assert!(fresh < 0.10 && churned < 0.11, "{name}: {fresh} {churned}");
        assert!(counts.moved < 58_000, "{name}: {} moves", counts.moved);
        let waste = pair.pool.pages() as usize * PAGE_SIZE - pair.bytes();
        assert!(
            waste < pair.bytes() / 10 + SMALL_POOL_SLACK,
            "{name}: {shrunk}"
        );
    }
}

/// What half a zspage of every class may waste, in bytes: it shows in small pools only.
const SMALL_POOL_SLACK: usize = 400 << 10;
