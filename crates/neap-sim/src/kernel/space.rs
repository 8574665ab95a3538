//! Address spaces: areas, and the page tables as bitmaps and flat arrays.

use neap_units::{PageNr, Pages};

use neap_policy::{Advice, MemcgId};

use super::ids::{AreaId, FileId, ShmemId};
use super::tables::CHUNK;

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
    /// Seed of the content, for the models of compressed size: equal seeds and page
    /// numbers mean equal content. Its high eight bits choose the model.
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

/// An address space.
pub(super) struct Space {
    pub(super) memcg: MemcgId,
    /// First page, end and id of each area, in ascending order.
    pub(super) areas: Vec<(u64, u64, AreaId)>,
    /// The area found last.
    last: usize,
    /// Where the next area goes: areas are 2 MiB aligned and never adjoin.
    next: u64,
    /// Pages mapped.
    pub(super) rss: u64,
    /// Its memory was taken for want of memory; who uses it is killed at the next touch.
    pub(super) killed: bool,
}

impl Space {
    pub(super) fn new(memcg: MemcgId) -> Space {
        Space {
            memcg,
            areas: Vec::new(),
            last: 0,
            next: CHUNK,
            rss: 0,
            killed: false,
        }
    }

    /// Room for an area.
    pub(super) fn reserve(&mut self, len: Pages) -> u64 {
        let start = self.next;
        self.next = (start + len.0).next_multiple_of(CHUNK) + CHUNK;
        start
    }

    /// The area that holds a page.
    #[inline]
    pub(super) fn find(&mut self, page: PageNr) -> Option<AreaId> {
        let holds = |&(start, end, _): &(u64, u64, AreaId)| (start..end).contains(&page.0);
        if let Some(area) = self.areas.get(self.last).filter(|area| holds(area)) {
            return Some(area.2);
        }
        let at = self.areas.partition_point(|area| area.1 <= page.0);
        let area = self.areas.get(at).filter(|area| holds(area))?;
        self.last = at;
        Some(area.2)
    }
}
