//! Pages of a program of which its compression dictionary is made, once for each space, one space at a time.

use std::collections::HashSet;
use std::sync::Arc;

use neap_units::PAGE_SIZE;

use crate::space::Space;

/// Pages that a dictionary is chosen from: 256 KiB.
const PAGES: usize = 64;
/// One stored page of this many is a sample: they should come from all over the program, and a program that
/// stores less than 16 MiB would not save what a dictionary takes.
const EVERY: u64 = 64;
/// Pages stored without a sample of the space at hand, after which it is another's turn.
const PATIENCE: u64 = 64 * EVERY;

#[derive(Default)]
pub(super) struct Samples {
    /// The cookie of the space whose pages are being collected, and the pages.
    at_hand: Option<(u64, Vec<u8>)>,
    /// Spaces whose pages were taken.
    done: HashSet<u64>,
    /// Pages stored.
    seen: u64,
    /// When the last sample came, in pages stored.
    last: u64,
}

impl Samples {
    /// A page was compressed.
    pub fn note(&mut self, space: &Space, page: &[u8; PAGE_SIZE]) {
        let same_filled = page[8..] == page[..PAGE_SIZE - 8];
        if same_filled {
            return;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(EVERY) || self.done.contains(&space.cookie) {
            return;
        }
        let patient = self.seen - self.last < PATIENCE;
        let (cookie, pages) = self.at_hand.get_or_insert((space.cookie, Vec::new()));
        if *cookie != space.cookie {
            if patient {
                return;
            }
            *cookie = space.cookie;
            pages.clear();
        }
        if pages.len() < PAGES * PAGE_SIZE {
            pages.extend_from_slice(page);
        }
        self.last = self.seen;
    }

    /// A space of which there are pages enough, with these pages. Forgets spaces that are gone.
    pub fn take_ready(&mut self, spaces: &[Arc<Space>]) -> Option<(Arc<Space>, Vec<u8>)> {
        let find = |cookie| spaces.iter().find(|space| space.cookie == cookie);
        self.done.retain(|&cookie| find(cookie).is_some());
        let Some(space) = find(self.at_hand.as_ref()?.0) else {
            self.at_hand = None;
            return None;
        };
        let (cookie, pages) = self
            .at_hand
            .take_if(|(_, pages)| pages.len() == PAGES * PAGE_SIZE)?;
        self.done.insert(cookie);
        Some((space.clone(), pages))
    }
}
