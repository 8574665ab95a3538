//! Reverse map, neighbourhood scan and the walks of aging (SPEC 3.5, 3.6).

use neap_policy::{FolioId, LruvecId, MemcgId, Mm, Promotion, Referenced};

use super::ids::{AreaId, ObjectId};
use super::machine::{Machine, has_recency};
use super::tables::{CHUNK, Entry};

/// Page-table entries a neighbourhood scan looks at (SPEC 3.6: MIN_LRU_BATCH).
const LOOK_AROUND: u64 = 64;
/// Young entries, as a share of a 2 MiB range, that make it dense: one in each cache line
/// of eight (kernel: suitable_to_scan).
const DENSE_SHARE: u64 = 8;
/// Fewest mapped pages of a space that aging visits (SPEC 0: MIN_LRU_BATCH).
const SMALLEST_SPACE: u64 = 64;

/// One place where a folio's first page may be mapped.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    pub(super) area: AreaId,
    /// Page of the area.
    pub(super) at: u64,
}

impl Machine {
    /// The next area that could map a page of an object, `from` one number on, which is moved behind
    /// it: for loops that change the machine.
    pub(super) fn next_mapping(
        &self,
        (object, page): (ObjectId, u64),
        from: &mut usize,
    ) -> Option<Mapping> {
        let areas = &self.tables.object(object).areas;
        while let Some(&id) = areas.get(*from) {
            *from += 1;
            let area = &self.tables.area(id).area;
            if let Some(at) = page.checked_sub(area.offset.0)
                && at < area.len.0
            {
                return Some(Mapping { area: id, at });
            }
        }
        None
    }

    /// Each area that could map a folio.
    pub(super) fn mappings(&self, key: u32) -> impl Iterator<Item = Mapping> + '_ {
        let (object, page) = self.tables.resolve(key);
        self.tables
            .object(object)
            .areas
            .iter()
            .filter_map(move |&id| {
                let area = &self.tables.area(id).area;
                let at = page.checked_sub(area.offset.0)?;
                (at < area.len.0).then_some(Mapping { area: id, at })
            })
    }

    /// Places where a folio is mapped now, page by page: at most `most` of them.
    pub(super) fn map_count(&self, mm: &Mm, id: FolioId, most: usize) -> usize {
        let pages = mm.folios.pages(id);
        let mut found = 0;
        for mapping in self.mappings(mm.folios.key(id)) {
            let area = self.tables.area(mapping.area);
            let end = (mapping.at + pages).min(area.area.len.0);
            for at in mapping.at..end {
                let mapped = self.tables.is_present(area.bits + at)
                    && self.tables.entry(area.entries + at) == Entry::Folio(id);
                found += usize::from(mapped);
                if found >= most {
                    return found;
                }
            }
        }
        found
    }

    pub(super) fn find_references(
        &mut self,
        mm: &mut Mm,
        id: FolioId,
        target: MemcgId,
    ) -> Referenced {
        self.spent += self.config.costs.scan;
        let mut found = Referenced::default();
        let pages = mm.folios.pages(id);
        let page = self.tables.resolve(mm.folios.key(id));
        let mut next = 0;
        while let Some(place) = self.next_mapping(page, &mut next) {
            let area = self.tables.area(place.area);
            let (bits, entries, kind) = (area.bits, area.entries, area.area);
            let memcg = self.space(area.space).memcg;
            if !has_recency(mm, kind.advice) || !mm.memcgs.is_below(memcg, target) {
                continue;
            }
            for at in place.at..(place.at + pages).min(kind.len.0) {
                let own = self.tables.is_accessed(bits + at)
                    && self.tables.entry(entries + at) == Entry::Folio(id);
                if !own {
                    continue;
                }
                self.tables.clear_accessed(bits + at);
                found.ptes += 1;
                found.exec |= kind.exec;
                if mm.generational() {
                    self.look_around(mm, place.area, at, mm.folios.lruvec(id));
                }
            }
        }
        found
    }

    /// Up to 64 entries around an accessed one, within its 2 MiB and its area.
    fn look_around(&mut self, mm: &mut Mm, area: AreaId, at: u64, lruvec: LruvecId) {
        let state = self.tables.area(area);
        let (bits, entries, len) = (state.bits, state.entries, state.area.len.0);
        // Areas begin at a multiple of 2 MiB, and so do their bits.
        let first = at - at % CHUNK;
        let last = (first + CHUNK).min(len);
        let (mut start, mut end) = (first, last);
        if end - start > LOOK_AROUND {
            if at - start < LOOK_AROUND / 2 {
                end = start + LOOK_AROUND;
            } else if end - at < LOOK_AROUND / 2 {
                start = end - LOOK_AROUND;
            } else {
                (start, end) = (at - LOOK_AROUND / 2, at + LOOK_AROUND / 2);
            }
        }
        self.spent += self.config.costs.walk_word;
        let mut young = 1;
        for page in start..end {
            if page != at && self.tables.is_accessed(bits + page) {
                let Entry::Folio(folio) = self.tables.entry(entries + page) else {
                    continue;
                };
                if mm.promote(folio, lruvec) != Promotion::Foreign {
                    self.tables.clear_accessed(bits + page);
                    young += 1;
                }
            }
        }
        if young * DENSE_SHARE >= end - start {
            let seq = mm.max_seq(lruvec);
            let dense = &mut self.tables.dense[((bits + at) / CHUNK) as usize];
            *dense |= 1 << (seq % 2);
        }
    }

    /// Aging's visit of all page tables of a cgroup. Ranges that were sparse last time are
    /// passed over, unless an eviction found them dense since.
    pub(super) fn walk_tables(&mut self, mm: &mut Mm, lruvec: LruvecId, can_swap: bool) {
        let memcg = mm.memcg_of(lruvec);
        let seq = mm.max_seq(lruvec);
        let first = !std::mem::replace(&mut self.walked[lruvec.index()], true);
        let spaces = std::mem::take(&mut self.memcg_spaces[memcg.index()]);
        for &space in &spaces {
            let space = self.space(space);
            if space.rss < SMALLEST_SPACE {
                continue;
            }
            let areas: Vec<AreaId> = space.areas.iter().map(|area| area.2).collect();
            for area in areas {
                self.walk_area(mm, area, lruvec, seq, first, can_swap);
            }
        }
        self.memcg_spaces[memcg.index()] = spaces;
    }

    fn walk_area(
        &mut self,
        mm: &mut Mm,
        id: AreaId,
        lruvec: LruvecId,
        seq: u64,
        first: bool,
        can_swap: bool,
    ) {
        let state = self.tables.area(id);
        let swapbacked = self.tables.object(state.object).swapbacked;
        let skip = !has_recency(mm, state.area.advice) || (swapbacked && !can_swap);
        let (bits, entries, len) = (state.bits, state.entries, state.area.len.0);
        let (test, keep) = (1u8 << (seq % 2), 1u8 << ((seq + 1) % 2));
        for chunk in (0..len).step_by(CHUNK as usize) {
            let at = ((bits + chunk) / CHUNK) as usize;
            let dense = self.tables.dense[at] & test != 0;
            self.tables.dense[at] &= !keep;
            if skip || !(first || dense) {
                continue;
            }
            let end = (chunk + CHUNK).min(len);
            let mut young = 0;
            for word in (chunk..end).step_by(64) {
                young += self.walk_word(mm, bits + word, entries + word, lruvec);
            }
            let costs = &self.config.costs;
            self.spent += costs.walk_word * (end - chunk).div_ceil(64) + costs.promote * young;
            if young * DENSE_SHARE >= end - chunk {
                self.tables.dense[at] |= keep;
            }
        }
    }

    fn walk_word(&mut self, mm: &mut Mm, bits: u64, entries: u64, lruvec: LruvecId) -> u64 {
        let mut word = self.tables.accessed_word(bits);
        let mut young = 0;
        while word != 0 {
            let at = u64::from(word.trailing_zeros());
            word &= word - 1;
            let Entry::Folio(folio) = self.tables.entry(entries + at) else {
                continue;
            };
            if mm.promote(folio, lruvec) != Promotion::Foreign {
                self.tables.clear_accessed(bits + at);
                young += 1;
            }
        }
        young
    }
}
