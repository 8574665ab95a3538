//! Address spaces: areas, and the page tables as bitmaps and flat arrays.

use neap_units::{PageNr, Pages};

use super::ids::{FileId, MemcgId, ShmemId, SpaceId};

/// What an area maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AreaKind {
    /// Private anonymous memory.
    Anon,
    /// Shared anonymous memory.
    Shmem(ShmemId),
    /// A file, through its page cache.
    File(FileId),
}

/// Access hints of an area (kernel: `madvise`, and NOREUSE of its open file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Advice {
    /// None.
    #[default]
    Normal,
    /// MADV_SEQUENTIAL.
    Sequential,
    /// MADV_RANDOM.
    Random,
    /// POSIX_FADV_NOREUSE on the file.
    NoReuse,
}

/// What to map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// What is mapped.
    pub kind: AreaKind,
    /// First page of the object (0 for private memory).
    pub offset: Pages,
    /// Length.
    pub len: Pages,
    /// Access hint.
    pub advice: Advice,
    /// Order of the folios a first touch allocates, 0..=9.
    pub folio_order: u8,
    /// Executable mapping of a file: its referenced pages are kept longer (SPEC 3.2).
    pub exec: bool,
    /// Seed of the content, for the models of compressed size; equal seeds and page
    /// numbers mean equal content.
    pub content: u32,
}

impl Area {
    /// Private anonymous memory without hints.
    #[must_use]
    pub fn anon(len: Pages) -> Area {
        Area {
            kind: AreaKind::Anon,
            offset: Pages::ZERO,
            len,
            advice: Advice::Normal,
            folio_order: 0,
            exec: false,
            content: 0,
        }
    }

    /// A whole object of shared memory.
    #[must_use]
    pub fn shmem(id: ShmemId, len: Pages) -> Area {
        Area {
            kind: AreaKind::Shmem(id),
            ..Area::anon(len)
        }
    }

    /// A file from its start.
    #[must_use]
    pub fn file(id: FileId, len: Pages) -> Area {
        Area {
            kind: AreaKind::File(id),
            ..Area::anon(len)
        }
    }
}

/// One mapping of a space.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    pub(super) start: u64,
    pub(super) area: Area,
    /// Bits of 64 pages each.
    pub(super) present: Vec<u64>,
    pub(super) accessed: Vec<u64>,
    pub(super) dirty: Vec<u64>,
}

/// An address space.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) memcg: MemcgId,
    pub(super) areas: Vec<Mapped>,
    /// Where the next area goes: areas are 2 MiB aligned and never adjoin.
    pub(super) next: u64,
}

impl Space {
    pub(super) fn new(memcg: MemcgId) -> Space {
        Space {
            memcg,
            areas: Vec::new(),
            next: 512,
        }
    }

    pub(super) fn map(&mut self, area: Area) -> PageNr {
        let start = self.next;
        self.next = (start + area.len.0).next_multiple_of(512) + 512;
        let words = area.len.0.div_ceil(64) as usize;
        self.areas.push(Mapped {
            start,
            area,
            present: vec![0; words],
            accessed: vec![0; words],
            dirty: vec![0; words],
        });
        PageNr(start)
    }

    /// The area that holds a page. Areas lie in ascending order.
    pub(super) fn find(&mut self, page: PageNr) -> Option<&mut Mapped> {
        let at = self.areas.partition_point(|m| m.start <= page.0);
        let mapped = self.areas.get_mut(at.checked_sub(1)?)?;
        (page.0 - mapped.start < mapped.area.len.0).then_some(mapped)
    }
}

/// Names the space in messages about misuse.
pub(super) fn outside(space: SpaceId, page: PageNr) -> String {
    format!("{page} of space {} is not mapped", space.0)
}
