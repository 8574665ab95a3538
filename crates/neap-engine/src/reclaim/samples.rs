//! Pages of a program from which its compression dictionary is trained, once for each space.
//!
//! Training takes tens of milliseconds, so it runs on a thread of its own at the lowest priority;
//! the store adopts the dictionary only if it wins on pages it was not trained on.

use std::collections::HashMap;
use std::sync::Arc;

use neap_store::CompressorKind;
use neap_units::{Bytes, PAGE_SIZE};

use crate::attendant::try_spawn;
use crate::job::Job;
use crate::space::Space;

/// Pages that a dictionary is trained on: 2 MiB, enough for one of 64 KiB.
const PAGES: usize = 512;
/// One stored page of this many is a sample: they should come from all over the program.
const EVERY: u64 = 8;
/// Below this limit the memory for training would be better spent on pages.
const SMALLEST_LIMIT: Bytes = Bytes(64 << 20);

/// What is being collected, by the space's cookie. An empty collection is complete.
#[derive(Default)]
pub(super) struct Samples {
    by_space: HashMap<u64, Vec<u8>>,
    seen: u64,
    wanted: bool,
}

impl Samples {
    pub fn new(job: &Job) -> Self {
        let zstd = matches!(job.options.compressor, CompressorKind::Zstd(_));
        Self {
            wanted: zstd && job.options.limit >= SMALLEST_LIMIT,
            ..Self::default()
        }
    }

    /// A page was compressed.
    pub fn note(&mut self, job: &Arc<Job>, space: &Arc<Space>, page: &[u8; PAGE_SIZE]) {
        if !self.wanted {
            return;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(EVERY) {
            return;
        }
        let pages = self
            .by_space
            .entry(space.cookie)
            .or_insert_with(|| Vec::with_capacity(1));
        if pages.capacity() == 0 {
            return; // trained already
        }
        pages.extend_from_slice(page);
        if pages.len() == PAGES * PAGE_SIZE {
            let pages = std::mem::take(pages);
            let (job, space) = (job.clone(), space.clone());
            let _ = try_spawn("neap-train", move || train(&job, &space, &pages));
        }
    }

    /// Forgets spaces that are gone.
    pub fn forget_all_but(&mut self, spaces: &[Arc<Space>]) {
        self.by_space
            .retain(|cookie, _| spaces.iter().any(|space| space.cookie == *cookie));
    }
}

fn train(job: &Job, space: &Space, pages: &[u8]) {
    neap_sys::block_signals();
    neap_sys::lower_priority();
    if !space.is_dead() {
        // A refusal means that the pages do without. If the space ends meanwhile and its number is
        // used anew, the next owner begins with a dictionary that may not suit it: slower, not wrong.
        let _ = job.store.train(space.id, pages);
    }
}
