//! The mappings of an address space: they split, and join where nothing tells them apart.

use std::collections::BTreeMap;
use std::ops::Range;

use neap_sys::Mode;

/// What may be done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prot {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
}

impl Prot {
    /// Reading and writing.
    pub const RW: Self = Self {
        read: true,
        write: true,
    };
    /// Reading alone.
    pub const R: Self = Self {
        read: true,
        write: false,
    };
    /// Nothing.
    pub const NONE: Self = Self {
        read: false,
        write: false,
    };
}

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub end: u64,
    pub prot: Prot,
    /// Registered with the userfaultfd.
    pub mode: Option<Mode>,
    pub locked: bool,
    /// A forked child has it not (MADV_DONTFORK).
    pub kept: bool,
    /// A forked child has it empty (MADV_WIPEONFORK).
    pub wiped: bool,
    /// Where its first page would lie if it had never moved.
    pub origin: u64,
}

impl Area {
    pub fn traps_absent(&self) -> bool {
        matches!(self.mode, Some(Mode::Missing | Mode::MissingAndWp))
    }

    pub fn traps_writes(&self) -> bool {
        matches!(self.mode, Some(Mode::Wp | Mode::MissingAndWp))
    }

    /// Whether nothing but their borders tells them apart, of one at `start` and `next`, which begins where it ends.
    fn joins(&self, start: u64, next: &Self) -> bool {
        let shift = self.end - start;
        let same = Self {
            end: next.end,
            origin: next.origin,
            ..self.clone()
        };
        self.origin.wrapping_add(shift) == next.origin && same == *next
    }
}

/// All mappings, by start. Addresses in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas(pub BTreeMap<u64, Area>);

impl Areas {
    /// The mapping that has this address.
    pub fn at(&self, address: u64) -> Option<(u64, &Area)> {
        let (&start, area) = self.0.range(..=address).next_back()?;
        (address < area.end).then_some((start, area))
    }

    /// Those that have memory in `range`, each whole.
    pub fn within(&self, range: &Range<u64>) -> Vec<(u64, Area)> {
        let first = self.at(range.start).map_or(range.start, |(start, _)| start);
        self.0
            .range(first..range.end)
            .map(|(&start, area)| (start, area.clone()))
            .collect()
    }

    /// Whether all of `range` is mapped.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            match self.at(at) {
                Some((_, area)) => at = area.end,
                None => return false,
            }
        }
        true
    }

    /// Whether one mapping has all of `range`.
    pub fn whole(&self, range: &Range<u64>) -> Option<&Area> {
        let (_, area) = self.at(range.start)?;
        (range.end <= area.end).then_some(area)
    }

    fn split(&mut self, at: u64) {
        let Some((start, area)) = self.at(at) else {
            return;
        };
        if start == at {
            return;
        }
        let mut rest = area.clone();
        rest.origin = rest.origin.wrapping_add(at - start);
        if let Some(area) = self.0.get_mut(&start) {
            area.end = at;
        }
        self.0.insert(at, rest);
    }

    /// Takes the mappings of `range` out, split at its ends.
    pub fn take(&mut self, range: &Range<u64>) -> Vec<(u64, Area)> {
        self.split(range.start);
        self.split(range.end);
        let taken: Vec<u64> = self
            .0
            .range(range.clone())
            .map(|(&start, _)| start)
            .collect();
        taken
            .into_iter()
            .filter_map(|start| Some((start, self.0.remove(&start)?)))
            .collect()
    }

    /// Puts a mapping where none is.
    pub fn put(&mut self, start: u64, area: Area) {
        let end = area.end;
        self.0.insert(start, area);
        self.join(end);
        self.join(start);
    }

    /// Changes what is mapped in `range`.
    pub fn change(&mut self, range: &Range<u64>, change: impl Fn(&mut Area)) {
        for (start, mut area) in self.take(range) {
            change(&mut area);
            self.put(start, area);
        }
    }

    /// Joins the two mappings that meet at `border`, if nothing else tells them apart.
    fn join(&mut self, border: u64) {
        let Some(next) = self.0.get(&border).cloned() else {
            return;
        };
        let before = self.0.range_mut(..border).next_back();
        if let Some((&start, area)) = before
            && area.end == border
            && area.joins(start, &next)
        {
            area.end = next.end;
            self.0.remove(&border);
        }
    }
}
