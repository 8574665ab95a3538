//! What the kernel says of the process's own mappings.

use crate::sys::{self, Fd};

/// `_IOWR('f', 17, struct procmap_query)`, Linux 6.11.
const PROCMAP_QUERY: usize = 0xc068_6611;
/// The mapping at the address, or else the next.
const OR_NEXT: u64 = 0x10;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

/// struct procmap_query.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: u64,
    sizes: u64,
    addresses: [u64; 2],
}

/// What a range is to the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Part of one mapping, or one.
    Whole,
    /// Several that could be one; where the last of them begins.
    Pieces { last: usize },
    /// Neither: something else, or with holes.
    Neither,
    /// Nobody can be asked. Before Linux 6.11 the kernel does not tell, nor does it move more than one mapping.
    Old,
    /// Nobody can be asked, for want of a descriptor or of /proc.
    Unasked,
}

/// Open once, so that no question fails for want of a descriptor.
pub struct Mappings(Fd);

impl Mappings {
    pub fn open() -> Option<Self> {
        sys::open(b"/proc/self/maps\0", 0).map(Self)
    }

    /// Whether the range is several mappings without holes: private writable memory, unless it may be `any`.
    pub fn shape(&self, from: usize, end: usize, any: bool) -> Shape {
        let mut at = from;
        loop {
            let here = match self.at(at) {
                Ok(here) => here,
                Err(errno) if errno == -sys::ENOTTY => return Shape::Old,
                Err(_) => return Shape::Neither,
            };
            let kind = here.vma_flags & (READABLE | WRITABLE | EXECUTABLE | SHARED);
            let memory = here.inode == 0 && kind == READABLE | WRITABLE;
            if here.end as usize >= end && at == from {
                return Shape::Whole;
            }
            if !any && !memory {
                return Shape::Neither;
            }
            if here.end as usize >= end {
                return Shape::Pieces { last: at };
            }
            at = here.end as usize;
        }
    }

    /// How many bytes of the mapping at an address are from there on.
    pub fn reach(&self, at: usize) -> Option<usize> {
        self.at(at).ok().map(|here| here.end as usize - at)
    }

    /// Where the mapping at an address begins.
    pub fn begin(&self, at: usize) -> Option<usize> {
        self.at(at).ok().map(|here| here.start as usize)
    }

    /// From which address on, not before this one, something is mapped.
    pub fn next(&self, at: usize) -> Option<usize> {
        let next = self.ask(at, OR_NEXT).ok();
        next.map(|next| (next.start as usize).max(at))
    }

    fn at(&self, at: usize) -> Result<Query, i64> {
        self.ask(at, 0)
    }

    fn ask(&self, at: usize, flags: u64) -> Result<Query, i64> {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags,
            address: at as u64,
            ..Query::default()
        };
        let address = (&raw mut query) as usize;
        let result = sys::ioctl(self.0, PROCMAP_QUERY, address);
        // SAFETY: the kernel wrote through the address, so it is read anew.
        let query = unsafe { (&raw const query).read_volatile() };
        if result < 0 { Err(result) } else { Ok(query) }
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

const _: () = assert!(size_of::<Query>() == 104);
