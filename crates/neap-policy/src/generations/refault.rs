//! What the return of a page says (SPEC 3.2, 3.9; kernel: mm/workingset.c).

use crate::folio::{Kind, list_of};

/// Evictions and activations so far. A page that leaves keeps a stamp of it, as many of
/// its low bits as there is room for; one that is away for longer than they count can
/// look recent once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct NonresidentAge(u64);

impl NonresidentAge {
    #[inline]
    pub(crate) fn advance(&mut self, pages: u64) {
        self.0 = self.0.wrapping_add(pages);
    }

    /// What a page that leaves now keeps.
    #[inline]
    pub(crate) fn stamp(self, bits: u32) -> u64 {
        self.0 & (u64::MAX >> (u64::BITS - bits))
    }

    /// How much was evicted and activated since a stamp of so many bits.
    #[inline]
    pub(crate) fn distance(self, stamp: u64, bits: u32) -> u64 {
        self.0.wrapping_sub(stamp) & (u64::MAX >> (u64::BITS - bits))
    }
}

/// Pages that a page of this kind competed with, by [`list_of`]: its refault is recent if
/// the distance is at most this, for it could have stayed in their place. Anonymous lists
/// count only where swap has room.
///
/// In `neap run` these are all that are in generations. Those on probation count as the
/// inactive anonymous pages do here, not at all: they would have left before it.
#[inline]
pub(crate) fn competing(kind: Kind, sizes: &[u64; 4], swap: bool) -> u64 {
    let size = |kind, active| sizes[list_of(kind, active)];
    let mut pages = size(Kind::File, true);
    if kind == Kind::Anon {
        pages += size(Kind::File, false);
    }
    if swap {
        pages += size(Kind::Anon, true);
        if kind == Kind::File {
            pages += size(Kind::Anon, false);
        }
    }
    pages
}

/// What a refault does to the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refault {
    /// It becomes active: counted as workingset_activate.
    pub(crate) activated: bool,
    /// It is of the working set again: counted as workingset_restore.
    pub(crate) restored: bool,
}

impl Refault {
    /// `demanded`: it was asked for, not brought by readahead; the classic lists do not
    /// tell the two apart. `workingset`: it left with the mark.
    ///
    /// In `neap run` an activated page gets the mark, too: the kernel gives it later, when
    /// it sees the page accessed again or takes it off the active list, and neither is
    /// seen there. And a page that is not activated arrives as a cold one, though it was
    /// asked for: the kernel's generations take it as active, and find out by its accessed
    /// bit that it is cold.
    #[inline]
    pub(crate) fn judge(recent: bool, demanded: bool, workingset: bool) -> Refault {
        Refault {
            activated: recent && demanded,
            restored: recent && workingset,
        }
    }

    /// What a recent one does with the generations of before 6.14: a fault is of the working set whatever left
    /// (kernel: lru_gen_refault). `refs`: accesses of the folio when it left, of which `most` are all that count.
    pub(crate) fn judge_before_6_14(demanded: bool, refs: u32, most: u32) -> Refault {
        Refault {
            activated: true,
            restored: demanded || refs >= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_right_across_the_wrap_of_the_stamp() {
        let mut age = NonresidentAge(u64::from(u32::MAX) - 1);
        let stamp = age.stamp(32);
        age.advance(3);
        assert_eq!(age.stamp(32), 1);
        assert_eq!(age.distance(stamp, 32), 3);
        assert_eq!(age.distance(age.stamp(43), 43), 0);
    }

    #[test]
    fn anonymous_memory_competes_with_what_is_active_and_with_all_files() {
        // Inactive and active anonymous, inactive and active file.
        let sizes = [1, 2, 4, 8];
        assert_eq!(competing(Kind::Anon, &sizes, true), 2 + 4 + 8);
        assert_eq!(competing(Kind::Anon, &sizes, false), 4 + 8);
        assert_eq!(competing(Kind::File, &sizes, true), 8 + 2 + 1);
        assert_eq!(competing(Kind::File, &sizes, false), 8);
    }
}
