//! Which pages of the arena are in use: a bitmap that finds short runs, lowest first, so that the
//! used part of the arena stays dense. A second one says which free pages are still backed by memory:
//! *idle* ones, which are used again without asking the system.

use std::ops::Range;

use neap_tuning::TUNING;

/// Longest run in pages.
pub(crate) const MAX_RUN: usize = 8;

const WORD: usize = u64::BITS as usize;

/// Pages in a row, just taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub first: usize,
    /// Some of them were idle: they may hold old bytes.
    pub dirty: bool,
    /// Pages that count as backed from now on, and are to be: those of the run, and free ones behind it, which are
    /// idle. Empty if the run was backed.
    pub back: Range<usize>,
}

#[derive(Debug)]
pub(crate) struct Runs {
    /// A set bit is a page in use. Grows with the highest page ever used.
    words: Vec<u64>,
    /// A set bit is a free page that is still backed. As long as `words`.
    idle_words: Vec<u64>,
    /// Pages of the arena.
    limit: usize,
    used: usize,
    idle: usize,
    /// For each run length, the first word that may hold such a run.
    hint: [usize; MAX_RUN + 1],
}

impl Runs {
    pub fn new(limit: usize) -> Self {
        Self {
            words: Vec::new(),
            idle_words: Vec::new(),
            limit,
            used: 0,
            idle: 0,
            hint: [0; MAX_RUN + 1],
        }
    }

    /// Pages in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Free pages that are still backed.
    pub fn idle(&self) -> usize {
        self.idle
    }

    /// Pages the bitmap covers so far.
    pub fn covered(&self) -> usize {
        self.words.len() * WORD
    }

    pub fn metadata_bytes(&self) -> usize {
        (self.words.capacity() + self.idle_words.capacity()) * size_of::<u64>()
    }

    /// Takes `len` pages in a row that do not cross a multiple of 64.
    pub fn alloc(&mut self, len: usize) -> Option<Run> {
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
                let taken = mask(bit, len);
                let idle = self.idle_words[at];
                let back = unbacked(taken, free & !idle);
                let more = bits(&back) & !taken;
                self.words[at] |= taken;
                self.idle_words[at] = idle & !taken | more;
                self.idle += more.count_ones() as usize;
                self.idle -= (idle & taken).count_ones() as usize;
                self.hint[len] = at;
                self.used += len;
                let base = at * WORD;
                return Some(Run {
                    first: base + bit,
                    dirty: idle & taken != 0,
                    back: base + back.start..base + back.end,
                });
            }
            at += 1;
            self.hint[len] = at;
        }
    }

    /// Gives a run back. It is idle from now on.
    pub fn free(&mut self, first: u32, len: usize) {
        let (at, bit) = (first as usize / WORD, first as usize % WORD);
        let mask = mask(bit, len);
        assert!(
            self.words[at] & mask == mask,
            "pool page {first} freed twice"
        );
        self.words[at] &= !mask;
        self.idle_words[at] |= mask;
        self.used -= len;
        self.idle += len;
        for hint in &mut self.hint {
            *hint = (*hint).min(at);
        }
    }

    /// Takes idle pages, the highest first, until no more than `keep` are left: ranges whose memory the
    /// caller gives back.
    pub fn take_idle(&mut self, keep: usize) -> Vec<Range<usize>> {
        let mut taken = Vec::new();
        for at in (0..self.idle_words.len()).rev() {
            if self.idle <= keep {
                break;
            }
            let mut word = std::mem::take(&mut self.idle_words[at]);
            self.idle -= word.count_ones() as usize;
            while word != 0 {
                let bit = word.trailing_zeros() as usize;
                let len = (word >> bit).trailing_ones() as usize;
                taken.push(at * WORD + bit..at * WORD + bit + len);
                word &= !mask(bit, len);
            }
        }
        taken
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
            let more = 16.max(self.words.len() / 16);
            self.words.reserve_exact(more);
            self.idle_words.reserve_exact(more);
        }
        self.words.push(word);
        self.idle_words.push(0);
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

/// Of the pages that are free and not backed those to be backed, if one of them is taken: from there on without a gap.
fn unbacked(taken: u64, bare: u64) -> Range<usize> {
    if taken & bare == 0 {
        return 0..0;
    }
    let first = (taken & bare).trailing_zeros() as usize;
    let len = (bare >> first).trailing_ones() as usize;
    first..first + len.min(TUNING.pool.backed.as_usize())
}

fn bits(range: &Range<usize>) -> u64 {
    match range.len() {
        0 => 0,
        len => mask(range.start, len),
    }
}

fn mask(bit: usize, len: usize) -> u64 {
    (u64::MAX >> (WORD - len)) << bit
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

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

    #[test]
    fn pages_are_backed_in_advance_and_once() {
        let mut runs = Runs::new(100);
        let run = |first, dirty, back| Some(Run { first, dirty, back });
        assert_eq!(
            runs.alloc(2),
            run(0, false, 0..TUNING.pool.backed.as_usize())
        );
        assert_eq!(
            (runs.used(), runs.idle()),
            (2, TUNING.pool.backed.as_usize() - 2)
        );
        assert_eq!(runs.alloc(1), run(2, true, 0..0));
        assert_eq!(
            runs.take_idle(0),
            vec![3..TUNING.pool.backed.as_usize()],
            "they may be given back"
        );
        assert_eq!(
            runs.alloc(4),
            run(3, false, 3..3 + TUNING.pool.backed.as_usize())
        );
        runs.free(0, 2);
        assert_eq!(runs.take_idle(0).len(), 2);
        assert_eq!(
            runs.alloc(1),
            run(0, false, 0..2),
            "as far as they are free"
        );
        for _ in 0..64 {
            runs.alloc(1);
        }
        assert_eq!(runs.take_idle(0).last(), Some(&(70..96)));
    }

    proptest! {
        #[test]
        fn runs_never_overlap_and_freed_pages_come_back(ops in prop::collection::vec((0usize..12, any::<u16>()), 1..400)) {
            let limit = 300;
            let mut runs = Runs::new(limit);
            let mut held: Vec<(u32, usize)> = Vec::new();
            let mut owner: HashMap<usize, usize> = HashMap::new();
            let mut idle: HashSet<usize> = HashSet::new();
            for (op, pick) in ops {
                if (1..=MAX_RUN).contains(&op) {
                    if let Some(Run { first, dirty, back }) = runs.alloc(op) {
                        let pages = first..first + op;
                        prop_assert_eq!(dirty, pages.clone().any(|page| idle.contains(&page)));
                        for page in back.clone() {
                            prop_assert!(page < limit && !owner.contains_key(&page) && idle.insert(page));
                        }
                        prop_assert!(back.is_empty() || pages.contains(&back.start) && back.len() <= TUNING.pool.backed.as_usize());
                        // Two runs of bare pages may lie in one that is taken; the second is backed when it is written.
                        pages.clone().for_each(|page| {
                            idle.remove(&page);
                        });
                        for page in pages {
                            prop_assert!(page < limit);
                            prop_assert!(owner.insert(page, op).is_none());
                        }
                        let first = first as u32;
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
                        idle.insert(page);
                    }
                }
                if op == 0 {
                    for range in runs.take_idle(usize::from(pick % 8)) {
                        range.for_each(|page| assert!(idle.remove(&page)));
                    }
                    prop_assert!(runs.idle() <= usize::from(pick % 8));
                }
                prop_assert_eq!(runs.idle(), idle.len());
                prop_assert_eq!(runs.used(), owner.len());
                for page in 0..limit {
                    prop_assert_eq!(runs.is_used(page), owner.contains_key(&page));
                }
            }
        }
    }
}
