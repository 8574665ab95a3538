//! Pages of a program of which its compression dictionary is made, once for each space.

use std::collections::HashMap;
use std::sync::Arc;

use neap_units::PAGE_SIZE;

use crate::space::Space;

/// Pages that a dictionary is chosen from: 256 KiB.
const PAGES: usize = 64;
/// One stored page of this many is a sample: they should come from all over the program.
const EVERY: u64 = 32;

/// The samples of one space.
enum Collection {
    Growing(Vec<u8>),
    /// They were taken.
    Done,
}

/// What is being collected, by the space's cookie.
#[derive(Default)]
pub(super) struct Samples {
    by_space: HashMap<u64, Collection>,
    seen: u64,
}

impl Samples {
    /// A page was compressed.
    pub fn note(&mut self, space: &Space, page: &[u8; PAGE_SIZE]) {
        let same_filled = page[8..] == page[..PAGE_SIZE - 8];
        if same_filled {
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

    /// The spaces of which there are pages enough, with these pages. Forgets spaces that are gone.
    pub fn take_ready(&mut self, spaces: &[Arc<Space>]) -> Vec<(Arc<Space>, Vec<u8>)> {
        let mut ready = Vec::new();
        self.by_space.retain(|&cookie, collection| {
            let Some(space) = spaces.iter().find(|space| space.cookie == cookie) else {
                return false;
            };
            if let Collection::Growing(pages) = collection
                && pages.len() == PAGES * PAGE_SIZE
            {
                ready.push((space.clone(), std::mem::take(pages)));
                *collection = Collection::Done;
            }
            true
        });
        ready
    }
}
