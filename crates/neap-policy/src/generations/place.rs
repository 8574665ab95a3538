//! Where a page goes that is put on a list.

use super::{MIN_NR_GENS, Window};
use crate::folio::Kind;
use crate::switches::{Lru, MemcgWalk, Switches};

/// The rule for the generation of a page that is put on a list (SPEC 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Insertion {
    /// Active pages to the youngest, cold ones to the oldest, or the next if they cannot
    /// leave at once (6.3).
    V63,
    /// Active pages to the youngest, those that cannot leave at once to the second
    /// youngest, and other cold ones to the oldest only while no generation lies between
    /// (6.7).
    ///
    /// The rule of `neap run`: its pages cannot leave at once. Since 6.14 the kernel puts
    /// a page that was faulted in among the second youngest and waits for the second
    /// sighting of its accessed bit. In user space there is none to be seen: the fault,
    /// or the touch while the page was staged, is the sighting.
    V67,
    /// As a distance from the youngest, which only the working set joins at once (6.14).
    V614,
}

impl Insertion {
    /// The rule of a kernel. The third slot of the memcg LRU came with that of 6.7.
    pub(crate) fn of(switches: &Switches) -> Insertion {
        match (switches.lru, switches.memcg_walk) {
            (Lru::Mglru614, _) => Insertion::V614,
            (_, MemcgWalk::MemcgLru63) => Insertion::V63,
            _ => Insertion::V67,
        }
    }
}

/// What is known of a page that is put on a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// It was asked for, or is known to be in use.
    pub(crate) active: bool,
    /// It bears the mark of the working set.
    pub(crate) workingset: bool,
    /// It goes to the reclaim end.
    pub(crate) tail: bool,
    /// It cannot leave at once: anonymous memory that would first have to be stored, or
    /// waiting to be written.
    pub(crate) stays: bool,
}

impl<const KINDS: usize> Window<KINDS> {
    /// Generation of a page that is put on a list.
    #[inline]
    pub(crate) fn place(&self, kind: Kind, rule: Insertion, page: Arrival) -> u64 {
        let (min, max) = (self.min_seq(kind), self.max_seq());
        match rule {
            Insertion::V614 => {
                let workingset = u64::from(page.workingset);
                let distance = if page.active {
                    2 - workingset
                } else if page.tail {
                    4
                } else if page.stays {
                    2
                } else {
                    4 - workingset
                };
                (max + 1 - distance).max(min)
            }
            _ if page.active => max,
            Insertion::V67 => match () {
                () if page.stays => max - 1,
                () if page.tail || min + MIN_NR_GENS >= max => min,
                () => min + 1,
            },
            Insertion::V63 if page.stays => min + 1,
            Insertion::V63 => min,
        }
    }
}
