//! Leaf number to leaf, for one space.
//!
//! A sorted list of directories, each an array of 512 leaves (128 MiB of addresses).
//! A process touches few directories, most faults fall in the one of the fault before,
//! and that one is found without a search. Walking a range in ascending order is
//! walking arrays. A plain ordered map of leaves was five dependent cache misses for
//! each fault in a space of 25 GiB.

use std::cell::Cell;
use std::ops::Range;

use crate::list::NONE;

/// Leaves in a directory.
const SPAN: usize = 512;

struct Directory {
    leaves: Box<[u32; SPAN]>,
    used: u16,
}

/// The leaves of one space.
#[derive(Default)]
pub(crate) struct Index {
    /// Directory numbers (leaf number / 512), ascending.
    keys: Vec<u64>,
    directories: Vec<Directory>,
    /// Position of the directory found last.
    last: Cell<usize>,
}

/// Position of a directory, and the place in it.
#[inline]
fn split(number: u64) -> (u64, usize) {
    (number / SPAN as u64, (number % SPAN as u64) as usize)
}

impl Index {
    /// Position of a directory, or where it would be inserted.
    #[inline]
    fn position(&self, key: u64) -> Result<usize, usize> {
        let last = self.last.get();
        if self.keys.get(last) == Some(&key) {
            return Ok(last);
        }
        let found = self.keys.binary_search(&key);
        if let Ok(at) = found {
            self.last.set(at);
        }
        found
    }

    /// The leaf with this number.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<u32> {
        let (key, at) = split(number);
        let position = self.position(key).ok()?;
        let leaf = self.directories[position].leaves[at];
        (leaf != NONE).then_some(leaf)
    }

    /// Adds a leaf whose number is not yet there.
    pub(crate) fn insert(&mut self, number: u64, leaf: u32) {
        let (key, at) = split(number);
        let position = self.position(key).unwrap_or_else(|position| {
            self.keys.insert(position, key);
            let leaves = Box::new([NONE; SPAN]);
            self.directories
                .insert(position, Directory { leaves, used: 0 });
            position
        });
        let directory = &mut self.directories[position];
        debug_assert_eq!(directory.leaves[at], NONE);
        directory.leaves[at] = leaf;
        directory.used += 1;
    }

    /// Removes a leaf that is there.
    pub(crate) fn remove(&mut self, number: u64) {
        let (key, at) = split(number);
        let Ok(position) = self.position(key) else {
            debug_assert!(false, "leaf {number:#x} is not in the index");
            return;
        };
        let directory = &mut self.directories[position];
        debug_assert_ne!(directory.leaves[at], NONE);
        directory.leaves[at] = NONE;
        directory.used -= 1;
        if directory.used == 0 {
            self.keys.remove(position);
            self.directories.remove(position);
        }
    }

    /// Leaves with a number in the range, ascending.
    pub(crate) fn range(&self, numbers: Range<u64>) -> impl Iterator<Item = (u64, u32)> + '_ {
        let first = self
            .keys
            .partition_point(|&key| key < split(numbers.start).0);
        let Range { start, end } = numbers;
        self.keys[first..]
            .iter()
            .zip(&self.directories[first..])
            .take_while(move |(key, _)| **key * (SPAN as u64) < end)
            .flat_map(move |(key, directory)| {
                let base = key * SPAN as u64;
                let from = (start.max(base) - base) as usize;
                let to = (end.min(base + SPAN as u64) - base) as usize;
                let leaves = directory.leaves[from..to.max(from)].iter().enumerate();
                leaves.map(move |(i, &leaf)| (base + (from + i) as u64, leaf))
            })
            .filter(|&(_, leaf)| leaf != NONE)
    }

    /// All leaves, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.range(0..u64::MAX)
    }

    pub(crate) fn metadata_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<u64>()
            + self.directories.capacity() * size_of::<Directory>()
            + self.directories.len() * size_of::<[u32; SPAN]>()
    }

    /// Panics unless the directories are sorted and count their leaves.
    pub(crate) fn check(&self) {
        assert_eq!(self.keys.len(), self.directories.len());
        assert!(
            self.keys.is_sorted_by(|a, b| a < b),
            "directories out of order"
        );
        for (key, directory) in self.keys.iter().zip(&self.directories) {
            let used = directory
                .leaves
                .iter()
                .filter(|&&leaf| leaf != NONE)
                .count();
            assert_eq!(
                used,
                usize::from(directory.used),
                "leaves of directory {key:#x}"
            );
            assert!(used > 0, "directory {key:#x} is empty");
        }
    }
}
