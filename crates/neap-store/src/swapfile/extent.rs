//! Extents: which parts of the swap file hold live records.
//!
//! A write-back appends its batch to the *open* extent, whole blocks at a time, and opens another
//! when the batch does not fit. An extent is reused when its last record has died. Nothing is kept
//! for each record: its entry knows where it is, and the extent only counts.

use std::ops::Range;

use neap_tuning::TUNING;

use super::{BLOCK, Location};

/// Length of an extent in bytes: long enough that a disk is busy with it for longer than it takes
/// to seek, short enough that one live record does not hold much.
pub(crate) const EXTENT: usize = TUNING.swap.extent.as_usize();

#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// Live records, and batches and reads under way.
    live: u32,
    /// Bytes of live records.
    bytes: u32,
    /// Changes with each use, so that stale records are known.
    generation: u32,
    /// Nothing in it, and it may be used.
    free: bool,
    /// It could not be emptied, and none of its records has died since.
    stuck: bool,
}

/// Part of an extent that a batch is about to be written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    /// Where it starts in the file, a whole block.
    pub start: u64,
    /// Generation of the extent.
    pub generation: u32,
}

/// All extents of a swap file.
#[derive(Debug)]
pub(crate) struct Extents {
    list: Vec<Extent>,
    /// Most extents the file may have.
    limit: usize,
    /// Dead extents with disk space, and those punched or never written again.
    kept: Vec<u32>,
    punched: Vec<u32>,
    /// Extent being filled, and bytes of it given out.
    open: Option<(u32, usize)>,
    bytes: u64,
}

impl Extents {
    /// A file of at most `size` bytes.
    pub fn new(size: u64) -> Self {
        let addressable = Location(u32::MAX).byte();
        Self {
            list: Vec::new(),
            limit: (size.min(addressable) / EXTENT as u64) as usize,
            kept: Vec::new(),
            punched: Vec::new(),
            open: None,
            bytes: 0,
        }
    }

    /// Bytes of live records.
    pub fn used_bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that all extents together could take.
    pub fn most_bytes(&self) -> u64 {
        self.limit as u64 * EXTENT as u64
    }

    /// Bytes of the extents that are not free.
    pub fn file_bytes(&self) -> u64 {
        ((self.list.len() - self.kept.len() - self.punched.len()) * EXTENT) as u64
    }

    pub fn metadata_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Extent>()
            + (self.kept.capacity() + self.punched.capacity()) * size_of::<u32>()
    }

    /// Longest batch in bytes that could be placed now, with `spare` extents left over: what is
    /// left of the open extent unless that is little, so that extents are filled.
    pub fn room(&self, spare: usize) -> usize {
        let left = self.open.map_or(0, |(_, used)| EXTENT - used);
        if left < TUNING.swap.little.of(EXTENT as u64) as usize && self.free_extents() > spare {
            EXTENT
        } else {
            left
        }
    }

    /// Extents that could be opened.
    pub fn free_extents(&self) -> usize {
        self.kept.len() + self.punched.len() + (self.limit - self.list.len().min(self.limit))
    }

    /// Takes `len` bytes (whole blocks, at most an extent) for a batch. The region must be given to
    /// [`Extents::finish`] when the batch is written or has failed.
    pub fn reserve(&mut self, len: usize) -> Option<Region> {
        debug_assert!(len.is_multiple_of(BLOCK) && len <= EXTENT);
        let (index, used) = match self.open.filter(|(_, used)| used + len <= EXTENT) {
            Some(open) => open,
            None => (self.open_another()?, 0),
        };
        self.open = Some((index, used + len));
        let extent = &mut self.list[index as usize];
        extent.live += 1;
        Some(Region {
            start: start_of(index) + used as u64,
            generation: extent.generation,
        })
    }

    fn open_another(&mut self) -> Option<u32> {
        let next = match self.kept.pop().or_else(|| self.punched.pop()) {
            Some(index) => index,
            None if self.list.len() < self.limit => {
                self.list.push(Extent::default());
                (self.list.len() - 1) as u32
            }
            None => return None,
        };
        let extent = &mut self.list[next as usize];
        extent.generation = extent.generation.wrapping_add(1);
        extent.free = false;
        extent.stuck = false;
        if let Some((closed, _)) = self.open.take() {
            self.free_if_dead(closed);
        }
        Some(next)
    }

    /// Keeps the extent of `location` from being reused while a record of it is read.
    pub fn hold(&mut self, location: Location) {
        self.list[index_of(location.byte()) as usize].live += 1;
    }

    /// Ends [`Extents::hold`].
    pub fn unhold(&mut self, location: Location) {
        let index = index_of(location.byte());
        self.list[index as usize].live -= 1;
        self.free_if_dead(index);
    }

    /// The batch of `region` is written, or has failed: its records are counted one by one.
    pub fn finish(&mut self, region: Region) {
        let index = index_of(region.start);
        self.list[index as usize].live -= 1;
        self.free_if_dead(index);
    }

    /// A record of `room` bytes is live at `location`.
    pub fn add(&mut self, location: Location, room: usize) {
        let extent = &mut self.list[index_of(location.byte()) as usize];
        extent.live += 1;
        extent.bytes += room as u32;
        self.bytes += room as u64;
    }

    /// The record of `room` bytes at `location` is dead.
    pub fn release(&mut self, location: Location, room: usize) {
        let index = index_of(location.byte());
        let extent = &mut self.list[index as usize];
        extent.live -= 1;
        extent.bytes -= room as u32;
        extent.stuck = false;
        self.bytes -= room as u64;
        self.free_if_dead(index);
    }

    /// Generation of the extent that holds `location`.
    pub fn generation(&self, location: Location) -> u32 {
        self.list[index_of(location.byte()) as usize].generation
    }

    fn free_if_dead(&mut self, index: u32) {
        let open = self.open.is_some_and(|(open, _)| open == index);
        let extent = &mut self.list[index as usize];
        if extent.live == 0 && !open && !extent.free {
            extent.free = true;
            self.kept.push(index);
        }
    }

    /// Takes a dead extent whose disk space should be given back, with its range of bytes; it is
    /// not used again until [`Extents::punched`].
    pub fn take_to_punch(&mut self) -> Option<Range<u64>> {
        if self.kept.len() <= TUNING.swap.kept {
            return None;
        }
        let index = self.kept.swap_remove(0);
        Some(start_of(index)..start_of(index + 1))
    }

    /// The range taken last has been punched, or could not be: it may be used again.
    pub fn punched(&mut self, range: Range<u64>) {
        self.punched.push(index_of(range.start));
    }

    /// The extent at this range could not be emptied: it is not chosen again until one of its records dies.
    pub fn leave(&mut self, range: &Range<u64>) {
        self.list[index_of(range.start) as usize].stuck = true;
    }

    /// The extent with the fewest live bytes, if they are less than half of it: its range of bytes.
    pub fn sparsest(&self) -> Option<Range<u64>> {
        let open = self.open.map(|(index, _)| index);
        (0..self.list.len() as u32)
            .filter(|&i| Some(i) != open && !self.list[i as usize].free)
            .filter(|&i| (self.list[i as usize].bytes as usize) < EXTENT / 2)
            .filter(|&i| self.list[i as usize].live > 0 && !self.list[i as usize].stuck)
            .min_by_key(|&i| self.list[i as usize].bytes)
            .map(|i| start_of(i)..start_of(i + 1))
    }

    /// Panics unless the counts are those of the `records`, given as location and room, and no
    /// batch or read is under way.
    pub fn check(&self, records: impl Iterator<Item = (Location, usize)>) {
        let mut live = vec![(0, 0); self.list.len()];
        for (location, room) in records {
            let count = &mut live[index_of(location.byte()) as usize];
            *count = (count.0 + 1, count.1 + room as u32);
        }
        let mut bytes = 0;
        for (index, extent) in self.list.iter().enumerate() {
            assert_eq!(
                (extent.live, extent.bytes),
                live[index],
                "live records of extent {index}"
            );
            let listed =
                self.kept.contains(&(index as u32)) || self.punched.contains(&(index as u32));
            assert_eq!(extent.free, listed, "extent {index}");
            assert!(
                !extent.free || extent.live == 0,
                "extent {index} is free and live"
            );
            bytes += u64::from(extent.bytes);
        }
        assert_eq!(bytes, self.bytes, "bytes of live records");
    }
}

fn index_of(byte: u64) -> u32 {
    (byte / EXTENT as u64) as u32
}

fn start_of(index: u32) -> u64 {
    u64::from(index) * EXTENT as u64
}
