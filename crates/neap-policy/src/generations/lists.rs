//! The generations themselves: which there are, and a list for each of them and each kind.

use super::window::{MAX_NR_GENS, Window, index};
use crate::folio::Kind;
use crate::list::{LinkId, Links, List};
use crate::switches::Lru;

/// Generations of `KINDS` kinds of records, which lie elsewhere: pages of `neap run`, or
/// folios. What a generation holds is listed with it, or was when it was put there.
pub(crate) struct Generations<I, const KINDS: usize> {
    window: Window<KINDS>,
    lists: [[List<I>; KINDS]; MAX_NR_GENS as usize],
}

impl<I: LinkId, const KINDS: usize> Generations<I, KINDS> {
    /// Four empty ones.
    pub(crate) fn new() -> Generations<I, KINDS> {
        Generations {
            window: Window::new(),
            lists: [[List::default(); KINDS]; MAX_NR_GENS as usize],
        }
    }

    /// Which there are.
    #[inline]
    pub(crate) fn window(&self) -> &Window<KINDS> {
        &self.window
    }

    /// What is listed with a generation.
    #[inline]
    pub(crate) fn list(&self, kind: Kind, generation: usize) -> &List<I> {
        &self.lists[generation][kind as usize]
    }

    #[inline]
    fn list_mut(&mut self, kind: Kind, generation: usize) -> &mut List<I> {
        &mut self.lists[generation][kind as usize]
    }

    /// Lists a record with a generation, at the reclaim end if `tail`.
    #[inline]
    pub(crate) fn link(
        &mut self,
        records: &mut impl Links<I>,
        id: I,
        (kind, generation): (Kind, usize),
        tail: bool,
    ) {
        let list = self.list_mut(kind, generation);
        if tail {
            list.push_tail(records, id);
        } else {
            list.push_head(records, id);
        }
    }

    /// Takes a record off the list of a generation.
    #[inline]
    pub(crate) fn unlink(
        &mut self,
        records: &mut impl Links<I>,
        id: I,
        (kind, generation): (Kind, usize),
    ) {
        self.list_mut(kind, generation).unlink(records, id);
    }

    /// A record that is listed with a generation goes by `id` now.
    pub(crate) fn rename(
        &mut self,
        records: &mut impl Links<I>,
        id: I,
        (kind, generation): (Kind, usize),
    ) {
        self.list_mut(kind, generation).rename(records, id);
    }

    /// The record to evict next, with the sequence number it is listed with: never one of
    /// the two youngest (SPEC 3.7 step 3).
    #[inline]
    pub(crate) fn oldest(&self, kind: Kind) -> Option<(I, u64)> {
        let seq = self.window.evictable(kind)?;
        let id = self.list(kind, index(seq)).tail()?;
        Some((id, seq))
    }

    /// Opens a youngest generation; no kind may have four. Returns the one that thereby
    /// ceases to be active.
    #[inline]
    pub(crate) fn open(&mut self) -> u64 {
        self.window.open()
    }

    /// The oldest of a kind has been folded into the next.
    pub(crate) fn retire(&mut self, kind: Kind) {
        self.window.retire(kind);
    }

    #[inline]
    fn first_in_use(&self, kind: Kind) -> u64 {
        let is_empty = |seq| self.list(kind, index(seq)).is_empty();
        self.window.first_in_use(kind, is_empty)
    }

    /// Panics unless window and lists are sound; shows each record with where it is
    /// listed.
    pub(crate) fn check(&self, records: &impl Links<I>, mut visit: impl FnMut(I, Kind, usize)) {
        self.window.check();
        for (generation, lists) in self.lists.iter().enumerate() {
            for (kind, list) in Kind::BOTH.into_iter().zip(lists) {
                list.check(records, |id| visit(id, kind, generation));
            }
        }
    }
}

impl<I: LinkId> Generations<I, 1> {
    /// Leaves empty ones behind, keeping two (SPEC 3.7 step 4).
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.window.leave_until(self.first_in_use(Kind::Anon));
    }
}

impl<I: LinkId> Generations<I, 2> {
    /// Leaves empty ones behind, keeping two (SPEC 3.7 step 4); of anonymous memory none
    /// where it `can_swap` not. Returns which kinds moved.
    pub(crate) fn advance(&mut self, can_swap: bool, lru: Lru) -> [bool; 2] {
        let reached = Kind::BOTH.map(|kind| {
            if kind == Kind::Anon && !can_swap {
                self.window.min_seq(kind)
            } else {
                self.first_in_use(kind)
            }
        });
        self.window.leave(reached, can_swap, lru)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::{Flags, Folios, LruvecId};

    fn folios(n: u32) -> (Folios, Vec<crate::folio::FolioId>) {
        let mut folios = Folios::default();
        let ids = (0..n).map(|key| folios.alloc(LruvecId(0), key, Flags::default()));
        let ids = ids.collect();
        (folios, ids)
    }

    #[test]
    fn the_two_youngest_are_not_evicted_from() {
        let (mut records, ids) = folios(2);
        let mut generations = Generations::<_, 1>::new();
        let max = generations.window().max_seq();
        for (id, seq) in ids.iter().zip([max, max - 1]) {
            let place = (Kind::Anon, index(seq));
            generations.link(&mut records, *id, place, false);
        }
        generations.advance();
        assert_eq!(generations.oldest(Kind::Anon), None);
        assert_eq!(generations.open(), max - 1);
        assert_eq!(generations.oldest(Kind::Anon), Some((ids[1], max - 1)));
        generations.unlink(&mut records, ids[1], (Kind::Anon, index(max - 1)));
        generations.open();
        generations.advance();
        assert_eq!(generations.oldest(Kind::Anon), Some((ids[0], max)));
        let mut seen = Vec::new();
        generations.check(&records, |id, kind, at| seen.push((id, kind, at)));
        assert_eq!(seen, [(ids[0], Kind::Anon, index(max))]);
    }

    #[test]
    fn without_swap_only_files_leave_generations_behind() {
        let mut generations = Generations::<crate::folio::FolioId, 2>::new();
        let moved = generations.advance(false, Lru::Mglru614);
        assert_eq!(moved, [false, true]);
        let moved = generations.advance(true, Lru::Mglru614);
        assert_eq!(moved, [true, false]);
        generations.check(&folios(0).0, |_, _, _| panic!("they are empty"));
    }
}
