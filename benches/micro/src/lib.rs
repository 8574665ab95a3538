//! What the micro benchmarks share: the pages of the suite, as bytes, and a store to put them into.
#![forbid(unsafe_code)]

use neap_store::{CompressorKind, Config, HashKey, NoFile, Page, Store, VecArena};
use neap_suite::work::{Content, page};
use neap_units::Pages;

/// Pages that a benchmark goes through by turns: more than a processor's second cache holds.
pub const PAGES: usize = 2048;

/// The first pages of the suite's workloads.
#[must_use]
pub fn pages(content: Content, count: usize) -> Vec<Box<Page>> {
    let bytes = |number: usize| {
        let mut bytes = Box::new([0; 4096]);
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (to, word) in words.iter_mut().zip(page(content, number)) {
            *to = word.to_le_bytes();
        }
        bytes
    };
    (0..count).map(bytes).collect()
}

/// A store with a pool large enough for all, and no swap file.
#[must_use]
pub fn store(compressor: CompressorKind) -> Store {
    let config = Config {
        compressor,
        pool_max: Pages(2 * PAGES as u64),
        ..Config::default()
    };
    let arena = VecArena::new(4 * PAGES * 4096);
    let key = HashKey::new(&std::array::from_fn(|at| (at * at / 5 % 251) as u8));
    Store::new(config, Box::new(arena), Box::new(NoFile), key)
}
