//! Pages of a program of which its compression dictionary is made, once for each space.

use std::collections::HashMap;
use std::sync::Arc;

use neap_store::CompressorKind;
use neap_units::{Bytes, PAGE_SIZE};

use crate::job::Job;
use crate::space::Space;

/// Pages that a dictionary is chosen from: 256 KiB.
const PAGES: usize = 64;
/// One stored page of this many is a sample: they should come from all over the program.
const EVERY: u64 = 32;
/// Below this limit the 130 KiB that a dictionary takes would be better spent on pages.
const SMALLEST_LIMIT: Bytes = Bytes(16 << 20);

/// The samples of one space.
enum Collection {
    Growing(Vec<u8>),
    /// Its dictionary was made, or found not worth it.
    Done,
}

/// What is being collected, by the space's cookie.
#[derive(Default)]
pub(super) struct Samples {
    by_space: HashMap<u64, Collection>,
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
    pub fn note(&mut self, space: &Space, page: &[u8; PAGE_SIZE]) {
        let same_filled = page[8..] == page[..PAGE_SIZE - 8];
        if !self.wanted || same_filled {
            return;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(EVERY) {
            return;
        }
        let new = || Collection::Growing(Vec::new());
        let collection = self.by_space.entry(space.cookie).or_insert_with(new);
        if let Collection::Growing(pages) = collection
            && pages.len() < PAGES * PAGE_SIZE
        {
            pages.extend_from_slice(page);
        }
    }

    /// Makes the dictionaries for which there are pages enough, and forgets spaces that are gone.
    pub fn use_up(&mut self, job: &Job, spaces: &[Arc<Space>]) {
        let by_cookie = |cookie| spaces.iter().find(|space| space.cookie == cookie);
        self.by_space.retain(|&cookie, collection| {
            let Some(space) = by_cookie(cookie) else {
                return false;
            };
            if let Collection::Growing(pages) = collection
                && pages.len() == PAGES * PAGE_SIZE
            {
                if !space.is_dead() {
                    // A refusal means that the pages do without. If the space ends meanwhile and its
                    // number is used anew, the next owner begins with a dictionary that may not suit
                    // it: slower, not wrong.
                    let _ = job.store.train(space.id, pages);
                }
                *collection = Collection::Done;
            }
            true
        });
    }
}
