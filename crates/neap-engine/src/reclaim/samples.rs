//! Pages of a program of which its compression dictionary is made, once for each space, one space at a time.

use std::collections::HashSet;
use std::sync::Arc;

use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

use crate::space::Space;

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
        if !self.seen.is_multiple_of(TUNING.dictionaries.sample_every)
            || self.done.contains(&space.cookie)
        {
            return;
        }
        let patient = self.seen - self.last < TUNING.dictionaries.stored_before().0;
        let (cookie, pages) = self.at_hand.get_or_insert((space.cookie, Vec::new()));
        if *cookie != space.cookie {
            if patient {
                return;
            }
            *cookie = space.cookie;
            pages.clear();
        }
        if pages.len() < TUNING.dictionaries.samples().bytes().as_usize() {
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
        let (cookie, pages) = self.at_hand.take_if(|(_, pages)| {
            pages.len() == TUNING.dictionaries.samples().bytes().as_usize()
        })?;
        self.done.insert(cookie);
        Some((space.clone(), pages))
    }
}
