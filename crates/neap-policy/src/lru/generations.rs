//! Folios in generations: put there, promoted, aged (SPEC 3.3-3.6). The rules are those of
//! `crate::generations`.

use neap_units::Nanos;

use super::Mm;
use super::workingset::{MOST_REFS, total_refs};
use crate::counters::Counter;
use crate::folio::{Flags, FolioId, Kind, LruvecId, list_of};
use crate::generations::{Arrival, Feedback, Generations, Insertion, MAX_NR_GENS, Window, index};
use crate::switches::Lru;

/// The generations of one cgroup on one node, and what is known of them.
pub(crate) struct Aged {
    /// A folio's own generation may be younger than that of its list: promotion changes
    /// only the folio, and eviction sorts it.
    pub(crate) lists: Generations<FolioId, 2>,
    /// Pages whose folios have the generation, wherever they are listed.
    pages: [[u64; 2]; MAX_NR_GENS as usize],
    /// When each generation was opened.
    pub(crate) births: [Nanos; MAX_NR_GENS as usize],
    pub(super) feedback: [Feedback; 2],
}

impl Aged {
    /// Four empty generations, opened now.
    pub(super) fn new(now: Nanos) -> Aged {
        Aged {
            lists: Generations::new(),
            pages: [[0; 2]; MAX_NR_GENS as usize],
            births: [now; MAX_NR_GENS as usize],
            feedback: [Feedback::default(); 2],
        }
    }

    /// Pages of one kind in a generation.
    pub(crate) fn pages_at(&self, seq: u64, kind: Kind) -> u64 {
        self.pages[index(seq)][kind as usize]
    }
}

/// What a look at an accessed page came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promotion {
    /// The folio moved to the youngest generation (or is there).
    Promoted,
    /// The folio was marked only.
    Marked,
    /// The folio belongs to other lists.
    Foreign,
}

impl Mm {
    /// The generations of some lists.
    #[inline]
    pub(super) fn generations(&self, id: LruvecId) -> &Generations<FolioId, 2> {
        &self.lruvec(id).generations.lists
    }

    #[inline]
    pub(super) fn window(&self, id: LruvecId) -> &Window<2> {
        self.generations(id).window()
    }

    #[inline]
    pub(super) fn min_seq(&self, id: LruvecId, kind: Kind) -> u64 {
        self.window(id).min_seq(kind)
    }

    /// Sequence for a folio that is put on a list.
    fn insert_seq(&self, id: LruvecId, flags: Flags, tail: bool) -> u64 {
        let kind = Kind::of(flags);
        let pending = flags.has(Flags::RECLAIM) && flags.any(Flags::DIRTY.with(Flags::WRITEBACK));
        let cold_anon = kind == Kind::Anon && !flags.has(Flags::SWAPCACHE);
        let arrival = Arrival {
            active: flags.has(Flags::ACTIVE),
            workingset: flags.has(Flags::WORKINGSET),
            tail,
            stays: cold_anon || pending,
        };
        let window = self.window(id);
        window.place(kind, Insertion::of(&self.switches), arrival)
    }

    pub(super) fn insert_generation(&mut self, id: FolioId, tail: bool) {
        let lruvec = self.folios.lruvec(id);
        let seq = self.insert_seq(lruvec, self.folios.flags(id), tail);
        let flags = self.folios.flags_mut(id);
        flags.set(Flags::ACTIVE, false);
        flags.set_generation(Some(index(seq)));
        let (kind, pages) = (Kind::of(*flags), 1 << flags.order());
        let generations = &mut self.lruvecs[lruvec.index()].generations;
        generations.pages[index(seq)][kind as usize] += pages;
        let active = generations.lists.window().is_active(index(seq));
        self.link_generation(id, index(seq), tail);
        self.resize(lruvec, list_of(kind, active), pages as i64);
    }

    pub(super) fn remove_generation(&mut self, id: FolioId) {
        let lruvec = self.folios.lruvec(id);
        self.unlink_generation(id);
        let flags = self.folios.flags_mut(id);
        let generation = flags.generation().unwrap_or_default();
        flags.set_generation(None);
        let (kind, pages) = (Kind::of(*flags), 1u64 << flags.order());
        let generations = &mut self.lruvecs[lruvec.index()].generations;
        generations.pages[generation][kind as usize] -= pages;
        let active = generations.lists.window().is_active(generation);
        self.folios.flags_mut(id).set(Flags::ACTIVE, active);
        self.resize(lruvec, list_of(kind, active), -(pages as i64));
    }

    fn unlink_generation(&mut self, id: FolioId) {
        let flags = self.folios.flags(id);
        let lruvec = self.folios.lruvec(id);
        let lists = &mut self.lruvecs[lruvec.index()].generations.lists;
        lists.unlink(&mut self.folios, id, (Kind::of(flags), flags.listed()));
    }

    /// Lists a folio with a generation.
    fn link_generation(&mut self, id: FolioId, generation: usize, tail: bool) {
        let lruvec = self.folios.lruvec(id);
        let flags = self.folios.flags_mut(id);
        flags.set_listed(generation);
        let kind = Kind::of(*flags);
        let lists = &mut self.lruvecs[lruvec.index()].generations.lists;
        lists.link(&mut self.folios, id, (kind, generation), tail);
    }

    /// Lists a folio with another generation.
    pub(super) fn relink_generation(&mut self, id: FolioId, generation: usize, tail: bool) {
        self.unlink_generation(id);
        self.link_generation(id, generation, tail);
    }

    /// A look at a page table found a page accessed, on behalf of some lists (SPEC 3.5,
    /// 3.6).
    pub fn promote(&mut self, id: FolioId, walked: LruvecId) -> Promotion {
        if self.folios.lruvec(id) != walked {
            return Promotion::Foreign;
        }
        let rework = self.switches.lru == Lru::Mglru614;
        let flags = self.folios.flags_mut(id);
        let seen = flags.any(Flags::REFERENCED.with(Flags::WORKINGSET));
        if flags.generation().is_none() {
            // In the hands of reclaim, which will find the mark.
            flags.set(Flags::REFERENCED, true);
            return Promotion::Marked;
        }
        if rework && !seen {
            flags.set(Flags::REFERENCED, true);
            flags.set_refs(0);
            return Promotion::Marked;
        }
        flags.set_refs(0);
        flags.set(Flags::REFERENCED.with(Flags::WORKINGSET), false);
        flags.set(Flags::WORKINGSET, rework);
        let max = self.max_seq(walked);
        self.set_generation(id, index(max));
        Promotion::Promoted
    }

    /// Gives a folio on a list another generation, but leaves it where it is listed.
    fn set_generation(&mut self, id: FolioId, to: usize) {
        let lruvec = self.folios.lruvec(id);
        let flags = self.folios.flags_mut(id);
        let Some(from) = flags.generation() else {
            return;
        };
        if from == to {
            return;
        }
        let (kind, pages) = (Kind::of(*flags), 1u64 << flags.order());
        flags.set_generation(Some(to));
        let generations = &mut self.lruvecs[lruvec.index()].generations;
        generations.pages[from][kind as usize] -= pages;
        generations.pages[to][kind as usize] += pages;
        let is_active = |generation| generations.lists.window().is_active(generation);
        let (before, after) = (is_active(from), is_active(to));
        if before != after {
            self.resize(lruvec, list_of(kind, before), -(pages as i64));
            self.resize(lruvec, list_of(kind, after), pages as i64);
        }
    }

    /// One generation up from the oldest, unless the folio was promoted meanwhile
    /// (kernel: folio_inc_gen). Returns its generation.
    pub(super) fn increment(&mut self, id: FolioId, reclaiming: bool) -> usize {
        let lruvec = self.folios.lruvec(id);
        let rework = self.switches.lru == Lru::Mglru614;
        let kind = Kind::of(self.folios.flags(id));
        let oldest = self.min_seq(lruvec, kind);
        let (oldest, next) = (index(oldest), index(oldest + 1));
        let now = self.folios.flags(id).generation().unwrap_or(oldest);
        if now != oldest {
            return now;
        }
        let flags = self.folios.flags_mut(id);
        flags.set_refs(0);
        flags.set(Flags::REFERENCED, false);
        if !rework {
            flags.set(Flags::WORKINGSET, false);
        }
        if reclaiming {
            flags.set(Flags::RECLAIM, true);
        }
        self.set_generation(id, next);
        next
    }

    /// An access through a file descriptor: a mark, then a count, then another mark.
    pub(super) fn raise_tier(&mut self, id: FolioId) {
        let flags = self.folios.flags_mut(id);
        if flags.has(Flags::UNEVICTABLE) {
        } else if !flags.has(Flags::REFERENCED) {
            flags.set(Flags::REFERENCED, true);
        } else if flags.refs() < 3 {
            flags.set_refs(flags.refs() + 1);
        } else {
            flags.set(Flags::WORKINGSET, true);
        }
    }

    /// Whether a folio's count of accesses is full: it goes up whatever the tier.
    pub(super) fn saturated(flags: Flags) -> bool {
        total_refs(flags) == MOST_REFS
    }

    /// Opens a generation after a walk of the page tables (kernel: inc_max_seq).
    pub(crate) fn open_generation(&mut self, id: LruvecId, can_swap: bool) {
        for kind in [Kind::File, Kind::Anon] {
            while self.window(id).count(kind) == MAX_NR_GENS {
                self.fold_oldest(id, kind, can_swap);
            }
        }
        let generations = &mut self.lruvecs[id.index()].generations;
        // What was second youngest becomes inactive. What has the number to come (left
        // behind where swap was out of reach) becomes active.
        let leaves = generations.pages[index(generations.lists.open())];
        let youngest = index(generations.lists.window().max_seq());
        let joins = generations.pages[youngest];
        generations.births[youngest] = self.now;
        for kind in Kind::BOTH {
            let delta = joins[kind as usize] as i64 - leaves[kind as usize] as i64;
            if delta != 0 {
                self.resize(id, list_of(kind, true), delta);
                self.resize(id, list_of(kind, false), -delta);
            }
        }
        let memcg = self.memcg_of(id);
        self.memcgs.count(memcg, Counter::MglruAged, 1);
    }

    /// Folds the oldest generation of a kind into the next.
    fn fold_oldest(&mut self, id: LruvecId, kind: Kind, can_swap: bool) {
        let oldest = index(self.min_seq(id, kind));
        if kind == Kind::File || can_swap {
            while let Some(folio) = self.generations(id).list(kind, oldest).tail() {
                let to = self.increment(folio, false);
                self.relink_generation(folio, to, true);
            }
        }
        self.retire(id, kind);
    }

    fn retire(&mut self, id: LruvecId, kind: Kind) {
        let generations = &mut self.lruvecs[id.index()].generations;
        generations.feedback[kind as usize].carry_over();
        generations.lists.retire(kind);
    }

    /// Leaves empty generations behind, keeping two (SPEC 3.7 step 4). Returns whether
    /// any was.
    pub(super) fn advance_min_seq(&mut self, id: LruvecId, can_swap: bool) -> bool {
        let lru = self.switches.lru;
        let generations = &mut self.lruvecs[id.index()].generations;
        let moved = generations.lists.advance(can_swap, lru);
        for (feedback, moved) in generations.feedback.iter_mut().zip(moved) {
            // However many are left behind: those after the first are empty.
            if moved {
                feedback.carry_over();
            }
        }
        moved.contains(&true)
    }

    pub(super) fn check_generations(&self, id: LruvecId) {
        let lruvec = self.lruvec(id);
        let generations = &lruvec.generations;
        let window = generations.lists.window();
        let mut pages = [[0; 2]; MAX_NR_GENS as usize];
        generations
            .lists
            .check(&self.folios, |folio, kind, listed| {
                let flags = self.folios.flags(folio);
                assert_eq!(self.folios.lruvec(folio), id);
                assert!(Kind::of(flags) == kind && flags.has(Flags::LRU));
                assert_eq!(flags.listed(), listed);
                let generation = flags.generation().expect("a generation while listed");
                pages[generation][kind as usize] += self.folios.pages(folio);
            });
        assert_eq!(generations.pages, pages, "pages by generation");
        for kind in Kind::BOTH {
            for active in [false, true] {
                let is = |&generation: &usize| window.is_active(generation) == active;
                let sum: u64 = (0..4).filter(is).map(|g| pages[g][kind as usize]).sum();
                assert_eq!(lruvec.own[list_of(kind, active)], sum, "{kind:?} {active}");
            }
        }
        if self.switches.lru == Lru::Mglru63 {
            let oldest = |kind| window.min_seq(kind);
            assert!(oldest(Kind::Anon) <= oldest(Kind::File), "anon lags behind");
        }
    }
}
