//! Which pages of the arena are in use: a bitmap that finds short runs, lowest first, so that the
//! used part of the arena stays dense.

/// Longest run in pages.
pub(crate) const MAX_RUN: usize = 8;

const WORD: usize = u64::BITS as usize;

#[derive(Debug)]
pub(crate) struct Runs {
    /// A set bit is a page in use. Grows with the highest page ever used.
    words: Vec<u64>,
    /// Pages of the arena.
    limit: usize,
    used: usize,
    /// For each run length, the first word that may hold such a run.
    hint: [usize; MAX_RUN + 1],
}

impl Runs {
    pub fn new(limit: usize) -> Self {
        Self {
            words: Vec::new(),
            limit,
            used: 0,
            hint: [0; MAX_RUN + 1],
        }
    }

    /// Pages in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Pages the bitmap covers so far.
    pub fn covered(&self) -> usize {
        self.words.len() * WORD
    }

    pub fn metadata_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Takes `len` pages in a row that do not cross a multiple of 64; returns the first.
    pub fn alloc(&mut self, len: usize) -> Option<u32> {
        debug_assert!((1..=MAX_RUN).contains(&len));
        let mut at = self.hint[len];
        loop {
            if at == self.words.len() {
                self.grow()?;
            }
            let free = !self.words[at];
            let starts = (1..len).fold(free, |starts, i| starts & (free >> i));
            if starts != 0 {
                let bit = starts.trailing_zeros() as usize;
                self.words[at] |= mask(bit, len);
                self.hint[len] = at;
                self.used += len;
                return Some((at * WORD + bit) as u32);
            }
            at += 1;
            self.hint[len] = at;
        }
    }

    /// Gives a run back.
    pub fn free(&mut self, first: u32, len: usize) {
        let (at, bit) = (first as usize / WORD, first as usize % WORD);
        let mask = mask(bit, len);
        assert!(
            self.words[at] & mask == mask,
            "pool page {first} freed twice"
        );
        self.words[at] &= !mask;
        self.used -= len;
        for hint in &mut self.hint {
            *hint = (*hint).min(at);
        }
    }

    fn grow(&mut self) -> Option<()> {
        let start = self.covered();
        if start >= self.limit {
            return None;
        }
        let len = self.limit - start;
        // Pages past the end of the arena count as taken.
        let word = if len < WORD { !mask(0, len) } else { 0 };
        if self.words.len() == self.words.capacity() {
            self.words.reserve_exact(16.max(self.words.len() / 16));
        }
        self.words.push(word);
        Some(())
    }

    pub fn is_used(&self, page: usize) -> bool {
        page < self.limit
            && self
                .words
                .get(page / WORD)
                .is_some_and(|word| word >> (page % WORD) & 1 == 1)
    }
}

fn mask(bit: usize, len: usize) -> u64 {
    ((1u64 << len) - 1) << bit
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_pages_of_an_odd_arena_are_usable_and_no_more() {
        let mut runs = Runs::new(70);
        let mut pages = 0;
        while runs.alloc(1).is_some() {
            pages += 1;
        }
        assert_eq!((pages, runs.used()), (70, 70));
    }

    proptest! {
        #[test]
        fn runs_never_overlap_and_freed_pages_come_back(ops in prop::collection::vec((0usize..12, any::<u16>()), 1..400)) {
            let limit = 300;
            let mut runs = Runs::new(limit);
            let mut held: Vec<(u32, usize)> = Vec::new();
            let mut owner: HashMap<usize, usize> = HashMap::new();
            for (op, pick) in ops {
                if (1..=MAX_RUN).contains(&op) {
                    if let Some(first) = runs.alloc(op) {
                        for page in first as usize..first as usize + op {
                            prop_assert!(page < limit);
                            prop_assert!(owner.insert(page, op).is_none());
                        }
                        held.push((first, op));
                    } else {
                        let free_run = (0..limit.saturating_sub(op)).any(|start| {
                            start / WORD == (start + op - 1) / WORD
                                && (start..start + op).all(|p| !owner.contains_key(&p))
                        });
                        prop_assert!(!free_run);
                    }
                } else if !held.is_empty() {
                    let (first, len) = held.swap_remove(usize::from(pick) % held.len());
                    runs.free(first, len);
                    for page in first as usize..first as usize + len {
                        owner.remove(&page);
                    }
                }
                prop_assert_eq!(runs.used(), owner.len());
                for page in 0..limit {
                    prop_assert_eq!(runs.is_used(page), owner.contains_key(&page));
                }
            }
        }
    }
}
